#!/usr/bin/env python3
"""Makes a notebook of each lesson and of each unit of the course (examples/notebooks): docstring and comments become text, `main` becomes cells. A unit's
picture is shown, its exercise is a cell to be changed, its grade one that says what is missing, and the solution comes last.

Run it after changing a lesson or a unit; tests/examples/test_lesson_notebooks.py holds the files to it and runs them. With --check it exits with 1 where a file
is not what it would write.
"""

import ast
import json
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
LESSONS = ROOT / "examples"
NOTEBOOKS = LESSONS / "notebooks"
COURSE = LESSONS / "course"
COMMAND = re.compile(r"^ {4}\.venv/bin/python examples/\S+( \[--grade\])?$")


def introduction(path, docstring):
    """The docstring as the first cell: its first line is the heading; how to run the file is said by a link to it."""
    title, *paragraphs = textwrap.dedent(docstring).strip().split("\n\n")
    text = [p for p in paragraphs if not COMMAND.match(p)]
    link = f"../{path.parent.name}/{path.name}" if path.parent.name == "course" else f"../{path.name}"
    return "\n\n".join([f"# {title.rstrip('.')}", *text, f"Made from [{path.name}]({link}), which runs without a notebook, too."])


def blocks(lines, statements, start):
    """(comment above or "", code) of the parts of a body, from line `start` on: an empty line or a comment between two statements begins another."""
    parts = []
    for node, following in zip(statements, [*statements[1:], None]):
        between = lines[node.end_lineno:first_line(following) - 1] if following is not None else [""]
        if any(not line.strip() or line.strip().startswith("#") for line in between):
            parts.append(divided(textwrap.dedent("\n".join(lines[start - 1:node.end_lineno])).strip("\n")))
            start = node.end_lineno + 1
    return parts


def first_line(node):
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def divided(part):
    """(text of the comment that a part begins with, its code)."""
    lines = part.split("\n")
    n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return " ".join(line.removeprefix("#").strip() for line in lines[:n]), "\n".join(lines[n:]).strip("\n")


def cells_of(path):
    """("markdown" or "code", text) of each cell of a lesson or a unit."""
    source = path.read_text()
    lines, tree = source.split("\n"), ast.parse(source)
    doc, *body = tree.body
    *body, guard = body
    if not isinstance(guard, ast.If) or ast.unparse(guard.test) != "__name__ == '__main__'":
        raise ValueError(f"{path.name}: a lesson ends with `if __name__ == \"__main__\":`")
    body, rest = divided_at_main(path, body)
    main = body.pop()
    if found := [n.lineno for n in own(main) if isinstance(n, (ast.Return, ast.Yield, ast.Await))]:
        raise ValueError(f"{path.name}:{found[0]}: main becomes cells, which cannot return")
    yield "markdown", introduction(path, ast.literal_eval(doc.value))
    imports = max(n for n, node in enumerate(body) if isinstance(node, (ast.Import, ast.ImportFrom))) + 1
    yield "code", without_noqa("\n".join(lines[doc.end_lineno:body[imports - 1].end_lineno]).strip("\n"))
    yield from cells(blocks(lines, body[imports:], body[imports - 1].end_lineno + 1))
    yield from cells(blocks(lines, main.body, main.body[0].lineno - leading(lines, main)))
    if rest:
        if found := sorted({n.id for n in own(main) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} & names_of(tree)):
            raise ValueError(f"{path.name}: main becomes cells, which would change {found[0]}")
        yield from exercise_of(path, lines, rest)


def divided_at_main(path, body):
    """The statements up to main; those behind it, of a unit."""
    at = next((n for n, x in enumerate(body) if isinstance(x, ast.FunctionDef) and x.name == "main" and not x.args.args), None)
    if at is None or (at < len(body) - 1 and path.parent.name != "course"):
        raise ValueError(f"{path.name}: a lesson has a function main without arguments before its end")
    return body[:at + 1], body[at + 1:]


def names_of(tree):
    """What a file defines outside of functions."""
    named = {x.name for x in tree.body if isinstance(x, ast.FunctionDef)}
    return named | {n.id for x in tree.body if isinstance(x, ast.Assign) for n in ast.walk(x) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def cells(parts):
    for comment, code in parts:
        if comment:
            yield "markdown", comment
        yield "code", without_noqa(code)


GRADED = """try:
    grade(exercise)
    print("right")
except Exception as e:
    print(f"{type(e).__name__}: {e}")"""


def exercise_of(path, lines, rest):
    """The cells of a unit behind main: picture, exercise, grade, solution, and what they use."""
    functions = {x.name: n for n, x in enumerate(rest) if isinstance(x, ast.FunctionDef)}
    order = [functions.get(name, len(rest)) for name in ("picture", "exercise", "grade")]
    if order != sorted(order) or order[0] or order[2] >= len(rest) - 1 or not ast.unparse(rest[-1]).startswith(("def solution(", "solution = ")):
        raise ValueError(f"{path.name}: behind main a unit has functions picture, exercise and grade, in this order, and ends with its solution")
    picture, exercise, grade = (rest[n] for n in order)
    yield "markdown", f"## Picture\n\n{ast.get_docstring(picture)}"
    yield "code", "from IPython.display import SVG\n\n\n" + without_docstring(lines, picture) + "\n\n\nSVG(picture())"
    before, task = blocks(lines, rest[1:order[1]], picture.end_lineno + 1), ast.get_docstring(exercise)
    yield "markdown", "## Exercise" if before else f"## Exercise\n\n{task}"
    yield from cells(before)
    if before:
        yield "markdown", task
    yield "code", without_docstring(lines, exercise)
    yield "markdown", "What it is held to:"
    yield from cells(blocks(lines, [grade], first_line(grade)))
    yield "code", GRADED
    yield "markdown", "## Solution"
    yield from cells(blocks(lines, rest[order[2] + 1:], grade.end_lineno + 1))
    yield "code", "grade(solution)\nprint(\"right\")"


def without_docstring(lines, function):
    doc = function.body[0]
    return "\n".join(lines[first_line(function) - 1:doc.lineno - 1] + lines[doc.end_lineno:function.end_lineno])


def without_noqa(code):
    return re.sub(r"  # noqa: \w+$", "", code, flags=re.M)


def leading(lines, main):
    """How many lines of comments stand above the first statement of a function."""
    first, n = main.body[0].lineno, 0
    while lines[first - 2 - n].strip().startswith("#"):
        n += 1
    return n


def own(function):
    """The nodes of a function that are not those of functions inside."""
    todo = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def notebook(path):
    """The text of a notebook, without outputs."""
    made = []
    for number, (kind, text) in enumerate(cells_of(path), 1):
        lines = text.splitlines(keepends=True)
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
        made.append(cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": made, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def notebooks():
    """Path -> text of every notebook."""
    return {NOTEBOOKS / f"{path.stem}.ipynb": notebook(path) for path in [*sorted(LESSONS.glob("lesson_*.py")), *sorted(COURSE.glob("unit_*.py"))]}


def problems(folder=NOTEBOOKS):
    """What is not as the lessons and units are: (path, what)."""
    wanted = {folder / path.name: text for path, text in notebooks().items()}
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            yield f"{path.name}: not what its source makes: run scripts/make_notebooks.py"
    for path in sorted(set(folder.glob("*")) - set(wanted)):
        yield f"{path.name}: of no lesson or unit"


def main():
    if "--check" in sys.argv[1:]:
        found = list(problems())
        print("\n".join(found) or "every notebook is what its source makes")
        return 1 if found else 0
    NOTEBOOKS.mkdir(exist_ok=True)
    for path, text in notebooks().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
