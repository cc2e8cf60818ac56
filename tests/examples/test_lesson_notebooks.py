"""The notebooks are what the lessons and the units of the course make, and their cells run from the first to the last in IPython."""
from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "scripts" / "make_notebooks.py")
maker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(maker)

# Runs the cells of each notebook in a shell whose names are its own; a line of JSON each: its name, what failed, what each cell printed and showed.
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

shell = InteractiveShell.instance()
shell.history_manager.enabled = False
for path in sys.argv[1:]:
    for name in set(shell.user_ns) - set(shell.user_ns_hidden):
        del shell.user_ns[name]
    failed, printed = "", []
    for cell in json.load(open(path))["cells"]:
        if cell["cell_type"] == "code" and not failed:
            with capture_output() as shown:
                result = shell.run_cell("".join(cell["source"]), store_history=True)
            printed.append(shown.stdout.strip() + "".join(str(o) for o in shown.outputs))
            failed = "" if result.success else shown.stdout + shown.stderr + repr(result.error_in_exec or result.error_before_exec)
    print(json.dumps([path, failed, printed]), flush=True)
"""


def ran(paths, tmp_path):
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", RUN, *map(str, paths)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "IPYTHONDIR": str(tmp_path), "JAX_PLATFORMS": "cpu"})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(paths), done.stdout + done.stderr
    return found


def with_devices():
    """The notebooks that say how many devices there are: a process has one number."""
    return {path for path, text in maker.notebooks().items() if "jax_num_cpu_devices" in text}


def test_notebooks_are_those_of_the_lessons():
    assert list(maker.problems()) == []
    assert len(maker.notebooks()) == len(list((ROOT / "examples").glob("lesson_*.py"))) + len(list((ROOT / "examples").glob("course/unit_*.py"))) > 35


@pytest.mark.parametrize("several", [False, True], ids=["one device", "several devices"])
def test_every_notebook_runs(several, tmp_path):
    paths = sorted(p for p in maker.notebooks() if (p in with_devices()) == several)
    assert paths
    for path, failed, printed in ran(paths, tmp_path):
        assert not failed, f"{path}: {failed}"
        assert any(printed), f"{path} shows nothing"
        if pathlib.Path(path).name.startswith("unit"):
            *_, given, solved = [p for p in printed if p]
            assert given != "right" and "Error" in given and solved == "right", f"{path}: the grade says {given}, and of the solution {solved}"
            assert any("SVG" in p for p in printed), f"{path} has no picture"


def test_a_cell_that_fails_is_seen(tmp_path):
    book = {"cells": [{"cell_type": "code", "source": ["x = 1\n", "print(x)"]}, {"cell_type": "code", "source": ["assert x == 2"]}]}
    (tmp_path / "wrong.ipynb").write_text(json.dumps(book))
    ((_, failed, printed),) = ran([tmp_path / "wrong.ipynb"], tmp_path)
    assert "AssertionError" in failed and printed[0] == "1"


def lesson(tmp_path, body, before=""):
    path = tmp_path / "lesson_99_new.py"
    path.write_text(f'"""Lesson 99: new.\n\n    .venv/bin/python examples/lesson_99_new.py\n\nWhat it shows.\n"""\nimport os\n{before}\n\ndef main():\n{body}\n\n\n'
                    'if __name__ == "__main__":\n    main()\n')
    return path


def test_comments_are_text_and_main_is_cells(tmp_path):
    path = lesson(tmp_path, "    # First.\n    a = 1\n\n    def f():\n        return a\n    # Second,\n    # of two lines.\n    print(f())", "import sys  # noqa: E402\n\nN = 2\n")
    first, *cells = maker.cells_of(path)
    assert first[0] == "markdown" and first[1].startswith("# Lesson 99: new\n\nWhat it shows.\n\nMade from [lesson_99_new.py](../lesson_99_new.py)")
    assert cells == [("code", "import os\nimport sys"), ("code", "N = 2"), ("markdown", "First."), ("code", "a = 1"), ("code", "def f():\n    return a"),
                     ("markdown", "Second, of two lines."), ("code", "print(f())")]


def test_what_cannot_be_cells_is_refused(tmp_path):
    with pytest.raises(ValueError, match="lesson_99_new.py:12: main becomes cells, which cannot return"):
        list(maker.cells_of(lesson(tmp_path, "    if os:\n        return")))
    path = lesson(tmp_path, "    pass")
    path.write_text(path.read_text().rpartition("if __name__")[0])
    with pytest.raises(ValueError, match="a lesson ends with"):
        list(maker.cells_of(path))


UNIT = '''"""Unit 99: new.

    .venv/bin/python examples/course/unit_99_new.py [--grade]

Question: what?
"""
import os


def main():
    x = 1
    print(x, os.sep)


def picture():
    """What it shows."""
    return "<svg/>"


# Before it.
N = 2


def exercise(x):
    """What is to be done."""
    return x


def grade(answer):
    assert answer(1) == N


solution = lambda x: N


if __name__ == "__main__":
    import classroom

    classroom.run()
'''


def unit(tmp_path, change=lambda text: text):
    path = tmp_path / "course" / "unit_99_new.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(change(UNIT))
    return path


def test_a_unit_has_a_picture_a_task_a_grade_and_a_solution(tmp_path):
    first, *cells = maker.cells_of(unit(tmp_path))
    assert first[1] == "# Unit 99: new\n\nQuestion: what?\n\nMade from [unit_99_new.py](../course/unit_99_new.py), which runs without a notebook, too."
    assert [text for kind, text in cells if kind == "markdown"] == ["## Picture\n\nWhat it shows.", "## Exercise", "Before it.", "What is to be done.",
                                                                    "What it is held to:", "## Solution"]
    code = [text for kind, text in cells if kind == "code"]
    assert code[:2] == ["import os", "x = 1\nprint(x, os.sep)"] and code[2].endswith("SVG(picture())") and "What it shows" not in code[2]
    assert code[3:] == ["N = 2", "def exercise(x):\n    return x", "def grade(answer):\n    assert answer(1) == N", maker.GRADED, "solution = lambda x: N",
                        'grade(solution)\nprint("right")']


@pytest.mark.parametrize("old, new, words", [
    ("def picture", "def sketch", "has functions picture, exercise and grade"), ("solution =", "answer =", "ends with its solution"),
    ("    x = 1", "    x = 1\n    N = 3", "main becomes cells, which would change N"),
])
def test_what_is_no_unit_is_refused(tmp_path, old, new, words):
    with pytest.raises(ValueError, match=words):
        list(maker.cells_of(unit(tmp_path, lambda text: text.replace(old, new))))


def test_a_notebook_of_no_lesson_and_an_old_one_are_found(tmp_path):
    for path, text in maker.notebooks().items():
        (tmp_path / path.name).write_text(text)
    assert list(maker.problems(tmp_path)) == []
    (tmp_path / "lesson_00_gone.ipynb").write_text("{}")
    (tmp_path / "lesson_01_add_vectors.ipynb").write_text("{}")
    assert [p.partition(":")[0] for p in maker.problems(tmp_path)] == ["lesson_01_add_vectors.ipynb", "lesson_00_gone.ipynb"]
