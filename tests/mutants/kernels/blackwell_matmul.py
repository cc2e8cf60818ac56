"""Products into tensor memory, one after the other, each awaited by its barrier."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-b200"
OPERAND = plgpu.SMEM((128, 128), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))


def kernel(x_ref, y_ref, o_ref, left, right, came, done, acc):
    for k in range(2):
        plgpu.copy_gmem_to_smem(x_ref.at[k], left, came)
        plgpu.copy_gmem_to_smem(y_ref.at[k], right, came)
        plgpu.barrier_wait(came)
        plgpu.tcgen05_mma(acc, left, right, done, accumulate=k > 0)
        plgpu.barrier_wait(done)
    o_ref[...] = plgpu.async_load_tmem(acc)


def inputs(rng):
    return rng.integers(-3, 4, (2, 128, 128)).astype(np.float16), rng.integers(-3, 4, (2, 128, 128)).astype(np.float16)


def run(x, y):
    scratch = [OPERAND, OPERAND, plgpu.Barrier(num_arrivals=2), plgpu.Barrier(orders_tensor_core=True), plgpu.TMEM((128, 128), jnp.float32)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 128), jnp.float32), scratch_types=scratch)(x, y)


def reference(x, y):
    return sum(x[k].astype(np.float32) @ y[k].astype(np.float32) for k in range(2))
