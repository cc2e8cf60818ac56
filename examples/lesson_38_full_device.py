"""Lesson 38: every core of a device in one launch: a scalar subcore leads, vector subcores work, a TensorCore finishes.

    .venv/bin/python examples/lesson_38_full_device.py

One kernel has a body for each mesh of cores. The scalar subcore reads a list from HBM, of the signals that each vector
subcore is due, and sends them. The vector subcores sum their rows and put the sums into HBM; when all are done, the
TensorCore adds them up. Nobody shares memory without a signal. In the twin the scalar subcore forgets the last vector subcore.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

SUBCORES, SHARE, LANES = 4, 8, 16


@functools.partial(jax.jit, static_argnames="served")
def total(x, jobs, served=SUBCORES):
    lead = plsc.ScalarSubcoreMesh(axis_name="core", num_cores=1)
    work = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    end = pltpu.create_tensorcore_mesh("tc", num_cores=1)

    def leader(x_hbm, jobs_hbm, sums_hbm, o_hbm, jobs, go, first, rows, done, parts, o):
        pltpu.sync_copy(jobs_hbm, jobs)
        for n in range(served):
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

    scratch = [pltpu.SMEM((SUBCORES,), jnp.int32) @ lead, pltpu.SemaphoreType.REGULAR @ work, pltpu.VMEM((LANES,), x.dtype) @ work,
               pltpu.VMEM((SHARE, LANES), x.dtype) @ work, pltpu.SemaphoreType.REGULAR @ end,
               pltpu.VMEM((SUBCORES, LANES), x.dtype) @ end, pltpu.VMEM((1, LANES), x.dtype) @ end]
    out = [pltpu.HBM((SUBCORES, LANES), x.dtype), pltpu.HBM((1, LANES), x.dtype)]
    given = [pltpu.with_memory_space_constraint(a, pltpu.HBM) for a in (x, jobs)]
    return pl.kernel(body=[leader, worker, finisher], mesh=[lead, work, end], out_type=out, scratch_types=scratch)(*given)[1]


def main():
    x = np.random.default_rng(0).integers(-99, 99, (SUBCORES * SHARE, LANES)).astype(np.float32)
    jobs = np.ones(SUBCORES, np.int32)
    for seed in (None, 0, 1, 2):
        pallasim.findings()
        with pallasim.emulate("tpu-7x", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(np.asarray(total(x, jobs))[0], x.sum(0))
        assert not pallasim.findings(), pallasim.findings()[0].report
    assert np.abs(x.sum(0)).max() > 1
    print(f"{pallasim.last_run()['threads']} threads of three kinds of cores, one launch")

    try:
        with pallasim.emulate("tpu-7x"):
            jax.block_until_ready(total(x, jobs, served=SUBCORES - 1))
        raise AssertionError("a subcore that nobody serves went unnoticed")
    except pallasim.KernelError as e:
        print("The scalar subcore forgets the last vector subcore:")
        print(e.finding.report)
        assert e.finding.code == "PS-DEAD-001" and "subcore 3 of SparseCore 0 waits for go" in e.finding.report


if __name__ == "__main__":
    main()
