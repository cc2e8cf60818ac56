"""Blocks of an array, scaled by a column; the grid and the blocks divide the array."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

MACHINE = "gpu-h100"


def kernel(x_ref, w_ref, o_ref):
    for half in range(2):
        rows = pl.ds(8 * half, 8)
        o_ref[rows, :] = x_ref[rows, :] * w_ref[rows][:, None] + half


def inputs(rng):
    return rng.integers(1, 99, (32, 32)).astype(np.float32), rng.integers(1, 9, 32).astype(np.float32)


def run(x, w):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 32), jnp.float32),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((16, 16), lambda i, j: (i, j)), pl.BlockSpec((16,), lambda i, j: (i,))],
        out_specs=pl.BlockSpec((16, 16), lambda i, j: (i, j)),
        compiler_params=pltriton.CompilerParams(num_warps=1),
    )(x, w)


def reference(x, w):
    return x * w[:, None] + (np.arange(32) % 16 // 8)[:, None]
