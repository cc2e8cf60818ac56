"""The modules of the Python package import each other without circles, imports inside of functions included."""
import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2] / "python"


def modules(root):
    """Name -> (file, whether it is a package's own)."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if package else parts)] = (path, package)
    return found


def imported(tree, package, known):
    """The known modules that a module imports, for whatever reason but types."""
    typing_only = {id(n) for i in ast.walk(tree) if isinstance(i, ast.If) and ast.unparse(i.test) == "TYPE_CHECKING"
                   for stmt in i.body for n in ast.walk(stmt)}
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[:len(package.split(".")) - node.level + 1]
                base = ".".join([*up, *filter(None, [node.module])])
            for a in node.names:  # of a package: its module of that name, if it has one
                name = f"{base}.{a.name}"
                if name in known:
                    yield name
                elif base in known:
                    yield base


def circles(edges):
    """Sets of modules that reach each other."""
    def reach(start):
        seen, todo = set(), [start]
        while todo:
            for other in edges[todo.pop()]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    reached = {m: reach(m) for m in edges}
    return {frozenset(o for o in reached[m] if m in reached[o]) for m in edges if m in reached[m]}


def graph(root):
    known = modules(root)
    return {name: set(imported(ast.parse(path.read_text()), name if package else name.rpartition(".")[0], known)) - {name}
            for name, (path, package) in known.items()}


def test_no_circles():
    edges = graph(ROOT)
    assert len(edges) > 30 and "pallasim._params" in edges["pallasim._emulate"]
    assert circles(edges) == set()


def test_a_circle_that_a_function_hides_is_found(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from . import b\n")
    (package / "b.py").write_text("def f():\n    from .c import g\n    return g\n")
    (package / "c.py").write_text("from __future__ import annotations\nimport p.a\n")
    (package / "d.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import e\n")
    (package / "e.py").write_text("from . import d\n")
    assert circles(graph(tmp_path)) == {frozenset({"p.a", "p.b", "p.c"})}
