"""Block kinds, pipeline modes, index maps that leave the array, named and mapped grids, checks and prints."""
from __future__ import annotations


import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = np.arange(48, dtype=np.float32).reshape(8, 6) + 1


def shift(spec, out_spec=None, grid=(4,), out=None):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=out_spec or pl.BlockSpec((2, 6), lambda i: (i, 0)),
                          out_shape=out or jax.ShapeDtypeStruct(X.shape, jnp.float32))


@pytest.mark.parametrize("mode", [pl.Buffered(1), pl.Buffered(2), pl.Buffered(3)])
def test_buffering_changes_no_value(emulated, same, mode):
    same(emulated(shift(pl.BlockSpec((2, 6), lambda i: (i, 0), pipeline_mode=mode)), X), X * 2)


def test_squeezed_and_element_blocks(emulated, same):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...][None]

    f = pl.pallas_call(kernel, grid=(4,), in_specs=[pl.BlockSpec((None, pl.Element(6)), lambda i: (2 * i + 1, 0))],
                       out_specs=pl.BlockSpec((1, 6), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((4, 6), jnp.float32))
    same(emulated(f, X), X[1::2])


@pytest.mark.parametrize("index", [-1, 4])
def test_block_outside_the_array_is_found(index):
    f = shift(pl.BlockSpec((2, 6), lambda i: (jnp.where(i == 3, index, i), 0)))
    with pytest.raises(pallasim.KernelError, match="PS-OOB-002"), pallasim.emulate():
        f(X)


def test_edge_blocks_hold_the_named_fill(emulated, same):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, grid=(2,), in_specs=[pl.BlockSpec((6, 6), lambda i: (i, 0))], out_specs=pl.BlockSpec((6, 6), lambda i: (i, 0)),
                       out_shape=jax.ShapeDtypeStruct((12, 6), jnp.float32))
    filled = np.concatenate([X, np.full((4, 6), np.nan, np.float32)])
    same(emulated(f, X), filled)
    same(emulated(f, X, uninitialized_memory="zero"), np.nan_to_num(filled))


def test_reads_outside_give_what_nobody_wrote(emulated, same):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[pl.ds(0, 4)] = x_ref[pl.ds(i_ref[0], 4)]
        o_ref[4] = x_ref[i_ref[0] + 9]
        o_ref[5] = x_ref[i_ref[0] - 6]
        o_ref[pl.ds(6, 2)] = x_ref[7 - jax.lax.iota(jnp.int32, 2) - i_ref[0]]

    x, fill = np.arange(1, 7, dtype=np.float32), np.nan
    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    start = np.array([3], np.int32)
    expected = np.array([4, 5, 6, fill, fill, fill, 5, 4], np.float32)
    same(emulated(f, start, x, out_of_bounds="uninitialized"), expected)
    same(emulated(f, start, x, out_of_bounds="uninitialized", uninitialized_memory="zero"), np.nan_to_num(expected))
    as_jax = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), interpret=pltpu.InterpretParams(out_of_bounds_reads="uninitialized"))
    same(emulated(as_jax, start, x), expected)
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate():
        f(start, x)


@pytest.mark.parametrize("machine", ["generic", "tpu-v5e"])
def test_every_index_of_a_read_may_lie_outside(emulated, same, machine):
    """Array indices, too, after earlier indices of a view."""
    def kernel(i_ref, x_ref, o_ref):
        lanes = jax.lax.iota(jnp.int32, 2)
        o_ref[0] = x_ref.at[i_ref[0]][lanes + 3]         # the second lane is outside
        o_ref[1] = x_ref.at[i_ref[0] + 5][lanes]         # the row is
        o_ref[2] = x_ref.at[pl.ds(1, 2)][1 - lanes, i_ref[0]]
        o_ref[3] = x_ref.at[pl.ds(1, 2), i_ref[0]][pl.ds(i_ref[0] - 1, 2)]

    x, fill = np.arange(1, 13, dtype=np.float32).reshape(3, 4), np.nan
    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((4, 2), jnp.float32))
    start = np.array([2], np.int32)
    expected = np.array([[12, fill], [fill, fill], [11, 7], [11, fill]], np.float32)
    same(emulated(f, start, x, machine=machine, rules=False, out_of_bounds="uninitialized"), expected)
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate(machine, rules=False, out_of_bounds="error"):
        f(start, x)


def test_writes_outside_stop_where_reads_do_not(emulated):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[i_ref[0]] = 1.0

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((4,), jnp.float32))
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate(out_of_bounds="uninitialized"):
        f(np.array([4], np.int32), np.ones(4, np.float32))


@pytest.mark.parametrize("scalars", [False, True])
def test_blocks_outside_give_what_nobody_wrote(emulated, same, scalars):
    def kernel(*refs):
        refs[-1][...] = refs[-2][...]

    x = np.arange(1, 7, dtype=np.float32)
    expected = np.array([np.nan, np.nan, 3, 4, np.nan, np.nan], np.float32)  # blocks -1, 1, 3 of two elements each
    out = jax.ShapeDtypeStruct((6,), jnp.float32)
    if scalars:  # the index comes from memory
        grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(3,), in_specs=[pl.BlockSpec((2,), lambda i, s: (s[i],))],
                                            out_specs=pl.BlockSpec((2,), lambda i, s: (i,)))
        f, args = pl.pallas_call(kernel, grid_spec=grid, out_shape=out), (np.array([-1, 1, 3], np.int32), x)
    else:
        f, args = pl.pallas_call(kernel, grid=(3,), in_specs=[pl.BlockSpec((2,), lambda i: (2 * i - 1,))], out_specs=pl.BlockSpec((2,), lambda i: (i,)), out_shape=out), (x,)
    same(emulated(f, *args, out_of_bounds="uninitialized"), expected)


def test_named_grid_and_axis_size(emulated, same):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + jax.lax.axis_index("rows") * 100 + pl.num_programs(0)

    f = pl.pallas_call(kernel, grid=(("rows", 4),), in_specs=[pl.BlockSpec((2, 6), lambda i: (i, 0))], out_specs=pl.BlockSpec((2, 6), lambda i: (i, 0)),
                       out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    same(emulated(f, X), X + np.repeat(np.arange(4), 2)[:, None].astype(np.float32) * 100 + 4)


def test_vmapped_axes_are_not_program_axes(emulated, same):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + pl.program_id(0).astype(jnp.float32) + 10 * pl.num_programs(0)

    f = pl.pallas_call(kernel, grid=(4,), in_specs=[pl.BlockSpec((2, 6), lambda i: (i, 0))], out_specs=pl.BlockSpec((2, 6), lambda i: (i, 0)),
                       out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    same(emulated(jax.vmap(f), np.stack([X, -X])), np.stack([X, -X]) + np.repeat(np.arange(4), 2)[:, None].astype(np.float32) + 40)


def test_dynamic_grid(emulated, same):
    @jax.jit
    def f(n, x):
        return pl.pallas_call(lambda o_ref: o_ref.__setitem__(..., jnp.full((2, 6), 1 + pl.program_id(0), jnp.float32)), grid=(n,),
                              out_specs=pl.BlockSpec((2, 6), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))()

    got = emulated(f, jnp.int32(3), X)
    same(got[:6], np.repeat([1, 2, 3], 2)[:, None].astype(np.float32) * np.ones((1, 6), np.float32))
    assert np.isnan(got[6:]).all()
    same(emulated(f, jnp.array([3], jnp.int32), X)[:6], np.asarray(got[:6]))  # an array of one element is a bound too


def checked(x_ref, o_ref):
    pl.debug_check(x_ref[0, 0] > 5, "first element is too small")
    o_ref[...] = x_ref[...]


def test_debug_check_fires():
    f = pl.pallas_call(checked, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    with pytest.raises(pallasim.KernelError, match="first element is too small"), pl.enable_debug_checks(True), pallasim.emulate():
        np.asarray(f(X))


def test_debug_check_is_off_by_default(emulated, same):
    same(emulated(pl.pallas_call(checked, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32)), X), X)


def test_checkify_check_fires_with_its_values():
    def kernel(x_ref, o_ref):
        checkify.check(x_ref[0, 0] > 5, "value {v} of {} is too small", x_ref[1, 0], v=x_ref[0, 0])
        o_ref[...] = x_ref[...]

    f = checkify.checkify(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32)))
    with pytest.raises(pallasim.KernelError, match="value 1.0 of 7.0 is too small"), pallasim.emulate():
        jax.block_until_ready(f(X))


def test_prints(capfd):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        pl.debug_print("plain")
        pl.debug_print("i={} x={}", pl.program_id(0), x_ref[0, 1])
        jax.debug.print("row {row} of {n:d}", row=x_ref[0, :2], n=pl.num_programs(0))

    f = pl.pallas_call(kernel, grid=(2,), in_specs=[pl.BlockSpec((4, 6), lambda i: (i, 0))], out_specs=pl.BlockSpec((4, 6), lambda i: (i, 0)),
                       out_shape=jax.ShapeDtypeStruct(X.shape, jnp.float32))
    with pallasim.emulate():
        jax.block_until_ready(f(X))
    jax.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["plain", "i=0 x=2.0", "row [1. 2.] of 2", "plain", "i=1 x=26.0", "row [25. 26.] of 2"]
