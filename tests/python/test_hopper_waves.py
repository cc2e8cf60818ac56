"""Mosaic GPU kernels of more blocks of threads than a chip holds: each begins where another one ended, in its memory, with its barriers."""
from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim
from test_hopper_cluster import codes_of, kernel, numbers
from test_predict import fields, packets

SMS = 132  # of an H100
ROWS = SMS + 4  # a block of threads takes all shared memory of an SM
LARGE = (25, 64, 32)  # 205 kB


def copies(trips: int, waits: bool = True) -> tuple[Any, np.ndarray]:
    """Each block copies its rows through shared memory, a trip a slot, and adds 1. The kernel, and its argument."""
    x = numbers(ROWS, trips, 64, 32)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        i = jax.lax.axis_index("i")
        for k in range(trips):
            plgpu.copy_gmem_to_smem(x_ref.at[i, k], smem.at[k % 2], barrier)
            plgpu.barrier_wait(barrier)
            smem[k % 2] = smem[k % 2] + 1
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(smem.at[k % 2], o_ref.at[i, k])
            if waits:
                plgpu.wait_smem_to_gmem(0)

    return kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(ROWS,), grid_names=("i",),
                  scratch=[plgpu.SMEM(LARGE, jnp.float32), plgpu.Barrier()]), x


def copied(trips: int, waits: bool = True) -> Any:
    f, x = copies(trips, waits)
    out = f(x)
    np.testing.assert_array_equal(out, x + 1)
    return out


def of_a_pipeline() -> Any:
    x = numbers(ROWS * 64, 256)

    def body(x_ref: Any, o_ref: Any, smem: Any) -> None:
        i = jax.lax.axis_index("i")

        def step(_: Any, block: Any) -> None:
            smem[0, :, :] = smem[0] + block[:, :32]

        smem[0, :, :] = jnp.zeros((64, 32), jnp.float32)
        plgpu.emit_pipeline(step, grid=(4,), in_specs=[plgpu.BlockSpec((64, 64), lambda k: (i, k))], max_concurrent_steps=2)(x_ref)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem.at[0], o_ref.at[pl.ds(i * 64, 64)])
        plgpu.wait_smem_to_gmem(0)

    out = kernel(body, jax.ShapeDtypeStruct((ROWS * 64, 32), x.dtype), grid=(ROWS,), grid_names=("i",),
                 scratch=[plgpu.SMEM((22, 64, 32), jnp.float32)])(x)
    np.testing.assert_array_equal(out, x.reshape(-1, 4, 64)[:, :, :32].sum(1))
    return out


def of_clusters() -> Any:
    """Both CTAs of a cluster get the rows, one multicast of halves each, and meet before the next trip."""
    x = numbers(ROWS // 2, 3, 64, 32)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any, met: Any) -> None:
        i, c = jax.lax.axis_index("i"), jax.lax.axis_index("c")
        for k in range(3):
            plgpu.copy_gmem_to_smem(x_ref.at[i, k], smem.at[0], barrier, collective_axes="c")
            plgpu.barrier_wait(barrier)
            o_ref[i, k, c] = smem[0] + 1
            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)

    out = kernel(body, jax.ShapeDtypeStruct((ROWS // 2, 3, 2, 64, 32), x.dtype), grid=(ROWS // 2,), grid_names=("i",), cluster=(2,),
                 cluster_names=("c",), scratch=[plgpu.SMEM(LARGE, jnp.float32), plgpu.Barrier(), plgpu.ClusterBarrier(collective_axes=("c",))])(x)
    np.testing.assert_array_equal(out, np.repeat(x[:, :, None] + 1, 2, axis=2))
    return out


@pytest.mark.parametrize("run", [lambda: copied(1), lambda: copied(3), of_a_pipeline, of_clusters], ids=["one phase", "three", "pipeline", "clusters"])
def test_a_block_that_begins_where_another_one_ended_has_its_own_phases(run: Callable[[], Any]) -> None:
    assert codes_of(run) == set()


def in_a_late_block(racy: bool) -> Any:
    """A warpgroup reads what the other one wrote: of the last blocks without a barrier."""
    def body(o_ref: Any, smem: Any, barrier: Any) -> None:
        i, w = jax.lax.axis_index("i"), jax.lax.axis_index("w")

        @pl.when(w == 0)
        def _() -> None:
            smem[0, :, :] = jnp.full((64, 32), 2, jnp.float32) + i
            plgpu.barrier_arrive(barrier)

        @pl.when(w == 1)
        def _() -> None:
            if racy:
                @pl.when(i < SMS)
                def _() -> None:
                    plgpu.barrier_wait(barrier)
            else:
                plgpu.barrier_wait(barrier)
            o_ref[i] = smem[0]

    return kernel(body, jax.ShapeDtypeStruct((ROWS, 64, 32), jnp.float32), grid=(ROWS,), grid_names=("i",), num_threads=2, thread_name="w",
                  scratch=[plgpu.SMEM(LARGE, jnp.float32), plgpu.Barrier()])()


def test_a_race_of_a_block_that_begins_later_is_found() -> None:
    assert codes_of(lambda: in_a_late_block(False)) == set()
    assert "PS-RACE-002" in codes_of(lambda: in_a_late_block(True))


def test_a_copy_that_nobody_awaits_is_the_business_of_its_own_block() -> None:
    """It is complete when the block's memory is another one's."""
    assert codes_of(lambda: copied(1, waits=False)) == {"PS-RACE-001"}


def test_the_time_line_counts_the_phases_of_each_block(tmp_path: Any) -> None:
    path = tmp_path / "run.perfetto-trace"
    f, x = copies(3)
    pallasim.predict(f, x, chip="gpu-h100", trace=str(path))
    names: dict[int, str] = {}
    phases: dict[str, list[float]] = {}
    for d in packets(path.read_bytes()):
        if 60 in d:
            track = dict(fields(d[60]))
            names[track[1]] = track[2].decode()
        elif (e := dict(d[11]))[9] == 4:
            phases.setdefault(names[e[11]], []).append(struct.unpack("<d", struct.pack("<Q", e[44]))[0])
    counted = [v for name, v in phases.items() if name.startswith("phase of")]
    assert counted and all(max(v) == 3 for v in counted)
    assert any(v.count(3) > 1 for v in counted)  # of two blocks at one place
