"""A product over a pipeline of blocks that are released a step late."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)


def kernel(a_ref, b_ref, o_ref):
    def scope(acc):
        def step(_, a_smem, b_smem):
            plgpu.wgmma(acc, a_smem, b_smem)
            plgpu.wgmma_wait(1)

        spec = plgpu.BlockSpec((64, 64), lambda k: (k, 0), transforms=TILES, delay_release=1)
        plgpu.emit_pipeline(step, grid=(4,), in_specs=[spec, spec], max_concurrent_steps=2)(a_ref, b_ref)
        return acc[...]

    o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), jnp.float32))


def inputs(rng):
    return rng.integers(-4, 5, (256, 64)).astype(np.float16), rng.integers(-4, 5, (256, 64)).astype(np.float16)


def run(a, b):
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32))(a, b)


def reference(a, b):
    return sum(a[k:k + 64].astype(np.float32) @ b[k:k + 64].astype(np.float32) for k in range(0, 256, 64))
