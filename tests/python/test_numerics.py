"""`numerics`: products of matrices as the chip forms them, through Python."""
import pathlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

import pallasim


def matmul(precision, compiler_params=None):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], precision=precision)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((32, 32), jnp.float32), compiler_params=compiler_params)


X, Y = (jax.random.normal(jax.random.key(i), (32, 32)) for i in range(2))
EXACT = np.asarray(X, np.float64) @ np.asarray(Y, np.float64)


def worst(out):
    return np.abs(out - EXACT).max()


def test_tpu_rounds_operands_to_bf16(emulated):
    rounded = [np.asarray(a.astype(jnp.bfloat16), np.float64) for a in (X, Y)]
    out = emulated(matmul(None), X, Y, machine="tpu-v6e", numerics="device")
    np.testing.assert_allclose(out, rounded[0] @ rounded[1], atol=2e-5)
    assert worst(out) > 1e-3
    assert worst(emulated(matmul(lax.Precision.HIGHEST), X, Y, machine="tpu-v6e", numerics="device")) < 2e-5
    assert worst(emulated(matmul(None), X, Y, machine="tpu-v6e")) < 2e-5


@pytest.mark.parametrize("precision,least,most", [
    (None, 1e-4, 1e-2), (lax.Precision.HIGHEST, 0, 2e-5), (lax.DotAlgorithmPreset.TF32_TF32_F32_X3, 0, 5e-5),
    (lax.DotAlgorithmPreset.BF16_BF16_F32, 1e-3, 1e-1), (lax.DotAlgorithmPreset.BF16_BF16_F32_X3, 0, 5e-4)])
def test_triton_by_the_name_of_the_precision(emulated, precision, least, most):
    out = emulated(matmul(precision, plgpu.CompilerParams()), X, Y, machine="gpu-h100", numerics="device")
    assert least <= worst(out) <= most
    assert worst(emulated(matmul(precision, plgpu.CompilerParams()), X, Y, machine="gpu-h100")) < 2e-5


def test_reference_is_the_sum_in_order(emulated, same):
    out = emulated(matmul(None), X, Y, numerics="reference")
    want = np.zeros((32, 32), np.float32)
    for k in range(32):
        want += np.asarray(X)[:, k : k + 1] * np.asarray(Y)[k]
    same(out, want)


def test_oracle_computes_in_f64_between_loads_and_stores(emulated, same):
    x = np.asarray(X)

    def kernel(x_ref, o_ref, s_ref):
        v = x_ref[...]
        total = lax.fori_loop(0, 1000, lambda i, a: a + v * np.float32(0.1), jnp.zeros_like(v))
        rounded = total.astype(jnp.bfloat16)  # the kernel's own rounding stays
        o_ref[...] = jnp.where(v > 0, jnp.exp(-v) + total, rounded.astype(jnp.float32) / 3)
        s_ref[...] = jnp.dot(v, v).sum(axis=0) + jnp.cumsum(v, axis=0)[5]

    shape = jax.ShapeDtypeStruct
    f = pl.pallas_call(kernel, out_shape=(shape((32, 32), jnp.float32), shape((32,), jnp.float32)))
    out, sums = emulated(f, X, numerics="oracle")
    v = x.astype(np.float64)
    total = np.zeros_like(v)
    for _ in range(1000):
        total = total + v * np.float64(np.float32(0.1))
    expected = np.where(v > 0, np.exp(-v) + total, np.asarray(total.astype(ml_dtypes.bfloat16), np.float64) / 3)
    same(out, expected.astype(np.float32))
    np.testing.assert_allclose(sums, ((v @ v).sum(0) + v[:6].sum(0)).astype(np.float32), rtol=1e-7)
    plain = emulated(f, X)[0]
    assert np.abs(plain - expected).max() > 100 * np.abs(out - expected).max(), "a thousand roundings in f32 are seen"


def test_oracle_keeps_what_looks_at_bits(emulated, same):
    def kernel(x_ref, o_ref, i_ref, c_ref):
        x = x_ref[...]
        i_ref[...] = lax.bitcast_convert_type(x / 3, jnp.int32)
        o_ref[...] = jnp.nextafter(x, jnp.inf) - x
        c_ref[...] = lax.reduce_precision(x, 5, 3) + lax.sort(x, dimension=1)

    shape = jax.ShapeDtypeStruct
    out = (shape((32, 32), jnp.float32), shape((32, 32), jnp.int32), shape((32, 32), jnp.float32))
    o, i, c = emulated(pl.pallas_call(kernel, out_shape=out), X, numerics="oracle")
    x = np.asarray(X)
    same(i, (x / np.float32(3)).view(np.int32))
    same(o, np.nextafter(x, np.float32(np.inf)) - x)
    same(c, (np.asarray(lax.reduce_precision(X, 5, 3), np.float64) + np.sort(x, 1)).astype(np.float32))


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="numerics"):
        pallasim.Params(numerics="fast")


def test_erf_inv_and_the_normal_sampler_are_xlas_bit_for_bit(emulated):
    """Where a CPU fuses multiply-adds. XLA:CPU flushes subnormal results."""
    if "fma" not in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("XLA rounds products of its own here: no fused multiply-add")
    magnitudes = np.arange(0x00A00000, 0x3F800001, 499, dtype=np.uint32)
    x = np.concatenate([magnitudes, magnitudes | np.uint32(1 << 31), np.float32([1, -1, 1 - 2**-24]).view(np.uint32)]).view(np.float32)
    f = pl.pallas_call(lambda x, o: o.__setitem__(..., lax.erf_inv(x[...])), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    want = np.asarray(jax.jit(lax.erf_inv)(x))
    assert want.any() and np.array_equal(emulated(f, x).view(np.int32), want.view(np.int32))

    def sample(words, o):
        o[...] = jax.random.normal(jax.random.wrap_key_data(words[...]), o.shape)

    words, shape = np.array([3, 14], np.uint32), (512, 256)
    want = np.asarray(jax.random.normal(jax.random.wrap_key_data(words), shape))
    got = emulated(pl.pallas_call(sample, out_shape=jax.ShapeDtypeStruct(shape, np.float32)), words)
    assert want.all() and np.array_equal(got, want)
