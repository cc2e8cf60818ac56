"""Bodies in Python that emit MLIR: by a registered function, by what they emit, or by name alone. Imported where a kernel has one."""
from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np

from .. import _lowerings
from . import inline
from . import inline_values as values
from .attrs import attr, quote
from .functions import by_function
from .types import Unsupported
from .views import Operands
from .writer import Writer, attr_list


_WAITS = ("wait_load_tmem", "commit_tmem")


def _is_ref(atom: Any) -> bool:
    return hasattr(getattr(atom, "aval", None), "inner_aval")


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
    read = Values(w, eqn, tuple(eqn.invars[:n]))
    _do(w, eqn, read, found.acts)
    for var, value, kind in zip(eqn.outvars, found.results, p["flat_ret_ty"]):
        w.bind([var], [read.array(value, tuple(var.aval.shape), np.dtype(kind.dtype))])


def _do(w: Writer, eqn: Any, read: Values, acts: tuple[inline.Act, ...]) -> None:
    """Emits what a body does, in order; neighbouring barriers and fences are one operation."""
    for alone, group in itertools.groupby(acts, lambda a: a.kind in ("load", "store", *_WAITS)):
        if alone:
            for act in group:
                w.emit(act.kind, [], "", ()) if act.kind in _WAITS else _access(w, read, act)
            continue
        ops = Operands(w)
        does = [_act(ops, act, eqn) for act in group]
        w.emit("ptx", ops.names, f" {{does = [{', '.join(does)}]}}", ())


def _access(w: Writer, read: Values, act: inline.Act) -> None:
    ref = read.arguments[act.ref]
    places = [read.scalar(i, np.dtype(np.int32)) for i in act.index]
    operands = [w.read(ref)] + ([] if act.value is None else [read.scalar(act.value, np.dtype(ref.aval.dtype))]) + places
    first = len(operands) - len(places)
    view = f" {{view = [index({', '.join(f'${first + k}' for k in range(len(places)))})]}}" if places else ""
    if act.value is None:
        read.loaded.append((w.emit1("get", operands, view, w.tensor((), ref.aval.dtype)), np.dtype(ref.aval.dtype)))
    else:
        w.emit("store", operands, view, ())


class Values:
    """Emits the values of an inline body's expressions, each once."""

    def __init__(self, w: Writer, eqn: Any, arguments: tuple[Any, ...]) -> None:
        self.writer, self.arguments = w, arguments
        self.loaded: list[tuple[str, np.dtype]] = []  # by the number of the load
        self._made: dict[int, tuple[str, tuple[int, ...], np.dtype]] = {}

    def scalar(self, value: values.Expression, dtype: np.dtype) -> str:
        return self.array(value, (), dtype)

    def array(self, value: values.Expression, shape: tuple[int, ...], dtype: np.dtype) -> str:
        """The name of an array each of whose elements is the value. Raises Unsupported."""
        name, have = self._spread(self._value(value), shape)
        return self._with_bits(name, shape, have, dtype)

    def _spread(self, made: tuple[str, tuple[int, ...], np.dtype], shape: tuple[int, ...]) -> tuple[str, np.dtype]:
        name, have, dtype = made
        if have == shape:
            return name, dtype
        if have:
            raise Unsupported("an inline body that computes with arrays of different shapes")
        return self.writer.emit1("broadcast_in_dim", [name], " {dims = []}", self.writer.tensor(shape, dtype)), dtype

    def _with_bits(self, name: str, shape: tuple[int, ...], have: np.dtype, want: np.dtype) -> str:
        """The same bits as another type: MLIR's integers have no sign."""
        if have == want:
            return name
        if have.itemsize != want.itemsize or (np.bool_ in (have, want)):
            raise Unsupported(f"an inline body that returns {have} where {want} is declared")
        return self.writer.emit1("bitcast_convert", [name], "", self.writer.tensor(shape, want))

    def _value(self, value: values.Expression) -> tuple[str, tuple[int, ...], np.dtype]:
        if id(value) not in self._made:
            self._made[id(value)] = self._make(value)
        return self._made[id(value)]

    def _make(self, value: values.Expression) -> tuple[str, tuple[int, ...], np.dtype]:
        w = self.writer
        if isinstance(value, values.Argument):
            atom = self.arguments[value.index]
            return w.read(atom), tuple(atom.aval.shape), np.dtype(atom.aval.dtype)
        if isinstance(value, values.Constant):
            return w.constant(np.asarray(value.value)), (), np.dtype(value.value.dtype)
        if isinstance(value, values.Loaded):
            name, dtype = self.loaded[value.number]
            return name, (), dtype
        if isinstance(value, values.Place):
            return _block(w, value, np.dtype(np.int32)), (), np.dtype(np.int32)
        made = [self._value(v) for v in value.operands]
        shape = next((s for _, s, _ in made if s), ())
        names = [self._with_bits(name, shape, have, want)
                 for (name, have), want in zip((self._spread(m, shape) for m in made), value.of)]
        return w.emit1(value.op, names, "", w.tensor(shape, value.dtype)), shape, value.dtype


def _block(w: Writer, place: values.Place, dtype: Any) -> str:
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
