"""Subcores that change one word of memory that they share: what is read, changed and written back by two of them is a race, what the copy itself adds is none."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

N, LANES, F32 = 4, 16, jnp.float32
X = jnp.arange(N * LANES, dtype=F32).reshape(N, LANES)
ROW = pltpu.VMEM((LANES,), F32)
ONE = jax.ShapeDtypeStruct((1, LANES), F32)
OUT = jax.ShapeDtypeStruct((N, LANES), F32)
WRONG, RIGHT = {}, {}


def launch(kernel, out, *scratch, subcores=N, cores=1, args=(X,)):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=cores, num_subcores=subcores)
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(*args)


def both(program):
    WRONG[program.__name__], RIGHT[program.__name__] = (lambda: program(False)), (lambda: program(True))
    return program


def add_by_hand(total, row, mine):
    pltpu.sync_copy(total, row)
    row[...] = row[...] + mine[...]
    pltpu.sync_copy(row, total)


@both
def sum_in_shared_memory(right):
    """In turns it is right."""
    def kernel(x, o, mine, row, total):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], mine)

        @pl.when(me == 0)
        def _():
            row[...] = jnp.zeros(LANES, F32)
            pltpu.sync_copy(row, total)

        plsc.subcore_barrier()
        if right:
            for turn in range(N):
                pl.when(me == turn)(lambda: add_by_hand(total, row, mine))
                plsc.subcore_barrier()
        else:
            add_by_hand(total, row, mine)
            plsc.subcore_barrier()
        pltpu.sync_copy(total, row)
        pltpu.sync_copy(row, o.at[me])

    return launch(kernel, OUT, ROW, ROW, pltpu.VMEM_SHARED((LANES,), F32))


@both
def sum_in_an_array(right):
    def kernel(x, o, mine, row):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], mine)

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(mine, o.at[0])

        plsc.subcore_barrier()

        @pl.when((me == 1) if right else (me > 0))
        def _():
            add_by_hand(o.at[0], row, mine)

    return launch(kernel, ONE, ROW, ROW)


@both
def words_of_one_row(right):
    def kernel(x, o, mine):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], mine)
        pltpu.sync_copy(mine.at[pl.ds(0, 8)], o.at[0, pl.ds(8 * me if right else 0, 8)])

    return launch(kernel, ONE, ROW, subcores=2)


@both
def counter_that_its_owner_changes_too(right):
    def kernel(x, o, word, row):
        me = lax.axis_index("subcore")
        word[0] = 0
        plsc.subcore_barrier()
        if not right:
            @pl.when(me == 0)
            def _():
                word[0] = word[0] + 1

        @pl.when(me != 0)
        def _():
            plsc.fetch_and_add(word.at[0], 1, subcore_id=0)

        plsc.subcore_barrier()
        row[...] = lax.broadcast(word[0], (LANES,)).astype(F32)
        pltpu.sync_copy(row, o.at[me])

    return launch(kernel, OUT, pltpu.SMEM((1,), jnp.int32), ROW)


@both
def counter_that_is_read_early(right):
    def kernel(x, o, word, row):
        word[0] = 0
        plsc.subcore_barrier()
        plsc.fetch_and_add(word.at[0], 1, subcore_id=0)
        if right:
            plsc.subcore_barrier()
        row[...] = lax.broadcast(word[0], (LANES,)).astype(F32)
        pltpu.sync_copy(row, o.at[lax.axis_index("subcore")])

    return launch(kernel, OUT, pltpu.SMEM((1,), jnp.int32), ROW)


@both
def rows_that_lists_name(right):
    """Two subcores add to the same rows: the copy adds, or a subcore does what it read and writes back."""
    places = jnp.tile(jnp.arange(8, dtype=jnp.int32), (N, 1))

    def kernel(x, p, o, place, rows, total):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], rows)
        pltpu.sync_copy(p.at[me], place)

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(rows, total)

        plsc.subcore_barrier()
        if right:
            pltpu.sync_copy(rows, total.at[place], add=True)
        else:
            pltpu.sync_copy(total.at[place], rows)
            for r in range(8):
                rows[r, pl.ds(0, LANES)] = rows[r, pl.ds(0, LANES)] + 1
            pltpu.sync_copy(rows, total.at[place])
        plsc.subcore_barrier()
        pltpu.sync_copy(total, o.at[me])

    return launch(kernel, jax.ShapeDtypeStruct((N, 8, 128), F32), pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), F32),
                  pltpu.VMEM_SHARED((8, 128), F32), args=(jnp.ones((N, 8, 128), F32), places))


@both
def sum_that_is_read_while_others_add(right):
    def kernel(x, p, o, place, rows, back, total):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], rows)
        pltpu.sync_copy(p, place)

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(rows, total)

        plsc.subcore_barrier()
        pltpu.sync_copy(rows, total.at[place], add=True)
        if right:
            plsc.subcore_barrier()
        pltpu.sync_copy(total, back)
        pltpu.sync_copy(back, o.at[me])

    block = pltpu.VMEM((8, 128), F32)
    return launch(kernel, jax.ShapeDtypeStruct((N, 8, 128), F32), pltpu.VMEM((8,), jnp.int32), block, block, pltpu.VMEM_SHARED((8, 128), F32),
                  args=(jnp.ones((N, 8, 128), F32), jnp.arange(8, dtype=jnp.int32)))


@both
def array_of_two_sparsecores(right):
    """A barrier of subcores brings those of one SparseCore together."""
    def kernel(x, o, mine):
        core, me = lax.axis_index("core"), lax.axis_index("subcore")
        pltpu.sync_copy(x.at[me], mine)

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(mine, o.at[core if right else 0])

        plsc.subcore_barrier()

    return launch(kernel, jax.ShapeDtypeStruct((2, LANES), F32), ROW, cores=2)


def findings(program, **options):
    pallasim.findings()
    with pallasim.emulate("tpu-7x", detect_races=True, findings="collect", **options):
        jax.block_until_ready(program())
    return pallasim.findings()


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("name", WRONG)
def test_a_word_of_two_subcores_is_a_race(name, seed):
    found = [f for f in findings(WRONG[name], random_seed=seed) if f.code in ("PS-RACE-001", "PS-RACE-002")]
    assert found and all(f.file == __file__ and f.line > 0 for f in found)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("name", RIGHT)
def test_what_has_an_order_is_none(name, seed):
    found = [f for f in findings(RIGHT[name], random_seed=seed) if f.code.startswith(("PS-RACE", "PS-UNINIT"))]
    assert not found, found[0].report


def test_the_sums_of_the_right_ones():
    with pallasim.emulate("tpu-7x"):
        np.testing.assert_array_equal(np.asarray(RIGHT["sum_in_shared_memory"]()), np.tile(np.asarray(X).sum(0), (N, 1)))
        np.testing.assert_array_equal(np.asarray(RIGHT["rows_that_lists_name"]()), np.full((N, 8, 128), N + 1))
