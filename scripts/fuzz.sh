#!/usr/bin/env bash
# Builds and runs every fuzz target under both sanitizers: scripts/fuzz.sh [RUNS] [TARGET…]; needs clang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:-1000000}
[ $# -eq 0 ] || shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(cd tests/fuzz && ls fuzz_*.cc | sed 's/[.]cc$//'))
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]}"
for t in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$t
  mkdir -p "$corpus"
  seeds=()
  case $t in
    fuzz_npy) ;;
    fuzz_capsule)
      for kind in good deflated oob operand found_more time; do python3 tests/cli/capsules.py "$kind" "$corpus/$kind"; done ;;
    *) seeds=(-dict=tests/fuzz/psir.dict tests/pass tests/fail) ;;
  esac
  echo "== $t: $runs runs"
  # Without entropic scheduling, whose bookkeeping takes a third of the time of a large corpus.
  "build/fuzz/tests/fuzz/$t" -entropic=0 -runs="$runs" -print_final_stats=1 -verbosity=0 -artifact_prefix="$corpus/../" "$corpus" "${seeds[@]}"
done
