"""The kernels of JAX's Pallas quickstart, under the transformations that it shows."""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl


def add_vectors_kernel(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    o_ref[...] = x + y


def add_vectors(x, y):
    return pl.pallas_call(add_vectors_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def iota_kernel(o_ref):
    i = pl.program_id(0)
    o_ref[i] = i


def matmul_kernel(x_ref, y_ref, z_ref, *, activation):
    z_ref[...] = activation(x_ref[...] @ y_ref[...])


def matmul(x, y, activation=lambda z: z):
    m, k = x.shape
    n = y.shape[1]
    return pl.pallas_call(
        functools.partial(matmul_kernel, activation=activation),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((m // 2, k), lambda i, j: (i, 0)), pl.BlockSpec((k, n // 2), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((m // 2, n // 2), lambda i, j: (i, j)),
    )(x, y)


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_add_vectors(emulated, same, wrap):
    x = jnp.arange(8, dtype=jnp.float32)
    same(emulated(wrap(add_vectors), x, x + 1), 2 * np.arange(8, dtype=np.float32) + 1)


def test_iota_with_program_id(emulated, same):
    f = pl.pallas_call(iota_kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.int32), grid=(8,))
    same(emulated(f), np.arange(8, dtype=np.int32))


@pytest.mark.parametrize("activation", [lambda z: z, jax.nn.relu, jax.nn.silu], ids=["plain", "relu", "silu"])
def test_matmul_blocks(emulated, same, activation):
    x, y = normal(0, 256, 128), normal(1, 128, 64)
    want = np.asarray(activation(jnp.asarray(np.asarray(x, np.float64) @ np.asarray(y, np.float64), jnp.float32)))
    same(emulated(jax.jit(functools.partial(matmul, activation=activation)), x, y), want, rtol=2e-5, atol=2e-5)


def test_vmap_of_matmul(emulated, same):
    x, y = normal(0, 3, 32, 16), normal(1, 3, 16, 32)
    want = np.einsum("bmk,bkn->bmn", np.asarray(x), np.asarray(y))
    same(emulated(jax.jit(jax.vmap(matmul)), x, y), want, rtol=2e-5, atol=2e-5)


def test_vmap_of_vmap_and_unmapped_operand(emulated, same):
    x, y = normal(0, 2, 3, 32, 16), normal(1, 16, 32)
    f = jax.vmap(jax.vmap(matmul, in_axes=(0, None)), in_axes=(0, None))
    same(emulated(f, x, y), np.asarray(x) @ np.asarray(y), rtol=2e-5, atol=2e-5)


def test_program_id_under_vmap_counts_the_kernels_own_axes(emulated, same):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[0] + 10 * pl.program_id(0) + 100 * pl.program_id(1)

    def f(x):
        return pl.pallas_call(
            kernel, grid=(2, 3), in_specs=[pl.BlockSpec((1,), lambda i, j: (3 * i + j,))],
            out_specs=pl.BlockSpec((1,), lambda i, j: (3 * i + j,)), out_shape=jax.ShapeDtypeStruct((6,), jnp.int32))(x)

    x = jnp.arange(24, dtype=jnp.int32).reshape(4, 6)
    ids = np.asarray([10 * i + 100 * j for i in range(2) for j in range(3)], np.int32)
    same(emulated(jax.vmap(f), x), np.asarray(x) + ids)


def test_jvp_and_custom_vjp(emulated, same):
    def square_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * x_ref[...]

    square = pl.pallas_call(square_kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    x = jnp.arange(1, 9, dtype=jnp.float32)
    same(emulated(lambda v: jax.jvp(square, (v,), (jnp.ones_like(v),))[1], x), 2 * np.asarray(x))

    @jax.custom_vjp
    def f(v):
        return square(v)

    f.defvjp(lambda v: (square(v), v), lambda v, g: (2 * v * g,))
    same(emulated(jax.grad(lambda v: f(v).sum()), x), 2 * np.asarray(x))


def test_inside_loops(emulated, same):
    x = jnp.arange(8, dtype=jnp.float32)

    def f(x):
        x = jax.lax.fori_loop(0, 5, lambda _, v: add_vectors(v, v), x)
        return jax.lax.scan(lambda c, _: (add_vectors(c, x), None), x, None, length=3)[0]

    same(emulated(jax.jit(f), x), 4 * 32 * np.arange(8, dtype=np.float32))
