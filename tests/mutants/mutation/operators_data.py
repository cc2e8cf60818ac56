"""Operators on what is read and written where: indices, sizes, masks, initial values, both ends of a copy."""
from __future__ import annotations

import ast
from collections.abc import Iterator

from .meaning import COPIES, FILLS, elements, is_number, is_ref_index
from .operators_sync import drop_argument
from .source import Change, Source, around, called, operator


@operator()
def off_by_one(source: Source) -> Iterator[Change]:
    """An index, or where a slice begins, is one more or one less; so are the blocks that an index map names."""
    for n in source.nodes():
        if isinstance(n, ast.Subscript) and is_ref_index(n):
            for e in elements(n):
                if called(e) == "ds":
                    yield from _one_off(source, e.args[0])
                elif not isinstance(e, (ast.Slice, ast.Constant, ast.Tuple)):
                    yield from _one_off(source, e)
        if called(n) == "ds" and isinstance(n, ast.Call):
            yield from _one_off(source, n.args[0])
        if isinstance(n, ast.Lambda) and isinstance(n.body, ast.Tuple):
            for e in n.body.elts:
                if not isinstance(e, ast.Constant):
                    yield source.replace(e, f"{source.code(e)} + 1")


def _one_off(source: Source, e: ast.expr) -> Iterator[Change]:
    if is_number(e):
        return
    code = source.code(e) if not isinstance(e, ast.BinOp) or isinstance(e.op, (ast.Add, ast.Mult)) else f"({source.code(e)})"
    yield source.replace(e, f"{code} + 1")
    yield source.replace(e, f"{code} - 1")


@operator()
def change_index(source: Source) -> Iterator[Change]:
    """A constant that is an index, or a part of one, is one more or less."""
    for n in source.nodes():
        if not is_number(n) or not isinstance(getattr(n, "parent", None), ast.AST):
            continue
        if _is_index(n):
            yield source.replace(n, str(n.value + 1))
            if n.value:
                yield source.replace(n, str(n.value - 1))


def _is_index(n: ast.Constant) -> bool:
    child = n
    for parent in around(n):
        if isinstance(parent, ast.Subscript):
            return child is parent.slice and is_ref_index(parent)
        if isinstance(parent, ast.Call):
            return called(parent) == "ds" and child is parent.args[0]
        if isinstance(parent, ast.Lambda):
            return isinstance(parent.body, ast.Tuple)
        if isinstance(parent, (ast.stmt, ast.Mod, ast.keyword)) or isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mod, ast.Mult)):
            return False
        child = parent
    return False


@operator()
def change_condition(source: Source) -> Iterator[Change]:
    """A comparison that is one off."""
    for n in source.nodes():
        if isinstance(n, ast.Compare) and len(n.ops) == 1:
            left, right, op = source.code(n.left), source.code(n.comparators[0]), n.ops[0]
            if isinstance(op, ast.Eq):
                yield source.replace(n, f"{left} == {right} + 1")
                yield source.replace(n, f"{left} == {right} - 1")
            for kind, other in ((ast.Lt, "<="), (ast.LtE, "<"), (ast.Gt, ">="), (ast.GtE, ">"), (ast.NotEq, "==")):
                if isinstance(op, kind):
                    yield source.replace(n, f"{left} {other} {right}")


@operator()
def change_bound(source: Source) -> Iterator[Change]:
    """A loop, or an axis of the grid, goes one further or ends one earlier."""
    for n in source.nodes():
        if isinstance(n, ast.Call):
            name = called(n)
            if name == "range":
                yield from _one_off_any(source, n.args[0 if len(n.args) == 1 else 1])
            if name in ("loop", "fori_loop"):
                yield from _one_off_any(source, n.args[1])
            for k in n.keywords:
                if k.arg == "grid" and isinstance(k.value, ast.Tuple):
                    for e in k.value.elts:
                        yield from _one_off_any(source, e)


def _one_off_any(source: Source, e: ast.expr) -> Iterator[Change]:
    yield source.replace(e, f"{source.code(e)} + 1")
    if not (is_number(e) and e.value <= 1):
        yield source.replace(e, f"{source.code(e)} - 1")


@operator()
def halve(source: Source) -> Iterator[Change]:
    """Half of a slice, or of both ends of a copy."""
    for n in source.nodes():
        if isinstance(n, ast.Call) and called(n) == "ds":
            yield source.replace(n.args[1], f"{source.code(n.args[1])} // 2")
        if isinstance(n, ast.Call) and called(n) in COPIES:
            a, b = (source.span(x) for x in n.args[:2])
            halves = [f"{source.code(x)}.at[pl.ds(0, ({source.code(x)}).shape[0] // 2)]" for x in n.args[:2]]
            if "pl" in _imported(source):
                yield Change(n, a[0], b[1], halves[0] + source.text[a[1]:b[0]] + halves[1])


def _imported(source: Source) -> set[str]:
    return {a.asname or a.name for n in ast.walk(source.tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}


@operator()
def drop_init(source: Source) -> Iterator[Change]:
    """What memory begins with is not set: a fill, the first product of a sum, an array that an output begins with."""
    for n in source.nodes():
        if _is_store(n) and called(n.value) in FILLS:
            yield source.drop(n)
        if isinstance(n, ast.Call):
            for k in n.keywords:
                if k.arg == "accumulate":
                    yield source.replace(k.value, "True")
                if k.arg == "input_output_aliases":
                    yield drop_argument(source, n, k)


@operator()
def drop_store(source: Source) -> Iterator[Change]:
    for n in source.nodes():
        if _is_store(n) and called(n.value) not in FILLS or isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Subscript):
            yield source.drop(n)
        if isinstance(n, ast.Expr) and called(n) == "store":
            yield source.drop(n)


def _is_store(n: ast.AST) -> bool:
    return isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Subscript) and is_ref_index(n.targets[0])


@operator()
def move_store(source: Source) -> Iterator[Change]:
    """A store and the statement before it in the other order."""
    from .source import siblings

    for n in source.nodes():
        if _is_store(n):
            before, _ = siblings(n)
            if before is not None and not isinstance(before, ast.FunctionDef):
                yield source.swap(before, n, n)


@operator()
def swap_ends(source: Source) -> Iterator[Change]:
    """Source and destination of a copy."""
    for n in source.nodes():
        if isinstance(n, ast.Call) and called(n) in COPIES:
            a, b = (source.span(x) for x in n.args[:2])
            yield Change(n, a[0], b[1], source.text[b[0]:b[1]] + source.text[a[1]:b[0]] + source.text[a[0]:a[1]])


@operator()
def drop_mask(source: Source) -> Iterator[Change]:
    """A mask, what takes the place of masked lanes, a choice, a condition."""
    for n in source.nodes():
        if isinstance(n, ast.Call):
            name = called(n)
            for k in n.keywords:
                if k.arg == "mask":
                    yield source.replace(k.value, "None")
                if k.arg == "other":
                    yield drop_argument(source, n, k)
            if name == "where":
                yield source.replace(n, source.code(n.args[1]))
            if name == "when":
                yield source.replace(n.args[0], "True")
        if isinstance(n, ast.If):
            yield source.replace(n.test, "True")
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.BitAnd):
            yield source.replace(n, source.code(n.left))
            yield source.replace(n, source.code(n.right))
