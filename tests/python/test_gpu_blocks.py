"""`pallas_call` of blocks on Mosaic GPU: each point of the parallel axes is a block of threads with scratch of its own, the other axes are its pipeline."""
from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim
from test_hopper_cluster import SCHEDULES, codes_of, numbers

TILES = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))


def emulated(run: Any, **options: Any) -> np.ndarray:
    with pallasim.emulate("gpu-h100", **options):
        out = np.asarray(run())
    assert pallasim.testing.launch_count() and out.any()
    return out


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_product_whose_last_axis_is_the_blocks_pipeline(steps: int, options: Any) -> None:
    m, n, k, tile = 256, 128, 320, 64
    a, b = (np.random.RandomState(i).randint(-4, 5, s).astype(np.float16) for i, s in enumerate([(m, k), (k, n)]))

    def kernel(a_ref: Any, b_ref: Any, o_ref: Any, acc: Any) -> None:
        plgpu.wgmma(acc, a_ref, b_ref)
        plgpu.wgmma_wait(0)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o_ref[...] = acc[...].astype(jnp.float16)

    call = pl.pallas_call(
        kernel, grid=(m // tile, n // tile, k // tile), out_shape=jax.ShapeDtypeStruct((m, n), jnp.float16),
        in_specs=[plgpu.BlockSpec((tile, tile), lambda i, j, k: (i, k), transforms=TILES),
                  plgpu.BlockSpec((tile, tile), lambda i, j, k: (k, j), transforms=TILES)],
        out_specs=plgpu.BlockSpec((tile, tile), lambda i, j, k: (i, j), transforms=TILES), scratch_shapes=[plgpu.ACC((tile, tile), jnp.float32)],
        compiler_params=plgpu.CompilerParams(dimension_semantics=["parallel", "parallel", "sequential"], max_concurrent_steps=steps))
    np.testing.assert_array_equal(emulated(lambda: call(a, b), **options), a.astype(np.float32) @ b.astype(np.float32))
    assert codes_of(lambda: call(a, b)) == set()


def test_without_semantics_each_point_is_a_block_of_threads_with_its_own_scratch() -> None:
    """More of them than the chip holds; what one leaves in scratch is no other's."""
    x = numbers(300, 64, 32)

    def kernel(x_ref: Any, o_ref: Any, smem: Any) -> None:
        smem[...] = x_ref[0] + pl.program_id(0) * pl.num_programs(0)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref.at[pl.program_id(0)])
        plgpu.wait_smem_to_gmem(0)

    call = pl.pallas_call(kernel, grid=(300,), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          in_specs=[plgpu.BlockSpec((1, 64, 32), lambda i: (i, 0, 0))], out_specs=pl.BlockSpec(memory_space=plgpu.GMEM),
                          scratch_shapes=[plgpu.SMEM((64, 32), jnp.float32)], compiler_params=plgpu.CompilerParams())
    np.testing.assert_array_equal(emulated(lambda: call(x)), x + 300 * np.arange(300)[:, None, None])
    assert codes_of(lambda: call(x)) == set()


def test_scratch_that_a_block_reads_before_it_writes_is_undefined_in_each() -> None:
    def kernel(x_ref: Any, o_ref: Any, smem: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            smem[...] = x_ref[...]

        o_ref[...] = smem[...] + x_ref[...]

    spec = plgpu.BlockSpec((64, 32), lambda i: (i, 0))
    x = numbers(128, 32)
    call = functools.partial(pl.pallas_call, kernel, grid=(2,), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[spec], out_specs=spec,
                             scratch_shapes=[plgpu.SMEM((64, 32), jnp.float32)])
    assert "PS-UNINIT-003" in codes_of(lambda: call(compiler_params=plgpu.CompilerParams())(x))
    # of an axis that is the pipeline's it is the same memory
    assert codes_of(lambda: call(compiler_params=plgpu.CompilerParams(dimension_semantics=["sequential"]))(x)) == set()


def test_arrays_without_blocks_and_an_alias() -> None:
    x = numbers(64, 32)

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0}, compiler_params=plgpu.CompilerParams())
    np.testing.assert_array_equal(emulated(lambda: call(x)), x * 2)


@pytest.mark.parametrize("chip, compiler", [("generic", None), ("tpu-v5e", pltpu), ("gpu-h100", pltriton), ("gpu-h100", plgpu)])
@pytest.mark.parametrize("grid", [2, ("rows", 2)], ids=["2", "rows"])
def test_axes_that_vmap_adds_to_a_grid_are_none_of_the_kernels(grid: Any, chip: str, compiler: Any) -> None:
    x = numbers(3, 64, 128)

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + pl.program_id(0) * pl.num_programs(0)

    spec = pl.BlockSpec((32, 128), lambda i: (i, 0))
    options = {"compiler_params": compiler.CompilerParams()} if compiler else {}
    call = pl.pallas_call(kernel, grid=(grid,), out_shape=jax.ShapeDtypeStruct((64, 128), x.dtype), in_specs=[spec], out_specs=spec, **options)
    with pallasim.emulate(chip):
        out = np.asarray(jax.vmap(call)(x))
    np.testing.assert_array_equal(out, x + 2 * (np.arange(64) // 32)[:, None])


def test_scalar_prefetch_is_refused_as_the_compiler_does() -> None:
    def kernel(i_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    spec = pl.BlockSpec((8, 32), lambda i, at: (at[0], 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[spec], out_specs=spec)
    call = pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((8, 32), jnp.float32), compiler_params=plgpu.CompilerParams())
    with pytest.raises(pallasim.UnsupportedError, match="scalar prefetch on Mosaic GPU"), pallasim.emulate("gpu-h100"):
        call(np.zeros(1, np.int32), numbers(8, 32))


def test_who_names_no_compiler_is_told_which_one_refuses() -> None:
    x = numbers(8)
    call = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    if pallasim.capture_text(call, x, machine="gpu-h100")[0].find("machine = mosaic_gpu") < 0:
        np.testing.assert_array_equal(emulated(lambda: call(x)), x + 1)
        return
    with pytest.raises(pallasim.RefusedError, match="a bulk copy of 32 bytes") as e, pallasim.emulate("gpu-h100"):
        call(x)
    assert "pltriton.CompilerParams()" in " ".join(e.value.__notes__)
