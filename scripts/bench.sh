#!/usr/bin/env bash
# Every measurement, on one machine in one run: the engine and its arithmetic (C++), latency, and the kernels of
# bench/kernels beside JAX's interpreters and XLA. Arguments go to bench/compare.py. Results: build/bench/*.json.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
PACKAGES="$PACKAGES libbenchmark-dev"
setup pallasim pallasim_python
cd "$ROOT"
quietly configure-bench cmake -S "$ROOT" -B "$BUILD" -DPALLASIM_BENCH=ON
quietly build-bench cmake --build "$BUILD" -j "$(jobs_for_build)" --target engine_bench kernels_bench
mkdir -p "$BUILD/bench"
for b in "$BUILD/bench/engine_bench" "$BUILD/bench/arithmetic/kernels_bench"; do
  say "$(basename "$b")"
  "$b" --benchmark_out="$BUILD/bench/$(basename "$b").json" --benchmark_out_format=json
done
say "latency"
"$VENV/bin/python" bench/latency.py
"$VENV/bin/python" bench/cold.py --cases matmul_1024_2x2
say "beside JAX's interpreters and XLA"
"$VENV/bin/python" bench/compare.py --out "$BUILD/bench/compare.json" --page "$ROOT/docs/performance.md" "$@"
