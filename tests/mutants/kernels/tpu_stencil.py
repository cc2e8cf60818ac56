"""Windows of a block that reach into the rows before and behind."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5e"
ROWS = 32


def kernel(x_ref, o_ref):
    i = pl.program_id(0)
    above = x_ref[pl.ds(jnp.maximum(8 * i - 1, 0), 8)]
    below = x_ref[pl.ds(jnp.minimum(8 * i + 1, ROWS - 8), 8)]
    o_ref[...] = above + 2 * x_ref[pl.ds(8 * i, 8)] + below


def inputs(rng):
    return (rng.integers(-99, 99, (ROWS, 128)).astype(np.float32),)


def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x)


def reference(x):
    rows = np.arange(ROWS)
    above = np.where(rows < 8, rows, rows - 1)
    below = np.where(rows >= ROWS - 8, rows, rows + 1)
    return x[above] + 2 * x + x[below]
