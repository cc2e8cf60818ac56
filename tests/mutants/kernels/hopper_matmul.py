"""A product whose copies run ahead and whose products are awaited late."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"
STEPS, SLOTS = 5, 3
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)


def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, o_smem, came):
    rows = pl.ds(lax.axis_index("m") * 64, 64)

    def fetch(i):
        slot, k = i % SLOTS, pl.ds(i * 64, 64)
        plgpu.copy_gmem_to_smem(a_gmem.at[rows, k], a_ring.at[slot], came.at[slot])
        plgpu.copy_gmem_to_smem(b_gmem.at[k], b_ring.at[slot], came.at[slot])

    for i in range(SLOTS - 1):
        fetch(i)

    def products(acc):
        @pl.loop(0, STEPS)
        def _(i):
            slot = i % SLOTS
            plgpu.barrier_wait(came.at[slot])
            plgpu.wgmma(acc, a_ring.at[slot], b_ring.at[slot])
            plgpu.wgmma_wait(1)

            @pl.when(i + SLOTS - 1 < STEPS)
            def _():
                fetch(i + SLOTS - 1)

        return acc[...]

    o_smem[...] = pl.run_scoped(products, plgpu.ACC((64, 64), jnp.float32)).astype(jnp.float16)
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows])
    plgpu.wait_smem_to_gmem(0)


def inputs(rng):
    return rng.integers(-4, 5, (128, 64 * STEPS)).astype(np.float16), rng.integers(-4, 5, (64 * STEPS, 64)).astype(np.float16)


def run(a, b):
    ring = plgpu.SMEM((SLOTS, 64, 64), jnp.float16, transforms=TILES)
    scratch = [ring, ring, plgpu.SMEM((64, 64), jnp.float16, transforms=TILES), plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 64), jnp.float16), scratch_types=scratch, grid=(2,), grid_names=("m",))(a, b)


def reference(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)
