"""One mistake, one report, and the report is the mistake: `causes/` has kernels with one mistake each, and the same without it.

`python tests/python/causes/summary.py` has the numbers of all, and shows what is said of each.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from causes import FAMILIES, all_bugs
from causes.bugs import Bug, Outcome, missing

from pallasim import _findings

pytestmark = pytest.mark.one_jax

BUGS = all_bugs()
HERE = pathlib.Path(__file__).resolve().parent
# Bugs whose reports are not yet right: who mends one takes its line away.
NOT_YET = (HERE / "causes" / "not_yet.txt").read_text().splitlines()


def each(suffix: str = "") -> list[Any]:
    """All names; those that are not yet right must fail."""
    return [pytest.param(n, marks=pytest.mark.xfail(strict=True, reason="not reported as one cause yet: causes/not_yet.txt")) if n + suffix in NOT_YET else n for n in BUGS]


# A process has as many devices as it began with.
ON_DEVICES = """
import json, sys
from causes import all_bugs
from pallasim import _findings

def plain(o):
    return [[_findings.to_dict(f) for f in o.reports], o.launched, o.differs]

print("outcomes", json.dumps({f"{b.name} {fixed} {seed}": plain(b.run(fixed, random_seed=seed)) for b in all_bugs().values() if b.devices > 1
                              for fixed in (False, True) for seed in (None, 1, 2)}))
"""


@pytest.fixture(scope="session")
def several_devices() -> dict[str, Outcome]:
    """Outcomes of those that need several devices, by name, whether it is the twin, and seed."""
    env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run([sys.executable, "-c", ON_DEVICES], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.rpartition("outcomes ")[2])
    return {key: Outcome([_findings.from_dict(f) for f in reports], *rest) for key, (reports, *rest) in found.items()}


@pytest.fixture
def outcome(request: pytest.FixtureRequest):
    def run(bug: Bug, fixed: bool, seed: int | None = None) -> Outcome:
        if bug.devices > 1:
            return request.getfixturevalue("several_devices")[f"{bug.name} {fixed} {seed}"]
        return bug.run(fixed, random_seed=seed)

    return run


@pytest.mark.parametrize("name", each())
def test_the_first_report_is_the_cause_and_there_are_no_more(name, outcome):
    bug = BUGS[name]
    found = outcome(bug, False)
    said = "\n".join(f.report for f in found.reports)
    assert found.launched, "no kernel ran on the emulator"
    assert found.reports, "nothing was said"
    assert not missing(bug, found.reports[0]), f"the first report lacks {', '.join(missing(bug, found.reports[0]))}:\n{said}"
    assert len(found.reports) <= bug.reports, said


@pytest.mark.parametrize("name", each(" in other schedules"))
def test_it_is_the_cause_in_other_schedules(name, outcome):
    """There the other side of a race may come first, and another grid point read what nobody wrote: its words are those of that schedule."""
    bug = BUGS[name]
    for seed in (1, 2):
        found = outcome(bug, False, seed)
        said = f"random_seed={seed}\n" + "\n".join(f.report for f in found.reports)
        assert found.reports and found.reports[0].code in bug.cause.codes and found.reports[0].line in bug.cause.lines, said
        assert len(found.reports) <= bug.reports, said


@pytest.mark.parametrize("name", BUGS)
def test_the_twin_is_right_and_nothing_is_said(name, outcome):
    for seed in (None, 1):
        found = outcome(BUGS[name], True, seed)
        assert found.launched, "no kernel ran on the emulator"
        assert not found.reports, "\n".join(f.report for f in found.reports)
        assert not found.differs, found.differs


def test_the_summary_counts():
    """From anywhere, as a program of its own."""
    script = HERE / "causes" / "summary.py"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script), "--family", "triton"], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines() if line}
    assert rows["load_has_no_mask"] == ["1", "yes"] and set(rows) >= {b.name for b in BUGS.values() if b.family == "triton"}
    assert "reports per cause, the first one is the cause in" in done.stdout.splitlines()[-2]
    done = subprocess.run([sys.executable, str(script), "--show", "load_has_no_mask"], env=env, capture_output=True, text=True, timeout=300)
    assert "1 report; the first lacks: nothing\nerror[PS-OOB-001]" in done.stdout


def test_what_is_not_yet_right_exists():
    assert {line.removesuffix(" in other schedules") for line in NOT_YET} <= set(BUGS) and len(NOT_YET) == len(set(NOT_YET))


@pytest.mark.parametrize("family", FAMILIES)
def test_there_are_enough_of_each_family(family):
    bugs = [b for b in BUGS.values() if b.family == family]
    assert len(bugs) >= 20
    assert sum(b.reports for b in bugs) / len(bugs) <= 1.2
