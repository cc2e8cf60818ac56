"""Vector addition on grids of different sizes, softmax, layer normalisation, a reduction over the grid."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from . import case, normal

MEGA = 1 << 20


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def _vectors():
    return normal(MEGA), normal(MEGA, seed=1)


def _add(steps, interpret):
    block = pl.BlockSpec((MEGA // steps,), lambda i: (i,))

    def add(x, y):
        return pl.pallas_call(add_kernel, out_shape=x, grid=(steps,), in_specs=[block, block], out_specs=block, interpret=interpret)(x, y)

    return add


_ADD = {"arguments": _vectors, "reference": lambda x, y: x + y, "flops": MEGA, "bytes": 12 * MEGA, "tolerance": 0}


@case(**_ADD)
def add_1m_whole(interpret):
    return _add(1, interpret)


@case(**_ADD, steps=8)
def add_1m_8_steps(interpret):
    return _add(8, interpret)


@case(**_ADD, steps=1024)
def add_1m_1024_steps(interpret):
    return _add(1024, interpret)


def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    o_ref[...] = e / e.sum(axis=1, keepdims=True)


@case(arguments=lambda: (normal(2048, 1024),), reference=lambda x: jax.nn.softmax(x, -1), steps=16, flops=5 * 2048 * 1024, bytes=8 * 2048 * 1024)
def softmax_2048x1024(interpret):
    rows = pl.BlockSpec((128, 1024), lambda i: (i, 0))
    return lambda x: pl.pallas_call(softmax_kernel, out_shape=x, grid=(16,), in_specs=[rows], out_specs=rows, interpret=interpret)(x)


def layer_norm_kernel(x_ref, scale_ref, bias_ref, o_ref):
    x = x_ref[...]
    centred = x - x.mean(axis=1, keepdims=True)
    o_ref[...] = centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * scale_ref[...] + bias_ref[...]


def layer_norm_reference(x, scale, bias):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / jnp.sqrt(centred.var(axis=1, keepdims=True) + 1e-5) * scale + bias


@case(arguments=lambda: (normal(512, 1024), normal(1, 1024, seed=1), normal(1, 1024, seed=2)), reference=layer_norm_reference,
      steps=512, flops=8 * 512 * 1024, bytes=8 * 512 * 1024)
def layer_norm_512_rows(interpret):
    row, whole = pl.BlockSpec((1, 1024), lambda i: (i, 0)), pl.BlockSpec((1, 1024), lambda i: (0, 0))
    return lambda x, s, b: pl.pallas_call(layer_norm_kernel, out_shape=x, grid=(512,), in_specs=[row, whole, whole], out_specs=row, interpret=interpret)(x, s, b)


def sum_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


@case(arguments=lambda: (normal(8, 1024, 1024),), reference=lambda x: x.sum(0), steps=32, flops=8 * MEGA, bytes=36 * MEGA)
def sum_over_grid(interpret):
    return lambda x: pl.pallas_call(
        sum_kernel, out_shape=jax.ShapeDtypeStruct(x.shape[1:], x.dtype), grid=(2, 2, 8),
        in_specs=[pl.BlockSpec((None, 512, 512), lambda i, j, k: (k, i, j))], out_specs=pl.BlockSpec((512, 512), lambda i, j, k: (i, j)),
        interpret=interpret)(x)
