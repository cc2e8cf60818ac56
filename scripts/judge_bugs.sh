#!/bin/sh
# Mended bugs put back one at a time: how many generated programs until the judge finds each, as a table.
# scripts/judge_bugs.sh [NAME…]: of tests/judge/bugs/NAME.patch, all of them without names. A patch says with `Bug:` what
# comes back, and with `By:` who must find it: `modules`, perhaps with the option of a family (within 10 of its samples in
# CI, or $PROGRAMS), or a test.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD work=$PWD/build/bugs patches=$PWD/tests/judge/bugs
tree=$work/tree log=$work/log
python=${PYTHON:-$root/.venv/bin/python} core=${CORE:-$root/build/python/pallasim}  # for tests in Python
jobs=$(nproc)
head=$(git rev-parse HEAD)
mkdir -p "$work"
exec 9> "$work/lock"
flock -n 9 || { echo "error: another run uses $work" >&2; exit 2; }
[ -d "$tree" ] || git clone -q --shared --no-checkout "$root" "$tree" || exit 2
git -C "$tree" fetch -q origin "$head" && git -C "$tree" checkout -q -f --detach "$head" || exit 2
[ -f "$tree/build/build.ninja" ] ||
  cmake -S "$tree" -B "$tree/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPALLASIM_PYTHON=OFF > "$log" 2>&1 || { cat "$log"; exit 2; }

build() { cmake --build "$tree/build" -j "$jobs" --target "$1" > "$log" 2>&1 || { tail -40 "$log"; return 2; }; }

by_modules() {
  build pallasim_judge || return 2
  sample=$(sed -n "s/.*pallasim_judge ${1:+$1 }--seed 1 --modules \([0-9]*\).*/\1/p" tests/judge/CMakeLists.txt)
  programs=${PROGRAMS:-$((10 * sample))}
  "$tree/build/tests/judge/pallasim_judge" ${1:+"$1"} --modules "$programs" --seed 1 --jobs "$jobs" --first > "$log" 2>&1
  first=$(sed -n 's/^first: //p' "$log")
  [ -n "$first" ] || { found="NOT FOUND in $programs programs" what=; return 1; }
  found=${first%%: *} what=${first#*: }
}

by_test() {
  found="not by modules: found by $2"
  if [ "$1" = pytest ]; then
    mkdir -p "$work/python/pallasim"
    ln -sf "$tree"/python/pallasim/* "$core"/_core*.so "$work/python/pallasim/"
    (cd "$tree" && PYTHONPATH=$work/python "$python" -m pytest -q -p no:cacheprovider "$2") > "$log" 2>&1
    [ $? -eq 1 ] && what=$(grep '^E  ' "$log" | head -1 | sed 's/^E *//')
  else
    build "$1" || return 2
    binary=$(find "$tree/build/tests" -type f -name "$1")
    "$binary" --gtest_filter="$2" > "$log" 2>&1
    [ $? -ne 0 ] && grep -q '^\[ RUN ' "$log" && what=$(grep -A3 'Failure$' "$log" | sed -n '2,3s/^ *//p' | tr '\n' ' ')
  fi || { found="NOT FOUND by $2" what=; return 1; }
}

status=0
[ $# -gt 0 ] || set -- $(cd "$patches" && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
printf '| Bug | File | Found after | What differed |\n|---|---|---|---|\n'
for name; do
  patch=$patches/$name.patch
  bug=$(sed -n 's/^Bug: //p' "$patch") by=$(sed -n 's/^By: //p' "$patch")
  file=$(sed -n 's|^+++ b/||p' "$patch" | head -1)
  git -C "$tree" checkout -q -f -- . && git -C "$tree" apply "$patch" || { status=1; continue; }
  case $by in
    modules*) family=${by#modules} && by_modules "${family# }" ;;
    *) by_test "${by%% *}" "${by#* }" ;;
  esac || status=1
  [ -s "$log" ] && cp "$log" "$work/$name.log"
  printf '| %s: %s | %s | %s | %s |\n' "$name" "$bug" "$file" "${found:-it does not build}" "$what"
  found='' what=''
done
git -C "$tree" checkout -q -f -- .
exit $status
