"""What kernels of libraries do: products of mixed operands, scratch that the caller passes in, blocks that nobody reads."""
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

RNG = np.random.default_rng(3)
HBM = pl.BlockSpec(memory_space=pltpu.HBM)


@pytest.mark.parametrize("lhs, rhs", [
    ("bfloat16", "int8"), ("int8", "bfloat16"), ("float8_e4m3fn", "int4"), ("float8_e5m2", "int8"), ("float32", "int8"), ("float16", "uint8"),
])
def test_a_product_of_a_float_and_an_integer_takes_the_integer_as_a_float(lhs, rhs):
    def operand(name, shape):
        dtype = jnp.dtype(name)
        if name in ("int4", "int8", "uint8"):
            info = ml_dtypes.iinfo(dtype)
            return jnp.asarray(RNG.integers(info.min, int(info.max) + 1, shape), dtype)
        return jnp.asarray(RNG.integers(-8, 9, shape) / 4, dtype)  # exact in every type, as are the sums in f32

    a, b = operand(lhs, (8, 64)), operand(rhs, (64, 128))

    def kernel(a_ref, b_ref, o_ref):
        o_ref[...] = lax.dot_general(a_ref[...], b_ref[...], (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)

    before = pallasim.launch_count()
    with pallasim.emulate("generic"):
        got = np.asarray(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))(a, b))
    assert pallasim.launch_count() == before + 1
    want = np.asarray(a.astype(jnp.float32)).astype(np.float64) @ np.asarray(b.astype(jnp.float32)).astype(np.float64)
    assert np.abs(want).max() > 1
    np.testing.assert_array_equal(got, want)


# --- scratch that the caller passes in ------------------------------------------------------------------------------
def through_scratch(x, given, **options):
    """2 x, by way of an input in HBM."""
    def kernel(x_hbm, given_hbm, o_hbm, buffer):
        pltpu.sync_copy(x_hbm, buffer)
        buffer[...] = 2 * buffer[...]
        pltpu.sync_copy(buffer, given_hbm)
        buffer[...] = jnp.zeros_like(buffer)
        pltpu.sync_copy(given_hbm, buffer)
        pltpu.sync_copy(buffer, o_hbm)

    with pallasim.emulate("tpu-v5e", **options):
        return np.asarray(pl.pallas_call(kernel, out_shape=x, in_specs=[HBM, HBM], out_specs=HBM, scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)])(x, given))


def test_an_input_in_hbm_that_the_kernel_writes_is_the_kernels_own_copy():
    x, given = (jnp.asarray(RNG.standard_normal((8, 128), dtype=np.float32)) for _ in range(2))
    kept = np.asarray(given).copy()
    pallasim.findings()
    before = pallasim.launch_count()
    np.testing.assert_array_equal(through_scratch(x, given, findings="collect"), 2 * np.asarray(x))
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(np.asarray(given), kept)
    (note,) = [f for f in pallasim.findings() if f.code == "PS-RO-001"]
    assert note.severity == "note" and "write to given_hbm, which is an input" in note.message
    assert "pltpu.sync_copy(buffer, given_hbm)" in note.report


def test_what_an_input_in_hbm_held_is_still_there():
    def kernel(given_hbm, o_hbm, buffer):
        pltpu.sync_copy(o_hbm.at[pl.ds(0, 8)], buffer)
        buffer[...] = jnp.full_like(buffer, 7)
        pltpu.sync_copy(buffer, given_hbm.at[pl.ds(8, 8)])
        pltpu.sync_copy(given_hbm, o_hbm)

    given = RNG.standard_normal((16, 128), dtype=np.float32)
    with pallasim.emulate("tpu-v5e"):
        got = np.asarray(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32), in_specs=[HBM], out_specs=HBM,
                                        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)])(given))
    np.testing.assert_array_equal(got, np.concatenate([given[:8], np.full((8, 128), 7, np.float32)]))


def test_cores_share_such_a_copy():
    """Each core writes its row; when both have, each reads the other's."""
    def kernel(x_hbm, o_hbm, buffer, met):
        me = jax.lax.axis_index("core")
        buffer[...] = jnp.full_like(buffer, me + 1)
        pltpu.sync_copy(buffer, x_hbm.at[me])
        pl.semaphore_signal(met, 1, core_index=1 - me)
        pl.semaphore_wait(met, 1)
        pltpu.sync_copy(x_hbm.at[1 - me], buffer)
        pltpu.sync_copy(buffer, o_hbm.at[me])

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    x = jnp.zeros((2, 8, 128), jnp.float32)
    for options in ({}, {"random_seed": 1}, {"detect_races": True}):
        pallasim.findings()
        with pallasim.emulate("tpu-v5p", findings="collect", **options):
            got = np.asarray(pl.kernel(kernel, out_type=x, mesh=mesh, scratch_types=[pltpu.VMEM(x.shape[1:], x.dtype), pltpu.SemaphoreType.REGULAR])(x))
        np.testing.assert_array_equal(got, np.broadcast_to(np.asarray([2, 1], np.float32)[:, None, None], x.shape))
        np.testing.assert_array_equal(np.asarray(x), 0)
        assert [f.code for f in pallasim.findings()] == ["PS-RO-001"]


# --- blocks that nobody reads ---------------------------------------------------------------------------------------
def skipping(x, reads_outside, **options):
    """Block i - 1 of x at step i; at step 0 the index map names block -1."""
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) >= (0 if reads_outside else 1))
        def _():
            o_ref[...] = x_ref[...]

        @pl.when(pl.program_id(0) < (0 if reads_outside else 1))
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

    with pallasim.emulate("tpu-v5e", **options):
        return np.asarray(pl.pallas_call(kernel, out_shape=x, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i - 1, 0))],
                                         out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))(x))


@pytest.mark.parametrize("rows", [32, 30])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_block_outside_that_is_not_read_is_a_warning(rows, workers):
    x = jnp.asarray(RNG.standard_normal((rows, 128), dtype=np.float32))
    pallasim.findings()
    before = pallasim.launch_count()
    got = skipping(x, False, findings="collect", workers=workers)
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(got, np.concatenate([np.zeros((8, 128), np.float32), np.asarray(x)])[:rows])
    (found,) = [f for f in pallasim.findings() if f.code == "PS-OOB-002"]
    assert found.severity == "warning" and "block index -1 for input x_ref" in found.message


def test_a_block_outside_that_is_read_stops_the_run():
    with pytest.raises(pallasim.KernelError, match="PS-OOB-002"):
        skipping(jnp.zeros((32, 128), jnp.float32), True)


def test_an_index_map_that_reads_its_block_from_memory():
    def kernel(blocks_ref, x_ref, o_ref):
        at = blocks_ref[pl.program_id(0)]

        @pl.when(at >= 0)
        def _():
            o_ref[...] = x_ref[...]

        @pl.when(at < 0)
        def _():
            o_ref[...] = jnp.full_like(o_ref, 5)

    x = RNG.standard_normal((24, 128), dtype=np.float32)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i, b: (b[i], 0))],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, b: (i, 0)))
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32), grid_spec=spec)
    with pallasim.emulate("tpu-v5e"):
        got = np.asarray(call(np.array([2, -1, 0, -1], np.int32), x)).reshape(4, 8, 128)
    for row, block in enumerate([2, -1, 0, -1]):
        np.testing.assert_array_equal(got[row], x.reshape(3, 8, 128)[block] if block >= 0 else np.full((8, 128), 5))
