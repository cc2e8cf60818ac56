"""Prints what a call of a kernel costs from jit and outside of it, and how soon the first result of one is there.

    .venv/bin/python bench/latency.py

"First result" runs in fresh processes: lowering, compilation and first run, beside plain XLA and a call of one of jaxlib's
own FFI handlers; the three alternate.
"""
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import fresh

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def per_call() -> None:
    import jax
    import jax.numpy as jnp

    import pallasim
    from jax.experimental import pallas as pl

    def kernel(x, o):
        o[...] = x[...] + 1.0

    with pallasim.emulate():
        f = jax.jit(lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
        x = jnp.zeros(8, jnp.float32)
        g = jax.jit(lambda x: x + 1.0)
        for label, h in (("jit of x + 1", g), ("kernel from jit", f)):
            y = h(x).block_until_ready()
            samples = []
            for _ in range(7):
                c = time.process_time()
                for _ in range(5000):
                    y = h(x)
                y.block_until_ready()
                samples.append((time.process_time() - c) / 5000)
            print(f"{label:28} {1e6 * statistics.median(samples):6.2f} us CPU per call")


def eager() -> None:
    """A `pallas_call` that is written anew for each call, outside of jit: all of it, and JAX's tracing alone."""
    import jax
    import jax.numpy as jnp
    from jax._src import monitoring

    import pallasim
    from jax.experimental import pallas as pl

    def kernel(x, o):
        o[...] = x[...] * 2.0 + 1.0

    x, traced, calls = jnp.ones((8, 128), jnp.float32), [], []

    def note(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/jaxpr_trace_duration":
            traced.append(seconds)

    monitoring.register_event_duration_secs_listener(note)
    with pallasim.emulate("tpu-v5e"):
        for _ in range(210):
            start = time.perf_counter()
            pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x).block_until_ready()
            calls.append(time.perf_counter() - start)
    print(f"eager pallas_call, made anew  {1e3 * statistics.median(calls[10:]):5.2f} ms, of which JAX traces {1e3 * statistics.median(traced[10:]):5.2f} ms")


FRESH = r"""
import contextlib, sys, time
sys.path.insert(0, sys.argv[2])
import jax
from kernels import all_cases
case = all_cases()["matmul_1024_2x2"]
args = jax.block_until_ready(case.arguments())
context, f = contextlib.nullcontext(), case.reference
if sys.argv[1] == "pallasim":
    import pallasim
    context, f = pallasim.emulate(), case.build(False)
elif sys.argv[1] == "ffi":
    f, args = jax.numpy.linalg.cholesky, (jax.block_until_ready(jax.numpy.ones((1, 1))),)
with context:
    traced = jax.jit(f).trace(*args)
    start = time.perf_counter()
    jax.block_until_ready(traced.lower().compile()(*args))
print(time.perf_counter() - start)
"""


def first_result(runs: int = 7) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    names = {"pallasim": "matmul on grid (2, 2), Pallasim", "xla": "the same product, plain XLA", "ffi": "a handler of jaxlib (1x1 Cholesky)"}
    times: dict[str, list[float]] = {k: [] for k in names}
    for _ in range(runs + 1):
        for what in times:
            out = subprocess.run([sys.executable, "-c", FRESH, what, here], capture_output=True, text=True, check=True, env=fresh.environment())
            times[what].append(float(out.stdout.split()[-1]))
    for what, label in names.items():
        print(f"first result, {label:36} {1e3 * statistics.median(times[what][1:]):6.0f} ms")


if __name__ == "__main__":
    per_call()
    eager()
    first_result()
