#!/usr/bin/env bash
# The Python tests with the newest JAX on Python 3.12 or later, where one is at hand (or named in PALLASIM_PYTHON).
# Arguments go to pytest. Everything lies in build/newest-jax; .venv and build/ stay as they are.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
BUILD=$ROOT/build/newest-jax
VENV=$BUILD/venv
LOGS=$BUILD/logs
REQUIREMENTS=$BUILD/requirements.txt

new_enough() { usable_python "$1" && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; }

find_new_python() {
  local p
  for p in "${PALLASIM_PYTHON:-}" python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3; do
    if [ -n "$p" ] && command -v "$p" >/dev/null && new_enough "$p"; then
      command -v "$p"
      return
    fi
  done
}

PALLASIM_PYTHON=$(find_new_python)
[ -n "$PALLASIM_PYTHON" ] || { say "no Python 3.12 or later with headers here: nothing to test"; exit 0; }
mkdir -p "$LOGS"
sed -E 's/^(jax|jaxlib)==.*/\1/' "$ROOT/scripts/requirements.txt" >"$REQUIREMENTS"
make_venv
build pallasim_python pallasim
printf '%s\n' "$BUILD/python" >"$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/pallasim.pth"
say "pytest with JAX $("$VENV/bin/python" -c 'import jax; print(jax.__version__)')"
cd "$ROOT"
PALLASIM=$BUILD/cli/pallasim exec "$VENV/bin/python" -m pytest -q -n "$(nproc)" "$@" tests/python
