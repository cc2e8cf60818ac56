"""Block kinds, pipeline modes, index maps that leave the array, named and mapped grids, checks and prints."""
from __future__ import annotations


import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.experimental import pallas as pl

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


def test_block_kinds_of_inner_pipelines_are_refused_by_name():
    """JAX has no meaning for bounded slices in the grid of a call; inside emit_pipeline they are plain copies."""
    f = shift(pl.BlockSpec((pl.BoundedSlice(2), 6), lambda i: (pl.ds(i, 2), 0)))
    with pytest.raises(pallasim.UnsupportedError, match="BoundedSlice"), pallasim.emulate():
        f(X)
