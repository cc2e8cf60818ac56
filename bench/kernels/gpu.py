"""Kernels of GPUs: copies through shared memory with barriers, and atomics between programs."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from . import case, normal

ROWS, COLUMNS, BLOCK = 1024, 256, 64


@case(arguments=lambda: (normal(ROWS, COLUMNS), normal(ROWS, COLUMNS, seed=1)), reference=lambda x, y: x + y, machine="mosaic_gpu", steps=ROWS // BLOCK,
      flops=ROWS * COLUMNS, bytes=12 * ROWS * COLUMNS, tolerance=0)
def shared_memory_add(interpret):
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def kernel(x_ref, y_ref, o_ref, x_tile, y_tile, o_tile, arrived):
        rows = pl.ds(jax.lax.axis_index("i") * BLOCK, BLOCK)
        plgpu.copy_gmem_to_smem(x_ref.at[rows], x_tile, arrived)
        plgpu.copy_gmem_to_smem(y_ref.at[rows], y_tile, arrived)
        plgpu.barrier_wait(arrived)
        o_tile[...] = x_tile[...] + y_tile[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_tile, o_ref.at[rows])
        plgpu.wait_smem_to_gmem(0)

    tile = plgpu.SMEM((BLOCK, COLUMNS), jnp.float32)
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32), grid=(ROWS // BLOCK,), grid_names=("i",),
                        scratch_types=[tile, tile, tile, plgpu.Barrier(num_arrivals=2)], interpret=interpret)


def histogram_kernel(x_ref, zero_ref, o_ref):
    pltriton.atomic_add(o_ref, (x_ref[...],), jnp.ones(x_ref.shape, jnp.int32))


@case(arguments=lambda: (jnp.arange(8192, dtype=jnp.int32) * 7919 % 64, jnp.zeros(64, jnp.int32)), reference=lambda x, zero: zero.at[x].add(1), machine="triton",
      steps=64, flops=8192, bytes=4 * 8192, tolerance=0)
def histogram_atomics(interpret):
    return lambda x, zero: pl.pallas_call(
        histogram_kernel, out_shape=zero, grid=(64,), in_specs=[pl.BlockSpec((128,), lambda i: (i,)), pl.BlockSpec((64,), lambda i: (0,))],
        out_specs=pl.BlockSpec((64,), lambda i: (0,)), input_output_aliases={1: 0}, compiler_params=pltriton.CompilerParams(), interpret=interpret)(x, zero)
