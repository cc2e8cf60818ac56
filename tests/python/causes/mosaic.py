"""Mosaic GPU kernels with one mistake in their barriers, bulk copies or products."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .bugs import bug

F32, F16 = jnp.float32, jnp.float16
CHIP = "gpu-h100"
X = jnp.asarray(np.random.default_rng(0).integers(1, 9, (8, 32, 128)), F32)
H = jnp.asarray(np.random.default_rng(1).integers(-4, 5, (4, 64, 64)), F16)
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
TILE = plgpu.SMEM((32, 128), F32)
OPERAND = plgpu.SMEM((64, 64), F16, transforms=TILES)


def launch(kernel, out, *args, **options):
    call = kernel_of(kernel, out, **options)
    return lambda: call(*args)


def kernel_of(kernel, out, scratch=(), **options):
    """plgpu.kernel, whose arguments newer JAX renamed."""
    out = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), out)
    try:
        return plgpu.kernel(kernel, out_type=out, scratch_types=scratch, **options)
    except TypeError:
        return plgpu.kernel(kernel, out_shape=out, scratch_shapes=scratch, **options)


@bug(CHIP, "PS-RACE-001", words=("smem", "x_ref", "barrier"))
def tile_is_read_before_the_barrier(fixed):
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)  # ALSO
        if fixed:
            plgpu.barrier_wait(barrier)
        o_ref[...] = smem[...] + 1  # CAUSE
        if not fixed:
            plgpu.barrier_wait(barrier)

    return launch(kernel, X[0], X, scratch=[TILE, plgpu.Barrier()]), X[0] + 1


@bug(CHIP, "PS-RACE-001", words=("x_smem", "y_smem", "barrier"))
def two_tiles_are_read_before_their_barrier(fixed):
    def kernel(x_ref, y_ref, o_ref, x_smem, y_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], x_smem, barrier)  # ALSO
        plgpu.copy_gmem_to_smem(y_ref.at[1], y_smem, barrier)  # ALSO
        if fixed:
            plgpu.barrier_wait(barrier)
        for i in range(4):
            rows = pl.ds(8 * i, 8)
            o_ref[0, rows] = x_smem[rows] + y_smem[rows]  # CAUSE
            o_ref[1, rows] = x_smem[rows] - y_smem[rows]
        if not fixed:
            plgpu.barrier_wait(barrier)

    call = launch(kernel, X[:2], X, X, scratch=[TILE, TILE, plgpu.Barrier(num_arrivals=2)])
    return call, jnp.stack([X[0] + X[1], X[0] - X[1]])


@bug(CHIP, "PS-RACE-001", words=("slots", "barrier"))
def wait_is_that_of_the_other_slot(fixed):
    def kernel(x_ref, o_ref, slots, barriers):
        for slot in range(2):
            plgpu.copy_gmem_to_smem(x_ref.at[slot], slots.at[slot], barriers.at[slot])  # ALSO

        @pl.loop(0, 2)
        def _(i):
            plgpu.barrier_wait(barriers.at[i if fixed else 1 - i])
            o_ref[i] = slots[i] * 2  # CAUSE

    return launch(kernel, X[:2], X, scratch=[plgpu.SMEM((2, 32, 128), F32), plgpu.Barrier(num_barriers=2)]), X[:2] * 2


@bug(CHIP, "PS-DEAD-001", words=("barrier", "num_arrivals=1 | num_arrivals = 1 | 1 arrival", "2 arrive | 2 arrivals"))
def barrier_is_made_for_one_of_two_copies(fixed):
    def kernel(x_ref, y_ref, o_ref, x_smem, y_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], x_smem, barrier)  # ALSO
        plgpu.copy_gmem_to_smem(y_ref.at[1], y_smem, barrier)  # ALSO
        plgpu.barrier_wait(barrier)  # CAUSE
        o_ref[...] = x_smem[...] * y_smem[...]

    barrier = plgpu.Barrier(num_arrivals=2 if fixed else 1)  # CAUSE, MADE
    call = kernel_of(kernel, X[0], [TILE, TILE, barrier])
    return lambda: call(X, X), X[0] * X[1]  # CAUSE, MADE


@bug(CHIP, "PS-DEAD-001", words=("barrier", "2 of 3", "num_arrivals=3 | num_arrivals = 3 | 3 arrivals"))
def barrier_is_made_for_three_of_two_copies(fixed):
    def kernel(x_ref, y_ref, o_ref, x_smem, y_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], x_smem, barrier)  # ALSO
        plgpu.copy_gmem_to_smem(y_ref.at[1], y_smem, barrier)  # ALSO
        plgpu.barrier_wait(barrier)  # CAUSE, ALSO
        o_ref[...] = x_smem[...] * y_smem[...]

    barrier = plgpu.Barrier(num_arrivals=2 if fixed else 3)  # CAUSE, MADE
    call = kernel_of(kernel, X[0], [TILE, TILE, barrier])
    return lambda: call(X, X), X[0] * X[1]  # CAUSE, MADE


@bug(CHIP, "PS-DEAD-001", words=("barrier", "phase 1"))
def barrier_is_awaited_twice(fixed):
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)  # ALSO
        plgpu.barrier_wait(barrier)
        value = smem[...] * 2
        if not fixed:
            plgpu.barrier_wait(barrier)  # CAUSE
        o_ref[...] = value

    return launch(kernel, X[0], X, scratch=[TILE, plgpu.Barrier()]), X[0] * 2


@bug(CHIP, "PS-RACE-003", words=("smem", "commit_smem"))
def stores_are_not_committed_before_the_copy(fixed):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[0] * 3  # ALSO
        if fixed:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)  # CAUSE
        plgpu.wait_smem_to_gmem(0)

    return launch(kernel, X[0], X, scratch=[TILE]), X[0] * 3


@bug(CHIP, "PS-RACE-001", words=("smem", "o_ref", "trip"))
def tile_is_stored_over_while_it_leaves(fixed):
    def kernel(x_ref, o_ref, smem):
        @pl.loop(0, 8)
        def _(i):
            smem[...] = x_ref[i] * 3  # CAUSE
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(smem, o_ref.at[i])  # ALSO
            if fixed:
                plgpu.wait_smem_to_gmem(0)

        plgpu.wait_smem_to_gmem(0)

    return launch(kernel, X, X, scratch=[TILE]), X * 3


@bug(CHIP, "PS-RACE-001", words=("slots", "o_ref"))
def one_group_too_many_may_be_under_way(fixed):
    def kernel(x_ref, o_ref, slots):
        @pl.loop(0, 8)
        def _(i):
            plgpu.wait_smem_to_gmem(1 if fixed else 2, wait_read_only=True)
            slots[i % 2] = x_ref[i] + 4  # CAUSE
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(slots.at[i % 2], o_ref.at[i])  # ALSO

        plgpu.wait_smem_to_gmem(0)

    return launch(kernel, X, X, scratch=[plgpu.SMEM((2, 32, 128), F32)]), X + 4


@bug(CHIP, "PS-RACE-001", words=("smem", "o_ref", "scope"))
def kernel_ends_before_its_store(fixed):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[0] - 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)  # CAUSE
        if fixed:
            plgpu.wait_smem_to_gmem(0)

    return launch(kernel, X[0], X, scratch=[TILE]), X[0] - 1


@bug(CHIP, "PS-RACE-001", words=("smem", "o_ref", "scope"))
def blocks_of_a_grid_end_before_their_stores(fixed):
    def kernel(x_ref, o_ref, smem):
        i = jax.lax.axis_index("i")
        smem[...] = x_ref[i] - 1
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref.at[i])  # CAUSE
        if fixed:
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)

    return launch(kernel, X, X, scratch=[TILE], grid=(8,), grid_names=("i",)), X - 1


def product(a, b):
    return np.asarray(a, np.float32) @ np.asarray(b, np.float32)


@bug(CHIP, "PS-RACE-002", "PS-RACE-001", words=("a_smem", "wgmma"))
def operand_is_loaded_over_a_product(fixed):
    def kernel(x_ref, o_ref, a_smem, b_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[3], b_smem, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc):
            for k in range(2):
                plgpu.copy_gmem_to_smem(x_ref.at[k], a_smem, barrier)  # CAUSE, ALSO
                plgpu.barrier_wait(barrier)
                plgpu.wgmma(acc, a_smem, b_smem)  # CAUSE, ALSO
                if fixed:
                    plgpu.wgmma_wait(0)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    return launch(kernel, H[0].astype(F32), H, scratch=[OPERAND, OPERAND, plgpu.Barrier()]), product(H[0], H[3]) + product(H[1], H[3])


@bug(CHIP, "PS-RACE-002", "PS-RACE-001", words=("a_smem", "wgmma"))
def operand_is_stored_over_a_product(fixed):
    def kernel(x_ref, o_ref, a_smem, b_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[0], a_smem, barrier)
        plgpu.copy_gmem_to_smem(x_ref.at[1], b_smem, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc):
            plgpu.wgmma(acc, a_smem, b_smem)  # ALSO
            if fixed:
                plgpu.wgmma_wait(0)
            a_smem[...] = jnp.zeros_like(a_smem)  # CAUSE
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    return launch(kernel, H[0].astype(F32), H, scratch=[OPERAND, OPERAND, plgpu.Barrier(num_arrivals=2)]), product(H[0], H[1])


@bug(CHIP, "PS-RACE-003", words=("a_smem", "wgmma", "commit_smem"))
def operand_is_not_committed_before_the_product(fixed):
    def kernel(x_ref, o_ref, a_smem, b_smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[1], b_smem, barrier)
        plgpu.barrier_wait(barrier)
        a_smem[...] = b_smem[...] * F16(2)  # ALSO
        if fixed:
            plgpu.commit_smem()

        def scope(acc):
            plgpu.wgmma(acc, a_smem, b_smem)  # CAUSE
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    return launch(kernel, H[0].astype(F32), H, scratch=[OPERAND, OPERAND, plgpu.Barrier()]), 2 * product(H[1], H[1])


@bug(CHIP, "PS-RACE-002", "PS-RACE-001", words=("in_smem_refs[0]", "in_smem_refs[1]", "wgmma"))
def pipeline_releases_operands_of_a_product(fixed):
    def kernel(a_ref, b_ref, o_ref):
        def scope(acc):
            def step(_, a_smem, b_smem):
                plgpu.wgmma(acc, a_smem, b_smem)  # CAUSE
                plgpu.wgmma_wait(1)

            spec = plgpu.BlockSpec((64, 64), lambda k: (k, 0), transforms=TILES, delay_release=1 if fixed else 0)  # CAUSE
            plgpu.emit_pipeline(step, grid=(4,), in_specs=[spec, spec], max_concurrent_steps=2)(a_ref, b_ref)  # CAUSE
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), F32))

    a = H.reshape(256, 64)
    return launch(kernel, H[0].astype(F32), a, a), sum(product(H[k], H[k]) for k in range(4))


@bug(CHIP, "PS-MEM-001", words=("big", "256,1024 | (256, 1024)", "1048576"), misleading=("max_concurrent_steps",))
def scratch_does_not_fit_into_smem(fixed):
    def kernel(x_ref, o_ref, big):
        o_ref[...] = x_ref[0] + 1

    big = plgpu.SMEM((16 if fixed else 256, 1024), F32)  # CAUSE
    call = kernel_of(kernel, X[0], [big])
    return lambda: call(X), X[0] + 1  # CAUSE


@bug(CHIP, "PS-OOB-001", words=("x_ref", "index 8", "size 8"))
def tile_that_is_not_there_is_read(fixed):
    def kernel(x_ref, o_ref, smem):
        i = jax.lax.axis_index("i")
        smem[...] = x_ref[i] + x_ref[jnp.minimum(i + 1, 7) if fixed else i + 1]  # CAUSE
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref.at[i])
        plgpu.wait_smem_to_gmem(0)

    return launch(kernel, X, X, scratch=[TILE], grid=(8,), grid_names=("i",)), X + X[np.minimum(np.arange(8) + 1, 7)]
