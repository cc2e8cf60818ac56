"""The comparison with the list of passing cases: what it counts as lost, and that the list only grows."""
import json
import pathlib
import shutil
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("passing.py")


def results(folder, *records):
    folder.mkdir(exist_ok=True)
    (folder / "some_test.py@tpu-v6e.jsonl").write_text("\n".join(json.dumps(dict(zip(("id", "outcome", "launches", "msg"), r))) for r in records))
    return folder


def run(*args):
    done = subprocess.run([sys.executable, SCRIPT, *args], capture_output=True, text=True)
    return done.returncode, done.stdout


def test_lost_cases_are_named_and_the_list_only_grows(tmp_path):
    known = tmp_path / "known.txt"
    first = results(tmp_path / "a", ("some_test.py::A::one", "passed", 1), ("some_test.py::A::two", "passed", 2),
                    ("some_test.py::A::host", "passed", 0), ("some_test.py::A::three", "skipped", 0))
    code, out = run(first, "--list", known, "--update")
    assert code == 0 and "2 new, added" in out
    assert known.read_text().splitlines() == ["tpu:v6e  :: some_test.py::A::one", "tpu:v6e  :: some_test.py::A::two"]

    second = results(tmp_path / "b", ("some_test.py::A::one", "failed", 1, "AssertionError: wrong\nmore"), ("some_test.py::A::three", "passed", 1))
    code, out = run(second, "--list", known, "--update")
    assert code == 1
    assert "LOST tpu:v6e  :: some_test.py::A::one\n     AssertionError: wrong\n" in out and "A::two" not in out
    assert len(known.read_text().splitlines()) == 3


def test_each_version_of_jax_has_its_own_lists(tmp_path):
    """Its files lie beside the script."""
    here = tmp_path / "peer"
    here.mkdir()
    script = shutil.copy(SCRIPT, here)
    one = results(tmp_path / "a", ("some_test.py::A::one", "passed", 1), ("some_test.py::A::two", "failed", 1, "AssertionError: 2"))
    (here / "failing-0.12.0.1.txt").write_text("# because\ntpu:v6e  :: some_test.py::A::two\n")
    for version, code in (("0.12.0.1", 0), ("0.10.2", 1)):
        done = subprocess.run([sys.executable, script, one, "--jax", version, "--update"], capture_output=True, text=True)
        assert done.returncode == code and ("UNEXPLAINED" in done.stdout) == bool(code), done.stdout
    assert (here / "passing-0.12.0.1.txt").read_text() == (here / "passing.txt").read_text() == "tpu:v6e  :: some_test.py::A::one\n"


def test_a_case_that_runs_no_kernel_any_more_is_lost(tmp_path):
    known = tmp_path / "known.txt"
    run(results(tmp_path / "a", ("some_test.py::A::one", "passed", 1)), "--list", known, "--update")
    code, out = run(results(tmp_path / "b", ("some_test.py::A::one", "passed", 0)), "--list", known)
    assert code == 1 and "no kernel ran on the emulator" in out


def test_failures_need_a_reason(tmp_path):
    known, reasons = tmp_path / "known.txt", tmp_path / "failing.txt"
    folder = results(tmp_path / "a", ("some_test.py::A::one[x]", "failed", 1, "AssertionError: 1"), ("some_test.py::A::two", "failed", 1, "AssertionError: 2"),
                     ("some_test.py::A::host", "passed", 0))
    reasons.write_text("# the reference is rounded otherwise\ntpu:v6e  :: some_test.py::A::one[x]\n")
    code, out = run(folder, "--list", known, "--reasons", reasons)
    assert code == 1 and "UNEXPLAINED tpu:v6e  :: some_test.py::A::two\n     AssertionError: 2" in out and "one[x]" not in out and "host" not in out
    reasons.write_text("# because\ntpu:v6e  :: some_test.py::A::*\n")
    assert run(folder, "--list", known, "--reasons", reasons)[0] == 0
