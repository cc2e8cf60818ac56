"""A sum stored into tensor memory, two products added to it, one commit for both."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-b200"
OPERAND = plgpu.SMEM((128, 128), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))


def kernel(x_ref, o_ref, smem, came, done, acc):
    plgpu.copy_gmem_to_smem(x_ref.at[0], smem.at[0], came)
    plgpu.copy_gmem_to_smem(x_ref.at[1], smem.at[1], came)
    plgpu.async_store_tmem(acc, plgpu.layout_cast(jnp.full((128, 128), 7, jnp.float32), plgpu.Layout.TCGEN05))
    plgpu.commit_tmem()
    plgpu.barrier_wait(came)
    plgpu.tcgen05_mma(acc, smem.at[0], smem.at[0])
    plgpu.tcgen05_mma(acc, smem.at[1], smem.at[0])
    plgpu.tcgen05_commit_arrive(done)
    plgpu.barrier_wait(done)
    o_ref[...] = plgpu.async_load_tmem(acc)


def inputs(rng):
    return (rng.integers(-3, 4, (2, 128, 128)).astype(np.float16),)


def run(x):
    tiles = plgpu.SMEM((2, 128, 128), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))
    scratch = [tiles, plgpu.Barrier(num_arrivals=2), plgpu.Barrier(orders_tensor_core=True), plgpu.TMEM((128, 128), jnp.float32)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 128), jnp.float32), scratch_types=scratch)(x)


def reference(x):
    x = x.astype(np.float32)
    return x[0] @ x[0] + x[1] @ x[0] + 7
