"""Mosaic GPU kernels with one mistake between warpgroups, the blocks of a cluster, or all blocks of the grid."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from .bugs import bug
from .mosaic import CHIP, F32, TILE, X, kernel_of, launch

RING = plgpu.SMEM((2, 32, 128), F32)
TWO = plgpu.Barrier(num_barriers=2)


def warpgroups(kernel, out, *scratch):
    return launch(kernel, out, X, scratch=scratch, num_threads=2, thread_name="wg")


@bug(CHIP, "PS-DEAD-001", words=("PS-RACE-001 came before: ring is written by another copy", "full", "4 arrivals came before the wait"))
def producer_does_not_wait_for_a_free_slot(fixed):
    def kernel(x_ref, o_ref, ring, full, empty):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            @pl.loop(0, 8)
            def _(i):
                @pl.when(i >= (2 if fixed else 8))
                def _():
                    plgpu.barrier_wait(empty.at[i % 2])

                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])  # CAUSE, ALSO

        @pl.when(wg == 1)
        def _():
            @pl.loop(0, 8)
            def _(i):
                plgpu.barrier_wait(full.at[i % 2])  # CAUSE
                o_ref[i] = ring[i % 2] * 2
                plgpu.barrier_arrive(empty.at[i % 2])

    return warpgroups(kernel, X, RING, TWO, TWO), X * 2


@bug(CHIP, "PS-DEAD-001", words=("empty", "warpgroup 0", "0 of 1"))
def consumer_does_not_release_its_slot(fixed):
    def kernel(x_ref, o_ref, ring, full, empty):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            @pl.loop(0, 8)
            def _(i):
                @pl.when(i >= 2)
                def _():
                    plgpu.barrier_wait(empty.at[i % 2])  # CAUSE

                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])

        @pl.when(wg == 1)
        def _():
            @pl.loop(0, 8)
            def _(i):
                plgpu.barrier_wait(full.at[i % 2])  # CAUSE, ALSO
                o_ref[i] = ring[i % 2] * 2
                if fixed:
                    plgpu.barrier_arrive(empty.at[i % 2])

    return warpgroups(kernel, X, RING, TWO, TWO), X * 2


@bug(CHIP, "PS-DEAD-001", words=("empty", "warpgroup 0", "phase 0"))
def producer_waits_for_slots_that_nobody_took(fixed):
    def kernel(x_ref, o_ref, ring, full, empty):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            @pl.loop(0, 8)
            def _(i):
                @pl.when(i >= (2 if fixed else 0))
                def _():
                    plgpu.barrier_wait(empty.at[i % 2])  # CAUSE

                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])

        @pl.when(wg == 1)
        def _():
            @pl.loop(0, 8)
            def _(i):
                plgpu.barrier_wait(full.at[i % 2])  # ALSO
                o_ref[i] = ring[i % 2] * 2
                plgpu.barrier_arrive(empty.at[i % 2])  # ALSO

    return warpgroups(kernel, X, RING, TWO, TWO), X * 2


@bug(CHIP, "PS-BAR-002", words=("empty", "warpgroup 0"), misleading=("PS-RACE",))
def producer_may_come_two_phases_late(fixed):
    """Both slots are free when it waits for the other one, but that one's next phase may end before the wait."""
    def kernel(x_ref, o_ref, ring, full, empty):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            @pl.loop(0, 6)
            def _(i):
                @pl.when(i >= 2)
                def _():
                    plgpu.barrier_wait(empty.at[(i if fixed else i + 1) % 2])  # CAUSE

                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])

        @pl.when(wg == 1)
        def _():
            @pl.loop(0, 6)
            def _(i):
                plgpu.barrier_wait(full.at[i % 2])
                o_ref[i] = ring[i % 2] * 2

                @pl.when(i < 4)
                def _():
                    plgpu.barrier_arrive(empty.at[i % 2])  # ALSO

    return warpgroups(kernel, X[:6], RING, TWO, TWO), X[:6] * 2


@bug(CHIP, "PS-RACE-002", "PS-RACE-001", words=("ring", "warpgroup 1"))
def slot_is_released_before_it_is_read(fixed):
    def kernel(x_ref, o_ref, ring, full, empty):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            @pl.loop(0, 8)
            def _(i):
                @pl.when(i >= 2)
                def _():
                    plgpu.barrier_wait(empty.at[i % 2])

                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])  # CAUSE, ALSO

        @pl.when(wg == 1)
        def _():
            @pl.loop(0, 8)
            def _(i):
                plgpu.barrier_wait(full.at[i % 2])
                if not fixed:
                    plgpu.barrier_arrive(empty.at[i % 2])
                o_ref[i] = ring[i % 2] * 2  # CAUSE, ALSO
                if fixed:
                    plgpu.barrier_arrive(empty.at[i % 2])

    return warpgroups(kernel, X, RING, TWO, TWO), X * 2


@bug(CHIP, "PS-RACE-002", words=("smem", "warpgroup 0", "warpgroup 1"))
def warpgroups_share_a_tile_without_a_barrier(fixed):
    def kernel(x_ref, o_ref, smem, stored):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            smem[...] = x_ref[0] * 2  # CAUSE, ALSO
            if fixed:
                plgpu.barrier_arrive(stored)

        @pl.when(wg == 1)
        def _():
            if fixed:
                plgpu.barrier_wait(stored)
            o_ref[...] = smem[...] + 1  # CAUSE, ALSO

    return warpgroups(kernel, X[0], TILE, plgpu.Barrier()), X[0] * 2 + 1


@bug(CHIP, "PS-DEAD-001", words=("met", "num_arrivals=1 | num_arrivals = 1 | 1 arrival", "2 arrive | 2 arrivals"))
def barrier_is_made_for_one_of_two_warpgroups(fixed):
    def kernel(x_ref, o_ref, smem, met):
        wg = jax.lax.axis_index("wg")
        smem[wg] = x_ref[wg] * 2
        plgpu.barrier_arrive(met)  # ALSO
        plgpu.barrier_wait(met)  # CAUSE
        o_ref[wg] = smem[1 - wg] + 1

    met = plgpu.Barrier(num_arrivals=2 if fixed else 1)  # CAUSE, MADE
    call = kernel_of(kernel, X[:2], [RING, met], num_threads=2, thread_name="wg")
    return lambda: call(X), X[1::-1] * 2 + 1  # CAUSE


@bug(CHIP, "PS-DEAD-001", words=("met", "2 of 3", "num_arrivals=3 | num_arrivals = 3 | 3 arrivals"))
def barrier_is_made_for_three_of_two_warpgroups(fixed):
    def kernel(x_ref, o_ref, smem, met):
        wg = jax.lax.axis_index("wg")
        smem[wg] = x_ref[wg] * 2
        plgpu.barrier_arrive(met)  # ALSO
        plgpu.barrier_wait(met)  # CAUSE, ALSO
        o_ref[wg] = smem[1 - wg] + 1

    met = plgpu.Barrier(num_arrivals=2 if fixed else 3)  # CAUSE, MADE
    call = kernel_of(kernel, X[:2], [RING, met], num_threads=2, thread_name="wg")
    return lambda: call(X), X[1::-1] * 2 + 1  # CAUSE


def cluster(kernel, *scratch, size=(2,), names=("x",)):
    return launch(kernel, X[:2 * len(size)], X, scratch=scratch, grid=(1,), grid_names=("i",), cluster=size, cluster_names=names)


MET = plgpu.ClusterBarrier(collective_axes=("x",))


@bug(CHIP, "PS-RACE-002", words=("smem", "x=0", "x=1"))
def tile_of_the_neighbour_is_read_without_a_barrier(fixed):
    def kernel(x_ref, o_ref, smem, met):
        at = jax.lax.axis_index("x")
        smem[...] = x_ref[at]  # CAUSE, ALSO
        if fixed:
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)
        o_ref[at] = plgpu.cluster_ref(smem, {"x": 1 - at})[...]  # CAUSE, ALSO
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

    return cluster(kernel, TILE, MET), X[1::-1]


@bug(CHIP, "PS-RACE-002", words=("up", "down", "x=0", "x=1"))
def two_tiles_of_the_neighbour_are_read_without_a_barrier(fixed):
    def kernel(x_ref, o_ref, up, down, met):
        at = jax.lax.axis_index("x")
        up[...] = x_ref[at] * 2  # CAUSE, ALSO
        down[...] = x_ref[at] + 5  # CAUSE
        if fixed:
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)
        there = {"x": 1 - at}
        for i in range(4):
            rows = pl.ds(8 * i, 8)
            o_ref[at, rows] = plgpu.cluster_ref(up, there)[rows] - plgpu.cluster_ref(down, there)[rows]  # CAUSE, ALSO
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

    return cluster(kernel, TILE, TILE, MET), X[1::-1] - 5


@bug(CHIP, "PS-RACE-002", words=("smem", "x=1", "ends | end"))
def neighbour_may_end_while_its_tile_is_read(fixed):
    def kernel(x_ref, o_ref, smem, met):
        at = jax.lax.axis_index("x")
        smem[...] = x_ref[at]
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        o_ref[at] = plgpu.cluster_ref(smem, {"x": 1 - at})[...]  # CAUSE
        if fixed:
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)

    return cluster(kernel, TILE, MET), X[1::-1]


@bug(CHIP, "PS-RACE-002", words=("smem", "x=0, y=1", "x=1, y=1"))
def barrier_is_along_the_other_axis(fixed):
    def kernel(x_ref, o_ref, smem, met):
        x, y = jax.lax.axis_index("x"), jax.lax.axis_index("y")
        smem[...] = x_ref[2 * x + y]  # CAUSE, ALSO
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        o_ref[2 * x + y] = plgpu.cluster_ref(smem, {"x": 1 - x, "y": y})[...]  # CAUSE, ALSO
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

    met = plgpu.ClusterBarrier(collective_axes=("x",) if fixed else ("y",))
    return cluster(kernel, TILE, met, size=(2, 2), names=("x", "y")), X[jnp.array([2, 3, 0, 1])]


@bug(CHIP, "PS-RACE-002", "PS-RACE-001", words=("smem", "x=0", "x=1"), misleading=("moves a ref",))
def neighbour_stores_into_a_tile_that_is_not_cleared_yet(fixed):
    def kernel(x_ref, o_ref, smem, met, stored):
        at = jax.lax.axis_index("x")
        smem[...] = jnp.full_like(smem, 2)  # CAUSE, ALSO
        if fixed:
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)
        plgpu.async_store_smem(x_ref[at], smem, stored, cluster_idx=1 - at, cluster_dim="x")  # CAUSE, ALSO
        plgpu.barrier_wait(stored)
        o_ref[at] = smem[...]

    return cluster(kernel, TILE, MET, plgpu.Barrier()), X[1::-1]


@bug(CHIP, "PS-DEAD-001", words=("barrier", "CTA"))
def only_one_block_of_the_cluster_copies(fixed):
    """A copy for several blocks brings each of them a part: all must issue it."""
    def kernel(x_ref, o_ref, smem, barrier):
        at = jax.lax.axis_index("x")

        @pl.when(at < (2 if fixed else 1))
        def _():
            plgpu.copy_gmem_to_smem(x_ref.at[3], smem, barrier, collective_axes="x")  # CAUSE, ALSO

        plgpu.barrier_wait(barrier)  # CAUSE
        o_ref[at] = smem[...] + at.astype(F32)

    return cluster(kernel, TILE, plgpu.Barrier()), jnp.stack([X[3], X[3] + 1])


def blocks(kernel, out, n, *scratch):
    return launch(kernel, out, X, scratch=scratch, grid=(n,), grid_names=("i",))


@bug(CHIP, "PS-RACE-002", "PS-PAR-002", words=("o_ref", "rows 16 | (16, 0) | 16 rows | 16 to 31 | 16:32"), misleading=("pltpu",))
def blocks_write_rows_of_their_neighbours(fixed):
    def kernel(x_ref, o_ref):
        i = jax.lax.axis_index("i")
        o_ref[pl.ds(i * (32 if fixed else 16), 32)] = x_ref[i] * 2  # CAUSE

    return blocks(kernel, X.reshape(256, 128), 8), X.reshape(256, 128) * 2


@bug(CHIP, "PS-RACE-002", "PS-PAR-002", words=("o_ref",), misleading=("pltpu",))
def blocks_add_to_one_sum_without_atomics(fixed):
    def kernel(x_ref, zero_ref, o_ref):
        if fixed:
            i = jax.lax.axis_index("i")
            o_ref[i] = zero_ref[...] + x_ref[i]
        else:
            o_ref[0] = zero_ref[...] + x_ref[jax.lax.axis_index("i")]  # CAUSE

    return launch(kernel, X, X, jnp.zeros_like(X[0]), grid=(8,), grid_names=("i",)), X


@bug(CHIP, "PS-RACE-002", words=("rows_ref",), misleading=("pltpu",))
def last_block_does_not_wait_for_the_others(fixed):
    def kernel(x_ref, rows_ref, sum_ref):
        sem = pl.get_global(plgpu.SemaphoreType.REGULAR)
        i = jax.lax.axis_index("i")
        rows_ref[i] = x_ref[i] * 2  # CAUSE, ALSO

        @pl.when(i < 4)
        def _():
            pl.semaphore_signal(sem, 1)

        @pl.when(i == 4)
        def _():
            if fixed:
                pl.semaphore_wait(sem, 4)
            total = jnp.zeros_like(sum_ref)
            for k in range(4):
                total += rows_ref[k]  # CAUSE, ALSO
            sum_ref[...] = total
            if not fixed:
                pl.semaphore_wait(sem, 4)

    return launch(kernel, [X[:5], X[0]], X, grid=(5,), grid_names=("i",)), [X[:5] * 2, X[:4].sum(0) * 2]


@bug(CHIP, "PS-DEAD-001", words=("sem", "4 in all | signalled 4 | 4 signal", "to reach 5 | wants 5 | waits for 5"))
def last_block_waits_for_itself(fixed):
    def kernel(x_ref, rows_ref, sum_ref):
        sem = pl.get_global(plgpu.SemaphoreType.REGULAR)
        i = jax.lax.axis_index("i")
        rows_ref[i] = x_ref[i] * 2

        @pl.when(i < 4)
        def _():
            pl.semaphore_signal(sem, 1)  # ALSO

        @pl.when(i == 4)
        def _():
            pl.semaphore_wait(sem, 4 if fixed else 5)  # CAUSE
            total = rows_ref[0]
            for k in range(1, 4):
                total += rows_ref[k]
            sum_ref[...] = total

    return launch(kernel, [X[:5], X[0]], X, grid=(5,), grid_names=("i",)), [X[:5] * 2, X[:4].sum(0) * 2]
