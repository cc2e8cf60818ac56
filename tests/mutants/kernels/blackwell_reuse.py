"""A sum in tensor memory begins anew after it was loaded; the operand is changed in between."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-b200"
OPERAND = plgpu.SMEM((128, 128), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))


def kernel(x_ref, o_ref, smem, came, done, acc):
    for i in range(2):
        plgpu.copy_gmem_to_smem(x_ref.at[i], smem, came)
        plgpu.barrier_wait(came)
        plgpu.tcgen05_mma(acc, smem, smem, done, accumulate=False)
        plgpu.barrier_wait(done)
        o_ref[i] = plgpu.async_load_tmem(acc)
        plgpu.wait_load_tmem()


def inputs(rng):
    return (rng.integers(-3, 4, (2, 128, 128)).astype(np.float16),)


def run(x):
    scratch = [OPERAND, plgpu.Barrier(), plgpu.Barrier(orders_tensor_core=True), plgpu.TMEM((128, 128), jnp.float32)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((2, 128, 128), jnp.float32), scratch_types=scratch)(x)


def reference(x):
    x = x.astype(np.float32)
    return np.stack([x[0] @ x[0], x[1] @ x[1]])
