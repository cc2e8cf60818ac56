"""Unit 9: SparseCore.

    .venv/bin/python examples/course/unit_09_sparsecore.py [--grade]

Beside its TensorCores a TPU 7x has SparseCores, each with 16 subcores that have a small VMEM of their own. They are made for work whose addresses are data:
a copy may take the rows that a list names, x.at[rows] with an array of row numbers in VMEM.

Question: 512 rows of 512 bytes are looked up by 8 subcores: a quarter of a MiB. What is their time spent on, if not on bytes?
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
SUBCORES, SHARE, WIDTH, AT_ONCE = 8, 64, 128, 16


def by_subcores(fetch, table, rows):
    """Each subcore copies its share of the row numbers into its VMEM, lets `fetch` bring the rows there, and copies them to its share of the result."""
    def kernel(table_hbm, rows_hbm, o_hbm, index, buffer, arrived):
        share = pl.ds(lax.axis_index("subcore") * SHARE, SHARE)
        pltpu.sync_copy(rows_hbm.at[share], index)
        fetch(table_hbm, index, buffer, arrived)
        pltpu.sync_copy(buffer, o_hbm.at[share])

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), table.dtype), pltpu.SemaphoreType.DMA]
    return pl.kernel(kernel, out_type=jax.ShapeDtypeStruct((*rows.shape, WIDTH), table.dtype), mesh=mesh, scratch_types=scratch)(table, rows)


def fetch_one_by_one(table_hbm, index, buffer, arrived):
    @pl.loop(0, SHARE, step=AT_ONCE)
    def _(i):
        some = index[pl.ds(i, AT_ONCE)]  # a vector of the subcore has 16 numbers
        for j in range(AT_ONCE):
            pltpu.sync_copy(table_hbm.at[some[j]], buffer.at[i + j])


def fetch_some(table_hbm, index, buffer, arrived):
    @pl.loop(0, SHARE, step=AT_ONCE)
    def _(i):
        some = index[pl.ds(i, AT_ONCE)]
        copies = [pltpu.make_async_copy(table_hbm.at[some[j]], buffer.at[i + j], arrived) for j in range(AT_ONCE)]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()


one_by_one, some_at_once = functools.partial(by_subcores, fetch_one_by_one), functools.partial(by_subcores, fetch_some)


def table_and_rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((4096, WIDTH), dtype=np.float32), rng.integers(0, 4096, SUBCORES * SHARE).astype(np.int32)


def main():
    took = []
    for name, f in (("one by one", one_by_one), (f"{AT_ONCE} at once", some_at_once)):
        (k,) = pallasim.predict(f, *table_and_rows(), chip=CHIP, sensitivity=False)
        largest = k.critical[0]
        print(f"{name:10} {k.seconds * 1e6:5.1f} us, {largest.seconds * 1e6:5.1f} of them {largest.name}")
        took.append((k.seconds, largest))
    # Each subcore waits for its row to come before it asks for the next one: 64 times the way to HBM and back. Asking for 16 makes that 4 times.
    assert took[0][1].name == "latency of memory" and took[0][1].seconds > 0.8 * took[0][0] and took[1][0] < 0.4 * took[0][0]


def picture():
    """The subcores of one SparseCore: each has one row on its way at any time, and waits for it."""
    page = pallasim.predict(one_by_one, *table_and_rows(), chip=CHIP, sensitivity=False, report=True).page
    return page.picture(begin=2e-6, end=6e-6, title="Unit 9: subcores that ask for one row after another, tpu-7x")


def exercise(table, rows):
    """table[rows]. Let one copy bring all rows of a subcore."""
    return one_by_one(table, rows)


def grade(answer):
    table, rows = table_and_rows()
    with pallasim.emulate(CHIP, detect_races=True, findings="raise"):
        got = np.asarray(answer(table, rows))
    np.testing.assert_array_equal(got, table[rows], err_msg="it is not table[rows]")
    seconds, allowed = (pallasim.predict(f, table, rows, chip=CHIP, sensitivity=False).seconds for f in (answer, some_at_once))
    assert seconds <= 0.9 * allowed, (f"it takes {seconds * 1e6:.1f} us; asking for {AT_ONCE} rows at once takes {allowed * 1e6:.1f}, "
                                      "and for all of them less than that")


def fetch_by_list(table_hbm, index, buffer, arrived):
    pltpu.sync_copy(table_hbm.at[index], buffer)


solution = functools.partial(by_subcores, fetch_by_list)


if __name__ == "__main__":
    import classroom

    classroom.run()
