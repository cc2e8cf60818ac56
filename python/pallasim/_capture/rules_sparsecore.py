"""Vector operations of SparseCores (plsc) in terms of operations that every machine has; barriers of subcores, words of others."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import jaxver
from .accounts import takes
from .rules_memory import plain
from .types import Unsupported, bits_of, dtype_text
from .views import Operands, packed_index, result_shape, steps
from .writer import Rule, Writer, attr_list

_BOOL, _I32 = np.dtype(np.bool_), np.dtype(np.int32)


def _flat(w: Writer, value: str, shape: Sequence[int], dtype: Any) -> str:
    """The elements of an array in row-major order, as one dimension."""
    if len(shape) == 1:
        return value
    return w.emit1("reshape", [value], "", w.tensor((int(np.prod(shape)),), dtype))


def _running(w: Writer, op: str, value: str, n: int, dtype: Any) -> str:
    return w.emit1(op, [value], " {axis = 0, reverse = false}", w.tensor((n,), dtype))


def _as_i32(w: Writer, mask: str, n: int) -> str:
    return w.emit1("convert", [mask], "", w.tensor((n,), _I32))


def _ranks(w: Writer, mask: str, n: int) -> str:
    """Of every true element how many true ones come before it; i32."""
    seen = _running(w, "cumsum", _as_i32(w, mask, n), n, _I32)
    return w.emit1("sub", [seen, w.i32(1)], "", w.tensor((n,), _I32))


def _splat(w: Writer, scalar: str, shape: Sequence[int], dtype: Any) -> str:
    return w.emit1("broadcast_in_dim", [scalar], " {dims = []}", w.tensor(shape, dtype))


# --- memory -----------------------------------------------------------------------------------------------------------
def _split(eqn: Any, first: int) -> tuple[Any, Any]:
    """(transforms, mask or None) of the operands behind the first ones."""
    p, flat = eqn.params, eqn.invars[first:]
    mask = flat[-1] if p["has_mask"] else None
    return p["tree"].unflatten(flat[:-1] if p["has_mask"] else flat), mask


def _packed_view(w: Writer, ops: Operands, base: Any, rest: Any, ranks: str) -> str:
    """The k-th element of the view, in row-major order, where `ranks` has k."""
    if rest and (index := packed_index(ops, rest[-1], ranks)):
        return f"[{', '.join(steps(ops, rest[:-1], base) + index)}]"
    parts = steps(ops, rest, base)
    shape, _ = result_shape(w, base, rest)
    if len(shape) != 1:
        parts.append(f"reshape({int(np.prod(shape))})")
    return f"[{', '.join([*parts, f'index(array({ops.add_value(ranks)}))'])}]"


@takes("tree has_mask")
def load(w: Writer, eqn: Any) -> None:
    """load_expanded: the k-th true element of the mask gets element k of the ref."""
    transforms, mask = _split(eqn, 1)
    ops = Operands(w)
    base, rest = ops.first_ref(eqn.invars[0], transforms)
    out = eqn.outvars[0]
    if mask is None:
        w.emit("get", ops.names, attr_list([("view", ops.view_of(base, rest))]), eqn.outvars)
        return
    shape, dtype = out.aval.shape, out.aval.dtype
    n = int(np.prod(shape))
    on = _flat(w, w.read(mask), shape, _BOOL)
    items = [("view", _packed_view(w, ops, base, rest, _ranks(w, on, n))), ("mask", ops.add_value(on))]
    loaded = w.emit1("masked_load", ops.names, attr_list(items), w.tensor((n,), dtype))
    w.env[out] = loaded if len(shape) == 1 else w.emit1("reshape", [loaded], "", w.type(out.aval))


@takes("tree has_mask add compress")
def swap(w: Writer, eqn: Any) -> None:
    """store_compressed: element k of the ref gets the k-th element that the mask takes; addupdate and its compressed form.

    Newer JAX has a masked store that does not compress, too.
    """
    if not w.is_unused(eqn.outvars[0]):
        raise Unsupported("the former value of a store on a SparseCore")
    transforms, mask = _split(eqn, 2)
    add, value = eqn.params.get("add"), eqn.invars[1]
    ops = Operands(w)
    base, rest = ops.first_ref(eqn.invars[0], transforms)
    if mask is None:
        ops.add(value)
        w.emit("addupdate" if add else "store", ops.names, attr_list([("view", ops.view_of(base, rest))]), ())
        return
    if eqn.params.get("compress", True):
        shape, dtype = value.aval.shape, value.aval.dtype
        n = int(np.prod(shape))
        ops.add_value(_flat(w, w.read(value), shape, dtype))
        on = _flat(w, w.read(mask), shape, _BOOL)
        view = _packed_view(w, ops, base, rest, _ranks(w, on, n))
        _masked_write(w, ops, view, ops.add_value(on), add, w.tensor((n,), dtype))
        return
    ops.add(value)
    _masked_write(w, ops, ops.view_of(base, rest), ops.add(mask), add, w.type(value.aval))


def _masked_write(w: Writer, ops: Operands, view: str | None, mask: str | None, add: Any, value_type: str) -> None:
    """A store of operand 1. One that adds counts every occurrence of an element."""
    items = [("view", view), ("mask", mask)]
    if add:
        w.emit1("atomic_rmw", ops.names, attr_list([("kind", "add"), *items]), value_type)
    else:
        w.emit("masked_store" if mask else "store", ops.names, attr_list(items), ())


def _indexed(ops: Operands, base: Any, rest: Any, indices: Any) -> str:
    parts = steps(ops, rest, base)
    return f"[{', '.join([*parts, 'index(' + ', '.join(f'array({ops.add(i)})' for i in indices) + ')'])}]"


@takes("tree")
def gather(w: Writer, eqn: Any) -> None:
    ref, transforms, indices, mask = eqn.params["tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    items = [("view", _indexed(ops, base, rest, indices)), ("mask", ops.optional(mask))]
    w.emit("get" if mask is None else "masked_load", ops.names, attr_list(items), eqn.outvars)


@takes("tree add")
def scatter(w: Writer, eqn: Any) -> None:
    ref, transforms, indices, value, mask = eqn.params["tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    ops.add(value)
    _masked_write(w, ops, _indexed(ops, base, rest, indices), ops.optional(mask), eqn.params.get("add"), w.type(value.aval))


@takes()
def fetch_and_add(w: Writer, eqn: Any) -> None:
    ref, value, *indices, subcore = eqn.invars
    ops = Operands(w, ref, value)
    view = "[index(" + ", ".join(ops.add(i) for i in indices) + ")]" if indices else None
    w.emit("sc_fetch_and_add", ops.names, attr_list([("view", view), ("subcore", ops.add(subcore))]), eqn.outvars)


@takes()
def barrier(w: Writer, eqn: Any) -> None:
    w.emit("sc_barrier", [], "", ())


# --- values -----------------------------------------------------------------------------------------------------------
@takes(ignores="dtype")
def bitcast(w: Writer, eqn: Any) -> None:
    """The minor dimension takes up the difference of widths. The result's type says to what."""
    source, out = eqn.invars[0].aval, eqn.outvars[0].aval
    before, after = bits_of(dtype_text(source.dtype)), bits_of(dtype_text(out.dtype))
    value = w.read(eqn.invars[0])
    if before > after:
        wide = w.tensor((*source.shape, before // after), out.dtype)
        value = w.emit1("bitcast_convert", [value], "", wide)
        w.env[eqn.outvars[0]] = w.emit1("reshape", [value], "", w.type(out))
        return
    if before < after:
        value = w.emit1("reshape", [value], "", w.tensor((*out.shape, after // before), source.dtype))
    w.emit("bitcast_convert", [value], "", eqn.outvars)


_of_tiles = plain("bitcast_tpu", "ty dim")


@takes(ignores="ty dim dtype")
def any_bitcast(w: Writer, eqn: Any) -> None:
    """pltpu.bitcast; newer JAX has no other one for the vectors of SparseCores."""
    (bitcast if len(eqn.invars[0].aval.shape) == 1 else _of_tiles)(w, eqn)


def _is_integer(dtype: Any) -> bool:
    return dtype_text(dtype)[0] in "iu"


def _check_packing(wide: Any, narrow: Any) -> None:
    if _is_integer(wide) != _is_integer(narrow):
        raise Unsupported(f"packing of {dtype_text(wide)} as {dtype_text(narrow)}, of another kind")


def _interleaved(format: Any) -> bool:
    """Packed formats: [a0, b0, a1, b1, ...], or compressed, the rows of a before those of b: [[a0, a1], ..., [b0, b1], ...]."""
    name = getattr(format, "name", str(format))
    if name not in ("INTERLEAVED", "COMPRESSED"):
        raise Unsupported(f"the packed format {name}")
    return name == "INTERLEAVED"


@takes("format", ignores="preferred_element_type")
def pack(w: Writer, eqn: Any) -> None:
    out, n = eqn.outvars[0].aval, eqn.invars[0].aval.shape[0]
    interleaved = _interleaved(eqn.params["format"])
    _check_packing(eqn.invars[0].aval.dtype, out.dtype)
    halves = [w.emit1("convert", [w.read(v)], "", w.tensor((n,), out.dtype)) for v in eqn.invars]
    both = w.emit1("stack", halves, f" {{axis = {int(interleaved)}}}", w.tensor((n, 2) if interleaved else (2, n), out.dtype))
    w.env[eqn.outvars[0]] = w.emit1("reshape", [both], "", w.type(out))


@takes("format", ignores="preferred_element_type")
def unpack(w: Writer, eqn: Any) -> None:
    source, n = eqn.invars[0].aval, eqn.outvars[0].aval.shape[0]
    interleaved = _interleaved(eqn.params["format"])
    _check_packing(eqn.outvars[0].aval.dtype, source.dtype)
    both = w.emit1("reshape", [w.read(eqn.invars[0])], "", w.tensor((n, 2) if interleaved else (2, n), source.dtype))
    for k, var in enumerate(eqn.outvars):
        start, limit, part = ([0, k], [n, k + 1], (n, 1)) if interleaved else ([k, 0], [k + 1, n], (1, n))
        half = w.emit1("slice", [both], f" {{start = {start}, limit = {limit}}}", w.tensor(part, source.dtype))
        half = w.emit1("reshape", [half], "", w.tensor((n,), source.dtype))
        w.env[var] = w.emit1("convert", [half], "", w.type(var.aval))


@takes()
def masked_cumsum(w: Writer, eqn: Any) -> None:
    """Sums of what the mask takes."""
    x, mask = eqn.invars
    shape, dtype = x.aval.shape, x.aval.dtype
    zero = _splat(w, w.constant(np.zeros((), dtype)), shape, dtype)
    taken = w.emit1("select_n", [w.read(mask), zero, w.read(x)], "", w.type(x.aval))
    w.emit("cumsum", [taken], " {axis = 0, reverse = false}", eqn.outvars)


def masked_extremum(op: str) -> Rule:
    """Running extremum of what the mask takes; what comes before its first element stays as it is."""

    @takes()
    def rule(w: Writer, eqn: Any) -> None:
        x, mask = eqn.invars
        (n,), dtype = x.aval.shape, x.aval.dtype
        if _is_integer(dtype):
            limits = np.iinfo(dtype)
            last = limits.min if op == "cummax" else limits.max
        else:
            last = -np.inf if op == "cummax" else np.inf
        neutral = _splat(w, w.constant(np.asarray(last, dtype)), (n,), dtype)
        on, value = w.read(mask), w.read(x)
        taken = w.emit1("select_n", [on, neutral, value], "", w.type(x.aval))
        best = _running(w, op, taken, n, dtype)
        seen = _running(w, "cumsum", _as_i32(w, on, n), n, _I32)
        begun = w.emit1("gt", [seen, w.i32(0)], "", w.tensor((n,), _BOOL))
        w.emit("select_n", [begun, value, best], "", eqn.outvars)

    return rule


@takes("descending")
def masked_sort(w: Writer, eqn: Any) -> None:
    """A stable sort by key of the elements that the mask takes; the others follow in the order in which they were."""
    keys, values, *mask = eqn.invars
    n, dtype = keys.aval.shape[0], keys.aval.dtype
    type_text, i32 = w.type(keys.aval), w.tensor((n,), _I32)
    order, off = w.read(keys), []
    if eqn.params["descending"]:
        order = w.emit1("not" if _is_integer(dtype) else "neg", [order], "", type_text)
    if mask:
        on = w.read(mask[0])
        zero = _splat(w, w.constant(np.zeros((), dtype)), (n,), dtype)
        order = w.emit1("select_n", [on, zero, order], "", type_text)
        off = [_as_i32(w, w.emit1("not", [on], "", w.tensor((n,), _BOOL)), n)]
    operands = [*off, order, w.read(keys), w.read(values)]
    types = [*[i32 for _ in off], type_text, type_text, w.type(values.aval)]
    names = [w.fresh() for _ in operands]
    attrs = f"{{axis = 0, num_keys = {len(off) + 1}, stable = true}}"
    w.line(f"{', '.join(names)} = sort {', '.join(operands)} {attrs} : {', '.join(types)}")
    w.bind(eqn.outvars[:2], names[-2:])
    if mask:
        zero = w.i32(0)
        w.env[eqn.outvars[2]] = w.emit1("eq", [names[0], zero], "", w.tensor((n,), _BOOL))


@takes()
def scan_count(w: Writer, eqn: Any) -> None:
    """How often each element came up to here, and where it comes for the last time; elements that the mask takes alone count."""
    x, mask = eqn.invars
    n = x.aval.shape[0]
    square, pairs = w.tensor((n, n), _BOOL), w.tensor((n, n), x.aval.dtype)
    value, on = w.read(x), w.read(mask)
    row = w.emit1("broadcast_in_dim", [value], " {dims = [0]}", pairs)
    column = w.emit1("broadcast_in_dim", [value], " {dims = [1]}", pairs)
    same = w.emit1("eq", [row, column], "", square)
    for axis in (0, 1):
        taken = w.emit1("broadcast_in_dim", [on], f" {{dims = [{axis}]}}", square)
        same = w.emit1("and", [same, taken], "", square)
    i, j = (w.emit1("iota", [], f" {{axis = {axis}}}", w.tensor((n, n), _I32)) for axis in (0, 1))
    before = w.emit1("ge", [i, j], "", square)
    counted = w.emit1("convert", [w.emit1("and", [same, before], "", square)], "", w.tensor((n, n), _I32))
    w.emit("reduce_sum", [counted], " {axes = [1]}", eqn.outvars[:1])
    later = w.emit1("and", [same, w.emit1("lt", [i, j], "", square)], "", square)
    again = w.emit1("reduce_or", [later], " {axes = [1]}", w.tensor((n,), _BOOL))
    last = w.emit1("not", [again], "", w.tensor((n,), _BOOL))
    w.emit("and", [last, on], "", eqn.outvars[1:])


def _for_all(w: Writer, scalar: str, eqn: Any) -> None:
    w.emit("broadcast_in_dim", [scalar], " {dims = []}", eqn.outvars)


@takes(ignores="reduce")  # the result's shape says it
def first_set(w: Writer, eqn: Any) -> None:
    """The index of the first true element, everywhere; how many there are where none is true."""
    n = eqn.invars[0].aval.shape[0]
    i32 = w.tensor((n,), _I32)
    index = w.emit1("iota", [], " {axis = 0}", i32)
    none = _splat(w, w.i32(n), (n,), _I32)
    found = w.emit1("select_n", [w.read(eqn.invars[0]), none, index], "", i32)
    _for_all(w, w.emit1("reduce_min", [found], " {axes = [0]}", "i32[]"), eqn)


@takes(ignores="reduce")
def population_count(w: Writer, eqn: Any) -> None:
    n = eqn.invars[0].aval.shape[0]
    ones = _as_i32(w, w.read(eqn.invars[0]), n)
    _for_all(w, w.emit1("reduce_sum", [ones], " {axes = [0]}", "i32[]"), eqn)


# --- control ----------------------------------------------------------------------------------------------------------
@takes("jaxpr tree unroll")
def parallel_loop(w: Writer, eqn: Any) -> None:
    """A loop whose iterations may come in any order."""
    p = eqn.params
    lower, upper, step, consts, carry = p["tree"].unflatten(eqn.invars)
    jaxpr, _ = jaxver.open_jaxpr(p["jaxpr"])
    init = [w.read(v) for v in carry]
    operands = [w.read_index(v) for v in (lower, upper, step)] + init
    captured = [w.read(v) for v in consts]
    loc = w.loc
    unroll = int(p.get("unroll") or 1)
    attrs = attr_list([("unroll", str(unroll) if unroll != 1 else None)])
    head, types = w.open_op("parallel_loop", operands, attrs, eqn.outvars)
    args = [w.fresh() for _ in range(1 + len(init))]
    inner = jaxpr.invars[len(jaxpr.invars) - len(args):]  # newer JAX has the captured values before them
    w.open_region(head, [(n, "", w.type(v.aval)) for n, v in zip(args, inner, strict=True)])
    w.bind([*jaxpr.constvars, *jaxpr.invars[: len(jaxpr.invars) - len(args)]], captured)
    w.bind(inner, args)
    w.close_op(w.close_region(w.run(jaxpr)), types, loc)


def rules() -> dict[Any, Rule]:
    out: dict[str, Rule] = {
        "load_p": load, "swap_p": swap, "gather_p": gather, "scatter_p": scatter, "bitcast_p": bitcast, "barrier_p": barrier,
        "fetch_and_add_p": fetch_and_add, "pack_p": pack, "unpack_p": unpack, "masked_cumsum_p": masked_cumsum,
        "masked_cummax_p": masked_extremum("cummax"), "masked_cummin_p": masked_extremum("cummin"), "masked_sort_p": masked_sort,
        "scan_count_p": scan_count, "all_reduce_ffs_p": first_set, "all_reduce_population_count_p": population_count,
        "parallel_loop_p": parallel_loop,
    }
    found = {prim: rule for name, rule in out.items() if (prim := jaxver.find(f"sc.{name}")) is not None}
    if (prim := jaxver.find("tpu.bitcast_p")) is not None:
        found[prim] = any_bitcast
    return found
