"""`runs()` tells what a kernel's pipeline moves between HBM and a core apart from what the kernel reads and writes there."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = jnp.arange(32 * 256, dtype=jnp.float32).reshape(32, 256)
BLOCK = 8 * 128 * 4  # bytes


def traffic(call, *args, **options):
    """Of the last launch, by name."""
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect", **options):
        jax.block_until_ready(call(*args))
    return {t.name: t for t in pallasim.runs()[-1].traffic}


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def matmul(x_ref, y_ref, o_ref):
    pl.when(pl.program_id(2) == 0)(lambda: o_ref.__setitem__(..., jnp.zeros_like(o_ref)))
    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def product(x, y):
    return pl.pallas_call(
        matmul, grid=(2, 2, 2), out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)))(x, y)


@pytest.mark.parametrize("pipeline", ["elided", "modelled"])
def test_a_block_is_fetched_when_its_index_changes(pipeline):
    x = jnp.ones((256, 256))
    t = traffic(product, x, x, pipeline=pipeline)
    tile = 128 * 128 * 4
    assert (t["x_ref"].space, t["x_ref"].fetches, t["x_ref"].bytes_fetched) == ("vmem", 8, 8 * tile)
    assert (t["y_ref"].fetches, t["y_ref"].bytes_fetched, t["y_ref"].write_backs) == (8, 8 * tile, 0)
    assert (t["o_ref"].fetches, t["o_ref"].write_backs, t["o_ref"].bytes_written_back) == (0, 4, 4 * tile)
    # The same before anything runs, counted from the jaxpr.
    (kernel,) = pallasim.check(product, x, x, chips=["tpu-v5e"]).kernels
    for moved in kernel.traffic:
        assert moved.bytes == t[moved.name].bytes_fetched + t[moved.name].bytes_written_back, moved


@pytest.mark.parametrize("shared, fetches", [(lambda i, j: (i, 0), 4), (lambda i, j: (0, 0), 1), (lambda i, j: (j, 0), 8)])
def test_steps_that_follow_each_other_share_a_block(shared, fetches):
    t = traffic(pl.pallas_call(copy, grid=(4, 2), in_specs=[pl.BlockSpec((8, 128), shared)], out_shape=X,
                               out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j))), X)
    assert (t["x_ref"].reads, t["x_ref"].bytes_read) == (8, 8 * BLOCK)  # in VMEM, by every step
    assert (t["x_ref"].fetches, t["x_ref"].bytes_fetched) == (fetches, fetches * BLOCK)
    assert (t["o_ref"].write_backs, t["o_ref"].bytes_written_back) == (8, 8 * BLOCK)


@pytest.mark.parametrize("pipeline", ["elided", "modelled"])
def test_index_maps_that_read_prefetched_values(pipeline):
    def kernel(rows_ref, x_ref, o_ref):
        copy(x_ref, o_ref)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(6,), in_specs=[pl.BlockSpec((8, 128), lambda i, rows: (rows[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, rows: (i, 0)))
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((48, 128), jnp.float32))
    t = traffic(call, jnp.array([3, 3, 1, 1, 1, 3], jnp.int32), X, pipeline=pipeline)
    assert (t["x_ref"].fetches, t["x_ref"].bytes_fetched) == (3, 3 * BLOCK)
    assert (t["o_ref"].write_backs, t["rows_ref"].fetches) == (6, 0)


def test_a_block_at_the_edge_is_as_large_as_what_is_there():
    x = jnp.ones((20, 128))
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    t = traffic(pl.pallas_call(copy, grid=(3,), in_specs=[rows], out_specs=rows, out_shape=x), x)
    assert (t["x_ref"].fetches, t["x_ref"].bytes_fetched) == (3, x.nbytes)
    assert (t["o_ref"].write_backs, t["o_ref"].bytes_written_back) == (3, x.nbytes)


def test_an_operand_in_hbm_has_only_what_the_kernel_copies():
    def kernel(x_ref, o_ref, row):
        pltpu.sync_copy(x_ref.at[pl.ds(8, 8)], row)
        o_ref[...] = row[...]

    t = traffic(pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_shape=jax.ShapeDtypeStruct((8, 256), jnp.float32),
                               scratch_shapes=[pltpu.VMEM((8, 256), jnp.float32)]), X)
    assert (t["x_ref"].space, t["x_ref"].fetches, t["x_ref"].bytes_read) == ("any", 0, 2 * BLOCK)
    assert (t["o_ref"].write_backs, t["o_ref"].bytes_written_back) == (1, 2 * BLOCK)  # whole
