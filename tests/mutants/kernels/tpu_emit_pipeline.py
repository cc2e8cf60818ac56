"""A pipeline inside a kernel sums products of blocks."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5e"


def kernel(x_hbm, y_hbm, o_hbm, acc, sem):
    def add(x_ref, y_ref):
        acc[...] += x_ref[...] * y_ref[...]

    acc[...] = jnp.zeros_like(acc)
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(add, grid=(4,), in_specs=[block, block])(x_hbm, y_hbm)
    copy = pltpu.make_async_copy(acc, o_hbm, sem)
    copy.start()
    copy.wait()


def inputs(rng):
    return rng.integers(-9, 9, (32, 128)).astype(np.float32), rng.integers(-9, 9, (32, 128)).astype(np.float32)


def run(x, y):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[anywhere, anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x, y)


def reference(x, y):
    return (x * y).reshape(4, 8, 128).sum(0)
