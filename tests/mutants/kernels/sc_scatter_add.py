"""Subcores add rows into shared memory at places that lists name, all at once."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
SUBCORES, SHARE, WIDTH = 4, 8, 128


def kernel(x_hbm, places_hbm, o_hbm, place, buffer, sums):
    me = jax.lax.axis_index("subcore")
    mine = pl.ds(me * SHARE, SHARE)
    for row in range(SHARE):
        for at in range(0, WIDTH, 16):
            buffer[row, pl.ds(at, 16)] = jnp.zeros(16, jnp.float32)
    pltpu.sync_copy(buffer, sums.at[mine])
    pltpu.sync_copy(x_hbm.at[mine], buffer)
    pltpu.sync_copy(places_hbm.at[mine], place)
    plsc.subcore_barrier()
    pltpu.sync_copy(buffer, sums.at[place], add=True)
    plsc.subcore_barrier()
    pltpu.sync_copy(sums.at[mine], o_hbm.at[mine])


def inputs(rng):
    return rng.integers(1, 99, (SUBCORES * SHARE, WIDTH)).astype(np.float32), rng.integers(0, SUBCORES * SHARE, SUBCORES * SHARE).astype(np.int32)


def run(x, places):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), jnp.float32),
               pltpu.VMEM_SHARED((SUBCORES * SHARE, WIDTH), jnp.float32)]
    return pl.kernel(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh, scratch_types=scratch)(x, places)


def reference(x, places):
    out = np.zeros_like(x)
    np.add.at(out, places, x)
    return out
