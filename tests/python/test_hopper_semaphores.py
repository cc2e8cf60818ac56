"""Semaphores of Mosaic GPU kernels: of the whole grid and of a thread block, against NumPy; findings where a kernel is wrong."""
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim
from test_hopper_cluster import SCHEDULES, codes_of, kernel

BLOCKS = 5


def summed(waits: bool = True, own: bool = False) -> Any:
    """All blocks but the last write a row and signal; the last one waits for them and adds the rows up."""
    def body(rows_ref: Any, sum_ref: Any) -> None:
        sem = pl.get_global(plgpu.SemaphoreType.REGULAR)
        i = jax.lax.axis_index("i")

        @pl.when(i < BLOCKS - 1)
        def _() -> None:
            rows_ref[i] = jnp.full((128,), 3, jnp.int32) * (i + 1)
            if own:
                plgpu.semaphore_signal(sem, 2, memory_scope="gpu")
            else:
                pl.semaphore_signal(sem, 2)

        @pl.when(i == BLOCKS - 1)
        def _() -> None:
            rows_ref[i] = jnp.zeros((128,), jnp.int32)
            if own and waits:
                plgpu.semaphore_wait(sem, 2 * (BLOCKS - 1), memory_scope="gpu")
            elif waits:
                pl.semaphore_wait(sem, 2 * (BLOCKS - 1))
            total = rows_ref[0]
            for k in range(1, BLOCKS - 1):
                total += rows_ref[k]
            sum_ref[...] = total

    row = jax.ShapeDtypeStruct((128,), jnp.int32)
    return kernel(body, [jax.ShapeDtypeStruct((BLOCKS, 128), jnp.int32), row], grid=(BLOCKS,), grid_names=("i",))()


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("own", [False, True] if hasattr(plgpu, "semaphore_signal") else [False])
def test_a_semaphore_of_the_grid_orders_its_blocks(own: bool, options: Any) -> None:
    before = pallasim.launch_count()
    with pallasim.emulate("gpu-h100", **options):
        rows, total = map(np.asarray, summed(own=own))
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(rows[:, 0], [3, 6, 9, 12, 0])
    np.testing.assert_array_equal(total, 30)


def test_without_the_wait_it_is_a_race_and_counts_are_left() -> None:
    assert not codes_of(lambda: summed()[1])
    assert codes_of(lambda: summed(waits=False)[1]) >= {"PS-RACE-002", "PS-SEM-002"}


def test_each_operation_has_a_semaphore_of_its_own() -> None:
    """Two of the same type are two; one in a branch is another; what is left is a note, for the next launch begins at 0."""
    def body(o_ref: Any) -> None:
        one, two = (pl.get_global(plgpu.SemaphoreType.REGULAR) for _ in range(2))
        i = jax.lax.axis_index("i")

        @pl.when(i == 0)
        def _() -> None:
            inside = pl.get_global(plgpu.SemaphoreType.REGULAR)
            pl.semaphore_signal(one, 5)
            pl.semaphore_signal(two, 10)
            pl.semaphore_signal(inside, 7)
            o_ref[2] = pl.semaphore_read(inside)

        @pl.when(i == 1)
        def _() -> None:
            pl.semaphore_wait(one, 5, decrement=False)
            pl.semaphore_wait(two, 10, decrement=False)
            o_ref[0] = pl.semaphore_read(one)
            o_ref[1] = pl.semaphore_read(two)

    call = kernel(body, jax.ShapeDtypeStruct((3,), jnp.int32), grid=(3,), grid_names=("i",))
    pallasim.findings()
    for _ in range(2):
        with pallasim.emulate("gpu-h100", findings="collect"):
            np.testing.assert_array_equal(np.asarray(call()), [5, 10, 7])
    assert {(f.code, f.severity) for f in pallasim.findings()} == {("PS-SEM-002", "note")}


@pytest.mark.parametrize("options", SCHEDULES)
def test_the_warpgroups_of_a_block_share_its_semaphore(options: Any) -> None:
    def body(o_ref: Any, smem: Any) -> None:
        i, wg = jax.lax.axis_index("i"), jax.lax.axis_index("wg")

        def scope(sem: Any) -> None:
            @pl.when(wg == 0)
            def _() -> None:
                smem[...] = jnp.full((128,), 7, jnp.int32) + i
                pl.semaphore_signal(sem, 1)

            @pl.when(wg == 1)
            def _() -> None:
                pl.semaphore_wait(sem, 1)
                o_ref[i] = smem[...]

        pl.run_scoped(scope, plgpu.SemaphoreType.REGULAR, collective_axes="wg")

    with pallasim.emulate("gpu-h100", **options):
        out = kernel(body, jax.ShapeDtypeStruct((3, 128), jnp.int32), grid=(3,), grid_names=("i",), num_threads=2, thread_name="wg",
                     scratch=[plgpu.SMEM((128,), jnp.int32)])()
    np.testing.assert_array_equal(np.asarray(out)[:, 0], [7, 8, 9])


def test_a_warp_may_ask_whether_a_phase_is_complete() -> None:
    from jax._src.pallas.mosaic_gpu import primitives  # plgpu does not export barrier_test

    def body(o_ref: Any, seen: Any, barrier: Any) -> None:
        @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
        def _() -> None:
            @pl.when(jax.lax.axis_index("warp") == 0)
            def _() -> None:
                seen[0] = primitives.barrier_test(barrier).astype(jnp.int32)
                plgpu.barrier_arrive(barrier)
                seen[1] = primitives.barrier_test(barrier).astype(jnp.int32)

        o_ref[...] = seen[...]

    scratch = {"seen": plgpu.SMEM((2,), jnp.int32), "barrier": plgpu.Barrier(num_arrivals=1)}
    with pallasim.emulate("gpu-h100"):
        np.testing.assert_array_equal(kernel(body, jax.ShapeDtypeStruct((2,), jnp.int32), scratch=scratch)(), [0, 1])
