"""Lesson 32: SparseCores fetch rows, a TensorCore multiplies them, in one launch.

    .venv/bin/python examples/lesson_32_sparsecore_feeds_tensorcore.py

One kernel with two bodies: one for the mesh of subcores, one for the TensorCore. They share HBM. A subcore that has put its rows there
signals a semaphore of the TensorCore, which waits for all of them before it copies the rows in and multiplies. In the broken twin it
waits for all but one: sometimes the last rows are missing, which a checked run says in any schedule.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

SUBCORES, SHARE, WIDTH, OUT = 4, 8, 128, 128
ROWS = SUBCORES * SHARE


@functools.partial(jax.jit, static_argnames="awaited")
def lookup_and_multiply(table, rows, weights, awaited=SUBCORES):
    sparse = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    dense = pltpu.create_tensorcore_mesh("tc", num_cores=1)

    def feed(table_hbm, rows_hbm, w_hbm, x_hbm, o_hbm, index, buffer, fed, x, w, o):
        mine = pl.ds(jax.lax.axis_index("subcore") * SHARE, SHARE)
        pltpu.sync_copy(rows_hbm.at[mine], index)
        pltpu.sync_copy(table_hbm.at[index], buffer)
        pltpu.sync_copy(buffer, x_hbm.at[mine])
        pl.semaphore_signal(fed, 1, device_id={"tc": 0})

    def multiply(table_hbm, rows_hbm, w_hbm, x_hbm, o_hbm, index, buffer, fed, x, w, o):
        pltpu.sync_copy(w_hbm, w)
        pl.semaphore_wait(fed, awaited)
        pltpu.sync_copy(x_hbm, x)
        if awaited < SUBCORES:
            pl.semaphore_wait(fed, SUBCORES - awaited)  # too late
        o[...] = jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)
        pltpu.sync_copy(o, o_hbm)

    given = [pltpu.with_memory_space_constraint(a, pltpu.HBM) for a in (table, rows, weights)]
    scratch = [pltpu.VMEM((SHARE,), jnp.int32) @ sparse, pltpu.VMEM((SHARE, WIDTH), table.dtype) @ sparse,
               pltpu.SemaphoreType.REGULAR @ dense, pltpu.VMEM((ROWS, WIDTH), table.dtype) @ dense,
               pltpu.VMEM((WIDTH, OUT), table.dtype) @ dense, pltpu.VMEM((ROWS, OUT), jnp.float32) @ dense]
    out = [pltpu.HBM((ROWS, WIDTH), table.dtype), pltpu.HBM((ROWS, OUT), jnp.float32)]
    return pl.kernel(body=[feed, multiply], mesh=[sparse, dense], out_type=out, scratch_types=scratch)(*given)[1]


def main():
    rng = np.random.default_rng(0)
    table, weights = (rng.standard_normal(s, dtype=np.float32) for s in ((500, WIDTH), (WIDTH, OUT)))
    rows = rng.integers(0, 500, ROWS).astype(np.int32)
    want = table[rows].astype(np.float64) @ weights
    for seed in (None, 0, 1):
        with pallasim.emulate("tpu-7x", detect_races=True, random_seed=seed):
            got = np.asarray(lookup_and_multiply(table, rows, weights))
        np.testing.assert_allclose(got, want, atol=1e-3)
    assert np.abs(got).max() > 1
    print(f"{SUBCORES} subcores fetched {ROWS} rows, one TensorCore multiplied them: {pallasim.last_run()['threads']} threads, one launch")

    pallasim.findings()
    with pallasim.emulate("tpu-7x", detect_races=True, findings="collect"):
        jax.block_until_ready(lookup_and_multiply(table, rows, weights, awaited=SUBCORES - 1))
    race = next(f for f in pallasim.findings() if f.code == "PS-RACE-002")
    print("With one signal too few awaited:")
    print(race.report)
    assert "x_hbm" in race.message


if __name__ == "__main__":
    main()
