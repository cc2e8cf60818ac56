"""Unit 9: SparseCore.

    .venv/bin/python examples/course/unit_09_sparsecore.py [--grade]

Beside its TensorCores a TPU 7x has SparseCores, each with 16 subcores that have a small VMEM of their own. A copy of theirs may take the rows that a list names:
x.at[rows] with an array of row numbers.

Question: an embedding of 1024 rows of 512 bytes is looked up in a table. What does it cost to fetch them one by one, and how many of them can be on their way?
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

CHIP = "tpu-7x"
SUBCORES, SHARE, WIDTH = 16, 64, 128
TABLE, ROWS = jax.ShapeDtypeStruct((4096, WIDTH), jnp.float32), jax.ShapeDtypeStruct((SUBCORES * SHARE,), jnp.int32)


def by_subcores(fetch, table, rows, buffered=SHARE):
    """Each subcore copies its share of the row numbers into its VMEM, `fetch`es them, and copies them to its share of the result."""
    def kernel(table_hbm, rows_hbm, o_hbm, index, buffer, arrived):
        share = pl.ds(lax.axis_index("subcore") * SHARE, SHARE)
        pltpu.sync_copy(rows_hbm.at[share], index)
        fetch(table_hbm, index, buffer, o_hbm.at[share], arrived)

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), table.dtype), pltpu.SemaphoreType.DMA]
    return pl.kernel(kernel, out_type=jax.ShapeDtypeStruct((*rows.shape, WIDTH), table.dtype), mesh=mesh, scratch_types=scratch)(table, rows)


def one_by_one(table_hbm, index, buffer, o_hbm, arrived):
    @pl.loop(0, SHARE, step=16)
    def _(i):
        some = index[pl.ds(i, 16)]
        for j in range(16):
            pltpu.sync_copy(table_hbm.at[some[j]], buffer.at[i + j])

    pltpu.sync_copy(buffer, o_hbm)


def by_list(table_hbm, index, buffer, o_hbm, arrived):
    pltpu.sync_copy(table_hbm.at[index], buffer)
    pltpu.sync_copy(buffer, o_hbm)


def main():
    for f in (one_by_one, by_list):
        (k,) = pallasim.predict(functools.partial(by_subcores, f), TABLE, ROWS, chip=CHIP, sensitivity=False)
        print(k.seconds*1e6, k)


def picture():
    """One of the devices: three parts go to its neighbour, one after another, as they come from the other one, and its core waits."""
    page = pallasim.predict(functools.partial(by_subcores, by_list), TABLE, ROWS, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 8: one of four devices in a ring, tpu-v5e")

if __name__ == "__main__":
    import classroom

    classroom.run()
