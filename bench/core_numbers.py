"""Prints the core's figures against plain XLA:CPU and JAX's HLO interpreter, side by side in one run.

    .venv/bin/python bench/core_numbers.py [--rounds N]

Executors alternate A B C A B C; medians of wall time, ratios of rounds to XLA, CPU time of the process per call.
"First result" runs in fresh processes: lowering, compilation and first run of matmul on grid (2, 2), less the same of a
jitted call of one of jaxlib's own FFI handlers.
"""
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def cpu() -> float:
    t = os.times()
    return t.user + t.system


def kernels():
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import pallas as pl

    def add_kernel(x, y, o):
        o[...] = x[...] + y[...]

    def matmul_kernel(x, y, z):
        z[...] = x[...] @ y[...]

    block = pl.BlockSpec((1024,), lambda i: (i,))

    def add(interpret):
        return lambda x, y: pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(1024,),
                                           in_specs=[block, block], out_specs=block, interpret=interpret)(x, y)

    def matmul(interpret):
        return lambda x, y: pl.pallas_call(
            matmul_kernel, out_shape=jax.ShapeDtypeStruct((1024, 1024), jnp.float32), grid=(2, 2),
            in_specs=[pl.BlockSpec((512, 1024), lambda i, j: (i, 0)), pl.BlockSpec((1024, 512), lambda i, j: (0, j))],
            out_specs=pl.BlockSpec((512, 512), lambda i, j: (i, j)), interpret=interpret)(x, y)

    rng = np.random.default_rng(0)
    vector = [jnp.asarray(rng.standard_normal(1 << 20), jnp.float32) for _ in range(2)]
    square = [jnp.asarray(rng.standard_normal((1024, 1024)), jnp.float32) for _ in range(2)]
    return {"vector add 1M, 1024 steps": (add, lambda x, y: x + y, vector),
            "matmul 1024, grid (2, 2)": (matmul, lambda x, y: x @ y, square)}


def side_by_side(rounds: int) -> None:
    import jax
    import numpy as np

    import pallasim

    print(f"{'case':28} {'executor':10} {'wall ms':>9} {'/ XLA':>8} {'CPU ms':>9}")
    for name, (build, reference, args) in kernels().items():
        compiled = {"xla": jax.jit(reference).lower(*args).compile()}
        with pallasim.emulate():
            compiled["pallasim"] = jax.jit(build(False)).lower(*args).compile()
        compiled["hlo"] = jax.jit(build(True)).lower(*args).compile()
        want = np.asarray(compiled["xla"](*args))
        launches = pallasim.launch_count()
        np.testing.assert_allclose(np.asarray(compiled["pallasim"](*args)), want, rtol=1e-4, atol=1e-3)
        assert pallasim.launch_count() == launches + 1
        wall: dict[str, list[float]] = {k: [] for k in compiled}
        used: dict[str, list[float]] = {k: [] for k in compiled}
        for _ in range(rounds):
            for key, f in compiled.items():
                n = 1 if key == "hlo" else 5
                c, t = cpu(), time.perf_counter()
                for _ in range(n):
                    jax.block_until_ready(f(*args))
                wall[key].append((time.perf_counter() - t) / n)
                used[key].append((cpu() - c) / n)
        for key in compiled:
            ratio = statistics.median(a / b for a, b in zip(wall[key][1:], wall["xla"][1:]))
            print(f"{name:28} {key:10} {1e3 * statistics.median(wall[key][1:]):9.3f} {ratio:8.2f} {1e3 * statistics.median(used[key][1:]):9.3f}")
        factor = statistics.median(a / b for a, b in zip(wall["hlo"][1:], wall["pallasim"][1:]))
        print(f"{name:28} HLO interpreter / pallasim: {factor:.0f}x")


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


FRESH = r"""
import sys, time
import jax, jax.numpy as jnp, numpy as np
sys.path.insert(0, sys.argv[2])
x = jnp.asarray(np.random.default_rng(0).standard_normal((1024, 1024)), jnp.float32).block_until_ready()
if sys.argv[1] == "ffi":
    a = jnp.ones((1, 1), jnp.float32).block_until_ready()
    f = jax.jit(jnp.linalg.cholesky)
    traced = f.trace(a)
    t = time.perf_counter()
    traced.lower().compile()(a).block_until_ready()
else:
    import pallasim, core_numbers
    build, _, args = core_numbers.kernels()["matmul 1024, grid (2, 2)"]
    jax.block_until_ready(args)
    with pallasim.emulate():
        traced = jax.jit(build(False)).trace(*args)
        t = time.perf_counter()
        traced.lower().compile()(*args).block_until_ready()
print(time.perf_counter() - t)
"""


def first_result(runs: int = 7) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    times: dict[str, list[float]] = {"ffi": [], "matmul": []}
    for _ in range(runs):
        for what in times:
            out = subprocess.run([sys.executable, "-c", FRESH, what, here], capture_output=True, text=True, check=True)
            times[what].append(float(out.stdout.split()[-1]))
    ffi, matmul = (1e3 * statistics.median(times[k]) for k in ("ffi", "matmul"))
    print(f"first result of matmul (2, 2): {matmul:.0f} ms, a jitted FFI call: {ffi:.0f} ms, beyond it: {matmul - ffi:.0f} ms")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=15)
    a = p.parse_args()
    side_by_side(a.rounds)
    per_call()
    first_result()


if __name__ == "__main__":
    main()
