"""Copies of the GPU's copy unit beyond boxes: into inputs, by lists of rows, in pairs of CTAs; against NumPy."""
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim
from test_hopper_cluster import SCHEDULES, kernel, load, numbers, shape


def through_an_input(x: np.ndarray, given: np.ndarray, by_copy: bool) -> Any:
    """Every CTA writes its row to `given`; when all of the cluster have, each reads its neighbour's."""
    def body(x_ref: Any, given_ref: Any, o_ref: Any, smem: Any, barrier: Any, met: Any) -> None:
        at = jax.lax.axis_index("x")
        if by_copy:
            smem[...] = x_ref[at] + 1
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(smem, given_ref.at[at])
            plgpu.wait_smem_to_gmem(0)
        else:
            given_ref[at] = x_ref[at] + 1
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        if by_copy:
            plgpu.copy_gmem_to_smem(given_ref.at[(at + 1) % 4], smem, barrier)
            plgpu.barrier_wait(barrier)
            o_ref[at] = smem[...]
        else:
            o_ref[at] = given_ref[(at + 1) % 4]

    return kernel(body, shape(x), grid=(1,), grid_names=("i",), cluster=(4,), cluster_names=("x",),
                  scratch=[plgpu.SMEM(x.shape[1:], x.dtype), plgpu.Barrier(), plgpu.ClusterBarrier(collective_axes=("x",))])(x, given)


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("by_copy", [False, True])
def test_an_input_that_the_kernel_writes_is_the_launchs_own_copy(by_copy: bool, options: Any) -> None:
    x, given = numbers(4, 8, 64), jnp.asarray(numbers(4, 8, 64) + 5)
    kept = np.asarray(given).copy()
    pallasim.findings()
    before = pallasim.launch_count()
    with pallasim.emulate("gpu-h100", findings="collect", **options):
        out = np.asarray(through_an_input(x, given, by_copy))
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(out, np.roll(x, -1, 0) + 1)
    np.testing.assert_array_equal(np.asarray(given), kept)
    (note,) = pallasim.findings()
    assert (note.code, note.severity) == ("PS-RO-001", "note") and "write to given_ref, which is an input" in note.message


def test_what_an_input_held_is_still_there() -> None:
    def body(given_ref: Any, o_ref: Any) -> None:
        given_ref[pl.ds(8, 8)] = jnp.full((8, 128), 7, jnp.float32)
        o_ref[...] = given_ref[...]

    given = numbers(16, 128)
    with pallasim.emulate("gpu-h100", findings="collect"):
        out = np.asarray(kernel(body, shape(given))(given))
    np.testing.assert_array_equal(out, np.concatenate([given[:8], np.full((8, 128), 7, np.float32)]))


TILED = (plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))


def rows_of(x: np.ndarray, rows: np.ndarray, transforms: Any = ()) -> Any:
    """Rows of `x`, the second half of their columns."""
    columns = x.shape[1] // 2

    def body(x_ref: Any, rows_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        chosen = load(rows_ref, plgpu.Layout.TMA_INDICES)
        plgpu.copy_gmem_to_smem(x_ref.at[chosen, columns:], smem, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[...] = smem[...]

    return kernel(body, jax.ShapeDtypeStruct((len(rows), columns), x.dtype),
                  scratch=[plgpu.SMEM((len(rows), columns), x.dtype, transforms=transforms), plgpu.Barrier()])(x, rows)


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("transforms", [(), TILED])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint16])
def test_rows_that_a_list_chooses_are_gathered(dtype: Any, transforms: Any, options: Any) -> None:
    x = numbers(40, 128)
    rows = np.random.RandomState(1).randint(0, 48, 64).astype(dtype)  # beyond the end there are zeros
    before = pallasim.launch_count()
    with pallasim.emulate("gpu-b200", **options):
        out = np.asarray(rows_of(x, rows, transforms))
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(out, np.concatenate([x, np.zeros((8, 128), x.dtype)])[rows, 64:])


@pytest.mark.parametrize("options", SCHEDULES)
def test_rows_are_scattered(options: Any) -> None:
    def body(x_ref: Any, rows_ref: Any, o_ref: Any, smem: Any) -> None:
        smem[...] = x_ref[...]
        plgpu.commit_smem()
        chosen = load(rows_ref, plgpu.Layout.TMA_INDICES)
        plgpu.copy_smem_to_gmem(smem, o_ref.at[chosen, :])
        plgpu.wait_smem_to_gmem(0)

    x = numbers(64, 128)
    rows = np.random.RandomState(1).permutation(64).astype(np.uint32)
    with pallasim.emulate("gpu-b200", **options):
        out = np.asarray(kernel(body, shape(x), scratch=[plgpu.SMEM(x.shape, x.dtype)])(x, rows))
    want = np.zeros_like(x)
    want[rows] = x
    np.testing.assert_array_equal(out, want)


def test_hopper_gathers_no_rows() -> None:
    with pallasim.emulate("gpu-h100"), pytest.raises(pallasim.KernelError, match="PS-MGPU-002.*chooses"):
        rows_of(numbers(40, 128), np.zeros(64, np.uint32))


def tracked(x: np.ndarray, partition: Any, waits: bool = True) -> Any:
    """A pair of CTAs loads halves of x along an axis, or both all of it; the first one's barrier counts for both."""
    half = list(x.shape)
    if partition is not plgpu.CopyPartition.REPLICATED:
        half[partition.axis] //= 2

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any, met: Any) -> None:
        at = jax.lax.axis_index("x")
        plgpu.copy_gmem_to_smem(x_ref, smem, barrier, collective_axes="x", leader_tracked=partition)

        @pl.when(at == 0)
        def _() -> None:
            plgpu.barrier_wait(barrier)

        plgpu.barrier_arrive(met)
        if waits:
            plgpu.barrier_wait(met)
        o_ref[at] = smem[...]
        if not waits:
            plgpu.barrier_wait(met)

    return kernel(body, jax.ShapeDtypeStruct((2, *half), x.dtype), grid=(1,), grid_names=("i",), cluster=(2,), cluster_names=("x",),
                  scratch=[plgpu.SMEM(tuple(half), x.dtype), plgpu.Barrier(), plgpu.ClusterBarrier(collective_axes=("x",))])(x)


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_the_first_cta_of_a_pair_keeps_count(axis: int | None, options: Any) -> None:
    x = numbers(64, 128)
    with pallasim.emulate("gpu-b200", **options):
        out = np.asarray(tracked(x, plgpu.CopyPartition.REPLICATED if axis is None else plgpu.CopyPartition.PARTITIONED(axis)))
    np.testing.assert_array_equal(out, np.stack([x, x] if axis is None else np.split(x, 2, axis)))


def test_who_does_not_hear_of_the_pairs_copy_races_with_it() -> None:
    pallasim.findings()
    with pallasim.emulate("gpu-b200", detect_races=True, findings="collect"):
        np.asarray(tracked(numbers(64, 128), plgpu.CopyPartition.PARTITIONED(0), waits=False))
    assert "PS-RACE-001" in {f.code for f in pallasim.findings()}


def test_hopper_has_no_pairs() -> None:
    with pallasim.emulate("gpu-h100"), pytest.raises(pallasim.KernelError, match="PS-MGPU-002.*pairs"):
        tracked(numbers(64, 128), plgpu.CopyPartition.PARTITIONED(0))


def test_dimensions_of_one_element_are_none_of_a_bulk_copys_five() -> None:
    x = numbers(2, 64, 1, 1, 1, 1, 128)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(x_ref, smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.copy_smem_to_gmem(smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    def run(x: np.ndarray) -> Any:
        tiled = plgpu.SMEM(x.shape, x.dtype, transforms=(plgpu.TilingTransform((2, 1, 1, 1, 1, 1, 32)),) if x.ndim == 7 else ())
        return kernel(body, shape(x), grid=(1,), grid_names=("i",), scratch=[tiled, plgpu.Barrier()])(x)

    with pallasim.emulate("gpu-h100"):
        np.testing.assert_array_equal(np.asarray(run(x)), x)
        with pytest.raises(pallasim.RefusedError, match="a bulk copy of rank 6"):
            run(numbers(2, 2, 2, 2, 2, 64))
