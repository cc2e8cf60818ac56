#!/usr/bin/env bash
# Every test. Installs and builds what is missing first (Debian 12). Arguments go to pytest: ./test.sh -k matmul
# The times of all cases stay in build/logs; scripts/slowest.py prints the slowest.
. "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
started=$SECONDS
TIMEFORMAT='%0R s, %0U s of CPU'
time setup
cd "$ROOT"
failed=

# Quiet on success: the summary. On failure the whole output.
summarised() {
  local name=$1 pattern=$2
  shift 2
  say "$name"
  if time "$@" >"$LOGS/$name.log" 2>&1 </dev/null; then
    grep -E "$pattern" "$LOGS/$name.log" | tail -n 3
  else
    cat "$LOGS/$name.log"
    failed="$failed $name"
  fi
}

jobs=$(nproc)
rm -rf "$LOGS"/*.xml "$LOGS/cases"
summarised ctest 'tests passed|Total Test time|tests failed' \
  ctest --test-dir "$BUILD" --output-on-failure --no-tests=error -j "$jobs" --output-junit "$LOGS/ctest.xml"
summarised pytest '(passed|failed|error).* in ' \
  "$VENV/bin/python" -m pytest -q -n "$jobs" --dist worksteal --junitxml "$LOGS/pytest.xml" --durations 50 "$@" tests
# The Python tests once more with the newest JAX, where a Python for it is at hand.
summarised newest-jax '(passed|failed|error).* in |nothing to test' "$ROOT/scripts/test_newest_jax.sh" "$@"

"$ROOT/scripts/slowest.py" 50 >"$LOGS/slowest.log"
[ -z "$failed" ] || die "failed:$failed (logs: $LOGS)"
say "all tests passed in $((SECONDS - started)) s; the slowest: $LOGS/slowest.log"
