"""Where a report about a mutant may stand."""
from __future__ import annotations

import ast

from .meaning import COPIES, FENCES, SIGNALS, WAITS
from .source import NOT_THE_KERNEL, Mutant, Source, called

OUTPUTS = {"out_shape", "out_specs", "out_type"}  # arguments that say what is returned


def expected(mutant: Mutant, seen: tuple[int, ...] = (), code: str = "") -> set[int]:
    """Lines of the mutant's source that are about its mistake: those that changed; those where schedules were seen to decide (`seen`); and

    * for a change in a kernel's body, the lines that use an object which the changed statement names. A wait that is missing shows where both ends
      of its copy are used; an index that is wrong where its value goes. What semaphores and barriers order may be any line of the bodies.
    * for a change in the call (a spec, a count, an alias), any line of the bodies, but no other line of the call;
    * of undefined data (`code`), the lines that it goes through; of an output that is not written, those that say what is returned (`_of_outputs`).
    """
    source = Source(mutant.source)
    outside = NOT_THE_KERNEL | {"run"}
    bodies = [n for n in source.tree.body if isinstance(n, ast.FunctionDef) and n.name not in outside]
    inside = {line for b in bodies for line in range(b.lineno, b.end_lineno + 1)}
    lines = set(mutant.lines) | set(seen)
    if code.startswith("PS-OUT"):
        lines |= _of_outputs(source)
    if not inside & set(mutant.lines) or mutant.synchronises and _orders_all(mutant.about):
        return lines | inside
    names = _related(source, mutant)
    if code.startswith("PS-UNINIT"):
        names = _made_of(source, names)
    return lines | _using(source, names) & inside


def _of_outputs(source: Source) -> set[int]:
    """Lines that say what is returned: the arguments that do, and where a name that stands in one got its value."""
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call)]
    said = [k.value for n in calls for k in n.keywords if k.arg in OUTPUTS] + [n.args[1] for n in calls if called(n) == "kernel" and len(n.args) > 1]
    names = {name for s in said for name in _names(s)}
    given = [n for n in ast.walk(source.tree) if isinstance(n, ast.Assign) and any(getattr(t, "id", "") in names for t in n.targets)]
    return {n.lineno for n in [*said, *given]}


def _orders_all(statement: str) -> bool:
    """Whether what the statement orders cannot be read from it."""
    names = {called(n) for n in ast.walk(_parsed(statement)) if isinstance(n, ast.Call)}
    return bool(names & (SIGNALS | FENCES | (WAITS - {"wait", "wait_send", "wait_recv"})))


def _related(source: Source, mutant: Mutant) -> set[str]:
    """Names that the changed statement uses, and of what these are made, or what is made of them: `copy.wait()` is about both ends of the copy."""
    names = _names(_parsed(mutant.about)) | {f.name for f in _functions(source) if set(range(f.lineno, f.end_lineno + 1)) & set(mutant.lines)}
    for _ in range(3):
        for s in ast.walk(source.tree):
            if isinstance(s, ast.Assign):
                targets = {n for t in s.targets for n in _names(t)}
                if targets & names:
                    names |= _names(s.value)
                if called(s.value) in COPIES and _names(s.value) & names:
                    names |= targets
        for f in _functions(source):
            if f.name in names:
                names |= _names(f)
            made = {n for r in ast.walk(f) if isinstance(r, ast.Return) for n in _names(r)}
            if made & names:
                names.add(f.name)
    imported = {a.asname or a.name for n in ast.walk(source.tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    constants = {t.id for n in source.tree.body if isinstance(n, ast.Assign) for t in ast.walk(n) if isinstance(t, ast.Name)}
    return names - imported - constants - {"range", "jax", "i", "me"}


def _made_of(source: Source, names: set[str]) -> set[str]:
    """And the names of what is made of these: by an assignment, a store, a copy, a product."""
    names = set(names)
    for _ in range(6):
        for s in ast.walk(source.tree):
            if isinstance(s, (ast.Assign, ast.AugAssign)) and _names(s.value) & names:
                names |= {n for t in getattr(s, "targets", [getattr(s, "target", None)]) for n in _names(t)}
            if isinstance(s, ast.Call) and called(s) in COPIES | {"wgmma", "tcgen05_mma"} and _names(s) & names:
                names |= {n for a in s.args[:2] for n in _names(a)}
    return names


def _functions(source: Source) -> list[ast.FunctionDef]:
    """Functions inside of bodies that return something, a copy for instance."""
    return [n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef) and not n.decorator_list and not isinstance(n.parent, ast.Module)]


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
