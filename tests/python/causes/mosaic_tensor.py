"""Kernels for Blackwell with one mistake in what they do with tensor memory."""
from __future__ import annotations

import inspect

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .bugs import bug
from .mosaic import launch

F32, F16, CHIP = jnp.float32, jnp.float16, "gpu-b200"
X = jnp.asarray(np.random.default_rng(2).integers(-3, 4, (2, 128, 128)), F16)
OPERAND = plgpu.SMEM((128, 128), F16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))
SUM, TELLS = plgpu.TMEM((128, 128), F32), plgpu.Barrier(orders_tensor_core=True)
SCRATCH = [OPERAND, plgpu.Barrier(), TELLS, SUM]


def registers(ref):
    """The whole ref in registers (JAX 0.10 has an index besides)."""
    return plgpu.load(ref, *(((),) if "idx" in inspect.signature(plgpu.load).parameters else ()))


def product(x, y):
    return jnp.asarray(np.asarray(x, np.float32) @ np.asarray(y, np.float32))


def square(x):
    return product(x, x)


@bug(CHIP, "PS-RACE-002", words=("acc", "tcgen05_mma", "tcgen05_commit_arrive"))
def accumulator_is_read_before_the_barrier(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(acc, smem, smem, done, accumulate=False)  # ALSO
        if fixed:
            plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)  # CAUSE
        if not fixed:
            plgpu.barrier_wait(done)

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), square(X[0])


@bug(CHIP, "PS-RACE-002", words=("smem", "tcgen05_mma"))
def operand_is_overwritten_before_the_commit(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(acc, smem, smem, accumulate=False)  # ALSO
        if fixed:
            plgpu.tcgen05_commit_arrive(done)
            plgpu.barrier_wait(done)
        plgpu.copy_gmem_to_smem(x_ref.at[1], smem, barrier)  # CAUSE
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(acc, smem, smem, done)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), square(X[0]) + square(X[1])


@bug(CHIP, "PS-RACE-002", words=("acc", "plgpu.commit_tmem()"))
def stored_sum_is_not_committed(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.async_store_tmem(acc, jnp.full((128, 128), 7, F32))  # ALSO
        if fixed:
            plgpu.commit_tmem()
        plgpu.tcgen05_mma(acc, smem, smem, done)  # CAUSE
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), square(X[0]) + 7


@bug(CHIP, "PS-RACE-002", words=("acc", "plgpu.wait_load_tmem()"))
def sum_is_begun_anew_while_it_is_loaded(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        for i in range(2):
            plgpu.tcgen05_mma(acc, smem, smem, done, accumulate=False)  # CAUSE
            plgpu.barrier_wait(done)
            o_ref[i] = plgpu.async_load_tmem(acc)  # ALSO
            if fixed:
                plgpu.wait_load_tmem()

    both = jnp.stack([square(X[0])] * 2)
    return launch(kernel, both, X, scratch=SCRATCH), both


@bug(CHIP, "PS-RACE-003", words=("smem", "tcgen05_mma", "plgpu.commit_smem()"))
def stored_operand_is_not_committed(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        smem[...] = registers(smem) * 2  # ALSO
        if fixed:
            plgpu.commit_smem()
        plgpu.tcgen05_mma(acc, smem, smem, done, accumulate=False)  # CAUSE
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), 4 * square(X[0])


@bug(CHIP, "PS-DEAD-001", words=("done",))
def product_is_never_committed(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(acc, smem, smem, accumulate=False)
        if fixed:
            plgpu.tcgen05_commit_arrive(done)
        plgpu.barrier_wait(done)  # CAUSE
        o_ref[...] = plgpu.async_load_tmem(acc)

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), square(X[0])


@bug(CHIP, "PS-RACE-002", words=("smem", "tcgen05_mma"))
def pair_multiplies_before_the_other_operand_is_there(fixed):
    def kernel(x_ref, o_ref, smem, right, barrier, met, done, acc):
        x = lax.axis_index("x")
        plgpu.copy_gmem_to_smem(x_ref.at[x], smem, barrier)  # CAUSE ALSO
        plgpu.copy_gmem_to_smem(x_ref.at[0, :, pl.ds(64 * x, 64)], right, barrier)
        plgpu.barrier_wait(barrier)
        if fixed:
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)
        plgpu.tcgen05_mma(acc, smem, right, done, accumulate=False, collective_axis="x")  # CAUSE ALSO
        plgpu.barrier_wait(done)
        o_ref[x] = plgpu.async_load_tmem(acc)

    right = plgpu.SMEM((128, 64), F16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))
    want = jnp.stack([product(X[i], X[0]) for i in range(2)])
    scratch = [OPERAND, right, plgpu.Barrier(num_arrivals=2), plgpu.ClusterBarrier(collective_axes=("x",)), TELLS, plgpu.TMEM((128, 128), F32, collective=True)]
    return launch(kernel, want, X, scratch=scratch, cluster=(2,), cluster_names=("x",)), want
