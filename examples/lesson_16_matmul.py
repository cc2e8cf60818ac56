"""Lesson 16: a matrix product as TPU programs are written: a kernel on the TensorCores, a pipeline inside it.

    .venv/bin/python examples/lesson_16_matmul.py

`pl.kernel` starts its body once per core of a mesh and gives it whole arrays in slow memory. `pltpu.emit_pipeline`
walks over tiles: it copies the next tiles of x and y while the matrix unit works on the present ones. The accumulator is
scratch memory: set at the first step along k, written out at the last.

Older texts call `core_map` with a mesh from `create_tensorcore_mesh` inside `run_state`; `pl.kernel` does both.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

M, K, N, TILE = 256, 384, 256, 128


def matmul_steps(x_tile, y_tile, o_tile, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_tile[...], y_tile[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_tile[...] = acc_ref[...].astype(o_tile.dtype)


def matmul(x, y):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

    def kernel(x_hbm, y_hbm, o_hbm, acc_ref):
        pltpu.emit_pipeline(
            lambda *tiles: matmul_steps(*tiles, acc_ref),
            grid=(M // TILE, N // TILE, K // TILE),
            in_specs=[pl.BlockSpec((TILE, TILE), lambda i, j, k: (i, k)), pl.BlockSpec((TILE, TILE), lambda i, j, k: (k, j))],
            out_specs=[pl.BlockSpec((TILE, TILE), lambda i, j, k: (i, j))],
        )(x_hbm, y_hbm, o_hbm)

    out = jax.ShapeDtypeStruct((M, N), jnp.float32)
    return pl.kernel(kernel, out, mesh=mesh, scratch_types=[pltpu.VMEM((TILE, TILE), jnp.float32)])(x, y)


def main():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((M, K), dtype=np.float32))
    y = jnp.asarray(rng.standard_normal((K, N), dtype=np.float32))
    pallasim.findings()
    with pallasim.emulate("tpu-v6e", detect_races=True):
        out = np.asarray(jax.jit(matmul)(x, y))
    want = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    np.testing.assert_allclose(out, want, atol=1e-4)
    assert np.abs(out).max() > 1 and pallasim.findings() == []

    traffic = pallasim.last_run()["traffic"][:3]
    steps = (M // TILE) * (N // TILE) * (K // TILE)
    tile = TILE * TILE * 4
    print(f"{M}x{K} times {K}x{N} in tiles of {TILE}x{TILE}: {steps} steps on one core")
    print("array     size B   copied B   times   tiles in fast memory")
    for name, array, t in zip("xyo", (x, y, want.astype(np.float32)), traffic):
        moved = t["bytes_read"] + t["bytes_written"]
        print(f"  {name}   {array.nbytes:9} {moved:10} {moved / array.nbytes:7.1f}   2 of {tile} B")
    # Every tile of x is used for N/TILE tiles of the output, every tile of y for M/TILE.
    assert [t["bytes_read"] for t in traffic[:2]] == [x.nbytes * (N // TILE), y.nbytes * (M // TILE)]
    assert traffic[2]["bytes_written"] == want.size * 4
    print(f"  acc                                   1 of {tile} B; it never leaves")


if __name__ == "__main__":
    main()
