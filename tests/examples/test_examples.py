"""Every lesson runs, and checks itself."""

import pathlib
import runpy
import subprocess
import sys

import pytest

import pallasim

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LESSONS = sorted(EXAMPLES.glob("lesson_*.py"))
# A process has one number of devices, which has to be said before JAX is used.
DEVICES = [path for path in LESSONS if "jax_num_cpu_devices" in path.read_text()]

SEVERAL = """
import runpy, sys
for path in sys.argv[1:]:
    print("--", path, flush=True)
    runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.parametrize("path", [path for path in LESSONS if path not in DEVICES], ids=lambda p: p.stem)
def test_lesson(path, capsys, monkeypatch):
    """In this process, whose JAX is there already: a lesson leaves nothing behind but what it asked for."""
    pallasim.findings()
    before = pallasim.launch_count()
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert pallasim.launch_count() > before, "no kernel ran on the emulator"


def test_two_processes_are_one_ring():
    done = subprocess.run([sys.executable, str(EXAMPLES / "two_processes.py")], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 processes with 4 devices each: a ring of 128 rows, smoothed 5 times" in done.stdout


def test_lessons_of_several_devices():
    assert len(DEVICES) > 3
    done = subprocess.run([sys.executable, "-c", SEVERAL, *map(str, DEVICES)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [part.split("\n", 1)[1].strip() for part in done.stdout.split("-- ")[1:]]
    assert len(said) == len(DEVICES) and all(said), done.stdout


def test_one_lesson_runs_alone():
    """As its reader runs it."""
    done = subprocess.run([sys.executable, str(LESSONS[0])], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
