# Sourced by demo.sh and test.sh: what a bare Debian 12 lacks, a .venv, and one build. Every step is skipped when its
# result is already there.
set -euo pipefail

CMAKE_OPTIONS=${CMAKE_OPTIONS:-}
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/build
VENV=$ROOT/.venv
REQUIREMENTS=$ROOT/scripts/requirements.txt
LOGS=$BUILD/logs

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Quiet on success; on failure the end of the log.
quietly() {
  local log=$LOGS/$1.log
  shift
  mkdir -p "$LOGS"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 60 "$log" >&2
    die "failed: $* (complete log: $log)"
  fi
}

PACKAGES="cmake ninja-build g++ ccache python3 python3-dev python3-venv
  libeigen3-dev libtbb-dev libfmt-dev libcli11-dev nlohmann-json3-dev libdnnl-dev libzip-dev zlib1g-dev libedit-dev
  libgtest-dev libgmock-dev esbuild"

missing_packages() {
  local p
  for p in $PACKAGES; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || printf '%s ' "$p"
  done
}

install_packages() {
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: taking cmake, ninja, a C++20 compiler and the libraries as installed ($PACKAGES)"
    return
  fi
  local missing sudo=
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing and there is no sudo to install them: $missing"
    sudo=sudo
  fi
  say "installing packages: $missing"
  # Debian slims its images by keeping no package lists, so the update comes first.
  # shellcheck disable=SC2086
  quietly apt-update $sudo env DEBIAN_FRONTEND=noninteractive apt-get update
  # shellcheck disable=SC2086
  quietly apt-install $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
}

# JAX 0.10 needs 3.11; venv and headers must be there too (a pyenv shim may point anywhere).
usable_python() {
  "$1" - <<'PY' >/dev/null 2>&1
import ensurepip, os, sys, sysconfig, venv
ok = sys.version_info >= (3, 11) and os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h"))
sys.exit(0 if ok else 1)
PY
}

find_python() {
  local p
  for p in "${PALLASIM_PYTHON:-}" /usr/bin/python3.11 /usr/bin/python3 python3.11 python3.12 python3.13 python3; do
    if [ -n "$p" ] && command -v "$p" >/dev/null && usable_python "$p"; then
      command -v "$p"
      return
    fi
  done
  die "no Python 3.11 or newer with venv and headers found; name one in PALLASIM_PYTHON"
}

make_venv() {
  local want stamp=$VENV/.pallasim-requirements
  if [ -e "$VENV" ] && ! usable_python "$VENV/bin/python"; then
    say ".venv has no usable Python 3.11 or newer: making it again"
    rm -rf "$VENV"
  fi
  if [ ! -x "$VENV/bin/python" ]; then
    local python
    python=$(find_python)
    say "making .venv with $python"
    quietly venv "$python" -m venv "$VENV"
  fi
  want=$(sha256sum <"$REQUIREMENTS")
  if [ "$(cat "$stamp" 2>/dev/null || true)" != "$want" ]; then
    say "installing Python packages (jax, numpy, nanobind, pytest)"
    quietly pip "$VENV/bin/python" -m pip install --disable-pip-version-check -r "$REQUIREMENTS"
    printf '%s\n' "$want" >"$stamp"
  fi
}

# Eigen's and the type-dispatching sources take up to 1.5 GB each to compile.
jobs_for_build() {
  local cpus mem
  cpus=$(nproc)
  mem=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  [ "$mem" -ge 1 ] || mem=1
  [ "$cpus" -le "$mem" ] && echo "$cpus" || echo "$mem"
}

# build [target…]: everything without targets. CMAKE_OPTIONS: further definitions, of one word.
build() {
  local args=()
  for t in "$@"; do args+=(--target "$t"); done
  if [ ! -f "$BUILD/build.ninja" ] || ! grep -q "^Python_EXECUTABLE:[A-Z]*=$VENV/bin/python$" "$BUILD/CMakeCache.txt" ||
    ! grep -qF -- "${CMAKE_OPTIONS##*=}" "$BUILD/CMakeCache.txt"; then
    say "configuring build/"
    quietly cmake cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DPython_EXECUTABLE=$VENV/bin/python" \
      $CMAKE_OPTIONS
  fi
  say "building (some minutes the first time)"
  if [ -t 1 ]; then
    cmake --build "$BUILD" -j "$(jobs_for_build)" "${args[@]}"
  else
    quietly build cmake --build "$BUILD" -j "$(jobs_for_build)" "${args[@]}"
  fi
}

# The venv sees the build tree: `import pallasim`, PALLASIM_EMULATE, and `pallasim` on its PATH.
link_venv() {
  local site
  site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  { printf '%s\n' "$BUILD/python"; cat "$ROOT/python/pallasim_emulate.pth"; } >"$site/pallasim.pth"
  ln -sfn "$(realpath --relative-to="$VENV/bin" "$BUILD")/cli/pallasim" "$VENV/bin/pallasim"
}

setup() {
  mkdir -p "$LOGS"
  install_packages
  make_venv
  build "$@"
  link_venv
}
