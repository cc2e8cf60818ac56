#!/usr/bin/env bash
# The C++ tests on aarch64, cross-compiled by Debian's compiler and run under qemu:
#   scripts/test_aarch64.sh [GTEST_FILTER]     the programs below; cases that match the filter
#   PALLASIM_PROGRAMS="kernels_test" …         these only
# Everything lies in build/aarch64. The libraries of the other architecture are Debian's, unpacked into a folder, not installed.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
BUILD=$ROOT/build/aarch64
LOGS=$BUILD/logs
SYSROOT=$BUILD/sysroot
PACKAGES="cmake ninja-build ccache g++-aarch64-linux-gnu qemu-user debootstrap"
LIBRARIES=libtbb-dev,libfmt-dev,libeigen3-dev,libdnnl-dev,libgtest-dev,libgmock-dev,libcli11-dev,nlohmann-json3-dev,libzip-dev,zlib1g-dev,libgomp1,libstdc++-12-dev
PROGRAMS=${PALLASIM_PROGRAMS:-memory_test kernels_test pallasim_ir_tests hw_models_test interp_test}

make_sysroot() {
  [ -e "$SYSROOT/.complete" ] && return
  say "downloading Debian's libraries for aarch64"
  local sudo= deb
  [ "$(id -u)" = 0 ] || sudo=sudo
  quietly debootstrap $sudo debootstrap --download-only --arch=arm64 --variant=minbase --include=$LIBRARIES bookworm "$BUILD/packages"
  for deb in "$BUILD"/packages/var/cache/apt/archives/*.deb; do dpkg-deb -x "$deb" "$SYSROOT"; done
  # Links to absolute paths would lead out of the folder.
  find "$SYSROOT" -lname '/*' | while read -r link; do ln -sfn "$SYSROOT$(readlink "$link")" "$link"; done
  $sudo rm -rf "$BUILD/packages"
  touch "$SYSROOT/.complete"
}

mkdir -p "$LOGS"
install_packages
make_sysroot
[ -f "$BUILD/build.ninja" ] || quietly cmake cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$ROOT/scripts/aarch64.cmake" \
  -DPALLASIM_SYSROOT="$SYSROOT" -DPALLASIM_PYTHON=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DPALLASIM_KERNEL_OPTIMIZE=-O1
say "building (some minutes the first time)"
# shellcheck disable=SC2086
quietly build cmake --build "$BUILD" -j "$(jobs_for_build)" --target $PROGRAMS
failed=0
for program in $PROGRAMS; do
  file=$(find "$BUILD/tests" -name "$program" -type f -perm -u+x)
  say "$program under qemu-aarch64"
  # Death tests start the program again, which the kernel of another machine refuses.
  (cd "$BUILD" && qemu-aarch64 -L "$SYSROOT" "$file" --gtest_brief=1 --gtest_filter="${1:-*-*DeathTest*}") || failed=1
done
exit $failed
