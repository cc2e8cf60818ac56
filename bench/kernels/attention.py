"""Attention with a running maximum, the keys in a loop inside the kernel."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from . import case, normal

HEADS, LENGTH, WIDTH, BLOCK = 4, 1024, 64, 128


def attention_kernel(q_ref, k_ref, v_ref, o_ref):
    q = q_ref[...] * WIDTH**-0.5

    def step(j, carry):
        out, greatest, total = carry
        rows = pl.ds(j * BLOCK, BLOCK)
        scores = q @ k_ref[rows, :].T
        now = jnp.maximum(greatest, scores.max(axis=1))
        weights, shrink = jnp.exp(scores - now[:, None]), jnp.exp(greatest - now)
        return out * shrink[:, None] + weights @ v_ref[rows, :], now, total * shrink + weights.sum(axis=1)

    start = jnp.zeros((BLOCK, WIDTH), jnp.float32), jnp.full(BLOCK, -jnp.inf), jnp.zeros(BLOCK)
    out, _, total = jax.lax.fori_loop(0, LENGTH // BLOCK, step, start)
    o_ref[...] = out / total[:, None]


def reference(q, k, v):
    weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) * WIDTH**-0.5, -1)
    return jnp.einsum("hqk,hkd->hqd", weights, v)


@case(arguments=lambda: tuple(normal(HEADS, LENGTH, WIDTH, seed=s) for s in range(3)), reference=reference, steps=HEADS * LENGTH // BLOCK,
      flops=4 * HEADS * LENGTH**2 * WIDTH, bytes=16 * HEADS * LENGTH * WIDTH, tolerance=1e-3)
def attention_4x1024x64(interpret):
    queries = pl.BlockSpec((None, BLOCK, WIDTH), lambda h, i: (h, i, 0))
    head = pl.BlockSpec((None, LENGTH, WIDTH), lambda h, i: (h, 0, 0))
    return lambda q, k, v: pl.pallas_call(attention_kernel, out_shape=q, grid=(HEADS, LENGTH // BLOCK), in_specs=[queries, head, head],
                                          out_specs=queries, interpret=interpret)(q, k, v)
