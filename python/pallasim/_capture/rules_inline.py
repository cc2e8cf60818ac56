"""Bodies and primitives without an operation of ours: by a registered function, by what an inline body emits, or by name alone."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _lowerings
from . import inline, jaxver
from .accounts import takes
from .attrs import attr, quote
from .rules_memory import extern
from .types import Unsupported
from .views import Operands
from .writer import Writer, attr_list


def _is_ref(atom: Any) -> bool:
    return hasattr(getattr(atom, "aval", None), "inner_aval")


@takes("mgpu_fn flat_arg_types flat_ret_ty pytree_ref_transforms pytree_args", ignores="pytree_ret_ty")
def inline_mgpu(w: Writer, eqn: Any) -> None:
    """A body in Python that emits MLIR. A registered function says what it does; else barriers, fences and constants are read
    from what it emits; else it is refused at run time."""
    p = eqn.params
    fn = p["mgpu_fn"]
    name = f"inline_mgpu.{getattr(fn, '__qualname__', 'fn')}"
    n = len(p["flat_arg_types"])
    tree = p["pytree_ref_transforms"]
    if (function := _lowerings.registered(name)) is not None:
        def call(*flat: Any) -> Any:
            args = [_view(a, t) for a, t in zip(flat[:n], tree.unflatten(flat[n:]))]
            return function(*importlib.import_module("jax").tree.unflatten(p["pytree_args"], args))

        by_function(w, eqn, name, call)
        return
    try:
        found = inline.meaning(p, [v.aval for v in eqn.invars[:n]])
    except inline.Unreadable as e:
        _refused(w, eqn, name, n, str(e))
        return
    ops = Operands(w)
    does = [_act(ops, act, eqn) for act in found.acts]
    if does:
        w.emit("ptx", ops.names, f" {{does = [{', '.join(does)}]}}", ())
    for var, value in zip(eqn.outvars, found.results):
        aval = var.aval
        scalar = _scalar(w, eqn, value, aval.dtype)
        if aval.shape:
            w.emit("broadcast_in_dim", [scalar], " {dims = []}", [var])
        else:
            w.bind([var], [scalar])


def _scalar(w: Writer, eqn: Any, value: inline.Expression, dtype: Any) -> str:
    """The name of a scalar of that type."""
    if isinstance(value, inline.Argument):
        atom = eqn.invars[value.index]
        if atom.aval.shape or atom.aval.dtype != dtype:
            raise Unsupported("an inline body that returns an argument of another type")
        return w.read(atom)
    if isinstance(value, inline.Binary):
        sides = [_scalar(w, eqn, side, dtype) for side in (value.left, value.right)]
        return w.emit1(value.op, sides, "", w.tensor((), dtype))
    if isinstance(value, inline.Place):
        return _block(w, value, dtype)
    return w.constant(np.asarray(value, dtype))


def _block(w: Writer, place: inline.Place, dtype: Any) -> str:
    """A block's number along a dimension of CUDA's grid. The last axes of the grid, and of the clusters in it, are x; those before y; all
    further ones of the grid are z, the last of them fastest."""
    grid, cluster = ([n for n, kind in w.module.gpu_axes.items() if kind == of] for of in ("grid", "cluster"))
    d = "xyz".index(place.dim)
    last = len(grid) - d
    axes = (grid[:max(last, 0)] if d == 2 else grid[max(last - 1, 0):max(last, 0)]) + cluster[max(len(cluster) - d - 1, 0):max(len(cluster) - d, 0)]
    text = w.tensor((), dtype)
    total = w.constant(np.asarray(1 if place.count else 0, dtype))
    for name in axes:
        size = w.emit1("axis_size", [], f" {{axis = {quote(name)}}}", text)
        total = w.emit1("mul", [total, size], "", text)
        if not place.count:
            total = w.emit1("add", [total, w.emit1("axis_index", [], f" {{axis = {quote(name)}}}", text)], "", text)
    return total


def _view(array: Any, transforms: Any) -> Any:
    """A ref as its body sees it; how its bytes are tiled and swizzled is no matter of values."""
    if not transforms:
        return array
    state = importlib.import_module("jax._src.state.types")
    return state.TransformedRef(array, tuple(transforms))


def _act(ops: Operands, act: inline.Act, eqn: Any) -> str:
    if not act.kind.startswith("named_barrier"):
        return act.kind
    barrier = ops.add(eqn.invars[act.barrier.index]) if isinstance(act.barrier, inline.Argument) else act.barrier
    return f"{act.kind}({barrier}{'' if act.threads is None else f', {act.threads}'})"


def _refused(w: Writer, eqn: Any, name: str, n: int, why: str) -> None:
    p = eqn.params
    w.module.externs[name] = None
    ops = Operands(w)
    transforms = p["pytree_ref_transforms"].unflatten(eqn.invars[n:])
    args = [ops.ref(a, t or ()) if _is_ref(a) else ops.add(a) for a, t in zip(eqn.invars[:n], transforms)]
    items = [("name", quote(name)), ("why", quote(why)), ("args", f"[{', '.join(args)}]"), ("arg_types", attr(p["flat_arg_types"])),
             ("result_types", attr(p["flat_ret_ty"]))]
    w.emit("extern", ops.names, attr_list(items), eqn.outvars)


def by_function(w: Writer, eqn: Any, name: str, function: Callable[..., Any]) -> None:
    """Emits what a registered function of the equation's operands does. Raises Unsupported where it does not fit them."""
    def flat(*args: Any) -> list[Any]:
        return importlib.import_module("jax").tree.leaves(function(*args))

    try:
        jaxpr, consts = jaxver.trace(flat, [v.aval for v in eqn.invars], name)
    except Exception as e:
        raise Unsupported(f"the function registered for {name}: {type(e).__name__}: {e}") from e
    have = [(tuple(v.aval.shape), str(v.aval.dtype)) for v in jaxpr.outvars]
    want = [(tuple(v.aval.shape), str(v.aval.dtype)) for v in eqn.outvars]
    if have != want:
        raise Unsupported(f"the function registered for {name} returns {_types(have)}; the kernel takes {_types(want)}")
    w.bind_consts(jaxpr, consts)
    w.bind(eqn.outvars, w.inline(jaxpr, [w.read(v) for v in eqn.invars]))


def _types(types: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{d}[{','.join(map(str, s))}]" for s, d in types) or "nothing"


@takes(rest=True)
def fallback(w: Writer, eqn: Any) -> None:
    """The rule of primitives that have none: a registered function of its operands and parameters, or the name alone."""
    function = _lowerings.registered(eqn.primitive.name)
    if function is None:
        extern(w, eqn)
    else:
        by_function(w, eqn, eqn.primitive.name, lambda *args: function(*args, **eqn.params))
