"""Programs meet at a counter, then read what their neighbours stored."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

MACHINE = "gpu-h100"
N = 6


def kernel(x_ref, rows_in, count_in, rows_ref, count_ref, o_ref):
    i = pl.program_id(0)
    rows_ref[i, :] = x_ref[i, :] * 2
    pltriton.atomic_add(count_ref, (0,), 1)
    jax.lax.while_loop(lambda n: n < N, lambda _: pltriton.atomic_add(count_ref, (0,), 0), jnp.int32(0))
    o_ref[i, :] = rows_ref[(i + 1) % N, :] + x_ref[i, :]


def inputs(rng):
    return (rng.integers(1, 99, (N, 32)).astype(np.float32),)


def run(x):
    rows = jax.ShapeDtypeStruct((N, 32), jnp.float32)
    return pl.pallas_call(kernel, out_shape=(rows, jax.ShapeDtypeStruct((1,), jnp.int32), rows), grid=(N,),
                          input_output_aliases={1: 0, 2: 1}, compiler_params=pltriton.CompilerParams(num_warps=1))(
        x, jnp.zeros((N, 32), jnp.float32), jnp.zeros(1, jnp.int32))


def reference(x):
    return 2 * x, np.array([N], np.int32), 2 * np.roll(x, -1, 0) + x
