"""Predictions beside times that a GPU took: what judges them is no part of the emulator. Rows that a seed made up; docs/time.md has all of them."""
from __future__ import annotations

import json
import pathlib
import statistics
import sys

import pytest

import pallasim

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import time_truth  # noqa: E402


def test_predictions_are_near_measured_times():
    pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    known = time_truth.read([str(ROOT / "tests" / "truth" / "fresh_h200_4711.json")])
    ratios = {}
    for family, problem, config, f, shapes in time_truth.rows(4711):
        row = known[time_truth.key_of(family, problem, config)]
        if row.get("seconds", 1) > 5e-5 or "attention" in family or len(ratios) >= 24:
            continue
        p = pallasim.predict(f, *shapes, chip="gpu-h200", sensitivity=False, sample=True)
        ratios[time_truth.key_of(family, problem, config)] = p.seconds / row["seconds"]
    assert len(ratios) == 24
    assert statistics.mean(abs(r - 1) for r in ratios.values()) < 0.2, ratios
    assert all(0.5 < r < 2 for r in ratios.values()), ratios


def test_as_many_programs_lie_on_an_sm_as_the_compiler_allows():
    """Registers and shared memory that Triton's compiler took, of products and attentions (tests/truth/registers_h200.json)."""
    makes = {"triton attention": time_truth.attention, "triton matmul": time_truth.matmul}
    rows = json.loads((ROOT / "tests" / "truth" / "registers_h200.json").read_text())["rows"]
    right = 0
    for r in rows:
        problem = r["problem"] | ({"heads": 64} if "heads" in r["problem"] else {})  # so many programs that places count
        f, args = makes[r["family"]](**problem | r["config"])
        p = pallasim.predict(f, *args, chip="gpu-h200", sensitivity=False, sample=True)[0]
        registers = -(-r["registers"] // 8) * 8 * 32 * r["config"]["warps"]
        places = min(64 // r["config"]["warps"], 65536 // registers, 233472 // (r["shared"] + 1024))
        right += p.resident == min(132 * places, p.programs)
    assert right >= 0.9 * len(rows), (right, len(rows))
