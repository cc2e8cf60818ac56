"""`pytest --pallasim=CHIP`, without another option, fails every planted mistake of planted/*.py, and passes its twin without it."""
from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.one_jax

pytest_plugins = ["pytester"]
FOLDER = pathlib.Path(__file__).parent / "planted"

# What each mistake is found as.
PLANTED = {
    "tpu-v5p": {
        "accumulator_is_cleared": "PS-UNINIT-001", "axis_that_carries_a_sum_is_arbitrary": "PS-PAR-001", "copy_is_awaited": "PS-RACE-001",
        "every_block_is_stored": "PS-OUT-001", "cores_exchange_rows": "PS-RACE-002", "devices_send_to_the_right": "PS-RACE-002",
        "slices_lie_inside": "PS-UNINIT-003", "what_is_awaited_is_signalled": "PS-DEAD-001",
    },
    "gpu-h100": {
        "programs_write_rows_of_their_own": "PS-PAR-002", "barrier_is_awaited_before_the_read": "PS-RACE-001",
        "stores_are_committed_before_the_copy": "PS-RACE-003", "store_is_behind_the_copy_that_reads": "PS-RACE-001",
    },
}
FILES = {"tpu-v5p": "tpu.py", "gpu-h100": "gpu.py"}


def outcomes(pytester, monkeypatch, chip, *options):
    """Test -> whether it passed, and the codes of its findings, from JUnit's file."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "4")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    file = pytester.path / f"test_{FILES[chip]}"
    file.write_text((FOLDER / FILES[chip]).read_text())
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--pallasim={chip}", "--junitxml=junit.xml", *options, str(file))
    found = {}
    for case in ET.parse(pytester.path / "junit.xml").iter("testcase"):
        values = [p.get("value").split()[1] for p in case.iter("property") if p.get("name") == "pallasim_finding"]
        found[case.get("name").removeprefix("test_")] = case.find("failure") is None, set(values)
    return result, found


@pytest.mark.parametrize("chip", PLANTED)
def test_planted_mistakes_fail_and_their_twins_pass(pytester, monkeypatch, chip):
    result, found = outcomes(pytester, monkeypatch, chip)
    result.assert_outcomes(passed=len(PLANTED[chip]), failed=len(PLANTED[chip]))
    assert set(found) == {f"{name}[{kind}]" for name in PLANTED[chip] for kind in ("planted", "twin")}
    for name, code in PLANTED[chip].items():
        passed, codes = found[f"{name}[planted]"]
        assert not passed and code in codes, (name, codes)
        assert found[f"{name}[twin]"] == (True, set()), name


def test_it_is_the_check_that_finds_them(pytester, monkeypatch):
    """Without it only what stops a run does."""
    result, found = outcomes(pytester, monkeypatch, "tpu-v5p", "--pallasim-option=detect_races=False")
    assert {name for name, (passed, _) in found.items() if not passed} == {"what_is_awaited_is_signalled[planted]"}
    result.stdout.fnmatch_lines(["pallasim: tpu-v5p, not checked (detect_races=False)", "looked for *; not for races, *(detect_races=False)"])
