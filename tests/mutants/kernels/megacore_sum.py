"""Two cores sum a half each and meet at a barrier."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5p"
CORES = 2
SHARE = 16


def kernel(x_hbm, parts_hbm, o_hbm, acc, other, barrier):
    core = jax.lax.axis_index("core")
    acc[...] = jnp.zeros_like(acc)

    def add(x_block):
        acc[...] += x_block[...]

    mine = x_hbm.at[pl.ds(pl.multiple_of(core * SHARE, 8), SHARE)]
    pltpu.emit_pipeline(add, grid=(SHARE // 8,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))])(mine)
    pltpu.sync_copy(acc, parts_hbm.at[core])
    pltpu.core_barrier(barrier, core_axis_name="core")

    @pl.when(core == 0)
    def _():
        pltpu.sync_copy(parts_hbm.at[1], other)
        acc[...] += other[...]
        pltpu.sync_copy(acc, o_hbm)


def inputs(rng):
    return (rng.integers(-99, 99, (CORES * SHARE, 128)).astype(np.float32),)


def run(x):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=CORES)
    tile = pltpu.VMEM((8, 128), jnp.float32)
    out = jax.ShapeDtypeStruct((CORES, 8, 128), jnp.float32), jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return pl.kernel(kernel, out, mesh=mesh, scratch_types=[tile, tile, pltpu.SemaphoreType.REGULAR])(x)


def reference(x):
    parts = x.reshape(CORES, SHARE // 8, 8, 128).sum(1)
    return parts, parts.sum(0)
