"""What operations cost a TensorCore's vector units: as its compiler schedules them (tests/tpu_compiler/bundles.py)."""
from __future__ import annotations

import pathlib
import re
import statistics
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental.pallas import tpu as pltpu

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tpu_compiler"))
import bundles  # noqa: E402

import pallasim  # noqa: E402

F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
ROWS, COLS = 256, 512
REGISTERS = ROWS * COLS / 1024


def units(f, *types, chip="tpu-v5e", shapes=()):
    """Instructions of each unit per register of the result."""
    args = [jax.ShapeDtypeStruct(shape, t) for shape, t in zip(shapes or [(ROWS, COLS)] * len(types), types)]
    out = jax.eval_shape(f, *args)
    slots = {"VPU": 2 if chip == "tpu-v4" else 4, "XLU": 2}
    by_unit = bundles.predicted(bundles.call(f, args, out), args, chip)[1]
    return {unit: n * slots.get(unit, 1) / REGISTERS for unit, n in by_unit.items()}


@pytest.mark.parametrize("chip,f,types,vector,special", [
    ("tpu-v5e", jnp.sin, [F32], 148, 0), ("tpu-v4", jnp.sin, [F32], 197, 0), ("tpu-v6e", jnp.sin, [F32], 96, 2),
    ("tpu-v5e", jnp.exp, [F32], 2, 1), ("tpu-v4", jnp.exp, [F32], 2, 2), ("tpu-v5e", lax.div, [I32, I32], 326, 0),
    ("tpu-v5e", jnp.add, [F32, F32], 1, 0), ("tpu-v4", jnp.multiply, [I32, I32], 33, 0), ("tpu-v6e", lax.erf, [F32], 1, 1)])
def test_an_operation_costs_what_is_scheduled(chip, f, types, vector, special):
    u = units(f, *types, chip=chip)
    assert u["VPU"] == pytest.approx(vector, rel=1e-3)
    assert u.get("EUP", 0) == pytest.approx(special, rel=1e-3)


def test_a_division_by_what_is_known_once_is_a_multiplication():
    plain = units(lambda a, b: a / b, F32, F32)["VPU"]
    assert plain == pytest.approx(14, rel=1e-3)
    assert units(lambda a: a / 30, F32)["VPU"] == pytest.approx(1, rel=1e-3)
    by_rows = units(lambda a: a / jnp.sum(a, 1, keepdims=True), F32)["VPU"]
    assert by_rows == pytest.approx(1 + 1 + 14 / (COLS / 128), rel=1e-3), "a sum, a product, and a division per row of registers"


def test_narrow_elements_are_taken_apart_where_there_are_no_instructions_for_them():
    half = REGISTERS / 2  # two elements in a word

    def vector(f, *types, chip="tpu-v5e"):
        return units(f, *types, chip=chip)["VPU"] * REGISTERS / half

    assert vector(jnp.add, BF16, BF16) == pytest.approx(7, rel=1e-3)
    assert vector(lambda a: a * a, BF16) == pytest.approx(5, rel=1e-3), "one operand is taken apart"
    assert vector(lambda a: a + jnp.bfloat16(3), BF16) == pytest.approx(5, rel=1e-3), "a constant is not"
    assert vector(jnp.add, BF16, BF16, chip="tpu-v6e") == pytest.approx(1, rel=1e-3)


def test_what_lies_in_all_lanes_is_spread_for_nothing():
    spread = units(lambda a, b: a + b, F32, F32, shapes=[(ROWS, COLS), (ROWS, 1)])
    assert spread["XLU"] == pytest.approx(6.75 / (COLS / 128), rel=1e-3), "one column comes from memory"
    left = units(lambda a: a + jnp.max(a, 1, keepdims=True), F32)
    assert left["XLU"] == pytest.approx(5.62 / (COLS / 128), rel=1e-3), "the maximum alone"


def test_whole_registers_change_places_by_their_names():
    assert "XLU" not in units(lambda a: pltpu.roll(a, 256, 1), F32)
    assert units(lambda a: pltpu.roll(a, 3, 1), F32)["XLU"] > 5
    assert "XLU" not in units(lambda a: jnp.concatenate([a[8:], a[:8]], 0), F32)
    assert "XLU" not in units(lambda a: jnp.concatenate([a[:, 128:], a[:, :128]], 1), F32)
    assert units(lambda a: jnp.concatenate([a[:, 64:], a[:, :64]], 1), F32)["XLU"] > 5
    assert "XLU" not in units(lambda a, b: a + jnp.tile(b, (1, COLS // 128)), F32, F32, shapes=[(ROWS, COLS), (ROWS, 128)])


def test_an_approximate_reciprocal_costs_less():
    from jax.experimental import pallas as pl

    assert units(lambda a: pl.reciprocal(a, approx=True), F32)["VPU"] == pytest.approx(1, rel=1e-3)
    assert units(lambda a: pl.reciprocal(a), F32)["VPU"] == pytest.approx(14, rel=1e-3)


def test_schedules_of_kernels():
    """Kernels that no constant comes from (docs/time.md has all of them)."""
    for chip, found in bundles.errors(str(ROOT / "tests" / "truth" / "tpu_bundles.json")).items():
        off = [abs(r[0]) for r in found]
        assert len(off) == 90
        assert statistics.median(off) < 0.085, (chip, off)
        assert statistics.mean(off) < 0.14, (chip, off)


def test_schedules_of_products():
    """One product of 8 to 512 rows: the figures of MXUs come from a third of these."""
    for chip, found in bundles.errors(str(ROOT / "tests" / "truth" / "tpu_products.json"), 3).items():
        off = [abs(r[0]) for r in found]
        assert len(off) >= 20
        assert statistics.median(off) < 0.03, (chip, off)
        assert statistics.mean(off) < 0.07, (chip, off)


@pytest.mark.parametrize("chip,most", [("tpu-v4", 0.06), ("tpu-v5e", 0.04), ("tpu-v5p", 0.04), ("tpu-v6e", 0.05), ("tpu-7x", 0.05)])
def test_schedules_of_attention(chip, most):
    """Over one block, and parts of it."""
    found = bundles.errors(str(ROOT / "tests" / "truth" / "tpu_attention.json"))[chip]
    assert len(found) == 25
    assert statistics.mean(abs(r[0]) for r in found) < most, found


@pytest.mark.parametrize("chip,most", [("tpu-v4", 0.10), ("tpu-v5e", 0.04), ("tpu-v5p", 0.04), ("tpu-v6e", 0.14), ("tpu-7x", 0.15)])
def test_schedules_of_one_more_block(chip, most):
    """What the third block of keys takes more than two: without registers that do not suffice a v6e and a 7x would be a quarter too fast."""
    found = {name: (took * (1 + error), took) for error, name, took, _, _ in bundles.errors(str(ROOT / "tests" / "truth" / "tpu_blocks.json"), chips=[chip])[chip]}
    off = []
    for name, three in found.items():
        if "over 3" in name and (two := found.get(name.replace("over 3", "over 2"))):
            off.append((three[0] - two[0]) / (three[1] - two[1]) - 1)
    assert len(off) >= 24
    assert statistics.mean(map(abs, off)) < most, off


def test_what_registers_do_not_hold_goes_to_vmem():
    def notes(rows, keys):
        args = [jax.ShapeDtypeStruct((rows, 128), BF16), jax.ShapeDtypeStruct((keys, 128), BF16)]
        with pallasim.emulate("tpu-v5p"):
            launch, = pallasim.predict(bundles.call(shifted, args, jax.ShapeDtypeStruct((rows, keys), F32)), *args, chip="tpu-v5p", sensitivity=False)
        return [n for n in launch.notes if "VMEM" in n]

    def stores(rows, keys, of):
        args = [jax.ShapeDtypeStruct((rows, 128), BF16), jax.ShapeDtypeStruct((keys, 128), BF16)]
        f = bundles.call(of, args, jax.eval_shape(of, *args))
        return bundles.predicted(f, args, "tpu-v5p")[1].get("VMEM stores", 0)

    def shifted(q, k):
        s = bundles.schedules._scores(q, k)
        return jnp.exp(s - jnp.max(s, 1, keepdims=True))

    assert stores(128, 128, shifted) == pytest.approx(16), "16 registers of scores stay: the results are stored, and no more"
    assert stores(512, 512, shifted) == pytest.approx(2 * 256), "256 registers of scores, which the maximum and the difference want, are stored as well"
    assert notes(128, 128) == []
    note, = notes(512, 512)
    assert re.fullmatch(r"at line \d+ values take about 256 vector registers, of 64 that a core has: 1024 KiB go to VMEM and back each time", note), note
    assert stores(512, 512, lambda q, k: jnp.exp(bundles.schedules._scores(q, k))) == pytest.approx(256), "what goes on register by register needs no place"
    assert stores(512, 512, lambda q, k: jnp.exp(jnp.max(q, 1, keepdims=True)) + k.astype(F32)[:, :1]) < 512, "without products nothing is taken to be stored"


def test_a_product_of_few_rows_takes_as_long_as_its_weights_are_pushed():
    def cycles(rows, k=512, n=512, of=lambda a, b: lax.dot(a, b, preferred_element_type=F32)):
        args = [jax.ShapeDtypeStruct((rows, k), BF16), jax.ShapeDtypeStruct((k, n), BF16)]
        return bundles.predicted(bundles.call(of, args, jax.ShapeDtypeStruct((rows, n), F32)), args, "tpu-v6e")[0]

    assert cycles(8) == pytest.approx(188 + 2 * 64 + 2, rel=0.02), "tiles of 256 x 256 on two units: a latency, and two pushes"
    assert cycles(1024) - cycles(512) == pytest.approx(512, rel=0.02), "two rows a cycle, twice"
    twice = cycles(8, of=lambda a, b: lax.dot(lax.dot(a, b, preferred_element_type=F32).astype(BF16), b, preferred_element_type=F32))
    assert 188 <= twice - cycles(8) < 188 + 64 + 2, "the second one waits for the first, but not with its first push"
    beside = cycles(8, of=lambda a, b: lax.dot(a, b, preferred_element_type=F32) + lax.dot(a * 2, b, preferred_element_type=F32))
    assert beside - cycles(8) < 150, "products that need not wait for each other share a latency"


@pytest.mark.parametrize("queries,keys,cycles", [(64, 512, 692), (256, 512, 794), (384, 512, 1231), (768, 512, 1828), (256, 1024, 1161), (384, 1024, 2181), (768, 768, 2803)])
def test_products_of_many_rows_have_an_mxu_each_on_a_7x(queries, keys, cycles):
    """Attention of one block, in cycles of libtpu's schedule: beyond 256 rows one MXU adds up all of the second product."""
    args = [jax.ShapeDtypeStruct((rows, 128), BF16) for rows in (queries, keys, keys)]
    f = bundles.call(bundles.schedules._attention, args, jax.ShapeDtypeStruct((queries, 128), F32))
    assert bundles.predicted(f, args, "tpu-7x")[0] == pytest.approx(cycles, rel=0.07)
