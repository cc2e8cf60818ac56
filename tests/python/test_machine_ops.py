"""Operations of one machine that nothing else shows: semaphores that are read, barriers, inline assembly."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu

import pallasim

X = np.linspace(-3, 3, 64, dtype=np.float32)


def triton(kernel, dtype=jnp.float32):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(X.shape, dtype), compiler_params=plgpu.CompilerParams())


def test_semaphore_read_gives_the_count(emulated, same):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 5)
        first = pl.semaphore_read(sem)
        pl.semaphore_wait(sem, 2)
        o_ref[...] = x_ref[...] * 0 + (10 * first + pl.semaphore_read(sem)).astype(jnp.float32)
        pl.semaphore_wait(sem, 3)

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), scratch_shapes=[pltpu.SemaphoreType.REGULAR])
    same(emulated(f, np.ones((8, 128), np.float32), machine="tpu-v5e"), np.full((8, 128), 53, np.float32))


def test_barrier_semaphore_of_a_single_device(emulated, same):
    def kernel(x_ref, o_ref):
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1)
        pl.semaphore_wait(barrier, 1)
        o_ref[...] = x_ref[...] * 2

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), compiler_params=pltpu.CompilerParams(collective_id=0))
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    same(emulated(f, x, machine="tpu-v5e", rules=False), x * 2)


def test_barrier_of_a_program(emulated, same):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        plgpu.debug_barrier()
        o_ref[...] = x + 1

    same(emulated(triton(kernel), X, machine="gpu-h100"), X + 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_approximate_tanh(emulated, dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = plgpu.approx_tanh(x_ref[...].astype(dtype))

    got = np.asarray(emulated(triton(kernel, dtype), X, machine="gpu-h100"), np.float32)
    np.testing.assert_allclose(got, np.tanh(X), atol=1e-2 if dtype == "bfloat16" else 1e-3)
    assert got.any()


def test_other_assembly_is_refused_by_its_text():
    def kernel(x_ref, o_ref):
        [o_ref[...]] = plgpu.elementwise_inline_asm("brkpt;", args=[x_ref[...]], constraints="=f,f", pack=1,
                                                    result_shape_dtypes=[jax.ShapeDtypeStruct(X.shape, jnp.float32)])

    with pytest.raises(pallasim.UnsupportedError, match="brkpt"), pallasim.emulate("gpu-h100"):
        triton(kernel)(X)
