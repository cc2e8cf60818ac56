"""CTAs of a cluster store into each other's shared memory; a barrier counts the bytes."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"


def kernel(x_ref, o_ref, smem, met, stored):
    at = lax.axis_index("x")
    smem[...] = jnp.full_like(smem, 2)
    plgpu.barrier_arrive(met)
    plgpu.barrier_wait(met)
    plgpu.async_store_smem(x_ref[at], smem, stored, cluster_idx=1 - at, cluster_dim="x")
    plgpu.barrier_wait(stored)
    o_ref[at] = smem[...] + 1


def inputs(rng):
    return (rng.integers(-99, 99, (2, 16, 64)).astype(np.float32),)


def run(x):
    scratch = [plgpu.SMEM((16, 64), jnp.float32), plgpu.ClusterBarrier(collective_axes=("x",)), plgpu.Barrier()]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=scratch, grid=(1,), grid_names=("i",),
                        cluster=(2,), cluster_names=("x",))(x)


def reference(x):
    return x[::-1] + 1
