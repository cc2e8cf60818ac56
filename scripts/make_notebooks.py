#!/usr/bin/env python3
"""Makes a notebook of each lesson (examples/notebooks): docstring and comments become text, `main` becomes cells.

Run it after changing a lesson; tests/examples/test_lesson_notebooks.py holds the files to it and runs them. With --check it exits with 1 where a file
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
COMMAND = re.compile(r"^ {4}\.venv/bin/python examples/\S+$")


def introduction(path, docstring):
    """The docstring as the first cell: its first line is the heading; how to run the file is said by a link to it."""
    title, *paragraphs = textwrap.dedent(docstring).strip().split("\n\n")
    text = [p for p in paragraphs if not COMMAND.match(p)]
    return "\n\n".join([f"# {title.rstrip('.')}", *text, f"Made from [{path.name}](../{path.name}), which runs without a notebook, too."])


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
    """("markdown" or "code", text) of each cell of a lesson."""
    source = path.read_text()
    lines, tree = source.split("\n"), ast.parse(source)
    doc, *body = tree.body
    *body, guard = body
    if not isinstance(guard, ast.If) or ast.unparse(guard.test) != "__name__ == '__main__'":
        raise ValueError(f"{path.name}: a lesson ends with `if __name__ == \"__main__\":`")
    *body, main = body
    if not isinstance(main, ast.FunctionDef) or main.name != "main" or main.args.args:
        raise ValueError(f"{path.name}: a lesson has a function main without arguments before its end")
    if found := [n.lineno for n in own(main) if isinstance(n, (ast.Return, ast.Yield, ast.Await))]:
        raise ValueError(f"{path.name}:{found[0]}: main becomes cells, which cannot return")
    yield "markdown", introduction(path, ast.literal_eval(doc.value))
    imports = max(n for n, node in enumerate(body) if isinstance(node, (ast.Import, ast.ImportFrom))) + 1
    yield "code", without_noqa("\n".join(lines[doc.end_lineno:body[imports - 1].end_lineno]).strip("\n"))
    parts = blocks(lines, body[imports:], body[imports - 1].end_lineno + 1) + blocks(lines, main.body, main.body[0].lineno - leading(lines, main))
    for comment, code in parts:
        if comment:
            yield "markdown", comment
        yield "code", without_noqa(code)


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
    """The text of a lesson's notebook, without outputs."""
    cells = []
    for number, (kind, text) in enumerate(cells_of(path), 1):
        lines = text.splitlines(keepends=True)
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines}
        cells.append(cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def notebooks():
    """Path -> text of every notebook."""
    return {NOTEBOOKS / f"{path.stem}.ipynb": notebook(path) for path in sorted(LESSONS.glob("lesson_*.py"))}


def problems(folder=NOTEBOOKS):
    """What is not as the lessons are: (path, what)."""
    wanted = {folder / path.name: text for path, text in notebooks().items()}
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            yield f"{path.name}: not what its lesson makes: run scripts/make_notebooks.py"
    for path in sorted(set(folder.glob("*")) - set(wanted)):
        yield f"{path.name}: of no lesson"


def main():
    if "--check" in sys.argv[1:]:
        found = list(problems())
        print("\n".join(found) or "every notebook is what its lesson makes")
        return 1 if found else 0
    NOTEBOOKS.mkdir(exist_ok=True)
    for path, text in notebooks().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
