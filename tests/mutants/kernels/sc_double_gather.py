"""Two slots of rows that lists name: one arrives while the other leaves."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
SUBCORES, SHARE, STEPS, WIDTH = 4, 8, 3, 128
ROWS = SUBCORES * SHARE * STEPS


def kernel(table_hbm, rows_hbm, o_hbm, index, slots, arrived):
    first = jax.lax.axis_index("subcore") * SHARE * STEPS
    pltpu.sync_copy(rows_hbm.at[pl.ds(first, SHARE * STEPS)], index)

    def fetch(step):
        rows = index.at[pl.ds(step * SHARE, SHARE)]
        return pltpu.make_async_copy(table_hbm.at[rows], slots.at[step % 2], arrived.at[step % 2])

    fetch(0).start()
    for step in range(STEPS):
        if step + 1 < STEPS:
            fetch(step + 1).start()
        fetch(step).wait()
        pltpu.sync_copy(slots.at[step % 2], o_hbm.at[pl.ds(first + step * SHARE, SHARE)])


def inputs(rng):
    return rng.standard_normal((100, WIDTH), dtype=np.float32), rng.permutation(100)[:ROWS].astype(np.int32)


def run(table, rows):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    scratch = [pltpu.VMEM((SHARE * STEPS,), jnp.int32), pltpu.VMEM((2, SHARE, WIDTH), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    out = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(table, rows)


def reference(table, rows):
    return table[rows]
