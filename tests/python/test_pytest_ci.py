"""What pytest's plugin and the command line leave for continuous integration: JUnit, annotations, SARIF, artefacts, the last lines; on one process and several."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import NamedTuple

import pytest
from sarif_format import checked, place

pytestmark = pytest.mark.one_jax

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))

KERNELS = """
import jax, jax.numpy as jnp, pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

X = jnp.ones((16, 128), jnp.float32)

def late_kernel(x_ref, o_ref, row, sem):
    copy = pltpu.make_async_copy(x_ref, row, sem)
    copy.start()
    o_ref[...] = row[...]  # race
    copy.wait()

def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def far_kernel(x_ref, o_ref):
    o_ref[pl.ds(pl.program_id(0) + 1, 16)] = x_ref[...]  # outside

def late(x=X):
    return pl.pallas_call(late_kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                          scratch_shapes=[pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA])(x)

def double():
    return pl.pallas_call(double_kernel, out_shape=X)(X)

def far():
    return pl.pallas_call(far_kernel, out_shape=X, grid=(1,))(X)
"""
TESTS = """
from kernels import *

@pytest.mark.parametrize("rows", [8, 16])
def test_race(rows):
    late(X[:rows])

def test_right():
    assert double()[0, 0] == 2

def test_outside():
    jax.block_until_ready(far())

def test_outside_is_expected():
    with pytest.raises(Exception, match="PS-OOB-001"):
        jax.block_until_ready(far())

@pytest.mark.xfail(reason="known")
def test_known():
    late()

@pytest.mark.pallasim(fail_on="none")
def test_allowed():
    late()

def test_value(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    late()
    assert double()[0, 0] == 3

@pytest.fixture
def leaves_a_race():
    yield
    late()

def test_race_in_teardown(leaves_a_race):
    double()

@pytest.mark.pallasim(detect_races=False)
def test_not_checked():
    late()
"""
FAILING = ["test_outside", "test_race-16", "test_race-8", "test_race_in_teardown", "test_value"]


class Session(NamedTuple):
    """A run of pytest that ended: its folder, its standard output, its exit code."""

    path: pathlib.Path
    output: str
    code: int


def session(folder, *args, kernels=KERNELS, **variables):
    inside = folder / "sub dir"
    inside.mkdir(exist_ok=True)
    (folder / ".git").mkdir(exist_ok=True)
    (inside / "kernels.py").write_text(kernels)
    (inside / "test_kernels.py").write_text(TESTS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "PYTEST_"))} | {"JAX_PLATFORMS": "cpu"} | variables
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pallasim=tpu-v5e", *args, "sub dir"], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=300)
    return Session(folder, done.stdout, done.returncode)


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "two workers"])
def whole(request, tmp_path_factory):
    """All tests, with all that they can leave."""
    return session(tmp_path_factory.mktemp("session"), f"-n{request.param}", "--junitxml=junit.xml", "--pallasim-sarif=out/findings.sarif",
                   "--pallasim-annotations=github")


def line_of(comment):
    return next(i for i, line in enumerate(KERNELS.splitlines(), 1) if line.endswith(f"# {comment}"))


def test_last_lines_and_artefacts(whole):
    lines = whole.output.splitlines()
    assert re.search(r"= 4 failed, 5 passed, 1 xfailed, 1 warning, 1 error in ", lines[-1])
    begin = next(i for i, line in enumerate(lines) if "= pallasim =" in line)
    launches, looked, slowest, left = lines[begin + 1:begin + 5]
    assert launches == "tpu-v5e: 12 launches in 10 tests; 6 findings (5 PS-RACE-001, 1 PS-OOB-001), failing 5 tests"
    assert re.fullmatch(r"looked for races, .*, not in 1 of the launches \(detect_races=False\); accesses outside of arrays, .*", looked)
    assert re.fullmatch(r"slowest kernels: " + ", ".join([r"\w+_kernel [0-9.]+ ms in sub dir/test_kernels.py::\S+(?: \(\d launches\))?"] * 3), slowest)
    assert left == "reports and capsules of 5 failing tests: pallasim-artifacts"
    folder = whole.path / "pallasim-artifacts"
    assert sorted(p.name.partition("test_kernels.py_")[2].rpartition("-")[0] for p in folder.iterdir()) == FAILING  # behind: a digest, for the space
    for name in folder.iterdir():
        assert sorted(p.name for p in name.iterdir()) == ["program.capsule", "report.txt"]
    (value,) = folder.glob("*test_value*")
    text = (value / "report.txt").read_text()
    assert "warning[PS-RACE-001]" in text and "assert" in text and "kernel late_kernel: 1 launches, 1 of them checked" in text
    replayed = subprocess.run([BINARY, "run", str(value / "program.capsule"), "--json"], capture_output=True, text=True)
    assert [launch["kernel"] for launch in json.loads(replayed.stdout)["launches"]] == ["late_kernel", "double_kernel"]


def test_what_failed_a_test_and_what_was_found_beside_it_are_shown(tmp_path):
    text = session(tmp_path, "-k", "value").output
    section = text[text.index("- pallasim -"):text.index("= pallasim =")]
    assert section.count("warning[PS-RACE-001]") == 1 and "repeat it without Python: pallasim run pallasim-artifacts/" in section


def test_junit_properties(whole):
    cases = {c.get("name"): [(p.get("name"), p.get("value")) for p in c.iter("property")] for c in ET.parse(whole.path / "junit.xml").iter("testcase")}
    assert cases["test_right"] == [("pallasim_launches", "1")]
    race = dict(cases["test_race[8]"])
    assert race["pallasim_finding"].startswith(f"warning PS-RACE-001 sub dir/kernels.py:{line_of('race')}: row is read while a copy")
    assert [pathlib.Path(v).name for n, v in cases["test_race[8]"] if n == "pallasim_artifact"] == ["report.txt", "program.capsule"]
    assert "error PS-OOB-001" in dict(cases["test_outside"])["pallasim_finding"]
    assert "pallasim_finding" in dict(cases["test_race_in_teardown"]) and "pallasim_finding" not in dict(cases["test_outside_is_expected"])


def sarif(path):
    return checked(json.loads(path.read_text()))


def test_sarif(whole):
    found = sarif(whole.path / "out" / "findings.sarif")
    assert found["invocations"] == [{"executionSuccessful": True}]
    (base,) = found["originalUriBaseIds"].values()
    assert base["uri"] == f"file://{whole.path}/"
    outside, race = sorted(found["results"], key=lambda r: r["ruleId"])
    assert (outside["ruleId"], outside["level"], place(outside)) == ("PS-OOB-001", "error", ("sub%20dir/kernels.py", line_of("outside")))
    assert outside["properties"]["tests"] == ["sub dir/test_kernels.py::test_outside"]
    # One line, one message, sizes aside: one result, which fails tests, and which a test that may fail knows as well.
    assert (race["ruleId"], race["level"], place(race)) == ("PS-RACE-001", "error", ("sub%20dir/kernels.py", line_of("race")))
    assert race["occurrenceCount"] == 6 and "suppressions" not in race and len(race["properties"]["tests"]) == 6
    assert [place({"locations": [r]})[1] for r in race["relatedLocations"]][0] == line_of("race") - 1  # where the copy starts
    assert race["properties"]["report"].startswith("warning[PS-RACE-001]: row is read")


def test_sarif_of_what_is_expected_and_of_nothing(tmp_path):
    session(tmp_path, "--pallasim-sarif=known.sarif", "-k", "known or outside_is_expected")
    (known,) = sarif(tmp_path / "known.sarif")["results"]
    assert known["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "the test is expected to fail: known"}]
    session(tmp_path, "--pallasim-sarif=none.sarif", "-k", "right")
    assert sarif(tmp_path / "none.sarif")["results"] == []
    assert session(tmp_path, "--pallasim-sarif=sub dir").code == pytest.ExitCode.USAGE_ERROR


def test_a_line_that_moves_keeps_its_fingerprint(tmp_path):
    prints = []
    for above in ("", "# a line\n\n"):
        session(tmp_path, "--pallasim-sarif=f.sarif", "-k", "test_race and 16", kernels=above + KERNELS)
        (result,) = sarif(tmp_path / "f.sarif")["results"]
        prints.append((result["partialFingerprints"], place(result)[1]))
    assert prints[0][0] == prints[1][0] and prints[0][1] + 2 == prints[1][1]


def annotations(ended):
    return [line for line in ended.output.splitlines() if re.match(r"::(error|warning|notice) ", line)]


def test_annotations(whole):
    race, outside = sorted(annotations(whole), reverse=True, key=lambda line: "PS-RACE" in line)
    assert race.startswith(f"::error file=sub dir/kernels.py,line={line_of('race')},col=18,title=PS-RACE-001::row is read while a copy")
    assert outside.startswith(f"::error file=sub dir/kernels.py,line={line_of('outside')},col=5,title=PS-OOB-001::")
    assert "%0Afound by sub dir/test_kernels.py::test_outside" in outside


def test_annotations_where_github_runs(tmp_path):
    """Findings that fail no test are warnings."""
    allowed = "-k", "allowed"
    assert [line.partition(" ")[0] for line in annotations(session(tmp_path, *allowed, GITHUB_ACTIONS="true"))] == ["::warning"]
    assert annotations(session(tmp_path, *allowed)) == []
    assert annotations(session(tmp_path, *allowed, "--pallasim-annotations=none", GITHUB_ACTIONS="true")) == []


def test_a_session_without_kernels_says_so(tmp_path):
    ended = session(tmp_path, "--deselect=sub dir/test_kernels.py")
    assert "tpu-v5e: no kernel ran on the emulator" in ended.output.splitlines()


PAGE = (ROOT / "docs" / "pytest.md").read_text()


def test_the_page_has_every_option():
    said = subprocess.run([sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, cwd=ROOT / "docs").stdout
    options = set(re.findall(r"^ +(--pallasim[a-z-]*)", said, re.M))
    assert set(re.findall(r"^\| `(--pallasim[a-z-]*)", PAGE, re.M)) == options and len(options) == 8


def test_the_recipe_leaves_what_it_uploads(tmp_path):
    recipe = re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1]
    arguments = re.search(r"- run: pytest (.*) tests\n", recipe)[1].split()
    session(tmp_path, *arguments, "-k", "race")
    left = [re.search(r"sarif_file: (\S+)", recipe)[1], *re.search(r"path: \|\n((?: +\S+\n)+)", recipe)[1].split()]
    assert left == ["pallasim.sarif", "pallasim-artifacts", "junit.xml"] and all((tmp_path / name).exists() for name in left)


def cli(*args, cwd=ROOT):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, cwd=cwd)


def test_sarif_of_check(tmp_path):
    out = tmp_path / "check.sarif"
    files = ["tests/pass/iota.psir", "tests/fail/run/unsupported_extern.psir", "tests/fail/ir/attribute_twice.psir", "tests/fail/ir/alias_number.psir"]
    plain, done = cli("check", *files), cli("check", *files, "--sarif", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr) and done.returncode == 4
    results = sarif(out)["results"]
    assert [(r["ruleId"], *place(r)) for r in results] == [
        ("PS-UNSUP-001", "ptx.py", 9), ("PS-IR-008", "tests/fail/ir/attribute_twice.psir", 6), ("PS-IR-116", "tests/fail/ir/alias_number.psir", 5)]
    inside = tmp_path / "inside.sarif"
    cli("check", "attribute_twice.psir", "--sarif", str(inside), cwd=ROOT / "tests" / "fail" / "ir")
    (same,) = sarif(inside)["results"]
    assert place(same) == place(results[1]) and same["partialFingerprints"] == results[1]["partialFingerprints"]
    assert cli("check", "tests/pass/iota.psir", "--sarif", str(out)).returncode == 0 and sarif(out)["results"] == []


def test_sarif_of_run(tmp_path):
    out = tmp_path / "run.sarif"
    done = cli("run", "tests/fail/run/false_parallel.psir", "--checked", "--sarif", str(out))
    (claim,) = sarif(out)["results"]
    assert done.returncode == 0 and (claim["ruleId"], claim["level"], place(claim)) == ("PS-PAR-001", "warning", ("sums.py", 4))
    stopped = cli("run", "tests/fail/run/oob_index.psir", "--sarif", str(out))
    assert stopped.returncode != 0 and [r["level"] for r in sarif(out)["results"]] == ["error"]


def test_a_sarif_file_that_cannot_be_written_is_said():
    for command in ("check", "run"):
        done = cli(command, "tests/pass/iota.psir", "--sarif", "/nonexistent/x.sarif")
        assert done.returncode == 3 and "PS-IO-002" in done.stderr
    both = cli("run", "tests/fail/run/unsupported_extern.psir", "--sarif", "/nonexistent/x.sarif")
    assert both.returncode == 4 and "PS-UNSUP-001" in both.stderr and "PS-IO-002" in both.stderr
