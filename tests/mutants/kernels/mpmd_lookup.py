"""Subcores fetch rows, a TensorCore multiplies them, in one launch."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
SUBCORES, SHARE, WIDTH = 4, 8, 128
ROWS = SUBCORES * SHARE


def feed(table_hbm, rows_hbm, w_hbm, x_hbm, o_hbm, index, buffer, fed, x, w, o):
    mine = pl.ds(lax.axis_index("subcore") * SHARE, SHARE)
    pltpu.sync_copy(rows_hbm.at[mine], index)
    pltpu.sync_copy(table_hbm.at[index], buffer)
    pltpu.sync_copy(buffer, x_hbm.at[mine])
    pl.semaphore_signal(fed, 1, device_id={"tc": 0})


def multiply(table_hbm, rows_hbm, w_hbm, x_hbm, o_hbm, index, buffer, fed, x, w, o):
    pltpu.sync_copy(w_hbm, w)
    pl.semaphore_wait(fed, SUBCORES)
    pltpu.sync_copy(x_hbm, x)
    o[...] = jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)
    pltpu.sync_copy(o, o_hbm)


def inputs(rng):
    return (rng.integers(-9, 9, (50, WIDTH)).astype(np.float32), rng.permutation(50)[:ROWS].astype(np.int32),
            rng.integers(-9, 9, (WIDTH, WIDTH)).astype(np.float32))


def run(table, rows, weights):
    sparse = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    dense = pltpu.create_tensorcore_mesh("tc", num_cores=1)

    @jax.jit
    def launch(*arrays):
        given = [pltpu.with_memory_space_constraint(a, pltpu.HBM) for a in arrays]
        scratch = [pltpu.VMEM((SHARE,), jnp.int32) @ sparse, pltpu.VMEM((SHARE, WIDTH), jnp.float32) @ sparse,
                   pltpu.SemaphoreType.REGULAR @ dense, pltpu.VMEM((ROWS, WIDTH), jnp.float32) @ dense,
                   pltpu.VMEM((WIDTH, WIDTH), jnp.float32) @ dense, pltpu.VMEM((ROWS, WIDTH), jnp.float32) @ dense]
        out = [pltpu.HBM((ROWS, WIDTH), jnp.float32), pltpu.HBM((ROWS, WIDTH), jnp.float32)]
        return pl.kernel(body=[feed, multiply], mesh=[sparse, dense], out_type=out, scratch_types=scratch)(*given)

    return launch(table, rows, weights)


def reference(table, rows, weights):
    return table[rows], table[rows] @ weights
