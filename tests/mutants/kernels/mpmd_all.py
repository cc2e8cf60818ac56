"""A scalar subcore leads, vector subcores work, a TensorCore finishes."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
SUBCORES, SHARE, LANES = 4, 4, 16


def leader(x_hbm, jobs_hbm, sums_hbm, o_hbm, jobs, go, first, rows, done, parts, o):
    pltpu.sync_copy(jobs_hbm, jobs)
    for n in range(SUBCORES):
        pl.semaphore_signal(go, jobs[n], device_id={"core": 0, "subcore": n})


def worker(x_hbm, jobs_hbm, sums_hbm, o_hbm, jobs, go, first, rows, done, parts, o):
    me = lax.axis_index("subcore")
    pl.semaphore_wait(go, 1)
    pltpu.sync_copy(x_hbm.at[pl.ds(me * SHARE, SHARE)], rows)
    first[...] = jnp.zeros_like(first)
    for row in range(SHARE):
        first[...] += rows[row]
    pltpu.sync_copy(first, sums_hbm.at[me])
    pl.semaphore_signal(done, 1, device_id={"tc": 0})


def finisher(x_hbm, jobs_hbm, sums_hbm, o_hbm, jobs, go, first, rows, done, parts, o):
    pl.semaphore_wait(done, SUBCORES)
    pltpu.sync_copy(sums_hbm, parts)
    o[...] = jnp.sum(parts[...], axis=0, keepdims=True)
    pltpu.sync_copy(o, o_hbm)


def inputs(rng):
    return rng.integers(-99, 99, (SUBCORES * SHARE, LANES)).astype(np.float32), np.ones(SUBCORES, np.int32)


def run(x, jobs):
    lead = plsc.ScalarSubcoreMesh(axis_name="core", num_cores=1)
    work = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    end = pltpu.create_tensorcore_mesh("tc", num_cores=1)

    @jax.jit
    def launch(x, jobs):
        scratch = [pltpu.SMEM((SUBCORES,), jnp.int32) @ lead, pltpu.SemaphoreType.REGULAR @ work, pltpu.VMEM((LANES,), jnp.float32) @ work,
                   pltpu.VMEM((SHARE, LANES), jnp.float32) @ work, pltpu.SemaphoreType.REGULAR @ end,
                   pltpu.VMEM((SUBCORES, LANES), jnp.float32) @ end, pltpu.VMEM((1, LANES), jnp.float32) @ end]
        out = [pltpu.HBM((SUBCORES, LANES), jnp.float32), pltpu.HBM((1, LANES), jnp.float32)]
        given = [pltpu.with_memory_space_constraint(a, pltpu.HBM) for a in (x, jobs)]
        return pl.kernel(body=[leader, worker, finisher], mesh=[lead, work, end], out_type=out, scratch_types=scratch)(*given)

    return launch(x, jobs)


def reference(x, jobs):
    sums = x.reshape(SUBCORES, SHARE, LANES).sum(1)
    return sums, sums.sum(0, keepdims=True)
