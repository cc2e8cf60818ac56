"""Two staging slots leave by bulk stores, one of which may be under way."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"


def kernel(x_ref, o_ref, slots):
    @pl.loop(0, 6)
    def _(i):
        plgpu.wait_smem_to_gmem(1, wait_read_only=True)
        slots[i % 2] = x_ref[i] + 4
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(slots.at[i % 2], o_ref.at[i])

    plgpu.wait_smem_to_gmem(0)


def inputs(rng):
    return (rng.integers(-99, 99, (6, 16, 64)).astype(np.float32),)


def run(x):
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=[plgpu.SMEM((2, 16, 64), jnp.float32)])(x)


def reference(x):
    return x + np.float32(4)
