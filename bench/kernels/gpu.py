"""Kernels of GPUs: copies through shared memory with barriers, tensor cores, masked rows, and atomics between programs."""
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


SIDE, STEP = 512, 64


@case(arguments=lambda: (normal(SIDE, SIDE, dtype="float16"), normal(SIDE, SIDE, seed=1, dtype="float16")),
      reference=lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32).astype(a.dtype), machine="mosaic_gpu", steps=64, flops=2 * SIDE**3,
      bytes=6 * SIDE**2, tolerance=0.1)
def wgmma_512_f16(interpret):
    from jax.experimental.pallas import mosaic_gpu as plgpu

    tiles = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)

    def kernel(a_ref, b_ref, o_ref, a_tile, b_tile, arrived):
        m, n = (pl.ds(jax.lax.axis_index(axis) * STEP, STEP) for axis in ("m", "n"))

        def products(acc):
            @pl.loop(0, SIDE // STEP)
            def _(i):
                k = pl.ds(i * STEP, STEP)
                plgpu.copy_gmem_to_smem(a_ref.at[m, k], a_tile, arrived)
                plgpu.copy_gmem_to_smem(b_ref.at[k, n], b_tile, arrived)
                plgpu.barrier_wait(arrived)
                plgpu.wgmma(acc, a_tile, b_tile)
                plgpu.wgmma_wait(0)

            return acc[...]

        o_ref[m, n] = pl.run_scoped(products, plgpu.ACC((STEP, STEP), jnp.float32)).astype(o_ref.dtype)

    tile = plgpu.SMEM((STEP, STEP), jnp.float16, transforms=tiles)
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((SIDE, SIDE), jnp.float16), grid=(SIDE // STEP,) * 2, grid_names=("m", "n"),
                        scratch_types=[tile, tile, plgpu.Barrier(num_arrivals=2)], interpret=interpret)


def masked_softmax_kernel(x_ref, o_ref):
    row, column = pl.program_id(0), jnp.arange(1024)
    here = column < x_ref.shape[1]
    x = pltriton.load(x_ref.at[row, column], mask=here, other=-jnp.inf)
    e = jnp.exp(x - jnp.max(x))
    pltriton.store(o_ref.at[row, column], e / jnp.sum(e), mask=here)


@case(arguments=lambda: (normal(512, 1000),), reference=lambda x: jax.nn.softmax(x, -1), machine="triton", steps=512, flops=5 * 512 * 1000,
      bytes=8 * 512 * 1000)
def softmax_masked_rows(interpret):
    return lambda x: pl.pallas_call(masked_softmax_kernel, out_shape=x, grid=(512,), compiler_params=pltriton.CompilerParams(), interpret=interpret)(x)
