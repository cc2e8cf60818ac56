"""`pallasim suite`: capsules that are repeated, each in a process of its own; and tests of pytest that leave some."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import pallasim

pytestmark = pytest.mark.one_jax
pytest_plugins = ["pytester"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))
X = np.arange(4096, dtype=np.float32).reshape(32, 128)


def suite(*words):
    """(exit code, JSON) of the command line."""
    done = subprocess.run([BINARY, "suite", *map(str, words), "--json"], capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


def made(kind, path):
    """A capsule of tests/cli/capsules.py."""
    subprocess.run([sys.executable, str(ROOT / "tests" / "cli" / "capsules.py"), kind, str(path)], check=True)
    return path


def manifest(path):
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read("manifest.json"))


def edited(path, change):
    """The capsule with another manifest."""
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    m = json.loads(members["manifest.json"])
    change(m)
    members["manifest.json"] = json.dumps(m).encode()
    with zipfile.ZipFile(path, "w") as z:
        for name, content in members.items():
            z.writestr(name, content)


def sums_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def sums(x):
    """Claims an axis parallel that is not."""
    from jax.experimental.pallas import tpu as pltpu

    return pl.pallas_call(
        sums_kernel, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x)


def recorded(path, **options):
    with pallasim.emulate("tpu-v5e", findings="collect", **options):
        pallasim.capture(sums, X, path=path)
    pallasim.findings()
    return manifest(path)["launches"][0]


def test_findings_and_times_are_recorded_and_compared(tmp_path):
    path = tmp_path / "sums.capsule"
    launch = recorded(path, detect_races=True, time=True)
    assert [f["code"] for f in launch["findings"]] == ["PS-PAR-001"] and launch["findings"][0]["line"] > 0
    assert launch["predicted"]["chip"] == "tpu-v5e" and 0 < launch["predicted"]["seconds"] < 1e-3
    code, found = suite(path)
    assert code == 0 and (found["findings_compared"], found["times_compared"]) == (1, 1)
    assert found["capsules"][0]["outcome"]["launches"][0]["same"]

    edited(path, lambda m: m["launches"][0]["findings"].clear())
    edited(path, lambda m: m["launches"][0]["predicted"].update(seconds=launch["predicted"]["seconds"] * 1.1))
    code, found = suite(path, "--time-rtol", "0.05")
    codes = [f["code"] for f in found["capsules"][0]["outcome"]["findings"] if f["code"].startswith("PS-DIFF")]
    assert code == 1 and codes == ["PS-DIFF-003", "PS-DIFF-004"] and found["counts"] == {"different": 1}
    again = pallasim.replay(path, compare=True, time_rtol=0.05)
    assert [f.code for f in again.findings if f.code.startswith("PS-DIFF")] == codes and not again.ok
    assert pallasim.replay(path).ok  # a warning alone


def test_what_was_not_recorded_is_not_compared(tmp_path):
    path = tmp_path / "sums.capsule"
    assert recorded(path)["findings"] == []
    edited(path, lambda m: m["launches"][0].pop("findings"))
    code, found = suite(path, "--checked")
    assert code == 0 and (found["launches"], found["findings_compared"], found["times_compared"]) == (1, 0, 0)


def test_one_that_hangs_and_one_that_dies_are_rows(tmp_path):
    made("spins", tmp_path / "spins.capsule")
    made("good", tmp_path / "good.capsule")
    code, found = suite(tmp_path, "--limit", "1", "--jobs", "2")
    assert code == 1 and found["counts"] == {"same": 1, "over time": 1}
    hangs = next(c for c in found["capsules"] if c["verdict"] == "over time")
    assert hangs["why"] == "no end after 1 s" and 1 <= hangs["seconds"] < 20

    running = subprocess.Popen([BINARY, "suite", str(tmp_path), "--jobs", "1", "--json"], stdout=subprocess.PIPE, text=True)
    os.kill(child_of(running.pid, 1.5), signal.SIGKILL)
    found = json.loads(running.communicate(timeout=60)[0])
    assert running.returncode == 70 and found["counts"] == {"same": 1, "died": 1}
    assert any("signal 9" in (c["why"] or "") for c in found["capsules"])


def child_of(process, age):
    """A child that has lived for so many seconds."""
    since, last = time.monotonic(), 0
    while time.monotonic() - since < 30:
        children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
        if children and int(children[0]) != last:
            last, born = int(children[0]), time.monotonic()
        elif children and time.monotonic() - born > age:
            return last
        time.sleep(0.05)
    raise AssertionError("no child stays")


def test_ctrl_c_gives_what_there_is(tmp_path):
    made("spins", tmp_path / "spins.capsule")
    made("good", tmp_path / "good.capsule")
    running = subprocess.Popen([BINARY, "suite", str(tmp_path), "--jobs", "2", "--json", "--limit", "0", "--junit", str(tmp_path / "x.xml")],
                               stdout=subprocess.PIPE, text=True)
    child_of(running.pid, 1.5)
    running.send_signal(signal.SIGINT)
    found = json.loads(running.communicate(timeout=60)[0])
    assert running.returncode == 130 and found["counts"] == {"same": 1, "not run": 1}
    assert ElementTree.parse(tmp_path / "x.xml").find("testsuite").attrib["skipped"] == "1"


def test_a_terminal_sees_how_far_it_is(tmp_path):
    made("good", tmp_path / "good.capsule")
    made("differs", tmp_path / "differs.capsule")
    ours, theirs = os.openpty()
    done = subprocess.run([BINARY, "suite", str(tmp_path), "--jobs", "1"], stdout=subprocess.DEVNULL, stderr=theirs, timeout=60)
    os.close(theirs)
    shown = ""
    with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # EIO is its end
        while part := terminal.read(1 << 16):
            shown += part.decode()
    assert done.returncode == 1 and "2 of 2 capsules, 1 not as recorded" in shown and "1 of 2 capsules" in shown


@pytest.mark.parametrize("dtype", ["int4", "int2"])
def test_elements_narrower_than_a_byte_are_compared_without_their_padding(tmp_path, dtype):
    def negate_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] - jnp.ones((8, 128), x_ref.dtype)

    path = tmp_path / "narrow.capsule"
    with pallasim.emulate():
        out = pallasim.capture(lambda x: pl.pallas_call(negate_kernel, out_shape=x)(x), jnp.zeros((8, 128), dtype), path=path)
    assert int(out[0, 0]) == -1 and suite(path)[0] == 0


def test_memory_of_one_is_limited(tmp_path):
    with pallasim.emulate():
        pallasim.capture(lambda x: pl.pallas_call(sums_kernel, out_shape=x)(x), jnp.zeros((4096, 1024)), path=tmp_path / "large.capsule")
    code, found = suite(tmp_path, "--memory", str(8 << 20))
    row = found["capsules"][0]
    assert code != 0 and row["verdict"] in ("refused", "died") and found["counts"] == {row["verdict"]: 1}
    assert suite(tmp_path, "--memory", str(4 << 30))[0] == 0


def test_junit(tmp_path):
    for kind in ("good", "differs", "cut"):
        made(kind, tmp_path / f"{kind} <&\".capsule")
    code, found = suite(tmp_path, "--junit", tmp_path / "suite.xml")
    root = ElementTree.parse(tmp_path / "suite.xml").getroot()
    cases = {pathlib.Path(c.attrib["name"]).name.split()[0]: c for c in root.iter("testcase")}
    assert code == 3 and root.attrib["tests"] == "3" and root.attrib["failures"] == "1" and root.attrib["errors"] == "1"
    assert list(cases["good"]) == [] and cases["differs"].find("failure").attrib["type"] == "PS-DIFF-001"
    assert "2 of 8 elements" in cases["differs"].find("failure").text and cases["cut"].find("error").attrib["type"] == "PS-CAP-001"


TESTS = """
import jax, jax.numpy as jnp, numpy as np, pytest
from jax.experimental import pallas as pl
import pallasim

def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def late_kernel(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[pl.ds(i + 5, 1)] = x_ref[pl.ds(i, 1)]

def double(x):
    return pl.pallas_call(double_kernel, out_shape=x)(x)

X = jnp.arange(8.0)

@pytest.fixture
def doubled():
    return double(X)

@pytest.mark.parametrize("n", [1, 2])
def test_right(doubled, n):
    np.testing.assert_array_equal(double(doubled) * n, X * 4 * n)

def test_wrong_value():
    np.testing.assert_array_equal(double(X), X * 3)

def test_out_of_bounds():
    jax.block_until_ready(pl.pallas_call(late_kernel, out_shape=X, grid=(8,))(X))

def test_its_own_machine():
    with pallasim.emulate("tpu-v4"):
        double(X)

def test_no_kernel():
    pass
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_tests_leave_a_suite(pytester, workers):
    pytester.makepyfile(test_kernels=TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *workers, "--pallasim=tpu-v5e", "--pallasim-capture=kept")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*capsules of 5 tests: pallasim suite kept*"])
    files = sorted(p.name for p in (pytester.path / "kept").iterdir())
    assert files == ["test_kernels.py_test_its_own_machine.capsule", "test_kernels.py_test_out_of_bounds.capsule", "test_kernels.py_test_right-1.capsule",
                     "test_kernels.py_test_right-2.capsule", "test_kernels.py_test_wrong_value.capsule"]
    assert len(manifest(pytester.path / "kept" / files[2])["launches"]) == 2  # its fixture's is one of them
    code, found = suite(pytester.path / "kept")
    assert code == 0 and found["counts"] == {"same": 5} and found["launches"] == found["findings_compared"] == 7


def test_without_a_machine_and_again(pytester):
    """Only the test that switches the emulator on has launches; what it no longer runs goes."""
    pytester.makepyfile(test_kernels=TESTS)
    for _ in range(2):
        pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "own_machine", "--pallasim-capture=kept").assert_outcomes(passed=1, deselected=5)
        assert [p.name for p in (pytester.path / "kept").iterdir()] == ["test_kernels.py_test_its_own_machine.capsule"]
    pytester.makepyfile(test_kernels=TESTS.replace('with pallasim.emulate("tpu-v4"):', "if False:"))
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "own_machine", "--pallasim-capture=kept").assert_outcomes(passed=1, deselected=5)
    assert list((pytester.path / "kept").iterdir()) == []


def test_replay_takes_options_of_params(tmp_path):
    path = tmp_path / "sums.capsule"
    recorded(path)
    shutil.copy(path, tmp_path / "copy.capsule")
    again = pallasim.replay(path, options={"random_seed": 3, "max_memory": 1 << 24})
    assert again.ok and json.loads(again.to_json())["launches"][0]["token"].startswith("ps2:random:3")
    assert json.loads(again.to_json()).keys() == json.loads(pallasim.replay(path, detect_races=True).to_json()).keys()
    with pytest.raises(TypeError, match="random_seed"):
        pallasim.replay(path, options={"random_sed": 3})
    with pytest.raises(TypeError, match="no option of a run"):
        pallasim.replay(path, options={"findings": "collect"})
    with pytest.raises(pallasim.KernelError, match="PS-"):
        pallasim.replay(path, options={"max_memory": 64})
