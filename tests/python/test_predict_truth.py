"""Predictions beside times that a GPU took: what judges them is no part of the emulator. Rows that a seed made up; docs/time.md has all of them."""
from __future__ import annotations

import json
import pathlib
import statistics
import sys

import jax
import pytest

import pallasim

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import time_families  # noqa: E402
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


# Of the families of scripts/time_families.py so many rows each; the bound is what their mean error may be.
@pytest.mark.parametrize("family, rows, bound", [("triton decode", 10, 0.2), ("triton histogram", 3, 0.3), ("triton log sum exp", 5, 0.25),
                                                 ("triton rms norm", 5, 0.3), ("triton cumulative", 5, 0.25), ("triton embedding", 4, 0.35),
                                                 ("triton int8 matmul", 4, 0.3), ("triton split k", 4, 0.2), ("triton batched matmul", 3, 0.3),
                                                 ("triton transposed", 4, 0.25)])
def test_further_families_are_near_measured_times(family, rows, bound):
    known = time_truth.read([str(ROOT / "tests" / "truth" / "families_h100_2712.json")])
    errors = {}
    for name, problem, config, f, shapes in time_truth.rows(2712, more=True):
        row = known[time_truth.key_of(name, problem, config)]
        if name != family or not row.get("seconds") or row["seconds"] > 3e-4 or len(errors) == rows:
            continue
        p = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False)
        errors[time_truth.key_of(name, problem, config)] = p.seconds / row["seconds"] - 1
    assert len(errors) == rows
    assert statistics.mean(map(abs, errors.values())) < bound, errors


# Each mechanism by itself: every so many rows, of those that take longer than 2 us; the bound is what their mean error may be.
@pytest.mark.parametrize("family, every, bound", [("memory", 9, 0.12), ("rows", 7, 0.1), ("shared", 9, 0.15), ("updates, add", 7, 0.3), ("updates, split", 9, 0.15),
                                                  ("bytes", 8, 0.2), ("pipelines", 9, 0.15)])
def test_parts_are_near_measured_times(family, every, bound):
    pytest.importorskip("jax.experimental.mosaic.gpu")
    known = time_truth.read([str(ROOT / "tests" / "truth" / "parts_h100.json")])
    ratios = {}
    rows = (r for r in time_truth.rows(parts=True) if r[0] == family)
    for i, (name, problem, config, f, shapes) in enumerate(rows):
        key = time_truth.key_of(name, problem, config)
        if i % every == every // 2 and key in known and known[key]["seconds"] > 2e-6:
            ratios[key] = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds / known[key]["seconds"]
    assert len(ratios) > 2
    assert statistics.mean(abs(r - 1) for r in ratios.values()) < bound, ratios
    assert all(0.55 < r < 1.8 for r in ratios.values()), ratios


@pytest.mark.parametrize("count, columns, seconds", [(2, 192, 106.0e-6), (2, 256, 769.3e-6), (3, 128, 100.0e-6), (3, 192, 550.2e-6)])
def test_sums_that_registers_do_not_hold_go_out_for_each_other(count, columns, seconds):
    """2 x 256 and 3 x 192 columns are more than a warpgroup has: two of the sums are swapped in each trip, the third stays."""
    pytest.importorskip("jax.experimental.mosaic.gpu")
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "accumulators_h100.json")])
    problem = {"count": count, "bn": columns, "k": 8192, "programs": 132}
    assert known[time_truth.key_of("accumulators", problem, {})]["seconds"] == pytest.approx(seconds, rel=1e-3)
    f, shapes = time_parts.accumulators(**problem)
    p = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False)
    assert p.seconds == pytest.approx(seconds, rel=0.13)
    swapped = [n for n in p[0].notes if "local memory" in n]
    assert bool(swapped) == (count * columns > 400), swapped
    assert all(f"{2 * 64 * columns * 4 // 1024} KiB go to local memory" in n for n in swapped), swapped


def test_weights_by_exp_take_longer_than_by_exp2_and_masks_of_loads_nothing():
    """Attention of Triton; a mask hides nothing here, so that what the loads find in the cache is the same."""
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "weights_h100.json")])
    for dim, seq, (bq, bk, warps) in ((64, 2048, (128, 64, 4)), (128, 4096, (128, 128, 8)), (256, 2048, (128, 32, 8))):
        took = {}
        for kind in ("exp2", "exp", "masked", "bf16 exp"):
            problem, config = {"kind": kind, "heads": 32, "seq": seq, "dim": dim}, {"bq": bq, "bk": bk, "warps": warps}
            measured = known[time_truth.key_of("weights", problem, config)]["seconds"]
            f, shapes = time_parts.weights(**problem, **config)
            took[kind] = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
            assert took[kind] == pytest.approx(measured, rel=0.06), (dim, kind)
        assert took["bf16 exp"] == pytest.approx(took["exp"], rel=0.02), "Triton converts to bf16 as it does to f16"
        assert took["exp"] > 1.04 * took["exp2"] and took["masked"] == pytest.approx(took["exp2"], rel=0.02)


@pytest.mark.parametrize("warps, more", [(4, 2.0), (8, 1.6)])
def test_last_programs_of_attention_go_to_whole_sms_where_programs_are_in_step(warps, more):
    """256 programs are all there at a time, two on an SM; of 384 the last 120 are two on 60 SMs where those before them ended together."""
    known = time_truth.read([str(ROOT / "tests" / "truth" / "trips_h100.json")])
    took = {}
    for heads in (4, 6):
        problem, config = {"heads": heads, "seq": 8192, "dim": 64}, {"bq": 128, "bk": 64, "warps": warps, "stages": 3}
        f, shapes = time_truth.attention(**problem, **config)
        took[heads] = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
        assert took[heads] == pytest.approx(known[time_truth.key_of("trips", problem, config)]["seconds"], rel=0.11 if warps == 8 else 0.05)
    assert took[6] == pytest.approx(more * took[4], rel=0.05)


@pytest.mark.parametrize("bq, dim", [(64, 128), (128, 128), (64, 64), (128, 64)])
def test_what_hides_latency_of_attention(bq, dim):
    """128 programs, one on each SM, and 256: two of 64 rows each take as long as one of 128, whose rows hide half of each other's latency."""
    known = time_truth.read([str(ROOT / "tests" / "truth" / "trips_h100.json")])
    for heads in (2, 4):
        problem, config = {"heads": heads, "seq": 64 * bq, "dim": dim}, {"bq": bq, "bk": 64, "warps": 4, "stages": 3}
        f, shapes = time_truth.attention(**problem, **config)
        took = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
        assert took == pytest.approx(known[time_truth.key_of("trips", problem, config)]["seconds"], rel=0.1), (heads, bq, dim)


def test_a_tile_that_is_added_to_scores_goes_through_shared_memory():
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "added_h100.json")])
    took, config = {}, {"bq": 64, "bk": 64, "warps": 4}
    for kind in ("nothing", "row", "f16", "f32"):
        problem = {"kind": kind, "heads": 256, "seq": 2048, "dim": 32}
        f, shapes = time_parts.added(**problem, **config)
        took[kind] = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
        assert took[kind] == pytest.approx(known[time_truth.key_of("added", problem, config)]["seconds"], rel=0.12), kind
    assert 1.2 * took["row"] < took["f16"] < took["f32"] / 1.2


def test_a_warpgroup_waits_for_each_instruction_where_registers_do_not_hold_its_products():
    """As ptxas says of 132 attentions of Triton (its warning C7512; tests/truth/compiled_h100.json)."""
    import time_parts

    rows = json.loads((ROOT / "tests" / "truth" / "compiled_h100.json").read_text())["rows"]
    assert sum(r["waits"] for r in rows) > 20
    for r in rows:
        f, shapes = time_parts.laid_out(**r["problem"] | {"seq": 256, "heads": 1}, **r["config"])
        notes = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False)[0].notes
        assert any("C7512" in n for n in notes) == r["waits"], (r, notes)


@pytest.mark.parametrize("dim, config", [(256, (128, 32, 8, 3)), (128, (128, 128, 8, 3)), (128, (128, 64, 4, 3)), (64, (64, 64, 4, 3))])
def test_queries_that_are_scaled_are_fetched_to_registers_each_time(dim, config):
    """Attention of Triton whose queries are multiplied before its products, against those that come as they are loaded."""
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "laid_out_h100.json")])
    took, measured = {}, {}
    config = dict(zip(("bq", "bk", "warps", "stages"), config, strict=True))
    for kind in ("beside", "beside scaled"):
        problem = {"kind": kind, "batch": 1, "seq": 8192, "heads": 2048 // dim, "dim": dim}
        f, shapes = time_parts.laid_out(**problem, **config)
        took[kind] = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
        measured[kind] = known[time_truth.key_of("laid out", problem, config)]["seconds"]
        assert took[kind] == pytest.approx(measured[kind], rel=0.14), kind
    assert took["beside scaled"] / took["beside"] == pytest.approx(measured["beside scaled"] / measured["beside"], rel=0.12)


def test_a_divisor_that_is_broadcast_is_inverted_once():
    """Triton: by rows, by columns, by as many numbers as there are elements; a trip of each of four programs on an SM took 3.5, 3.1 and 9.3 cycles per
    128 elements of an H100 at 1.755 GHz (scripts/time_parts.py, `divided`)."""
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "divided_h100.json")])
    for kind in ("rows", "columns", "new rows", "new columns", "elements"):
        problem = {"kind": kind, "programs": 528}
        per = {}
        for trips in (512, 1024):
            f, shapes = time_parts.divided(**problem, trips=trips)
            predicted = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False).seconds
            per[trips] = (known[time_truth.key_of("divided", problem, {"trips": trips})]["seconds"], predicted)
        measured, took = (per[1024][i] - per[512][i] for i in (0, 1))
        assert took == pytest.approx(measured, rel=0.2), kind


@pytest.mark.parametrize("small, off, read", [(0, 0.02, 1.02), (1, 0.02, 1.05), (3, 0.05, 1.7), (4, 0.06, 1.8)])
def test_programs_that_are_held_up_share_less_of_what_the_cache_holds(small, off, read):
    """Two programs each have the same tiles. Who asks for what is on its way to the other one has it no earlier, so that a little holding up does no harm;
    more of it, and what one has read is gone when the other one comes. `read`: how often each byte comes from memory, about (scripts/time_parts.py)."""
    import time_parts

    known = time_truth.read([str(ROOT / "tests" / "truth" / "held_h100.json")])
    problem, config = {"share": 2, "rows": 16, "steps": 8}, {"small": small}
    f, shapes = time_parts.held_up(**problem, **config)
    p = pallasim.predict(f, *shapes, chip="gpu-h100", sensitivity=False)
    assert p.seconds == pytest.approx(known[time_truth.key_of("held up", problem, config)]["seconds"], rel=off)
    assert p[0].bytes_read / (shapes[0].size * 4) == pytest.approx(read, rel=0.07)


def test_atomics_take_as_long_as_they_meet():
    """With shapes alone nobody knows where; with the list the predicted time is that of the cache's units."""
    make = time_families.histogram
    f, (few,) = make(1 << 18, 64, 1024, 8)
    _, (many,) = make(1 << 18, 65536, 1024, 8)
    meet = pallasim.predict(f, few, chip="gpu-h100", sensitivity=False).seconds
    apart = pallasim.predict(make(1 << 18, 65536, 1024, 8)[0], many, chip="gpu-h100", sensitivity=False).seconds
    unknown = pallasim.predict(f, jax.ShapeDtypeStruct(few.shape, few.dtype), chip="gpu-h100", sensitivity=False).seconds
    assert meet > 5 * apart
    assert unknown < meet / 5


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
