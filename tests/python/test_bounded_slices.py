"""pl.BoundedSlice in the blocks of pallas_call: index maps that say where a block begins and how much of it there is."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

PROFILES = [dict(), dict(pipeline="modelled"), dict(pipeline="modelled", dma_execution_mode="scheduled", random_seed=1), dict(detect_races=True)]
X = np.random.default_rng(0).normal(size=(40, 128)).astype(np.float32)
# Parts of the array, one per step, that cover it: (start, size), of at most 16 rows.
PARTS = [(24, 16), (0, 3), (3, 8), (11, 1), (12, 0), (12, 12)]


def move_parts(x, parts, space=None):
    """Every part times its step plus one: read through a bounded slice, and written through another."""
    starts, sizes = np.asarray(parts, np.int32).T

    def part(i, starts, sizes):
        return pl.ds(starts[i], sizes[i]), 0

    def kernel(starts_ref, sizes_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * (pl.program_id(0) + 1).astype(x_ref.dtype)

    spec = pl.BlockSpec((pl.BoundedSlice(16), 128), part, memory_space=space)
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(len(parts),), in_specs=[spec], out_specs=spec))(starts, sizes, x)


def moved(x, parts):
    out = np.full_like(x, np.nan)
    for i, (start, size) in enumerate(parts):
        out[start : start + size] = x[start : start + size] * (i + 1)
    return out


@pytest.mark.parametrize("options", PROFILES, ids=str)
def test_slices_of_changing_size(emulated, same, options):
    same(emulated(lambda x: move_parts(x, PARTS), X, **options), moved(X, PARTS))


def test_nothing_outside_the_slice_is_written(emulated, same):
    some = PARTS[1:3]
    same(emulated(lambda x: move_parts(x, some), X, uninitialized_memory="nan"), moved(X, some))


@pytest.mark.parametrize("options", PROFILES[:2], ids=str)
def test_a_slice_may_end_outside_as_any_block(emulated, same, options):
    parts = [(0, 16), (16, 16), (32, 16)]
    same(emulated(lambda x: move_parts(x, parts), X, **options), moved(X, parts))


@pytest.mark.parametrize("options", PROFILES, ids=str)
def test_numbers_and_program_ids(emulated, same, options):
    def f(x):
        fixed = pl.BlockSpec((pl.BoundedSlice(16), 128), lambda i: (pl.ds(5, 8), 0))
        moving = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(3 * i + 2, 8), 0))

        def kernel(a_ref, b_ref, o_ref):
            o_ref[...] = a_ref[:8] + b_ref[...]

        return pl.pallas_call(kernel, grid=(4,), in_specs=[fixed, moving], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                              out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype))(x, x)

    want = np.concatenate([X[5:13] + X[3 * i + 2 : 3 * i + 10] for i in range(4)])
    same(emulated(f, X, **options), want)


@pytest.mark.parametrize("options", PROFILES[:2], ids=str)
def test_vmap(emulated, same, options):
    xs = np.stack([X, 2 * X + 1, X[::-1]])
    same(emulated(jax.vmap(lambda x: move_parts(x, PARTS)), xs, **options), np.stack([moved(x, PARTS) for x in xs]))


def test_rows_of_the_block_that_the_slice_lacks_are_nobodys(emulated):
    def f(x):
        spec = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(0, 5), 0))
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), grid=(1,), in_specs=[spec],
                              out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))(x)

    out = emulated(f, X)
    np.testing.assert_array_equal(out[:5], X[:5])
    assert np.isnan(out[5:]).all()


@pytest.mark.parametrize("pipeline", ["elided", "modelled"])
@pytest.mark.parametrize("parts, said", [
    ([(0, 8), (40, 4)], r"Out-of-bounds slice: its index map returned pl.ds\(40, 4\) for dimension 0 of input x_ref, which has 40 elements"),
    ([(0, 8), (-1, 4)], r"Out-of-bounds slice: its index map returned pl.ds\(-1, 4\)"),
    ([(0, 8), (8, 17)], r"a slice of 17 elements where the block holds 16: its index map returned pl.ds\(8, 17\) for dimension 0 of input x_ref"),
    ([(0, 8), (8, -1)], r"a slice of -1 elements where the block holds 16"),
])
def test_slices_that_leave_their_array_or_their_block(parts, said, pipeline):
    with pytest.raises(pallasim.KernelError, match="(?s)PS-OOB-002.*" + said), pallasim.emulate(pipeline=pipeline):
        jax.block_until_ready(move_parts(X, parts))


def test_the_compiler_of_tpus_has_none(same):
    call = lambda x: move_parts(x, PARTS)  # noqa: E731
    with pytest.raises(NotImplementedError, match="Unsupported block dimension type"):
        jax.jit(call).trace(X).lower(lowering_platforms=("tpu",))
    with pytest.raises(NotImplementedError, match="(?s)PS-TPU-001.*Unsupported block dimension type: a bounded slice in the blocks of x_ref"), pallasim.emulate("tpu-v5e"):
        call(X)
    with pallasim.emulate("tpu-v5e", rules=False):
        same(call(X), moved(X, PARTS))


def test_a_stride_is_refused_by_name():
    spec = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.Slice(0, 4, 2), 0))
    call = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), grid=(1,), in_specs=[spec],
                          out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    with pytest.raises(pallasim.UnsupportedError, match="a bounded slice with stride 2"), pallasim.emulate():
        call(X)
    with pytest.raises(pallasim.UnsupportedError, match="a bounded slice with stride 2") as e:
        pallasim.capture_text(call, X)
    assert e.value.finding is not None and e.value.finding.code == "PS-UNSUP-001"
