"""A checker is trusted when it finds what is planted, at the line, and is silent on what is right.

`python tests/mutants/run.py` runs all mutants; here is a fixed sample, and every kernel as it is.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from mutation import pool, source, table  # noqa: E402

SAMPLE = (HERE / "sample.txt").read_text().splitlines()

KERNELS_AS_THEY_ARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from mutation import right
for name in sys.argv[2:]:
    print("right", json.dumps([name, right.look(name)]), flush=True)
"""


@pytest.fixture(scope="session")
def right() -> dict[str, dict]:
    """Of each kernel what `mutation.right` sees; a process has as many devices as it began with."""
    names = list(source.kernels())
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parts = [subprocess.Popen([sys.executable, "-c", KERNELS_AS_THEY_ARE, str(HERE), *names[i::2]], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) for i in range(2)]
    seen = {}
    for part in parts:
        out, err = part.communicate(timeout=1500)
        assert part.returncode == 0, err[-3000:]
        seen |= dict(json.loads(line.removeprefix("right ")) for line in out.splitlines() if line.startswith("right "))
    return seen


@pytest.mark.parametrize("name", source.kernels())
def test_a_right_kernel_is_right_and_nothing_is_said(name, right):
    assert right[name]["launched"], "no kernel ran on the emulator"
    assert not right[name]["wrong"], right[name]["wrong"]
    assert not right[name]["said"], right[name]["said"]


@pytest.mark.slow_first
def test_planted_mistakes_of_the_sample_are_found_at_their_lines():
    """What each is was decided by outcomes when the sample was drawn (`run.py --draw`); two of each kind are asked anew."""
    kinds = dict(line.split() for line in SAMPLE)
    faulty = [name for name, kind in kinds.items() if kind == "faulty"]
    again = faulty[:2] + [name for name, kind in kinds.items() if kind == "other"][:2]
    answers = [*pool.run(kinds, "checked"), *pool.run(again)]
    rows = {r["name"]: r for r in table.rated(answers[:len(kinds)])}
    assert len(faulty) >= 15 and len({rows[n]["mutant"].operator for n in faulty}) >= 10 and len({table.family(rows[n]["mutant"]) for n in faulty}) >= 9
    for name in faulty:
        assert rows[name]["result"] == "exact", table.shown(rows[name])
    for name in set(kinds) - set(faulty):
        assert rows[name]["result"] == "silent", table.shown(rows[name])
    for a in answers[len(kinds):]:
        assert a["verdict"]["kind"] == kinds[a["name"]], a


def test_there_are_enough_and_each_has_its_name():
    mutants = source.all_mutants()
    assert len(mutants) >= 800 and len(source.kernels()) >= 24
    assert len({m.name for m in mutants}) == len(mutants) == len({(m.kernel, m.source) for m in mutants})
    assert {table.family(m) for m in mutants} == set(table.MACHINES)
    for m in mutants:
        assert m.source != source.kernels()[m.kernel].read_text() and m.before != m.after


def test_exceptions_are_few_and_of_mutants_that_there_are():
    names = {m.name for m in source.all_mutants()}
    assert set(table.exceptions()) <= names and len(table.exceptions()) <= 0.02 * len(names)


def test_what_is_silent_and_what_is_at_another_line_is_told_apart():
    """The table itself: answers that are made up."""
    m = next(m for m in source.all_mutants() if m.operator == "drop_wait")
    verdict = {"kind": "faulty", "why": "", "lines": [], "schedules": 1}
    said = {"code": "PS-RACE-001", "severity": "warning", "line": m.line, "lines": [m.line], "message": "", "seed": None}
    for answer, result in (([], "silent"), ([said | {"severity": "note"}], "silent"), ([said | {"line": 1}], "line"), ([said], "exact")):
        rows = table.rated([{"name": m.name, "verdict": verdict, "said": answer, "seconds": [0, 0]}])
        assert rows[0]["result"] == result
        assert f"of 1 faulty mutants {0 if result == 'silent' else 100:.1f} % are found" in table.table(rows)
