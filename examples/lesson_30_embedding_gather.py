"""Lesson 30: an embedding gather, the work that SparseCores are there for.

    .venv/bin/python examples/lesson_30_embedding_gather.py

A SparseCore has subcores, each with a small VMEM of its own. A copy may take its rows from an array of indices: the hardware walks the
list, no loop does. Every subcore of both SparseCores fetches its share of the rows. Two twins are wrong: one has a row number that the
table does not have, the other reads its buffer before the rows arrived.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

CORES, SUBCORES, SHARE, WIDTH = 2, 4, 16, 128
ROWS = CORES * SUBCORES * SHARE


def gather(table, rows, wait=True):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=CORES, num_subcores=SUBCORES)

    def kernel(table_hbm, rows_hbm, o_hbm, index, buffer, arrived):
        me = jax.lax.axis_index("core") * SUBCORES + jax.lax.axis_index("subcore")
        mine = pl.ds(me * SHARE, SHARE)
        pltpu.sync_copy(rows_hbm.at[mine], index)
        copy = pltpu.make_async_copy(table_hbm.at[index], buffer, arrived)
        copy.start()
        if wait:
            copy.wait()
        pltpu.sync_copy(buffer, o_hbm.at[mine])
        if not wait:
            copy.wait()  # too late

    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), table.dtype), pltpu.SemaphoreType.DMA]
    out = jax.ShapeDtypeStruct((ROWS, WIDTH), table.dtype)
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(table, rows)


def main():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((1000, WIDTH), dtype=np.float32)
    rows = rng.integers(0, 1000, ROWS).astype(np.int32)
    for seed in (None, 0, 1):
        with pallasim.emulate("tpu-7x", detect_races=True, random_seed=seed):
            got = np.asarray(gather(table, rows))
        np.testing.assert_array_equal(got, table[rows])
    assert np.abs(got).max() > 1
    run = pallasim.last_run()
    print(f"{ROWS} rows of {WIDTH} numbers, {run['threads']} subcores, {SHARE} rows each; the same in every order of subcores")

    wrong = rows.copy()
    wrong[21] = 1000
    try:
        with pallasim.emulate("tpu-7x"):
            jax.block_until_ready(gather(table, wrong))
        raise AssertionError("a row that does not exist went unnoticed")
    except pallasim.KernelError as e:
        print("A wrong row number:")
        print(e.finding.report)
        assert e.finding.code == "PS-OOB-001" and "1000" in e.finding.report

    pallasim.findings()
    with pallasim.emulate("tpu-7x", detect_races=True, findings="collect"):
        jax.block_until_ready(gather(table, rows, False))
    race = next(f for f in pallasim.findings() if f.code == "PS-RACE-001")
    print("Rows that are used before they arrived:")
    print(race.report)
    assert "buffer" in race.message


if __name__ == "__main__":
    main()
