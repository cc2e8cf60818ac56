"""Structured control flow against JAX's own interpreter on the same kernels."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl


def cond_kernel(x_ref, o_ref):
    o_ref[...] = lax.cond(x_ref[0] > 0, lambda v: v * 2, lambda v: v - 1, x_ref[...])


def switch_kernel(x_ref, o_ref):
    for k in range(8):
        i = x_ref[k].astype(jnp.int32)
        o_ref[k] = lax.switch(i, [lambda: jnp.float32(3), lambda: x_ref[k] * 5, lambda: x_ref[7]])


def while_kernel(x_ref, o_ref):
    total, _ = lax.while_loop(lambda c: c[1] < 8, lambda c: (c[0] + x_ref[c[1]] * 2, c[1] + 1), (jnp.float32(0), 0))
    o_ref[...] = jnp.full((8,), total)


def fori_kernel(x_ref, o_ref):
    def body(i, c):
        o_ref[i] = c
        return c + x_ref[i]

    o_ref[0] += lax.fori_loop(0, 8, body, jnp.float32(1))


def dynamic_fori_kernel(x_ref, o_ref):
    n = x_ref[3].astype(jnp.int32)
    o_ref[...] = jnp.full((8,), lax.fori_loop(0, n, lambda i, c: c + x_ref[i], jnp.float32(0.5)))


def scan_kernel(x_ref, o_ref):
    carry, ys = lax.scan(lambda c, v: (c + v, c * v), jnp.float32(1), x_ref[...])
    o_ref[...] = ys + carry


def reverse_scan_kernel(x_ref, o_ref):
    _, ys = lax.scan(lambda c, v: (c + v, c), jnp.float32(0.25), x_ref[...], reverse=True)
    o_ref[...] = ys


def when_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]

    @pl.when(x_ref[1] == 1)
    def _():
        o_ref[2] = x_ref[3] * 7

    @pl.when(x_ref[1] != 1)
    def _():
        o_ref[3] = jnp.float32(-1)


def nested_kernel(x_ref, o_ref):
    @jax.jit
    def inner(a):
        return lax.fori_loop(0, 3, lambda i, c: lax.cond(i == 1, lambda: c * 2, lambda: c + a), a)

    o_ref[...] = inner(x_ref[...]) + jax.nn.relu(x_ref[...] - 3)


def scratch_loop_kernel(x_ref, o_ref):
    def scoped(tmp_ref):
        tmp_ref[...] = x_ref[...] + 1
        lax.fori_loop(1, 8, lambda i, _: tmp_ref.__setitem__(i, tmp_ref[i - 1] + tmp_ref[i]), None)
        o_ref[...] = tmp_ref[...]

    from jax.experimental.pallas import tpu as pltpu

    pl.run_scoped(scoped, pltpu.VMEM((8,), jnp.float32))


KERNELS = [cond_kernel, switch_kernel, while_kernel, fori_kernel, dynamic_fori_kernel, scan_kernel, reverse_scan_kernel, when_kernel,
           nested_kernel, scratch_loop_kernel]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("start", [0.0, -3.0])
def test_against_jax(emulated, same, kernel, start):
    x = jnp.arange(8, dtype=jnp.float32) + start
    call = lambda **kw: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), **kw)  # noqa: E731
    same(emulated(jax.jit(call()), x), call(interpret=True)(x), rtol=1e-6, atol=1e-6)


def test_accumulation_over_the_grid(emulated, same):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    f = pl.pallas_call(kernel, grid=(5,), in_specs=[pl.BlockSpec((None, 8, 128), lambda i: (i, 0, 0))],
                       out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    x = np.random.default_rng(0).integers(-5, 6, (5, 8, 128)).astype(np.float32)
    same(emulated(f, x), x.sum(0))
