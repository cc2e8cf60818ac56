#!/bin/sh
# Generated modules against the eager evaluator: scripts/judge.sh [N] [FIRST_SEED]. Differences are shrunk into build/judge/.
set -u
cd "$(dirname "$0")/.."
judge=${JUDGE:-build/tests/judge/pallasim_judge}
[ -x "$judge" ] || { echo "build pallasim_judge first" >&2; exit 2; }
log=$(mktemp)
"$judge" --modules "${1:-100000}" --seed "${2:-1}" --jobs "$(nproc)" --stats > "$log"
status=$?
cat "$log"
# The first 20 that failed, smaller: candidates for tests/pass.
for seed in $(sed -n 's/^seed \([0-9]*\): .*/\1/p' "$log" | head -20); do
  "$judge" --only "$seed" --shrink --dump build/judge | head -1
done
rm -f "$log"
exit $status
