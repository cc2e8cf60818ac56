"""A scan hands its last row to the next point of the grid."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5e"


def kernel(x_ref, o_ref, carry_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        carry_ref[...] = jnp.zeros_like(carry_ref)

    o_ref[0:1] = jnp.maximum(x_ref[0:1], carry_ref[...] / 2)
    for r in range(1, 8):
        o_ref[r:r + 1] = jnp.maximum(x_ref[r:r + 1], o_ref[r - 1:r] / 2)
    carry_ref[...] = o_ref[7:8]


def inputs(rng):
    return (rng.integers(1, 999, (32, 128)).astype(np.float32),)


def run(x):
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[rows],
        out_specs=rows,
        scratch_shapes=[pltpu.VMEM((1, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary",)),
    )(x)


def reference(x):
    out, before = [], np.zeros(128, np.float32)
    for row in x:
        before = np.maximum(row, before / 2)
        out.append(before)
    return np.stack(out)
