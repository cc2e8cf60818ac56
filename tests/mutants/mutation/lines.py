"""Where a report about a mutant may stand."""
from __future__ import annotations

import ast

from .source import Mutant, Source


def expected(mutant: Mutant, seen: tuple[int, ...] = ()) -> set[int]:
    """Lines of the mutant's source that are about its mistake: those that changed; those where schedules were seen to decide (`seen`); and

    * for a change in a kernel's body, the lines that use an object which the changed statement names. A wait that is missing shows where both ends
      of its copy are used; an index that is wrong where its value goes.
    * for a change in the call (a spec, a count, an alias), any line of the bodies, but no other line of the call.
    """
    source = Source(mutant.source)
    bodies = [n for n in source.tree.body if isinstance(n, ast.FunctionDef) and n.name not in ("run", "inputs", "reference")]
    inside = {line for b in bodies for line in range(b.lineno, b.end_lineno + 1)}
    if not inside & set(mutant.lines):
        return set(mutant.lines) | set(seen) | inside
    return (_using(source, _related(source, mutant.about)) & inside) | set(mutant.lines) | set(seen)


def _related(source: Source, text: str) -> set[str]:
    """Names of the text, and of what they are made of: `copy.wait()` is about both ends of the copy."""
    names = _names(_parsed(text))
    for _ in range(3):
        for s in ast.walk(source.tree):
            if isinstance(s, ast.Assign) and {n for t in s.targets for n in _names(t)} & names:
                names |= _names(s.value)
            if isinstance(s, ast.FunctionDef) and s.name in names and any(isinstance(n, ast.Return) for n in s.body):
                names |= {n for r in s.body for n in _names(r)}
    imported = {a.asname or a.name for n in ast.walk(source.tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    return names - imported - {"range", "jax", "N", "i", "me"}


def _using(source: Source, names: set[str]) -> set[int]:
    return {n.lineno for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id in names} | {
        n.lineno for n in ast.walk(source.tree) if isinstance(n, ast.Call) and _names(n) & names}


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text.strip())
    except SyntaxError:
        return ast.parse("")
