"""What names of Pallas mean to operators: which functions wait, signal, order, copy; which places of a source order things."""
from __future__ import annotations

import ast

from .source import Change, Source, around, called, statement_of

WAITS = {"wait", "wait_send", "wait_recv", "semaphore_wait", "barrier_wait", "wait_smem_to_gmem", "wgmma_wait", "wait_load_tmem"}
SIGNALS = {"semaphore_signal", "barrier_arrive"}
FENCES = {"subcore_barrier", "core_barrier", "commit_smem", "commit_tmem", "tcgen05_commit_arrive"}
STARTS = {"start", "copy_gmem_to_smem", "copy_smem_to_gmem", "async_store_smem", "async_store_tmem", "sync_copy", "tcgen05_mma", "wgmma"}
# Copies: their first two operands are the source and the destination.
COPIES = {"make_async_copy", "make_async_remote_copy", "async_copy", "async_remote_copy", "sync_copy", "copy_gmem_to_smem", "copy_smem_to_gmem",
          "async_store_smem"}
# Operands, by place, of the calls that order things.
SEMAPHORES = {"make_async_copy": (2,), "make_async_remote_copy": (2, 3), "async_copy": (2,), "async_remote_copy": (2, 3), "copy_gmem_to_smem": (2,),
              "async_store_smem": (2,), "tcgen05_mma": (3,)}
ATOMICS = {"atomic_add", "atomic_cas", "atomic_xchg"}
FILLS = {"zeros", "zeros_like", "ones", "ones_like", "full", "full_like"}
NEIGHBOURS = {"device_id", "cluster_idx", "core_index"}  # keywords that name another core, CTA or device
# Keywords that count or order.
COUNTS = {"num_arrivals", "num_barriers", "delay_release", "max_concurrent_steps", "inc"}
ORDERS = NEIGHBOURS | COUNTS | {"dimension_semantics", "wait_read_only", "collective_axes", "collective_axis", "orders_tensor_core", "add",
                                "input_output_aliases"}


def orders_things(node: ast.AST) -> bool:
    """Whether a change of the node changes who waits for whom."""
    child = node
    for parent in [node, *around(node)]:
        name = called(parent) if isinstance(parent, ast.Call) else ""
        if name in WAITS | SIGNALS | FENCES | ATOMICS:
            return True
        if name in SEMAPHORES and any(i < len(parent.args) and parent.args[i] is child for i in SEMAPHORES[name]):
            return True
        if isinstance(parent, ast.keyword) and parent.arg in ORDERS:
            return True
        if isinstance(parent, ast.stmt):
            break
        child = parent
    return _guards_order(node)


def _guards_order(node: ast.AST) -> bool:
    """Whether the node is of a statement that decides whether, how often or for whom others order things: `if`, `for`, `pl.when`, `pl.loop`, or
    one that gives a value a name which those use."""
    statement = statement_of(node)
    if isinstance(statement, (ast.If, ast.For, ast.FunctionDef)):
        inside_header = not isinstance(statement, ast.FunctionDef) or any(node is d or node in ast.walk(d) for d in statement.decorator_list)
        return inside_header and any(called(n) in WAITS | SIGNALS | FENCES for n in ast.walk(statement))
    if isinstance(statement, ast.Assign):
        names = {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        scope = next((p for p in around(statement) if isinstance(p, (ast.FunctionDef, ast.Module))), None)
        return any(isinstance(n, ast.Name) and n.id in names and n not in ast.walk(statement) and _plainly_orders(n) for n in ast.walk(scope))
    return False


def _plainly_orders(node: ast.AST) -> bool:
    child = node
    for parent in around(node):
        if isinstance(parent, ast.Call):
            if called(parent) in WAITS | SIGNALS | FENCES:
                return True
            places = SEMAPHORES.get(called(parent), ())
            if any(i < len(parent.args) and parent.args[i] is child for i in places):
                return True
        if isinstance(parent, ast.keyword) and parent.arg in ORDERS:
            return True
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def is_ref_index(node: ast.Subscript) -> bool:
    """`ref[...]`, `ref.at[...]`: not a shape, a list of devices, or a table of Python's."""
    value = node.value
    if isinstance(value, ast.Attribute):
        return value.attr == "at"
    return isinstance(value, (ast.Name, ast.Call, ast.Subscript)) and called(value) != "devices"


def elements(node: ast.Subscript) -> list[ast.expr]:
    """The indices of a subscript, one per dimension."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def is_number(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def nobody_can_tell(source: Source, operator: str, change: Change) -> bool:
    """Whether a change of what orders things leaves the order of everything else: two waits, two starts of copies or two signals in the other order,
    a wait and a statement that touches no memory, more barriers than are used."""
    if operator == "wrong_count":
        keyword = next((k for k in [change.node, *around(change.node)] if isinstance(k, ast.keyword)), None)
        return keyword is not None and keyword.arg == "num_barriers" and change.text.endswith("+ 1")
    if not operator.startswith("move_"):
        return False
    block = next(b for b in (getattr(change.node.parent, f, None) for f in ("body", "orelse", "finalbody")) if isinstance(b, list) and change.node in b)
    pair = [s for s in block if change.start <= source.span(s)[0] and source.span(s)[1] <= change.end]
    groups = (WAITS | {"commit_smem", "commit_tmem"}, STARTS - {"sync_copy", "tcgen05_mma", "wgmma"}, SIGNALS)
    return len(pair) == 2 and (any(all(called(s) in group for s in pair) for group in groups) or any(map(_touches_nothing, pair)))


def _touches_nothing(s: ast.stmt) -> bool:
    """A value gets a name, and no memory is read for it: a copy that is not begun, a number, zeros."""
    if not isinstance(s, ast.Assign) or not all(isinstance(t, (ast.Name, ast.Tuple)) for t in s.targets):
        return False
    reads = (n for n in ast.walk(s.value) if isinstance(n, ast.Subscript) and not (isinstance(n.value, ast.Attribute) and n.value.attr == "at"))
    return not any(reads) and not any(called(n) in ("semaphore_read", "load", "async_load_tmem", "run_scoped") for n in ast.walk(s.value))
