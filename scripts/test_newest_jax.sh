#!/usr/bin/env bash
# The Python tests with the newest JAX on Python 3.12 or later, where one is at hand (or named in PALLASIM_PYTHON), or with the
# version in PALLASIM_JAX (PALLASIM_JAX=0.11.2). Arguments go to pytest. Everything lies in build-newest-jax (build-jax-VERSION), as
# deep as build/, so that ccache finds what that compiled; .venv and build/ stay as they are.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
BUILD=$ROOT/build-newest-jax
[ -z "${PALLASIM_JAX:-}" ] || BUILD=$ROOT/build-jax-$PALLASIM_JAX
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

# An older jaxlib refuses what is built with the FFI headers of a newer one: those of the oldest serve all.
oldest_headers() {
  local version into=$BUILD/ffi-headers
  version=$(sed -n 's/^jaxlib==//p' "$ROOT/scripts/requirements.txt")
  if [ ! -e "$into/jaxlib/include" ]; then
    quietly headers "$VENV/bin/python" -m pip download --disable-pip-version-check --no-deps -d "$into" "jaxlib==$version"
    "$VENV/bin/python" - "$into" <<'PY'
import glob, sys, zipfile
(wheel,) = glob.glob(f"{sys.argv[1]}/jaxlib-*.whl")
with zipfile.ZipFile(wheel) as z:
    z.extractall(sys.argv[1], [n for n in z.namelist() if n.startswith("jaxlib/include/")])
PY
    rm "$into"/jaxlib-*.whl
  fi
  CMAKE_OPTIONS=-DPALLASIM_XLA_INCLUDE=$into/jaxlib/include
}

PALLASIM_PYTHON=$(find_new_python)
[ -n "$PALLASIM_PYTHON" ] || { say "no Python 3.12 or later with headers here: nothing to test"; exit 0; }
mkdir -p "$LOGS"
sed -E "s/^(jax|jaxlib)==.*/\1${PALLASIM_JAX:+==$PALLASIM_JAX}/" "$ROOT/scripts/requirements.txt" >"$REQUIREMENTS"
make_venv
oldest_headers
build pallasim_python pallasim
link_venv
say "pytest with JAX $("$VENV/bin/python" -c 'import jax; print(jax.__version__)')"
cd "$ROOT"
PALLASIM=$BUILD/cli/pallasim exec "$VENV/bin/python" -m pytest -q -n "$(nproc)" --dist worksteal --junitxml "$LOGS/pytest.xml" -m "not one_jax" "$@" tests/python
