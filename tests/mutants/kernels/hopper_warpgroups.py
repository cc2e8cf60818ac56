"""One warpgroup copies, two compute: barriers for full and for empty slots."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

MACHINE = "gpu-h100"
BLOCKS, SLOTS, ROWS = 6, 2, 128


def kernel(x_gmem, o_gmem, ring, full, empty):
    warpgroup = lax.axis_index("warpgroup")

    @pl.when(warpgroup == 2)
    def _():
        @pl.loop(0, BLOCKS)
        def _(i):
            @pl.when(i >= SLOTS)
            def _():
                plgpu.barrier_wait(empty.at[i % SLOTS])

            plgpu.copy_gmem_to_smem(x_gmem.at[i], ring.at[i % SLOTS], full.at[i % SLOTS])

    @pl.when(warpgroup < 2)
    def _():
        half = pl.ds(warpgroup * (ROWS // 2), ROWS // 2)

        @pl.loop(0, BLOCKS)
        def _(i):
            plgpu.barrier_wait(full.at[i % SLOTS])
            o_gmem[i, half] = ring[i % SLOTS, half] * 2

            @pl.when(i < BLOCKS - SLOTS)
            def _():
                plgpu.barrier_arrive(empty.at[i % SLOTS])


def inputs(rng):
    return (rng.integers(-99, 99, (BLOCKS, ROWS, 64)).astype(np.float32),)


def run(x):
    scratch = [plgpu.SMEM((SLOTS, ROWS, 64), jnp.float32), plgpu.Barrier(num_barriers=SLOTS), plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=scratch, num_threads=3,
                        thread_name="warpgroup")(x)


def reference(x):
    return 2 * x
