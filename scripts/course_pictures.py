#!/usr/bin/env python3
"""Makes docs/pictures/course, a picture of each unit of the course as its run gives it, and the part of docs/course.md that lists the units."""
import ast
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
UNITS = sorted((ROOT / "examples" / "course").glob("unit_*.py"))
PICTURES, PAGE = ROOT / "docs" / "pictures" / "course", ROOT / "docs" / "course.md"
BEGIN, END = "<!-- units: scripts/course_pictures.py -->\n", "<!-- end of units -->\n"


def wrapped(text):
    return textwrap.fill(" ".join(text.split()), 160, break_long_words=False, break_on_hyphens=False)


def section(path):
    """A unit's part of the page: what it asks, its picture, what it gives to do; in the words of its docstrings."""
    tree = ast.parse(path.read_text())
    title, *paragraphs = ast.get_docstring(tree).split("\n\n")
    said = {x.name: ast.get_docstring(x) for x in tree.body if isinstance(x, ast.FunctionDef)}
    (question,) = (p.removeprefix("Question: ") for p in paragraphs if p.startswith("Question: "))
    heading = title.removeprefix("Unit ").rstrip(".")
    picture, notebook = f"pictures/course/{path.stem[:7]}.svg", f"../examples/notebooks/{path.stem}.ipynb"
    parts = [f"### {heading}\n" + wrapped(question[0].upper() + question[1:]), f"![The time line of this unit]({picture})", wrapped(said["picture"]),
             wrapped(f"**Exercise:** {said['exercise']}"), f"Notebook: [{path.stem}.ipynb]({notebook})"]
    return "\n\n".join(parts) + "\n\n"


def with_units(page):
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "".join(map(section, UNITS)) + END + after


def main():
    PICTURES.mkdir(parents=True, exist_ok=True)
    for path in UNITS:
        subprocess.run([sys.executable, str(path), "--picture", str(PICTURES / f"{path.stem[:7]}.svg")], check=True)
    PAGE.write_text(with_units(PAGE.read_text()))


if __name__ == "__main__":
    main()
