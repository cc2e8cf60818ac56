"""Mosaic GPU kernels against what an H100 computed with the same operands (tests/truth/hopper.json; scripts/hopper_truth.py
records and compares)."""
from __future__ import annotations

import importlib.util
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRUTH = json.loads((ROOT / "tests" / "truth" / "hopper.json").read_text())
_spec = importlib.util.spec_from_file_location("hopper_truth", ROOT / "scripts" / "hopper_truth.py")
truth = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(truth)

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", truth.CASES)
def test_bits_are_those_of_an_h100(name: str) -> None:
    """Or, where the chip's exponential has a part in it, within the case's bound at every sample."""
    run, bound = truth.CASES[name]
    before = pallasim.launch_count()
    with pallasim.emulate("gpu-h100", numerics="device"):
        found = truth.record(run())
    assert pallasim.launch_count() > before
    assert found["zeros"] < 0.6  # zeros alone would prove nothing
    assert (found["shape"], found["dtype"]) == (TRUTH[name]["shape"], TRUTH[name]["dtype"])
    if bound:
        assert truth.distance(found, TRUTH[name]) <= bound
    else:
        assert found["sha256"] == TRUTH[name]["sha256"]


@pytest.mark.parametrize("options", [{}, {"dma_execution_mode": "on_wait"}, {"detect_races": True}, {"random_seed": 3},
                                     {"dma_execution_mode": "scheduled", "random_seed": 5}])
@pytest.mark.filterwarnings("ignore")
def test_a_ring_is_the_same_under_every_schedule(options: Any) -> None:
    with pallasim.emulate("gpu-h100", **options):
        found = truth.record(truth.CASES["two_warpgroups"][0]())
        assert found["sha256"] == TRUTH["two_warpgroups"]["sha256"]
        assert truth.record(truth.CASES["pipeline_sum"][0]())["sha256"] == TRUTH["pipeline_sum"]["sha256"]


@pytest.mark.parametrize("name", ["pipeline_sum", "hopper_matmul_f16", "hopper_matmul_cluster", "copy_past_the_end", "ragged_dot",
                                  "transposed_ragged_dot", "mixed_matmul", "two_warpgroups", "attention", "attention_causal",
                                  "attention_pipeline"])
@pytest.mark.filterwarnings("ignore")
def test_right_kernels_have_no_races(name: str) -> None:
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        np.asarray(truth.CASES[name][0]())
    assert not [f for f in pallasim.findings() if f.code.startswith("PS-RACE")]


@pytest.mark.parametrize("options", [{}, {"dma_execution_mode": "on_wait"}, {"detect_races": True}, {"random_seed": 3},
                                     {"dma_execution_mode": "scheduled", "random_seed": 5}])
def test_boxes_around_an_array(options: Any) -> None:
    """They begin before it or end behind it: zeros come from there, and nothing goes there."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        i, j = jax.lax.axis_index("i"), jax.lax.axis_index("j")
        rows, columns = pl.ds(i * 6 - 3, 4), pl.ds(j * 12 - 4, 8)
        plgpu.copy_gmem_to_smem(x_ref.at[i, rows, columns], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.copy_smem_to_gmem(smem, o_ref.at[i - 1, j, rows, columns])

    x = np.arange(3 * 7 * 16, dtype=np.float32).reshape(3, 7, 16) + 1
    with pallasim.emulate("gpu-h100", uninitialized_memory="zero", **options):
        out = np.asarray(truth.kernel(body, jax.ShapeDtypeStruct((2, 2, 7, 16), jnp.float32), grid=(3, 2), grid_names=("i", "j"),
                                      scratch=[plgpu.SMEM((4, 8), jnp.float32), plgpu.Barrier()])(x))
    want = np.zeros_like(out)
    for i in range(1, 3):  # what CTA 0 has goes to a place before the array
        for j in range(2):
            there = slice(i * 6 - 3, min(i * 6 + 1, 7)), slice(max(j * 12 - 4, 0), min(j * 12 + 4, 16))
            want[i - 1, j][there] = x[i][there]
    np.testing.assert_array_equal(out, want)
    assert want.any()


@pytest.mark.parametrize("when", ["eager", "on_wait", "scheduled"])
def test_stores_under_a_predicate_that_nobody_waits_for(when: str) -> None:
    """Of 300 CTAs, more than an H100 holds, those with even numbers store, and end at once."""
    def body(x_ref: Any, o_ref: Any, smem: Any) -> None:
        i = jax.lax.axis_index("i")
        smem[...] = x_ref[i]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref.at[i], predicate=i % 2 == 0)

    x = np.arange(300 * 64, dtype=np.float32).reshape(300, 1, 64) + 1
    with pallasim.emulate("gpu-h100", dma_execution_mode=when):
        out = np.asarray(truth.kernel(body, jax.ShapeDtypeStruct(x.shape, jnp.float32), grid=(300,), grid_names=("i",),
                                      scratch=[plgpu.SMEM((1, 64), jnp.float32)])(x))
    np.testing.assert_array_equal(out[::2], x[::2])
    assert np.isnan(out[1::2]).all()


def late(wait: bool) -> Any:
    """A slot that is read before the copy into it was awaited, or behind it."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(x_ref, smem, barrier)
        if wait:
            plgpu.barrier_wait(barrier)
        o_ref[...] = smem[...]
        if not wait:
            plgpu.barrier_wait(barrier)

    x = jnp.arange(64 * 64, dtype=jnp.float32).reshape(64, 64) + 1
    return truth.kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), scratch=[plgpu.SMEM((64, 64), jnp.float32), plgpu.Barrier()])(x)


def test_a_read_before_the_wait_is_found() -> None:
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        np.testing.assert_array_equal(late(True), np.arange(64 * 64, dtype=np.float32).reshape(64, 64) + 1)
        assert [f.code for f in pallasim.findings()] == []
        np.asarray(late(False))
    assert any(f.code.startswith("PS-RACE") for f in pallasim.findings())


def test_a_wait_that_nobody_ends_is_a_deadlock() -> None:
    def body(x_ref: Any, o_ref: Any, barrier: Any) -> None:
        plgpu.barrier_wait(barrier)
        o_ref[...] = x_ref[...]

    x = jnp.ones((8, 8), jnp.float32)
    with pytest.raises(pallasim.KernelError, match="PS-DEAD-001"), pallasim.emulate("gpu-h100"):
        truth.kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), scratch=[plgpu.Barrier()])(x)


def test_tuners_learn_that_shared_memory_is_too_small():
    """Libraries go on to their next configuration at a ValueError with these words."""
    def kernel(x_ref, o_ref, big_ref):
        o_ref[...] = x_ref[...]

    with pytest.raises(ValueError, match="exceeds available shared memory") as e, pallasim.emulate("gpu-h100"):
        plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128,), jnp.float32), scratch_types=[plgpu.SMEM((256, 1024), jnp.float32)])(jnp.ones(128))
    assert isinstance(e.value, pallasim.RefusedError) and e.value.finding.code == "PS-MEM-001"
