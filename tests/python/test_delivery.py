"""A finding of a checked run is seen, once, wherever the program runs: script, notebook, pytest, capsule on the command line."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

pytest_plugins = ["pytester"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))

# `race`: the copy may still be under way where its target is read. `unset`: an accumulator that nobody cleared, on an axis that
# claims to be parallel. Both are findings of checked runs alone.
KERNELS = """
import jax, jax.numpy as jnp, numpy as np, pallasim
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

X = jnp.ones((16, 128), jnp.float32)

def race_kernel(x_ref, o_ref, row, sem):
    copy = pltpu.make_async_copy(x_ref, row, sem)
    copy.start()
    o_ref[...] = row[...]
    copy.wait()

def race(x):
    return pl.pallas_call(race_kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                          scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(x)

def unset_kernel(x_ref, o_ref, acc_ref):
    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]

def unset(x):
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(unset_kernel, out_shape=x, grid=(2,), in_specs=[rows], out_specs=rows, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
                          compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x)
"""
_space: dict = {}
exec(compile(KERNELS, "kernels.py", "exec"), _space)
race, unset, X = _space["race"], _space["unset"], _space["X"]


@pytest.fixture(autouse=True)
def nothing_left():
    pallasim.findings()
    yield
    pallasim.findings()


def script(tmp_path, body, source=KERNELS):
    """The process of a script that begins with the kernels."""
    path = tmp_path / "script.py"
    path.write_text(source + body)
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})


def test_a_script_says_each_place_once(tmp_path):
    done = script(tmp_path, """
with pallasim.emulate("tpu-v5e", detect_races=True):
    for n in range(3):
        race(X + n).block_until_ready()
    jax.jit(race)(X)
    unset(X)
""")
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.count("warning[PS-RACE-001]") == 1 and done.stderr.count("warning[PS-") == 2
    assert "      o_ref[...] = row[...]\n" in done.stderr
    # One cause: the claim that follows from it is a line of its report.
    assert done.stderr.count("warning[PS-UNINIT-001]") == 1 and done.stderr.count("PS-PAR-001") == 1


def test_a_script_fails_where_it_asks_for_that(tmp_path):
    done = script(tmp_path, """
with pallasim.emulate("tpu-v5e", detect_races=True, findings="raise"):
    race(X).block_until_ready()
""")
    assert done.returncode == 1
    assert done.stderr.count("PS-RACE-001") == 1 and "pallasim.KernelError: error[PS-RACE-001]" in done.stderr
    assert "pallasim/_" not in done.stderr, "the traceback shows frames of the emulator"
    assert done.stderr.count("race(X).block_until_ready()") == 1


def test_a_failing_kernel_is_reported_once(tmp_path):
    done = script(tmp_path, """
def late_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(pl.program_id(0) * 8 + 4, 16)]

with pallasim.emulate():
    jax.jit(lambda x: pl.pallas_call(late_kernel, out_shape=x, grid=(2,))(x))(X).block_until_ready()
""")
    assert done.returncode == 1 and done.stderr.count("PS-OOB-001") == 1 and "pallasim/_" not in done.stderr


def test_process_wide_and_at_the_end_of_the_process(tmp_path):
    done = script(tmp_path, """
pallasim.install("tpu-v5e", detect_races=True)
y = jax.jit(race)(X)   # nobody waits for it
""")
    assert done.returncode == 0 and done.stderr.count("warning[PS-RACE-001]") == 1


def test_collect_says_nothing(tmp_path):
    done = script(tmp_path, """
with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
    race(X).block_until_ready()
print([f.code for f in pallasim.findings()], [f.code for f in pallasim.runs()[-1].findings])
""")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == "['PS-RACE-001'] ['PS-RACE-001']\n"


def test_raise_in_one_block_only(capfd):
    with pytest.raises(pallasim.KernelError) as e:
        with pallasim.emulate("tpu-v5e", detect_races=True, findings="raise"):
            unset(X).block_until_ready()
    assert e.value.finding.code == "PS-UNINIT-001" and e.value.finding.severity == "error"
    assert any(n.startswith("PS-PAR-001 follows") for n in e.value.finding.numbers)
    assert isinstance(e.value, jax.errors.JaxRuntimeError) and e.value.__cause__ is None
    last = pallasim.runs()[-1]
    assert last.failed and last.races and [f.code for f in last.findings] == ["PS-UNINIT-001"]
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        unset(X).block_until_ready()
    assert not pallasim.runs()[-1].failed
    with pytest.raises(ValueError, match="collect"):
        pallasim.Params(findings="shout")


def test_errors_carry_their_own_finding():
    """Whatever other launches found meanwhile: the error of a launch has the finding of that launch."""
    def failing(n):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[pl.ds(pl.program_id(0) + n, 16)]

        return pl.pallas_call(kernel, out_shape=X, grid=(1,))

    errors = {}

    def work(n):
        try:
            with pallasim.emulate():
                jax.jit(failing(n))(X).block_until_ready()
        except pallasim.KernelError as e:
            errors[n] = e

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n in range(1, 7):
        assert str(errors[n]) == errors[n].finding.report and errors[n].finding.message.startswith(f"Out-of-bounds read: 16 elements from {n} on reach outside")


PYTEST = """
import jax, jax.numpy as jnp, numpy as np, pytest, pallasim
from kernels import race, unset, X

def test_race():
    np.testing.assert_array_equal(race(X), X)

def test_unset():
    unset(X)

def test_own_block():
    with pallasim.emulate("tpu-v5e", detect_races=True):
        race(X)

def test_taken():
    race(X)
    assert [f.code for f in pallasim.findings()] == ["PS-RACE-001"]

def test_collected():
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        race(X)

@pytest.mark.pallasim(fail_on="none")
def test_allowed():
    race(X)

def test_right():
    assert (race.__module__, 1) == ("kernels", 1)
"""


def run_pytest(pytester, *args):
    pytester.makepyfile(kernels=KERNELS, test_kernels=PYTEST)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--pallasim=tpu-v5e", *args)


def test_pytest_fails_on_races_and_undefined_data(pytester):
    result = run_pytest(pytester)
    result.assert_outcomes(failed=3, passed=4, warnings=1)
    result.stdout.fnmatch_lines(["FAILED test_kernels.py::test_race*", "FAILED test_kernels.py::test_unset*", "FAILED test_kernels.py::test_own_block*"])
    text = result.stdout.str()
    result.stdout.fnmatch_lines(["*repeat it without Python: pallasim run *test_race*", "*PallasimWarning: warning?PS-RACE-001?*"])
    failures = text[text.index("= FAILURES ="):text.index("= warnings summary =")]
    assert failures.count("warning[PS-RACE-001]") == 2 and failures.count("warning[PS-UNINIT-001]") == 1  # one report per failure
    folder = pytester.path / "pallasim-artifacts" / "test_kernels.py_test_race"
    assert "warning[PS-RACE-001]" in (folder / "report.txt").read_text()
    replayed = subprocess.run([BINARY, "run", str(folder / "program.capsule"), "--error-on-warning", "--json"], capture_output=True, text=True)
    assert replayed.returncode == 1 and [f["code"] for f in json.loads(replayed.stdout)["findings"]] == ["PS-RACE-001"]
    assert subprocess.run([BINARY, "run", str(folder / "program.capsule")], capture_output=True).returncode == 0


def test_pytest_chooses_what_fails(pytester):
    result = run_pytest(pytester, "--pallasim-fail-on=PS-UNINIT-001")
    result.assert_outcomes(failed=1, passed=6, warnings=1)  # the race is said once
    assert run_pytest(pytester, "--pallasim-fail-on=races").ret == pytest.ExitCode.USAGE_ERROR


def test_notebook_shows_a_box():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    run = 'with pallasim.emulate("tpu-v5e", detect_races=True):\n    jax.jit(race)(X).block_until_ready()'
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (KERNELS, run, run, run.replace("True)", 'True, findings="raise")'))])
    nbclient.NotebookClient(book, timeout=300, allow_errors=True).execute()
    first, again, raised = (cell["outputs"] for cell in book["cells"][1:])
    boxes = [o for o in first if o["output_type"] == "display_data"]
    assert len(boxes) == 1 and "<b>warning[PS-RACE-001]" in boxes[0]["data"]["text/html"]
    assert "o_ref[...] = row[...]" in boxes[0]["data"]["text/plain"]
    assert not [o for o in again if o["output_type"] == "display_data"], "a place is said once"
    assert [o["ename"] for o in raised if o["output_type"] == "error"] == ["KernelError"]
    assert not any("PS-RACE" in o.get("text", "") for o in [*first, *again, *raised])


def test_the_history_of_launches():
    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    call = pl.pallas_call(double, out_shape=X, grid=(1,))
    with pallasim.emulate("tpu-v6e", detect_races=True):
        np.testing.assert_array_equal(call(X), X * 2)
        np.testing.assert_array_equal(call(X), X * 2)
    first, second = pallasim.runs()[-2:]
    assert second.number == first.number + 1 and first.kernel == second.kernel == "double" and first.chip == "tpu-v6e"
    assert first.planned and first.plan_seconds > 0 and not second.planned and second.plan_seconds == 0
    assert 0 < second.seconds < 60 and second.checked and not second.failed and second.grid_points == 1 and second.findings == ()
    assert [(t.name, t.bytes_read, t.bytes_written) for t in second.traffic] == [("x_ref", 8192, 0), ("o_ref", 0, 8192)]
    assert repr(second).startswith(f"<run {second.number}: double on tpu-v6e, 1 grid point, ") and "plan from the cache, checked: nothing found>" in repr(second)
    assert pallasim.last_run()["number"] == second.number


def test_a_kernel_that_moved_is_not_planned_anew(tmp_path):
    source = """def unset(x_ref, o_ref, acc_ref):
    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...]
"""
    planned = []
    for moved in (0, 3, 0, 7):
        file, space = tmp_path / f"moved_{moved}.py", {}
        file.write_text("\n" * moved + source)
        exec(compile(file.read_text(), str(file), "exec"), space)
        call = pl.pallas_call(space["unset"], out_shape=X, scratch_shapes=[pltpu.VMEM(X.shape, X.dtype)])
        with pallasim.emulate("tpu-v6e", detect_races=True):
            jax.block_until_ready(call(X))
        run = pallasim.runs()[-1]
        (found,) = run.findings
        assert found.code == "PS-UNINIT-001" and pathlib.Path(found.file).name == file.name and found.line == 2 + moved, found.site
        assert f"moved_{moved}.py:{2 + moved}" in found.report and "acc_ref[...] += x_ref[...]" in found.report
        planned.append(run.planned)
    assert planned == [True, False, False, False]
