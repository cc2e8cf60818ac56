"""The kernels that are measured compute what their references do, and the comparison runs."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import compare  # noqa: E402
import kernels  # noqa: E402


# Those that compute for seconds are smaller ones with more steps.
@pytest.mark.parametrize("name", sorted(name for name, case in kernels.all_cases().items() if case.flops < 1e11))
def test_kernel(name):
    case = kernels.all_cases()[name]
    arguments = jax.block_until_ready(case.arguments())
    function, _ = compare.compiled("pallasim", case, arguments)
    compare.checked("pallasim", case, function, arguments)


@pytest.mark.slow_first
def test_comparison(tmp_path):
    out = tmp_path / "results.json"
    done = subprocess.run([sys.executable, str(BENCH / "compare.py"), "--cases", "add_1m_8_steps|histogram", "--executors", "xla,hlo,pallasim", "--rounds", "3",
                           "--budget", "0", "--out", str(out)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cases = json.loads(out.read_text())["cases"]
    add = cases["add_1m_8_steps"]
    assert set(add["warm"]["wall_s"]) == {"xla", "hlo", "pallasim"} == set(add["warm"]["to_pallasim"])
    assert add["warm"]["to_pallasim"]["pallasim"] == 1 and all(v > 0 for v in add["warm"]["cpu_s"].values())
    assert all(add["cold"][e]["total_s"] > 0 for e in add["executors"])
    # JAX's interpreter has no atomics between programs: its result is wrong, and the table says so.
    assert "wrong result" in cases["histogram_atomics"]["warm"]["errors"]["hlo"]
    assert "| add_1m_8_steps |" in done.stdout and "* histogram_atomics, hlo: AssertionError: wrong result" in done.stdout


@pytest.mark.slow_first
def test_the_suite_for_pytest_runs_checked_and_not():
    import pytest_suite

    seconds, plans = pytest_suite.first_run(smallest=True)
    assert 0 < plans < seconds / 50  # what workers would save that shared their plans
    assert pytest_suite.launches(True, smallest=True) > 0 and pytest_suite.launches(False, smallest=True) > 0


def test_sweeps_are_measured():
    import sweep

    for name in ("tpu", "hopper"):
        assert len(sweep.configurations(name, 4096)) == 400 == len(set(sweep.configurations(name, 4096)))
    few = sweep.configurations("tpu", 256)[-2:]
    measured = sweep.one("tpu", 256, True, 0, configs=few)
    assert measured["statuses"] == {"ok": 2} and measured["ms_per_configuration"]["running"] > 0 and measured["per_second_and_core_beyond_tracing"] > 0


def test_devices_are_measured():
    done = subprocess.run([sys.executable, str(BENCH / "devices.py"), "--devices", "4", "--launches", "20"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["devices"] == 4 and said["launches"] == 80
    assert said["us_per_device_and_launch"] > 0 < said["MiB"]
