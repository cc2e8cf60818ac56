"""Outputs that are stored at every step of a loop or of the grid before their value is final (PS-OUT-003, a note), and kernels that look like it and are not
told of."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
ROWS, WHOLE = pl.BlockSpec((8, 128), lambda i: (i, 0)), pl.BlockSpec((8, 128), lambda i: (0, 0))
BLOCK = jax.ShapeDtypeStruct((8, 128), jnp.float32)
ACC = [pltpu.VMEM((8, 128), jnp.float32)]
FINAL = "o_ref is stored at every {} before {} is final, and the last store alone is kept"
EARLY = "o_ref is stored before the {}'s part of {} is added: the last part is never stored"


def notes(program, machine="tpu-v5e"):
    pallasim.findings()
    with pallasim.emulate(machine, detect_races=True, findings="collect"):
        result = np.asarray(jax.block_until_ready(program()))
    found = pallasim.findings()
    assert {(f.code, f.severity) for f in found} <= {("PS-OUT-003", "note")}, [f.report for f in found]
    return result, [f.message for f in found]


def over_rows(kernel, **options):
    return lambda: pl.pallas_call(kernel, **{"grid": 4, "in_specs": [ROWS], "out_specs": WHOLE, "out_shape": BLOCK, "scratch_shapes": ACC} | options)(X)


def at_once(kernel, out=BLOCK, **options):
    return lambda: pl.pallas_call(kernel, out_shape=out, grid=1, **options)(X)


def cleared(acc_ref, axis=0):
    @pl.when(pl.program_id(axis) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)


def test_scratch_that_adds_up_over_the_grid():
    def behind(x_ref, o_ref, acc_ref):
        cleared(acc_ref)
        acc_ref[...] += x_ref[...]
        o_ref[...] = 2 * acc_ref[...]

    def before(x_ref, o_ref, acc_ref):
        cleared(acc_ref)
        o_ref[...] = acc_ref[...]
        acc_ref[...] += x_ref[...]

    def at_the_end(x_ref, o_ref, acc_ref):
        cleared(acc_ref)
        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == 3)
        def _():
            o_ref[...] = acc_ref[...]

    sums = np.cumsum(X.reshape(4, 8, 128), 0)
    for kernel, result, told in (behind, 2 * sums[-1], [FINAL]), (before, sums[-2], [EARLY]), (at_the_end, sums[-1], []):
        got, found = notes(over_rows(kernel))
        np.testing.assert_array_equal(got, result)
        assert found == [t.format("step", "acc_ref") for t in told]
    # The places of one step, and blocks that move with it, are the step's own.
    assert notes(over_rows(behind, in_specs=[WHOLE], grid=1))[1] == []
    assert notes(over_rows(behind, out_specs=ROWS, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32)))[1] == []


def test_products_whose_last_axis_adds_up():
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        cleared(acc_ref, 2)
        acc_ref[...] += x_ref[...] @ y_ref[...]
        o_ref[...] = acc_ref[...]

    def product():
        block = lambda *at: pl.BlockSpec((8, 128), lambda i, j, k: tuple((i, j, k)[a] for a in at))  # noqa: E731
        return pl.pallas_call(kernel, grid=(2, 2, 3), in_specs=[block(0, 2), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))], out_specs=block(0, 1),
                              out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32), scratch_shapes=ACC)(x, y)

    x, y = jnp.ones((16, 384), jnp.float32), jnp.ones((384, 256), jnp.float32)
    got, found = notes(product)
    assert (got == 384).all() and found == [FINAL.format("step", "acc_ref")]
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        jax.block_until_ready(product())
    (finding,) = pallasim.findings()
    assert "8 of 12 stores are stored over" in finding.report and "@pl.when(pl.program_id(2) == pl.num_programs(2) - 1)" in finding.report
    assert finding.line == kernel.__code__.co_firstlineno + 3


def carried(o_ref, part, n, early=False):
    def trip(i, acc):
        if early:
            o_ref[...] = acc
        acc = acc + part(i)
        if not early:
            o_ref[...] = acc
        return acc

    lax.fori_loop(0, n, trip, jnp.zeros(o_ref.shape, o_ref.dtype))


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("runs", [False, True])  # the number of trips is known when it runs
def test_sums_that_a_loop_carries(early, runs):
    def kernel(x_ref, o_ref):
        carried(o_ref, lambda i: x_ref[pl.ds(8 * i, 8), :], 4 * x_ref.at[0, 0][...].astype(jnp.int32) + 4 if runs else 4, early)

    got, found = notes(at_once(kernel))
    np.testing.assert_array_equal(got, X.reshape(4, 8, 128)[:4 - early].sum(0))
    assert found == [(EARLY if early else FINAL).format("trip", "acc")]


def test_scratch_that_adds_up_in_a_loop():
    def kernel(x_ref, o_ref, acc_ref):
        acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.loop(0, 4)
        def _(i):
            acc_ref[...] += x_ref[pl.ds(8 * i, 8), :]
            o_ref[...] = acc_ref[...]

    got, found = notes(at_once(kernel, scratch_shapes=ACC))
    np.testing.assert_array_equal(got, X.reshape(4, 8, 128).sum(0))
    assert found == [FINAL.format("trip", "acc_ref")]


def test_programs_of_gpus():
    def triton(x_ref, o_ref):
        i = pl.program_id(0)
        here = o_ref.at[pl.ds(8 * i, 8), :]

        def trip(k, acc):
            acc = acc + x_ref[pl.ds(8 * i, 8), pl.ds(32 * k, 32)]
            pltriton.store(here, acc)
            return acc

        lax.fori_loop(0, 4, trip, jnp.zeros((8, 32), jnp.float32))

    got, found = notes(lambda: pl.pallas_call(triton, grid=4, out_shape=jax.ShapeDtypeStruct((32, 32), jnp.float32),
                                              compiler_params=pltriton.CompilerParams())(X), "gpu-h100")
    np.testing.assert_array_equal(got, X.reshape(32, 4, 32).sum(1))
    assert found == [FINAL.format("trip", "acc")]

    def warpgroup(x_ref, o_ref):
        def trip(i, acc):
            acc = acc + x_ref[i]
            o_ref[...] = acc
            return acc

        lax.fori_loop(0, 4, trip, jnp.zeros((128,), jnp.float32))

    got, found = notes(lambda: plgpu.kernel(warpgroup, out_type=jax.ShapeDtypeStruct((128,), jnp.float32))(X), "gpu-h100")
    np.testing.assert_array_equal(got, X[:4].sum(0))
    assert found == [FINAL.format("trip", "acc")]


def test_what_reads_the_output_is_no_such_kernel():
    def adds_to_itself(x_ref, o_ref, acc_ref):
        cleared(o_ref)
        o_ref[...] += x_ref[...]

    def reads_back(x_ref, o_ref, acc_ref):
        cleared(acc_ref)
        acc_ref[...] = 2 * acc_ref[...] + x_ref[...]

        @pl.when(pl.program_id(0) > 0)
        def _():
            acc_ref[...] += o_ref[...]

        o_ref[...] = acc_ref[...]

    for kernel in adds_to_itself, reads_back:
        assert notes(over_rows(kernel))[1] == []


def test_scratch_of_each_step_alone():
    def kernel(x_ref, o_ref, acc_ref):
        acc_ref[...] = jnp.zeros_like(acc_ref)
        acc_ref[...] += x_ref[...]
        o_ref[...] = acc_ref[...]

    assert notes(over_rows(kernel))[1] == []


def test_loops_that_store_something_else():
    def counts(x_ref, o_ref):
        @pl.loop(0, 4)
        def _(i):
            o_ref[...] = jnp.zeros_like(o_ref) + i.astype(jnp.float32)

    def each_its_place(x_ref, o_ref):
        def trip(i, acc):
            o_ref[pl.ds(i, 1), :] = acc
            return acc + x_ref[pl.ds(i, 1), :]

        lax.fori_loop(0, 8, trip, jnp.zeros((1, 128), jnp.float32))

    def the_best_so_far(x_ref, o_ref):
        def trip(i, best):
            row = x_ref[pl.ds(i, 1), :]

            @pl.when(row[0, 0] > best[0, 0])
            def _():
                o_ref[...] = jnp.broadcast_to(row, (8, 128))

            return jnp.maximum(row, best)

        lax.fori_loop(0, 8, trip, jnp.full((1, 128), -1, jnp.float32))

    def once(x_ref, o_ref):
        carried(o_ref, lambda i: x_ref[pl.ds(8 * i, 8), :], pl.num_programs(0) * 1)

    for kernel in counts, each_its_place, the_best_so_far, once:
        assert notes(at_once(kernel))[1] == [], kernel


def test_other_ways_to_the_output():
    """An array that is an input as well, and an output that a copy of the kernel's own takes."""
    def aliased(x_ref, o_ref, acc_ref):
        cleared(acc_ref)
        acc_ref[...] += x_ref[...]
        o_ref[...] = acc_ref[...]

    y = jnp.zeros((8, 128), jnp.float32)
    call = pl.pallas_call(lambda x_ref, _, *refs: aliased(x_ref, *refs), grid=4, in_specs=[ROWS, WHOLE], out_specs=WHOLE, out_shape=BLOCK,
                          scratch_shapes=ACC, input_output_aliases={1: 0})
    assert notes(lambda: call(X, y))[1] == []

    def copied(x_ref, o_ref, acc_ref, seen_ref, sem):
        def trip(i, acc):
            acc = acc + x_ref[pl.ds(8 * i, 8), :]
            o_ref[...] = acc
            copy = pltpu.make_async_copy(o_ref, seen_ref.at[i], sem)
            copy.start()
            copy.wait()
            return acc

        lax.fori_loop(0, 4, trip, jnp.zeros((8, 128), jnp.float32))

    assert notes(at_once(copied, scratch_shapes=[*ACC, pltpu.VMEM((4, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA]))[1] == []
