"""Kernels for Blackwell with one mistake in what sums, pairs of CTAs and clusters owe each other."""
from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .bugs import bug
from .mosaic import launch
from .mosaic_tensor import CHIP, F16, F32, OPERAND, SCRATCH, TELLS, X, product, square

RIGHT = plgpu.SMEM((128, 64), F16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))


@bug(CHIP, "PS-UNINIT-001", "PS-UNINIT-003", words=("acc",))
def sum_is_never_begun(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, acc):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(acc, smem, smem, done, accumulate=not fixed)  # CAUSE
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(acc)  # CAUSE

    return launch(kernel, square(X[0]), X, scratch=SCRATCH), square(X[0])


@bug(CHIP, "PS-UNINIT-001", "PS-UNINIT-003", words=("sums",))
def sum_is_loaded_from_other_columns(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, sums):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(sums.at[:, pl.ds(128, 128)], smem, smem, done, accumulate=False)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(sums.at[:, pl.ds(128 if fixed else 0, 128)])  # CAUSE

    scratch = [OPERAND, plgpu.Barrier(), TELLS, plgpu.TMEM((128, 256), F32)]
    return launch(kernel, square(X[0]), X, scratch=scratch), square(X[0])


@bug(CHIP, "PS-OOB-001", words=("sums",))
def sum_is_loaded_from_columns_that_there_are_not(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, sums):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.tcgen05_mma(sums.at[:, pl.ds(128, 128)], smem, smem, done, accumulate=False)
        plgpu.barrier_wait(done)
        last = lax.axis_index("i") + (1 if fixed else 2)
        o_ref[...] = plgpu.async_load_tmem(sums.at[:, pl.ds(last * 128, 128)])  # CAUSE

    scratch = [OPERAND, plgpu.Barrier(), TELLS, plgpu.TMEM((128, 256), F32)]
    return launch(kernel, square(X[0]), X, scratch=scratch, grid=(1,), grid_names=("i",)), square(X[0])


@bug(CHIP, "PS-RACE-003", words=("smem", "plgpu.commit_smem()", "bulk copy | copy"))
def stored_part_is_copied_to_tensor_memory_without_a_fence(fixed):
    def kernel(x_ref, o_ref, smem, barrier, done, there):
        smem[...] = x_ref[0]  # ALSO
        if fixed:
            plgpu.commit_smem()
        plgpu.async_copy_smem_to_tmem(smem, there)  # CAUSE
        plgpu.tcgen05_commit_arrive(done)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(there)

    scratch = [OPERAND, plgpu.Barrier(), TELLS, plgpu.TMEM((128, 128), F16, packed=True)]
    return launch(kernel, X[0], X, scratch=scratch), X[0]


def pair_of(body, **more):
    """A pair that multiplies two matrices, of which each CTA has its own, by the first one."""
    want = jnp.stack([product(X[i], X[0]) for i in range(2)])
    met = plgpu.ClusterBarrier(collective_axes=("x",), orders_tensor_core=True)
    scratch = [OPERAND, RIGHT, plgpu.Barrier(num_arrivals=2), met, TELLS, plgpu.TMEM((128, 128), F32, collective=True)]
    return launch(body, want, X, scratch=scratch, cluster=(2,), cluster_names=("x",), **more), want


def fill(x_ref, smem, right, barrier):
    x = lax.axis_index("x")
    plgpu.copy_gmem_to_smem(x_ref.at[x], smem, barrier)
    plgpu.copy_gmem_to_smem(x_ref.at[0, :, pl.ds(64 * x, 64)], right, barrier)
    plgpu.barrier_wait(barrier)
    return x


@bug(CHIP, "PS-DEAD-001", words=("met", "1 of 2 arrived"))
def one_cta_of_a_pair_does_not_arrive(fixed):
    def kernel(x_ref, o_ref, smem, right, barrier, met, done, acc):
        x = fill(x_ref, smem, right, barrier)

        @pl.when((x == 0) | fixed)
        def _():
            plgpu.barrier_arrive(met)

        plgpu.barrier_wait(met)  # CAUSE
        plgpu.tcgen05_mma(acc, smem, right, done, accumulate=False, collective_axis="x")
        plgpu.barrier_wait(done)
        o_ref[x] = plgpu.async_load_tmem(acc)

    return pair_of(kernel)


@bug(CHIP, "PS-DEAD-001", words=("done",))
def commit_of_a_pair_tells_one_cta(fixed):
    def kernel(x_ref, o_ref, smem, right, barrier, met, done, acc):
        x = fill(x_ref, smem, right, barrier)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

        @pl.when(x == 0)
        def _():
            plgpu.tcgen05_mma(acc, smem, right, accumulate=False, collective_axis="x")
            plgpu.tcgen05_commit_arrive(done, collective_axis="x" if fixed else None)

        plgpu.barrier_wait(done)  # CAUSE
        o_ref[x] = plgpu.async_load_tmem(acc)

    return pair_of(kernel)


@bug(CHIP, "PS-RACE-002", words=("acc", "tcgen05_mma"))
def second_cta_of_a_pair_reads_its_sum_too_early(fixed):
    def kernel(x_ref, o_ref, smem, right, barrier, met, done, acc):
        x = fill(x_ref, smem, right, barrier)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        plgpu.tcgen05_mma(acc, smem, right, done, accumulate=False, collective_axis="x")  # ALSO CAUSE

        @pl.when((x == 0) | fixed)
        def _():
            plgpu.barrier_wait(done)

        o_ref[x] = plgpu.async_load_tmem(acc)  # CAUSE ALSO

        @pl.when((x == 1) & (not fixed))
        def _():
            plgpu.barrier_wait(done)

    return pair_of(kernel)


@bug(CHIP, "PS-CLU-001", words=("is lost",), reports=2)  # the second one: what it should have stored is not there
def cluster_that_is_asked_for_is_not_worked_for(fixed):
    def kernel(o_ref, answer, asked, _):
        a = lax.axis_index("a")
        o_ref[a] = a + 1
        plgpu.try_cluster_cancel(answer, asked)  # CAUSE
        plgpu.barrier_wait(asked)
        (other,), given = plgpu.query_cluster_cancel(answer, ("a",))

        @pl.when(given & fixed)
        def _():
            o_ref[other] = other + 1

    def other_kernel(o_ref, answer, asked, _):
        a = lax.axis_index("a")
        o_ref[a] = a + 1
        plgpu.try_cluster_cancel(answer, asked)  # CAUSE
        plgpu.barrier_wait(asked)

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier(), plgpu.SMEM((200 * 1024,), jnp.int8)]
    want = jnp.arange(1, 150, dtype=jnp.int32)
    return launch(kernel if fixed else other_kernel, want, scratch=scratch, grid=(149,), grid_names=("a",)), want
