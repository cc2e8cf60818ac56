"""Subcores fetch the rows that a list names, by one indirect copy each."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
CORES, SUBCORES, SHARE, WIDTH = 2, 4, 8, 128
ROWS = CORES * SUBCORES * SHARE


def kernel(table_hbm, rows_hbm, o_hbm, index, buffer, arrived):
    me = jax.lax.axis_index("core") * SUBCORES + jax.lax.axis_index("subcore")
    mine = pl.ds(me * SHARE, SHARE)
    pltpu.sync_copy(rows_hbm.at[mine], index)
    copy = pltpu.make_async_copy(table_hbm.at[index], buffer, arrived)
    copy.start()
    copy.wait()
    pltpu.sync_copy(buffer, o_hbm.at[mine])


def inputs(rng):
    return rng.standard_normal((100, WIDTH), dtype=np.float32), rng.permutation(100)[:ROWS].astype(np.int32)


def run(table, rows):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=CORES, num_subcores=SUBCORES)
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), jnp.float32), pltpu.SemaphoreType.DMA]
    out = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(table, rows)


def reference(table, rows):
    return table[rows]
