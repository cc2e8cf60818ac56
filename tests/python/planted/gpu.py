"""The same as tpu.py for GPU kernels: Triton's programs, and Mosaic GPU's copies and barriers."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as pltriton

both = pytest.mark.parametrize("wrong", [True, False], ids=["planted", "twin"])
X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128)
SMEM = plgpu.SMEM((32, 128), jnp.float32)


def judge(wrong, result, expected):
    jax.block_until_ready(result)
    if not wrong:
        np.testing.assert_array_equal(result, expected)


def on_warpgroup(body, *scratch, **options):
    """plgpu.kernel, whose arguments newer JAX renamed."""
    try:
        return plgpu.kernel(body, out_type=X, scratch_types=scratch, **options)(X)
    except TypeError:
        return plgpu.kernel(body, out_shape=X, scratch_shapes=scratch, **options)(X)


@both
def test_programs_write_rows_of_their_own(wrong):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        row = 0 if wrong else i
        o_ref[row, :] = x_ref[i, :] * 2

    judge(wrong, pl.pallas_call(kernel, out_shape=X, grid=(32,), compiler_params=pltriton.CompilerParams())(X), X * 2)


@both
def test_barrier_is_awaited_before_the_read(wrong):
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref, smem, barrier)
        if not wrong:
            plgpu.barrier_wait(barrier)
        o_ref[...] = smem[...] + 1
        if wrong:
            plgpu.barrier_wait(barrier)

    judge(wrong, on_warpgroup(kernel, SMEM, plgpu.Barrier()), X + 1)


@both
def test_stores_are_committed_before_the_copy(wrong):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[...] * 3
        if not wrong:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    judge(wrong, on_warpgroup(kernel, SMEM), X * 3)


@both
def test_store_is_behind_the_copy_that_reads(wrong):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)
        if not wrong:
            plgpu.wait_smem_to_gmem(0)
        smem[...] = jnp.zeros_like(smem)
        plgpu.commit_smem()
        if wrong:
            plgpu.wait_smem_to_gmem(0)

    judge(wrong, on_warpgroup(kernel, SMEM), X)
