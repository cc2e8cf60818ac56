"""Pages that a prefetched table names, summed per row."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5e"


def kernel(table_ref, x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...] * table_ref[pl.program_id(0), pl.program_id(1)].astype(jnp.float32)


def inputs(rng):
    table = np.stack([rng.permutation(7)[:3] for _ in range(4)]).astype(np.int32)
    return table, rng.integers(1, 99, (56, 128)).astype(np.float32)


def run(table, x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4, 3),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j, table_ref: (table_ref[i, j], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j, table_ref: (i, 0)),
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(table, x)


def reference(table, x):
    pages = x.reshape(7, 8, 128)
    return (pages[table] * table[:, :, None, None]).sum(1).reshape(32, 128)
