"""`numerics`: products of matrices as the chip forms them, through Python."""
import jax
import jax.numpy as jnp
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


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="numerics"):
        pallasim.Params(numerics="fast")
