"""A product whose programs walk over the inner axis, with a ragged edge."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

MACHINE = "gpu-h100"
M, K = 40, 48


def kernel(x_ref, y_ref, o_ref):
    rows = pl.program_id(0) * 16 + jnp.arange(16)
    columns = pl.program_id(1) * 16 + jnp.arange(16)
    inside = rows < M

    def step(k, total):
        depth = k * 16 + jnp.arange(16)
        x = pltriton.load(x_ref.at[rows[:, None], depth[None, :]], mask=inside[:, None], other=0.0)
        y = pltriton.load(y_ref.at[depth[:, None], columns[None, :]])
        return total + pltriton.dot(x, y)

    total = jax.lax.fori_loop(0, K // 16, step, jnp.zeros((16, 16), jnp.float32))
    pltriton.store(o_ref.at[rows[:, None], columns[None, :]], total, mask=inside[:, None])


def inputs(rng):
    return rng.integers(-9, 9, (M, K)).astype(np.float32), rng.integers(-9, 9, (K, 32)).astype(np.float32)


def run(x, y):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((M, 32), jnp.float32), grid=(pl.cdiv(M, 16), 2),
                          compiler_params=pltriton.CompilerParams(num_warps=4))(x, y)


def reference(x, y):
    return x @ y
