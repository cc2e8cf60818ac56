"""Operators on what orders things: waits, signals, fences, slots, counts, neighbours."""
from __future__ import annotations

import ast
from collections.abc import Iterator

from .meaning import COPIES, COUNTS, FENCES, NEIGHBOURS, SIGNALS, STARTS, WAITS, elements, is_number, is_ref_index
from .source import Change, Source, called, operator, siblings


def _statements(source: Source, names: set[str]) -> Iterator[ast.Expr]:
    return (n for n in source.nodes() if isinstance(n, ast.Expr) and called(n) in names)


def _moves(source: Source, names: set[str]) -> Iterator[Change]:
    for s in _statements(source, names):
        before, behind = siblings(s)
        if before is not None and _passes(before):
            yield source.swap(before, s, s)
        if behind is not None and _passes(behind):
            yield source.swap(s, behind, s)


def _passes(s: ast.stmt) -> bool:
    """Whether a statement behind or before means something else than one on its other side."""
    return not isinstance(s, ast.Return) and not (isinstance(s, ast.FunctionDef) and not s.decorator_list)


@operator(True)
def drop_wait(source: Source) -> Iterator[Change]:
    return (source.drop(s) for s in _statements(source, WAITS))


@operator(True)
def move_wait(source: Source) -> Iterator[Change]:
    return _moves(source, WAITS)


@operator(True)
def drop_signal(source: Source) -> Iterator[Change]:
    return (source.drop(s) for s in _statements(source, SIGNALS))


@operator(True)
def move_signal(source: Source) -> Iterator[Change]:
    return _moves(source, SIGNALS)


@operator(True)
def drop_fence(source: Source) -> Iterator[Change]:
    return (source.drop(s) for s in _statements(source, FENCES))


@operator(True)
def move_fence(source: Source) -> Iterator[Change]:
    return _moves(source, FENCES)


@operator(True)
def drop_copy(source: Source) -> Iterator[Change]:
    """A copy, product or its start is missing."""
    return (source.drop(s) for s in _statements(source, STARTS))


@operator(True)
def move_copy(source: Source) -> Iterator[Change]:
    """A copy begins a statement too early or too late."""
    return _moves(source, STARTS - {"sync_copy"})


@operator()
def swap_slot(source: Source) -> Iterator[Change]:
    """Another slot of a ring: of `x % n` and `1 - x` in an index, or given a name."""
    for n in source.nodes():
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod):
            yield source.replace(n, f"({source.code(n.left)} + 1) % {source.code(n.right)}")
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) and is_number(n.left) and n.left.value == 1:
            yield source.replace(n, source.code(n.right))


@operator(True)
def wrong_neighbour(source: Source) -> Iterator[Change]:
    """Another core, CTA or device than the one that is meant."""
    for n in source.nodes():
        if called(n) == "rem" and isinstance(n, ast.Call):
            yield source.replace(n.args[0], f"{source.code(n.args[0])} + 1")
        if isinstance(n, ast.keyword) and n.arg in NEIGHBOURS:
            yield from _other_units(source, n.value)
        if called(n) in ("cluster_ref", "remote_ref") and isinstance(n, ast.Call):
            yield from _other_units(source, n.args[1])
        if isinstance(n, ast.Call) and called(n) == "semaphore_signal":
            for k in n.keywords:
                if k.arg in NEIGHBOURS and not isinstance(k.value, ast.Dict):
                    yield Change(n, source.span(n.args[-1])[1], source.span(n)[1] - 1, "")  # to itself


def _other_units(source: Source, value: ast.expr) -> Iterator[Change]:
    for n in value.values if isinstance(value, ast.Dict) else [value]:
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub):
            yield source.replace(n, source.code(n.right))
        elif is_number(n):
            yield source.replace(n, str(n.value + 1))
        elif isinstance(n, ast.Name):
            yield source.replace(n, f"{n.id} * 0")
            yield source.replace(n, f"{n.id} * 0 + 1")


@operator(True)
def wrong_count(source: Source) -> Iterator[Change]:
    """One more or one less is awaited, signalled, expected or made room for."""
    for n in source.nodes():
        if not isinstance(n, ast.Call):
            continue
        name = called(n)
        if name in ("semaphore_wait", "semaphore_signal"):
            if len(n.args) > 1:
                yield from _one_more_or_less(source, n.args[1])
            else:
                yield source.replace(n.args[0], f"{source.code(n.args[0])}, 2")
        if name in ("wait_smem_to_gmem", "wgmma_wait"):
            yield source.replace(n.args[0], f"{source.code(n.args[0])} + 1")
        if name == "Barrier" and not any(k.arg == "num_arrivals" for k in n.keywords):
            start, end = source.span(n)
            yield source.replace(n, source.text[start:end - 1] + (", " if n.keywords or n.args else "") + "num_arrivals=2)")
        for k in n.keywords:
            if k.arg in COUNTS:
                yield from _one_more_or_less(source, k.value)


def _one_more_or_less(source: Source, n: ast.expr) -> Iterator[Change]:
    yield source.replace(n, f"{source.code(n)} + 1")
    if not (is_number(n) and n.value <= 1):
        yield source.replace(n, f"{source.code(n)} - 1")


@operator(True)
def weaken_wait(source: Source) -> Iterator[Change]:
    """A wait until a copy was read where it has to be complete."""
    for n in source.nodes():
        if called(n) == "wait_smem_to_gmem" and isinstance(n, ast.Call) and not n.keywords:
            yield source.replace(n.args[0], f"{source.code(n.args[0])}, wait_read_only=True")


@operator(True)
def declare_parallel(source: Source) -> Iterator[Change]:
    return (source.replace(n, '"parallel"') for n in source.nodes() if isinstance(n, ast.Constant) and n.value == "arbitrary")


@operator(True)
def drop_atomic(source: Source) -> Iterator[Change]:
    """Loads and stores in the place of an atomic addition; an addition without `add`; a copy to one CTA instead of several."""
    for n in source.nodes():
        if isinstance(n, ast.Expr) and called(n) == "atomic_add":
            ref, index, value = (source.code(a) for a in n.value.args)
            yield source.replace(n, f"{ref}[{index}] = {ref}[{index}] + {value}")
        if isinstance(n, ast.Expr) and called(n) == "atomic_xchg":
            yield source.drop(n)


@operator(True)
def drop_keyword(source: Source) -> Iterator[Change]:
    """`add=True`, `collective_axes=`, `collective_axis=`, `orders_tensor_core=True`."""
    for n in source.nodes():
        if isinstance(n, ast.Call):
            for k in n.keywords:
                if k.arg in ("add", "collective_axes", "collective_axis", "orders_tensor_core", "collective"):
                    yield drop_argument(source, n, k)


def drop_argument(source: Source, call: ast.Call, k: ast.keyword) -> Change:
    """The call without this keyword."""
    start, end = source.span(k)
    before = source.text[:start].rstrip()
    if before.endswith(","):
        return Change(k, len(before) - 1, end, "")
    behind = source.text[end:].lstrip()
    return Change(k, start, len(source.text) - len(behind) + 1 if behind.startswith(",") else end, "")


@operator(True)
def swap_semaphore(source: Source) -> Iterator[Change]:
    """The two semaphores of a copy to another device in the other order; the index of a semaphore one off."""
    for n in source.nodes():
        if isinstance(n, ast.Call) and called(n) in ("make_async_remote_copy", "async_remote_copy"):
            a, b = source.span(n.args[2]), source.span(n.args[3])
            yield Change(n.args[2], a[0], b[1], source.text[b[0]:b[1]] + source.text[a[1]:b[0]] + source.text[a[0]:a[1]])
        if isinstance(n, ast.Call) and called(n) in COPIES and len(n.args) > 2:
            for arg in n.args[2:]:
                if isinstance(arg, ast.Subscript) and is_ref_index(arg):
                    for e in elements(arg):
                        if isinstance(e, ast.Name):
                            yield source.replace(e, f"{e.id} ^ 1")
