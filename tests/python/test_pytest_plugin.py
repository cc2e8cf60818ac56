"""`pytest --pallasim=CHIP` on test files that know nothing of the emulator."""
from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import pallasim

pytestmark = pytest.mark.one_jax

pytest_plugins = ["pytester"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))

TESTS = """
import jax, jax.numpy as jnp, numpy as np, pytest
from jax.experimental import pallas as pl

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

def test_right(doubled):
    np.testing.assert_array_equal(doubled, X * 2)

def test_wrong_value():
    np.testing.assert_array_equal(double(X), X * 3)

def test_out_of_bounds():
    y = double(X)
    jax.block_until_ready(pl.pallas_call(late_kernel, out_shape=y, grid=(8,))(y))

def test_expected_error():
    with pytest.raises(Exception, match="PS-OOB-001"):
        jax.block_until_ready(pl.pallas_call(late_kernel, out_shape=X, grid=(8,))(X))

def test_no_kernel():
    assert False
"""


def run(pytester, *args, source=TESTS):
    """The result of pytest in a process of its own, and how many kernels the emulator ran there."""
    pytester.makepyfile(test_kernels=source)
    pytester.makeconftest("""
        def pytest_sessionfinish():
            import pathlib, pallasim
            pathlib.Path("launches").write_text(str(pallasim.launch_count()))
    """)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *args)
    launches = pytester.path / "launches"
    return result, int(launches.read_text()) if launches.exists() else 0


def test_unmodified_tests_run_on_the_emulator(pytester):
    result, launches = run(pytester, "--pallasim=tpu-v5e")
    result.assert_outcomes(passed=2, failed=3)
    assert launches == 5
    result.stdout.fnmatch_lines(["*pallasim: tpu-v5e*", "*KernelError: error?PS-OOB-001?*", "*repeat it without Python: pallasim run *"])

    folder = pytester.path / "pallasim-artifacts"
    assert sorted(p.name for p in folder.iterdir()) == [f"test_kernels.py_test_{t}" for t in ("no_kernel", "out_of_bounds", "wrong_value")]
    failed = folder / "test_kernels.py_test_out_of_bounds"
    assert "o_ref[pl.ds(i + 5, 1)] = x_ref[pl.ds(i, 1)]" in (failed / "report.txt").read_text()
    done = subprocess.run([BINARY, "run", str(failed / "program.capsule"), "--json"], capture_output=True, text=True)
    replayed = json.loads(done.stdout)
    assert [launch["error"] for launch in replayed["launches"]] == [None, "PS-OOB-001"]
    assert replayed["findings"][0]["text"] == "o_ref[pl.ds(i + 5, 1)] = x_ref[pl.ds(i, 1)]"
    wrong = folder / "test_kernels.py_test_wrong_value"
    assert sorted(p.name for p in wrong.iterdir()) == ["program.capsule", "report.txt"]
    text = (wrong / "report.txt").read_text()
    assert "test_wrong_value failed (call)" in text and "kernel double_kernel: 1 launches" in text and "nothing was found" in text and "Mismatched" in text
    assert [p.name for p in (folder / "test_kernels.py_test_no_kernel").iterdir()] == ["report.txt"]
    assert "no kernel ran on the emulator" in (folder / "test_kernels.py_test_no_kernel" / "report.txt").read_text()


def test_the_build_tree_announces_what_an_installation_does():
    """Once: a wheel in the same environment has the same entry, and pytest takes the first of a name."""
    announced = {e.value for e in importlib.metadata.entry_points(group="pytest11", name="pallasim.pytest_plugin")}
    assert announced == {"pallasim.pytest_plugin"} and importlib.metadata.version("pallasim") == pallasim.__version__


def test_an_installed_plugin_may_be_named_as_well(pytester, monkeypatch, tmp_path):
    """As an installation announces it (pyproject.toml), with and without -p."""
    entry = re.search(r'\[project\.entry-points\.pytest11\]\n(?:#.*\n)*(.+) = "(.+)"', (ROOT / "pyproject.toml").read_text())
    assert entry
    info = tmp_path / "site" / "announced-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 0\n")
    name = entry[1].strip('"')
    (info / "entry_points.txt").write_text(f"[pytest11]\n{name} = {entry[2]}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(info.parent), os.environ.get("PYTHONPATH", "")]))
    pytester.makepyfile(test_nothing="def test_nothing(): pass")
    for arguments in ([], ["-p", "pallasim.pytest_plugin"]):
        pytester.runpytest_subprocess(*arguments, "--pallasim=generic", "-q").assert_outcomes(passed=1)


def test_without_the_option_nothing_changes(pytester):
    result, launches = run(pytester, "-k", "no_kernel")
    result.assert_outcomes(failed=1, deselected=4)
    assert launches == 0 and "pallasim:" not in result.stdout.str() and not (pytester.path / "pallasim-artifacts").exists()


def test_options_and_folder(pytester):
    result, _ = run(pytester, "--pallasim=generic", "--pallasim-option", "out_of_bounds=machine", "--pallasim-artifacts=kept", "-k", "bounds or value")
    result.assert_outcomes(passed=1, failed=1, deselected=3)
    assert [p.name for p in (pytester.path / "kept").iterdir()] == ["test_kernels.py_test_wrong_value"]


def test_marker(pytester):
    source = """
import jax.numpy as jnp, pytest, pallasim
from jax.experimental import pallas as pl

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1

def add():
    return pl.pallas_call(kernel, out_shape=jnp.ones(8))(jnp.ones(8))

@pytest.mark.pallasim("tpu-v4", detect_races=True)
def test_marked():
    before = pallasim.launch_count()
    assert add()[0] == 2 and pallasim.launch_count() == before + 1
    assert pallasim.last_run()["traffic"]  # only checked runs have it

@pytest.mark.pallasim(None)
def test_unmarked():
    with pytest.raises(ValueError, match="interpret"):
        add()

@pytest.mark.pallasim("tpu-v99")
def test_unknown():
    pass
"""
    result, launches = run(pytester, "--pallasim=generic", "--strict-markers", source=source)
    result.assert_outcomes(passed=2, errors=1)
    assert launches == 1
    result.stdout.fnmatch_lines(["*unknown machine 'tpu-v99'*"])


def test_options_of_the_marker_go_before_those_of_the_command_line(pytester):
    source = """
import jax, jax.numpy as jnp, pytest, pallasim
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.ones((8, 128), jnp.float32)
    pltpu.sync_copy(o_ref, x_ref)  # the caller's array: a note

def run():
    x = jnp.ones((8, 128), jnp.float32)
    jax.block_until_ready(pl.pallas_call(kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)])(x))
    return pallasim.last_run()["checked"]

def test_default():
    assert run() is True

@pytest.mark.pallasim(detect_races=False)
def test_marker():
    assert run() is False

@pytest.mark.pallasim(verify_restore=4)
def test_restored():
    assert run() is True

@pytest.mark.pallasim(fail_on="PS-RO-001")
def test_named_note():
    run()
"""
    result, launches = run(pytester, "--pallasim=tpu-v5e", "--pallasim-option=detect_races=True", "-k", "not restored", source=source)
    result.assert_outcomes(passed=2, failed=1, deselected=1, warnings=1)
    result.stdout.fnmatch_lines(["pallasim: tpu-v5e, checked", "FAILED *test_named_note*"])
    assert launches == 3
    result, _ = run(pytester, "--pallasim=tpu-v5e", "--pallasim-option=verify_restore=4", "-k", "restored", source=source)
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["pallasim: tpu-v5e, checked"])


def test_a_note_fails_a_test_where_its_code_is_named(pytester):
    source = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.ones((8, 128), jnp.float32)
    pltpu.sync_copy(o_ref, x_ref)  # the caller's array: a note

def test_half():
    x = jnp.ones((8, 128), jnp.float32)
    jax.block_until_ready(pl.pallas_call(kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)])(x))
"""
    run(pytester, "--pallasim=tpu-v5e", source=source)[0].assert_outcomes(passed=1, warnings=1)
    run(pytester, "--pallasim=tpu-v5e", "--pallasim-fail-on=PS-RO-001", source=source)[0].assert_outcomes(failed=1)


def test_what_is_read_before_it_was_written_and_dropped_is_no_finding():
    """A masked store of JAX's own gmm."""
    from jax.experimental.pallas.ops.tpu.megablox import gmm

    x, w = np.ones((256, 128), np.float32), np.ones((4, 128, 128), np.float32)
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        out = np.asarray(gmm(x, w, np.full(4, 64, np.int32), preferred_element_type=np.float32))
    np.testing.assert_array_equal(out, np.full((256, 128), 128.0))
    assert pallasim.last_run()["checked"] and not pallasim.findings()


@pytest.mark.parametrize("args, text", [(["--pallasim=tpu-v99"], "unknown machine"), (["--pallasim=generic", "--pallasim-option=detect_races"], "NAME=VALUE"),
                                        (["--pallasim=generic", "--pallasim-option=nonsense=1"], "nonsense")])
def test_wrong_command_lines(pytester, args, text):
    result, launches = run(pytester, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and launches == 0
    result.stderr.fnmatch_lines([f"*{text}*"])
