"""Tensor memory and products of the tensor pipe, as kernels for Blackwell use them."""
from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim


def registers(ref):
    """The whole ref in registers (JAX 0.10 has an index besides)."""
    return plgpu.load(ref, *(((),) if "idx" in inspect.signature(plgpu.load).parameters else ()))


F32, F16, CHIP = jnp.float32, jnp.float16, "gpu-b200"
MODES = [{}, {"detect_races": True, "findings": "raise"}, {"dma_execution_mode": "on_wait"}, {"dma_execution_mode": "scheduled", "random_seed": 5}]
RNG = np.random.default_rng(0)


def transforms(dtype, swizzle=128):
    bits = jax.dtypes.itemsize_bits(dtype) if hasattr(jax.dtypes, "itemsize_bits") else jnp.dtype(dtype).itemsize * 8
    bits = 4 if dtype == jnp.float4_e2m1fn else bits
    return plgpu.TilingTransform((8, 8 * swizzle // bits)), plgpu.SwizzleTransform(swizzle)


def smem(shape, dtype, swizzle=128):
    return plgpu.SMEM(shape, dtype, transforms=transforms(dtype, swizzle))


def done():
    return plgpu.Barrier(orders_tensor_core=True)


def kernel(body, out, scratch, **options):
    out = jax.ShapeDtypeStruct(*out)
    try:
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, **options)
    except TypeError:
        return plgpu.kernel(body, out_shape=out, scratch_shapes=scratch, **options)


def numbers(shape, dtype):
    return jnp.asarray(RNG.integers(-3, 4, shape), dtype)


def product(x, y):
    return np.asarray(x, np.float32) @ np.asarray(y, np.float32)


def load(refs, barrier):
    for gmem, to in refs:
        plgpu.copy_gmem_to_smem(gmem, to, barrier)
    plgpu.barrier_wait(barrier)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows, dtype, tensor", [(128, F16, False), (64, jnp.bfloat16, False), (128, jnp.float8_e4m3fn, False), (128, F16, True)])
def test_product(mode, rows, dtype, tensor):
    def body(a_gmem, b_gmem, o_gmem, a, b, bar, mma, acc, left):
        load([(a_gmem, a), (b_gmem, b)], bar)
        if tensor:
            plgpu.async_store_tmem(left, registers(a))
            plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, left if tensor else a, b, accumulate=False)
        plgpu.tcgen05_mma(acc, left if tensor else a, b, mma, accumulate=lax.axis_index("i") == 0)
        plgpu.barrier_wait(mma)
        o_gmem[lax.axis_index("i")] = plgpu.async_load_tmem(acc)

    left = plgpu.TMEM((128, 128), dtype, packed=True)
    scratch = [smem((rows, 128), dtype), smem((128, 128), dtype), plgpu.Barrier(num_arrivals=2), done(), plgpu.TMEM((rows, 128), F32), left]
    f = kernel(body, ((2, rows, 128), F32), scratch, grid=(2,), grid_names=("i",))
    x, y = numbers((rows, 128), dtype), numbers((128, 128), dtype)
    with pallasim.emulate(CHIP, **mode):
        r = f(x, y)
    np.testing.assert_array_equal(r, np.stack([2 * product(x, y), product(x, y)]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [64, 128])
def test_pair(mode, rows):
    def body(a_gmem, b_gmem, o_gmem, a, b, bar, met, mma, acc):
        x = lax.axis_index("x")
        load([(a_gmem.at[pl.ds(x * rows, rows)], a), (b_gmem.at[:, pl.ds(x * 64, 64)], b)], bar)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        plgpu.tcgen05_mma(acc, a, b, accumulate=False, collective_axis="x")
        plgpu.tcgen05_commit_arrive(mma, collective_axis="x")
        plgpu.barrier_wait(mma)
        o_gmem[pl.ds(x * rows, rows)] = plgpu.async_load_tmem(acc)

    met = plgpu.ClusterBarrier(collective_axes=("x",), orders_tensor_core=True)
    scratch = [smem((rows, 128), F16), smem((128, 64), F16), plgpu.Barrier(num_arrivals=2), met, done(), plgpu.TMEM((rows, 128), F32, collective=True)]
    f = kernel(body, ((2 * rows, 128), F32), scratch, cluster=(2,), cluster_names=("x",))
    x, y = numbers((2 * rows, 128), F16), numbers((128, 128), F16)
    with pallasim.emulate(CHIP, **mode):
        np.testing.assert_array_equal(f(x, y), product(x, y))


def scales(shape):
    return lax.bitcast_convert_type(jnp.asarray(RNG.integers(125, 130, shape), jnp.uint8), jnp.float8_e8m0fnu)


def tiles(s):
    rows, k = s.shape
    return s.reshape(rows // 128, 4, 32, k // 4, 4).transpose(0, 3, 2, 1, 4).reshape(rows // 128, k // 4, 32, 16)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [jnp.float8_e5m2, jnp.float4_e2m1fn])
def test_scales(mode, dtype):
    def body(a_gmem, b_gmem, sa_gmem, sb_gmem, o_gmem, a, b, sa, sb, bar, mma, acc, ta, tb):
        load([(a_gmem, a), (b_gmem, b), (sa_gmem, sa), (sb_gmem, sb)], bar)
        plgpu.async_copy_scales_to_tmem(sa, ta)
        plgpu.async_copy_scales_to_tmem(sb, tb)
        plgpu.tcgen05_mma(acc, a, plgpu.transpose_ref(b, (1, 0)), mma, a_scale=ta, b_scale=tb, accumulate=False)
        plgpu.barrier_wait(mma)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    k, e8 = 256, jnp.float8_e8m0fnu
    tile, there = plgpu.SMEM((1, k // 128, 32, 16), e8), plgpu.TMEM((128, k // 32), e8, layout=plgpu.TMEMLayout.SCALES_LAYOUT)
    scratch = [smem((128, k), dtype), smem((128, k), dtype), tile, tile, plgpu.Barrier(num_arrivals=4), done(), plgpu.TMEM((128, 128), F32), there, there]
    f = kernel(body, ((128, 128), F32), scratch)
    x, y, sx, sy = numbers((128, k), dtype), numbers((128, k), dtype), scales((128, k // 32)), scales((128, k // 32))
    with pallasim.emulate(CHIP, **mode):
        r = f(x, y, tiles(sx), tiles(sy))
    by = [np.asarray(v, np.float32) * np.repeat(np.asarray(s, np.float32), 32, axis=1) for v, s in ((x, sx), (y, sy))]
    np.testing.assert_array_equal(r, by[0] @ by[1].T)


@pytest.mark.parametrize("mode", MODES)
def test_sparse(mode):
    def body(a_gmem, b_gmem, m_gmem, o_gmem, a, b, m, bar, mma, acc, there):
        load([(a_gmem, a), (b_gmem, b), (m_gmem, m)], bar)
        plgpu.async_copy_sparse_metadata_to_tmem(m, there)
        plgpu.tcgen05_mma(acc, a, plgpu.transpose_ref(b, (1, 0)), mma, a_sparse_metadata=there, accumulate=False)
        plgpu.barrier_wait(mma)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    k = 128
    scratch = [smem((128, k // 2), F16, 64), smem((128, k), F16, 64), plgpu.SMEM((1, 1, 128, 64), jnp.uint2), plgpu.Barrier(num_arrivals=3), done(),
               plgpu.TMEM((128, 128), F32), plgpu.TMEM((128, k // 2), jnp.uint2, layout=plgpu.TMEMLayout.SPARSE_METADATA_LAYOUT)]
    f = kernel(body, ((128, 128), F32), scratch)
    x, y = numbers((128, k // 2), F16), numbers((128, k), F16)
    pairs = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])[RNG.integers(0, 6, (128, k // 4))]
    with pallasim.emulate(CHIP, **mode):
        r = f(x, y, plgpu.format_tcgen05_sparse_metadata(jnp.asarray(pairs).astype(jnp.uint2), F16))
    dense = np.zeros((128, k // 4, 4), np.float32)
    np.put_along_axis(dense, pairs, np.asarray(x, np.float32).reshape(pairs.shape), axis=-1)
    np.testing.assert_array_equal(r, product(dense.reshape(128, k), y.T))


def test_a_result_that_nobody_waits_for_is_not_there():
    def body(a_gmem, o_gmem, a, bar, mma, acc):
        load([(a_gmem, a)], bar)
        plgpu.async_store_tmem(acc, jnp.zeros((128, 128), F32))
        plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, a, a, mma, accumulate=False)
        o_gmem[...] = plgpu.async_load_tmem(acc)
        plgpu.barrier_wait(mma)

    f = kernel(body, ((128, 128), F32), [smem((128, 128), F16), plgpu.Barrier(), done(), plgpu.TMEM((128, 128), F32)])
    x = jnp.ones((128, 128), F16)
    with pallasim.emulate(CHIP, dma_execution_mode="on_wait"):
        assert (f(x) == 0).all()
    with pallasim.emulate(CHIP):
        assert (f(x) == 128).all()


def test_what_is_stored_is_there_behind_its_commit():
    def body(o_gmem, t):
        plgpu.async_store_tmem(t, jnp.zeros((128, 32), F32))
        plgpu.commit_tmem()
        plgpu.async_store_tmem(t, jnp.ones((128, 32), F32))
        o_gmem[0] = plgpu.async_load_tmem(t)
        plgpu.commit_tmem()
        o_gmem[1] = plgpu.async_load_tmem(t)

    f = kernel(body, ((2, 128, 32), F32), [plgpu.TMEM((128, 32), F32)])
    with pallasim.emulate(CHIP, dma_execution_mode="on_wait"):
        r = f()
    assert (r[0] == 0).all() and (r[1] == 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_columns(mode):
    def body(a_gmem, o_gmem, a, bar, copied, t):
        load([(a_gmem, a)], bar)
        plgpu.async_copy_smem_to_tmem(a, t.at[:, pl.ds(64, 64)])
        plgpu.async_copy_smem_to_tmem(a, t.at[:, pl.ds(0, 64)])
        plgpu.tcgen05_commit_arrive(copied)
        plgpu.barrier_wait(copied)
        right = plgpu.async_load_tmem(t.at[:, pl.ds(64, 64)])
        plgpu.wait_load_tmem()
        plgpu.async_store_tmem(t.at[:, pl.ds(64, 64)], right * 2)
        plgpu.commit_tmem()
        o_gmem[...] = plgpu.async_load_tmem(t)

    f = kernel(body, ((128, 128), F16), [smem((128, 64), F16), plgpu.Barrier(), done(), plgpu.TMEM((128, 128), F16, packed=True)])
    x = numbers((128, 64), F16)
    with pallasim.emulate(CHIP, **mode):
        np.testing.assert_array_equal(f(x), np.concatenate([x, x * 2], axis=1))


def test_columns_are_counted():
    def body(o_gmem, *refs):
        plgpu.async_store_tmem(refs[0], jnp.zeros((128, 256), F32))
        plgpu.commit_tmem()
        o_gmem[...] = plgpu.async_load_tmem(refs[0])

    f = kernel(body, ((128, 256), F32), [plgpu.TMEM((128, 256), F32), plgpu.TMEM((128, 512), F16, packed=True), plgpu.TMEM((128, 1), F32)])
    with pallasim.emulate(CHIP), pytest.raises(pallasim.RefusedError, match="516 of 512 columns"):
        f()


@pytest.mark.parametrize("packed, message", [(False, "a left operand that lies otherwise"), (True, None)])
def test_layouts_are_compared(packed, message):
    def body(a_gmem, o_gmem, a, bar, mma, acc, left):
        load([(a_gmem, a)], bar)
        plgpu.async_store_tmem(left, registers(a))
        plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, left, a, mma, accumulate=False)
        plgpu.barrier_wait(mma)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    left = plgpu.TMEM((128, 128), F16, packed=packed)
    f = kernel(body, ((128, 128), F32), [smem((128, 128), F16), plgpu.Barrier(), done(), plgpu.TMEM((128, 128), F32), left])
    with pallasim.emulate(CHIP):
        if message is None:
            f(jnp.ones((128, 128), F16))
        else:
            with pytest.raises(pallasim.RefusedError, match=message):
                f(jnp.ones((128, 128), F16))


@pytest.mark.parametrize("seed", range(4))
def test_copies_outlive_the_warp_that_starts_them(seed):
    """They write to the memory of its CTA, whatever the warp's place is used for then: by another CTA, where more are asked for than the chip holds."""
    def body(x_gmem, o_gmem, smem, bars, _):
        i = lax.axis_index("i")
        for part in range(2):
            @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
            def _():
                @pl.when(lax.axis_index("warp") == part)
                def _():
                    plgpu.copy_gmem_to_smem(x_gmem.at[i, part], smem.at[part], bars.at[part])

        for part in range(2):
            plgpu.barrier_wait(bars.at[part])
            o_gmem[i, part] = smem[part] + part

    x = numbers((160, 2, 8, 128), F32)
    scratch = [plgpu.SMEM((2, 8, 128), F32), plgpu.Barrier(num_barriers=2), plgpu.SMEM((180 * 1024,), jnp.int8)]
    f = kernel(body, ((160, 2, 8, 128), F32), scratch, grid=(160,), grid_names=("i",))
    with pallasim.emulate(CHIP, dma_execution_mode="scheduled", random_seed=seed):
        np.testing.assert_array_equal(f(x), np.asarray(x) + np.arange(2)[:, None, None])
