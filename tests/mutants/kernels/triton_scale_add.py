"""Two vectors whose length is no multiple of the block."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

MACHINE = "gpu-h100"
N = 200


def kernel(x_ref, y_ref, o_ref):
    at = pl.program_id(0) * 64 + jnp.arange(64)
    inside = at < N
    x = pltriton.load(x_ref.at[at], mask=inside, other=0.0)
    y = pltriton.load(y_ref.at[at], mask=inside, other=0.0)
    pltriton.store(o_ref.at[at], 2 * x + y, mask=inside)


def inputs(rng):
    return rng.standard_normal(N, dtype=np.float32), rng.standard_normal(N, dtype=np.float32)


def run(x, y):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((N,), jnp.float32), grid=(pl.cdiv(N, 64),),
                          compiler_params=pltriton.CompilerParams(num_warps=4))(x, y)


def reference(x, y):
    return 2 * x + y
