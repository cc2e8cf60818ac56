"""Prints what a call of a kernel costs from jit and outside of it.

    .venv/bin/python bench/latency.py
"""
from __future__ import annotations

import os
import statistics
import time

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


if __name__ == "__main__":
    per_call()
    eager()
