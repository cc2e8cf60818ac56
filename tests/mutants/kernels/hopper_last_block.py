"""Blocks signal a semaphore; the last one sums what they stored."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"


def kernel(x_ref, rows_ref, sum_ref):
    sem = pl.get_global(plgpu.SemaphoreType.REGULAR)
    i = jax.lax.axis_index("i")
    rows_ref[i] = x_ref[i] * 2

    @pl.when(i < 3)
    def _():
        pl.semaphore_signal(sem, 1)

    @pl.when(i == 3)
    def _():
        pl.semaphore_wait(sem, 3)
        total = jnp.zeros_like(sum_ref)
        for k in range(4):
            total += rows_ref[k]
        sum_ref[...] = total


def inputs(rng):
    return (rng.integers(-99, 99, (4, 16, 64)).astype(np.float32),)


def run(x):
    out = jax.ShapeDtypeStruct((4, 16, 64), jnp.float32), jax.ShapeDtypeStruct((16, 64), jnp.float32)
    return plgpu.kernel(kernel, out_type=out, grid=(4,), grid_names=("i",))(x)


def reference(x):
    return 2 * x, 2 * x.sum(0)
