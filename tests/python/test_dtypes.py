"""Element types through the whole bridge: buffers, literals, conversions."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl

INTS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]
FLOATS = ["float32", "bfloat16", "float16"]
NARROW = ["float8_e4m3fn", "float8_e5m2"]


def unary(kernel, x, dtype=None):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, dtype or x.dtype))(x)


@pytest.mark.parametrize("name", INTS + FLOATS)
def test_arithmetic(emulated, same, name):
    dtype = jnp.dtype(name)
    x = jnp.asarray(np.arange(1, 33).reshape(4, 8), dtype)
    got = emulated(lambda v: unary(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 3 - 1), v), x)
    same(got, (np.asarray(x) * np.asarray(3, dtype) - np.asarray(1, dtype)).astype(dtype))


@pytest.mark.parametrize("name", INTS + FLOATS + NARROW + ["bool"])
def test_copy_keeps_the_bits(emulated, name):
    dtype = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
    raw = np.random.default_rng(1).integers(0, 2 if name == "bool" else 256, 64 * dtype.itemsize).astype(np.uint8)
    x = raw.view(dtype).reshape(8, 8)
    got = emulated(lambda v: unary(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), v), x)
    assert got.tobytes() == x.tobytes() and np.any(raw)


@pytest.mark.parametrize("to", ["int8", "int32", "uint8", "bfloat16", "float16", "float8_e4m3fn", "bool"])
@pytest.mark.parametrize("source", ["float32", "int32", "bfloat16"])
def test_conversion(emulated, same, source, to):
    x = jnp.asarray(np.arange(-8, 24) % 50, jnp.dtype(source)) if to != "uint8" else jnp.asarray(np.arange(32), jnp.dtype(source))
    got = emulated(lambda v: unary(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...].astype(to)), v, jnp.dtype(to)), x)
    same(got, np.asarray(x.astype(to)))


def test_literals_keep_their_bits(emulated):
    payload = np.asarray(0x7FC0BEEF, np.uint32).view(np.float32)

    def kernel(o_ref):
        o_ref[0] = jnp.float32(-0.0)
        o_ref[1] = jnp.float32(np.inf)
        o_ref[2] = jnp.asarray(payload)
        o_ref[3] = jnp.float32(1e-45)

    got = emulated(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((4,), jnp.float32)))
    assert list(got.view(np.uint32)) == [0x80000000, 0x7F800000, 0x7FC0BEEF, 1]


def test_bool_and_select(emulated, same):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = jnp.where((x > 2) & ~(x == 5), x, -x)

    x = jnp.arange(8, dtype=jnp.int32)
    same(emulated(lambda v: unary(kernel, v), x), np.where((np.arange(8) > 2) & (np.arange(8) != 5), np.arange(8), -np.arange(8)).astype(np.int32))


def test_matmul_of_bfloat16_accumulates_in_f32(emulated, same):
    x = jax.random.normal(jax.random.key(0), (64, 64), jnp.bfloat16)

    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)

    got = emulated(lambda v: unary(kernel, v, jnp.float32), x)
    same(got, (np.asarray(x, np.float64) @ np.asarray(x, np.float64)).astype(np.float32), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "float4_e2m1fn"])
def test_sub_byte_arrays(emulated, same, name):
    """XLA packs these; odd sizes end in the middle of a byte."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    low = -8 if name == "int4" else -2 if name == "int2" else 0
    x = jnp.asarray(np.asarray([low, 1, low + 1, 0, 1, 1, low], np.int32), jnp.dtype(dtype))
    copied = emulated(lambda v: unary(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), v), x)
    same(copied.astype(np.float32), np.asarray(x).astype(np.float32))
    wide = emulated(lambda v: unary(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...].astype(jnp.float32)), v, jnp.float32), x)
    same(wide, np.asarray(x).astype(np.float32))


def test_sub_byte_alias(emulated, same):
    f = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(0, x_ref[1]), out_shape=jax.ShapeDtypeStruct((5,), jnp.int4), input_output_aliases={0: 0})
    x = jnp.asarray([1, -3, 5, -7, 2], jnp.int4)
    same(emulated(jax.jit(f), x).astype(np.int32), np.asarray([-3, -3, 5, -7, 2], np.int32))
