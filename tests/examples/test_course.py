"""The units of the course: each runs, its picture is the one in docs, its grade tells the solution from what is given, and from zeros."""
from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ET

import jax
import pytest

import pallasim

ROOT = pathlib.Path(__file__).resolve().parents[2]
COURSE, PICTURES = ROOT / "examples" / "course", ROOT / "docs" / "pictures" / "course"
UNITS = sorted(COURSE.glob("unit_*.py"))
# A process has one number of devices, which has to be said before JAX is used.
SEVERAL = [path for path in UNITS if "jax_num_cpu_devices" in path.read_text()]


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


classroom = loaded(COURSE / "classroom.py")


def facts(path):
    """What a unit does."""
    module, printed = loaded(path), io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = classroom.unit(module, [])
    before = pallasim.launch_count()
    pallasim.findings()
    solution = classroom.graded(module.grade, module.solution)
    launches = pallasim.launch_count() - before
    return {"status": status, "printed": printed.getvalue().strip(), "solution": solution, "launches": launches, "picture": module.picture(),
            "exercise": classroom.graded(module.grade, module.exercise), "zeros": classroom.graded(module.grade, lambda *args: 0 * module.solution(*args))}


@functools.cache
def of_units_with_several_devices():
    done = subprocess.run([sys.executable, __file__, *map(str, SEVERAL)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def of(path):
    return of_units_with_several_devices()[str(path)] if path in SEVERAL else facts(path)


each = pytest.mark.parametrize("path", UNITS, ids=lambda p: p.stem)


def test_the_course_has_its_units():
    assert [int(path.stem.split("_")[1]) for path in UNITS] == list(range(1, len(UNITS) + 1)) and len(UNITS) >= 12 and SEVERAL


@each
def test_a_unit_shows_something(path):
    assert of(path)["status"] == 0 and of(path)["printed"]


@each
def test_the_solution_is_right(path):
    assert of(path)["solution"] == ""
    assert of(path)["launches"] > 0, "no kernel ran on the emulator"


@each
def test_what_is_given_is_not_and_the_grade_says_why(path):
    said = of(path)["exercise"]
    assert len(said) > 40 and said.startswith(("AssertionError: ", "KernelError: error[PS-")), said


@each
def test_zeros_are_refused(path):
    assert "AssertionError" in of(path)["zeros"] and "Mismatched elements" in of(path)["zeros"]


@each
def test_the_picture_is_the_one_in_docs(path):
    picture = of(path)["picture"]
    assert ET.fromstring(picture).tag.endswith("svg") and f"Unit {int(path.stem.split('_')[1])}: " in picture
    if jax.__version__ != "0.10.2":
        pytest.skip("pictures are made with JAX 0.10.2")
    assert picture == (PICTURES / f"{path.stem[:7]}.svg").read_text(), "run scripts/course_pictures.py"


def test_the_page_has_every_unit():
    spec = importlib.util.spec_from_file_location("course_pictures", ROOT / "scripts" / "course_pictures.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    page = (ROOT / "docs" / "course.md").read_text()
    assert page == maker.with_units(page), "run scripts/course_pictures.py"
    assert page.count("**Exercise:**") == len(UNITS) and {p.stem for p in PICTURES.iterdir()} == {path.stem[:7] for path in UNITS}


def test_a_unit_is_a_program(tmp_path):
    """As its reader runs it."""
    def run(*arguments):
        return subprocess.run([sys.executable, str(UNITS[0]), *arguments], capture_output=True, text=True, timeout=300)

    shown, given, solved, drawn = run(), run("--grade"), run("--solution"), run("--picture", str(tmp_path / "x.svg"))
    assert (shown.returncode, given.returncode, solved.returncode, drawn.returncode) == (0, 1, 0, 0), shown.stderr + given.stderr + solved.stderr + drawn.stderr
    assert shown.stdout.strip() and given.stdout.startswith("AssertionError: it moves") and solved.stdout == "right\n" and (tmp_path / "x.svg").read_text().startswith("<svg")


if __name__ == "__main__":
    print(json.dumps({path: facts(pathlib.Path(path)) for path in sys.argv[1:]}))
