"""A loop comes again and again to elements of which nothing more is learnt, and they are not looked at anew: what changes in a late trip is found."""
from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

I32 = jnp.int32
TRIPS, LATE = 256, 200
X = jnp.arange(TRIPS, dtype=I32)
SCALARS = pl.BlockSpec(memory_space=pltpu.SMEM)


def run(kernel, *scratch, out=8):
    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((out,), I32), in_specs=[SCALARS], out_specs=SCALARS, scratch_shapes=scratch)
    before = pallasim.launch_count()
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        got = np.asarray(jax.jit(f)(X))
    assert pallasim.launch_count() == before + 1
    return got, [(f.code, f.line) for f in pallasim.findings()]


def line_of(kernel, mark):
    lines, first = inspect.getsourcelines(kernel)
    return next(first + i for i, text in enumerate(lines) if mark in text)


@pytest.mark.parametrize("waits", [True, False])
def test_a_copy_that_a_late_trip_starts(waits):
    def kernel(x_ref, o_ref, s_ref, sem):
        def fill(i, _):
            s_ref[i] = i

        def step(i, acc):
            @pl.when(i == LATE)
            def _():
                pltpu.make_async_copy(x_ref, s_ref, sem).start()
                if waits:
                    pltpu.make_async_copy(x_ref, s_ref, sem).wait()
            return acc + s_ref[i % 8]  # reads

        jax.lax.fori_loop(0, TRIPS, fill, None)
        total = jax.lax.fori_loop(0, TRIPS, step, 0)
        for i in range(8):
            o_ref[i] = total
        if not waits:
            pltpu.make_async_copy(x_ref, s_ref, sem).wait()

    got, found = run(kernel, pltpu.SMEM((TRIPS,), I32), pltpu.SemaphoreType.DMA)
    assert found == ([] if waits else [("PS-RACE-001", line_of(kernel, "# reads"))])
    if waits:
        assert (got == sum(i % 8 for i in range(TRIPS))).all()


@pytest.mark.parametrize("writes", [TRIPS, LATE])
def test_memory_that_a_late_trip_does_not_write(writes):
    def kernel(x_ref, o_ref):
        def step(i, acc):
            def scoped(s_ref):
                @pl.when(i < writes)
                def _():
                    s_ref[0] = i
                return acc + s_ref[0]  # reads

            return pl.run_scoped(scoped, pltpu.SMEM((8,), I32))

        total = jax.lax.fori_loop(0, TRIPS, step, 0)
        for i in range(8):
            o_ref[i] = total

    got, found = run(kernel)
    assert {line for _, line in found} == (set() if writes == TRIPS else {line_of(kernel, "# reads")})
    if writes == TRIPS:
        assert (got == sum(range(TRIPS))).all()


def test_an_index_that_leaves_in_a_late_trip():
    def kernel(x_ref, o_ref):
        def step(i, acc):
            return acc + x_ref[jnp.where(i == LATE, TRIPS + 3, i % 8)]  # reads

        total = jax.lax.fori_loop(0, TRIPS, step, 0)
        for i in range(8):
            o_ref[i] = total

    _, found = run(kernel)
    assert [line for _, line in found] == [line_of(kernel, "# reads")]


@pytest.mark.parametrize("late", [0, 1])
def test_an_element_that_a_late_trip_reads_before_it_is_written(late):
    def kernel(x_ref, o_ref, s_ref):
        def step(i, acc):
            s_ref[i] = x_ref[i]
            return acc + s_ref[jnp.where(i == LATE, i + late, i)]  # reads

        total = jax.lax.fori_loop(0, TRIPS, step, 0)
        for i in range(8):
            o_ref[i] = total

    got, found = run(kernel, pltpu.SMEM((TRIPS,), I32))
    assert {line for _, line in found} == ({line_of(kernel, "# reads")} if late else set())
    if not late:
        assert (got == sum(range(TRIPS))).all()


@pytest.mark.parametrize("left_out", [False, True])
def test_an_element_that_no_trip_writes(left_out):
    def kernel(x_ref, o_ref):
        def step(i, _):
            o_ref[jnp.where((i == LATE) & left_out, 0, i)] = x_ref[i]

        jax.lax.fori_loop(0, TRIPS, step, None)

    got, found = run(kernel, out=TRIPS)
    assert [code for code, _ in found] == (["PS-OUT-001"] if left_out else [])
    assert left_out or (got == np.asarray(X)).all()


def test_each_trip_is_traffic():
    def kernel(x_ref, o_ref):
        def step(i, _):
            o_ref[i % 8] = x_ref[i % 16] + i

        for i in range(8):
            o_ref[i] = 0
        jax.lax.fori_loop(0, TRIPS, step, None)

    got, found = run(kernel)
    assert not found and (got == [((TRIPS - 8 + i) % 16) + TRIPS - 8 + i for i in range(8)]).all()
    traffic = {t.name: t for t in pallasim.runs()[-1].traffic}
    assert (traffic["x_ref"].reads, traffic["x_ref"].bytes_read) == (TRIPS, 4 * TRIPS)
    assert (traffic["o_ref"].writes, traffic["o_ref"].bytes_written) == (TRIPS + 8, 4 * (TRIPS + 8))
