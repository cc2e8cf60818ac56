"""Ref transforms (indexing, reshaping, tiling, ...) as `view` text."""
from __future__ import annotations

from typing import Any

from . import jaxver
from .attrs import attr, ints, quote, symbol
from .types import Unsupported, dtype_text

Literal = jaxver.Literal


def unpack(ref: Any) -> tuple[Any, tuple[Any, ...]]:
    """(ref, transforms) of a ref or a transformed ref."""
    if type(ref).__name__ == "TransformedRef":
        return ref.ref, tuple(ref.transforms)
    return ref, ()


def is_static(x: Any) -> bool:
    return type(x) is int or (not isinstance(x, (jaxver.core.Var, Literal)) and hasattr(x, "__index__"))


class Operands:
    """The operand list of one operation under construction."""

    __slots__ = ("writer", "names")

    def __init__(self, writer: Any, *first: Any) -> None:
        self.writer = writer
        self.names: list[str] = [writer.read(a) for a in first]

    def add(self, atom: Any) -> str:
        """`$k` of an operand that is appended."""
        self.names.append(self.writer.read(atom))
        return f"${len(self.names) - 1}"

    def add_value(self, value: str) -> str:
        self.names.append(value)
        return f"${len(self.names) - 1}"

    def optional(self, atom: Any) -> str | None:
        return None if atom is None else self.add(atom)

    def ref(self, ref: Any, transforms: Any = ()) -> str:
        """Appends a ref and the operands of its transforms; returns `view($k, [...])`."""
        base, own = unpack(ref)
        transforms = own + tuple(transforms or ())
        base, transforms = resolve_multi(self.writer, base, transforms)
        k = self.add_value(base) if isinstance(base, str) else self.add(base)
        return f"view({k}, [{', '.join(steps(self, transforms, base))}])"

    def first_ref(self, ref: Any, transforms: Any = ()) -> tuple[Any, ...]:
        """Appends a ref; its remaining transforms are rendered by `view_of` once the other operands are there."""
        base, own = unpack(ref)
        transforms = own + tuple(transforms or ())
        base, transforms = resolve_multi(self.writer, base, transforms)
        if isinstance(base, str):
            self.add_value(base)
        else:
            self.add(base)
        return base, transforms

    def view_of(self, base: Any, transforms: tuple[Any, ...]) -> str | None:
        """`[index(...)]`, or None for the whole ref."""
        parts = steps(self, transforms, base)
        return f"[{', '.join(parts)}]" if parts else None


def resolve_multi(w: Any, base: Any, transforms: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Turns a choice among several refs into a `select_ref` (its value's name is returned as the base)."""
    while type(base).__name__ == "TransformedRef":
        transforms = tuple(base.transforms) + transforms
        base = base.ref
    if w.tiled_blocks and isinstance(base, jaxver.core.Var) and (block := w.tiled_blocks.get(w.env.get(base))):
        base, own, tiles = block
        if transforms[: len(tiles)] != tiles:
            raise Unsupported("a block in tiles that is seen as it lies in memory")
        transforms = own + transforms[len(tiles) :]
    if not isinstance(base, (tuple, list)):
        return base, transforms
    choice, rest = transforms[0], transforms[1:]
    names, ref_type = [], None
    for member in base:
        inner, inner_transforms = unpack(member)
        name = view_value(w, inner, inner_transforms)
        names.append(name)
        ref_type = ref_type or w.value_types.get(name)
    index = w.read_index(choice.idx)
    out = w.fresh()
    w.line(f"{out} = select_ref {', '.join([index, *names])} : {ref_type}")
    w.value_types[out] = ref_type
    return out, rest


def view_value(w: Any, ref: Any, transforms: tuple[Any, ...]) -> str:
    """The name of a ref value for a ref with transforms: the ref itself, or the result of a `view`."""
    ops = Operands(w)
    base, transforms = ops.first_ref(ref, transforms)
    view = ops.view_of(base, transforms)
    if view is None:
        return ops.names[0]
    shape, dtype = result_shape(w, base, transforms)
    out = w.fresh()
    ref_type = w.ref_text(shape, dtype, w.value_types.get(ops.names[0]))
    w.line(f"{out} = view {', '.join(ops.names)} {{view = {view}}} : {ref_type}")
    w.value_types[out] = ref_type
    return out


def result_shape(w: Any, base: Any, transforms: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """Shape and dtype of a ref after transforms; run-time extents become their static bounds."""
    shape, dtype = w.ref_shapes[base if isinstance(base, str) else w.read(base)]
    for t in transforms:
        shape, dtype = _apply(t, shape, dtype)
    return shape, dtype


def _apply(t: Any, shape: tuple[Any, ...], dtype: Any) -> tuple[tuple[Any, ...], Any]:
    kind = type(t).__name__
    if kind == "NDIndexer":
        out: list[Any] = []
        where = [i for i, d in enumerate(t.indices) if type(d).__name__ != "Slice"]
        contiguous = all(b - a == 1 for a, b in zip(where, where[1:]))
        arrays = tuple(d if is_static(d) else -1 for d in t.int_indexer_shape)
        if not contiguous:
            out += arrays
        for i, d in enumerate(t.indices):
            if type(d).__name__ == "Slice":
                out.append(int(d.size) if is_static(d.size) else int(shape[i]))
            elif contiguous and i == where[0]:
                out += arrays
        return tuple(out), dtype
    if hasattr(t, "transform_type"):
        aval = t.transform_type(jaxver.core.ShapedArray(tuple(shape), dtype))
        return tuple(aval.shape), aval.dtype
    raise Unsupported(f"ref transform {kind}")


def steps(ops: Operands, transforms: tuple[Any, ...], base: Any) -> list[str]:
    """One text per transform; trivial ones vanish."""
    out: list[str] = []
    for n, t in enumerate(transforms):
        kind = type(t).__name__
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise Unsupported(f"ref transform {kind}")
        if kind in _NEEDS_SHAPE:
            out += handler(ops, t, result_shape(ops.writer, base, transforms[:n])[0])
        else:
            out += handler(ops, t)
    return out


def _index(ops: Operands, t: Any) -> list[str]:
    parts = []
    trivial = True
    for i, size in zip(t.indices, t.shape):
        kind = type(i).__name__
        if kind == "Slice":
            start = _scalar(ops, i.start)
            extent = _scalar(ops, i.size)
            stride = i.stride
            if stride == 1:
                parts.append(f"slice({start}, {extent})")
                trivial = trivial and start == "0" and extent == str(size)
            else:
                parts.append(f"slice({start}, {extent}, {stride})")
                trivial = False
        else:
            trivial = False
            parts.append(_from_the_end(ops, _position(ops, i, kind), size))
    return [] if trivial else [f"index({', '.join(parts)})"]


def packed_index(ops: Operands, t: Any, ranks: str) -> list[str] | None:
    """Elements `ranks` (an i32 array's name) of what an index shows, as an index of their own: only those that are accessed have
    to lie inside. None where it shows no run of elements along one dimension."""
    kinds = [type(i).__name__ for i in getattr(t, "indices", ())] if type(t).__name__ == "NDIndexer" else []
    if kinds.count("Slice") != 1:
        return None
    run = t.indices[kinds.index("Slice")]
    others = [i for i, kind in zip(t.indices, kinds) if kind != "Slice"]
    if run.stride != 1 or not is_static(run.size) or any(getattr(getattr(i, "aval", None), "shape", ()) for i in others):
        return None
    w = ops.writer
    start = w.i32(int(run.start)) if is_static(run.start) else w.emit1("convert", [w.read_index(run.start)], "", w.tensor((), "int32"))
    moved = w.emit1("add", [w.emit1("broadcast_in_dim", [start], " {dims = []}", w.tensor((int(run.size),), "int32")), ranks], "",
                    w.tensor((int(run.size),), "int32"))
    parts = [f"array({ops.add_value(moved)})" if kind == "Slice" else _from_the_end(ops, _position(ops, i, kind), size)
             for i, kind, size in zip(t.indices, kinds, t.shape)]
    return [f"index({', '.join(parts)})"]


def _from_the_end(ops: Operands, position: str, size: Any) -> str:
    """A constant index below zero counts from the end, as Python's do, on the machine that has no hardware; for a chip it is an
    address before the array."""
    if ops.writer.module.machine == "generic" and position.startswith("-") and is_static(size) and int(position) >= -int(size):
        return str(int(size) + int(position))
    return position


def _scalar(ops: Operands, x: Any) -> str:
    if type(x) is int:
        return str(x)
    if isinstance(x, Literal):
        return str(int(jaxver.literal_array(x)))
    if isinstance(x, jaxver.core.Var):
        return ops.add(x)
    if hasattr(x, "__index__"):
        try:
            return str(x.__index__())
        except Exception:
            pass
    return ops.add_value(ops.writer.dim_value(x))


def _position(ops: Operands, x: Any, kind: str) -> str:
    if kind == "Indices":  # SparseCore: indices with a value that means "skip"
        inner = x.values
        text = _position(ops, inner, type(inner).__name__)
        if x.ignored_value is None:
            return text
        return f"{text[:-1]}, {int(x.ignored_value)})" if text.endswith(")") else f"array({text}, {int(x.ignored_value)})"
    if kind == "TransformedRef":
        return f"ref({ops.add_value(view_value(ops.writer, x.ref, tuple(x.transforms)))})"
    aval = getattr(x, "aval", None)
    if aval is not None and hasattr(aval, "inner_aval"):
        return f"ref({ops.add(x)})"
    if aval is not None and getattr(aval, "shape", ()):
        return f"array({ops.add(x)})"
    return _scalar(ops, x)


def _untile(ops: Operands, t: Any) -> list[str]:
    return [f"untile({ints(t.tiling)[1:-1]})"]


def _expand(ops: Operands, t: Any, shape: tuple[Any, ...]) -> list[str]:
    batch, (rows, columns) = tuple(t.batch_shape), shape
    n = 1
    for b in batch:
        n *= b
    k = len(batch)
    reshaped = ints((rows, *batch, columns // n))[1:-1]
    order = ints((*range(1, k + 1), 0, k + 1))[1:-1]
    return [f"reshape({reshaped})", f"transpose({order})"]


def _collapse(ops: Operands, t: Any, shape: tuple[Any, ...]) -> list[str]:
    *batch, rows, columns = shape
    k, n = len(batch), columns
    for b in batch:
        n *= b
    return [f"transpose({ints((k, *range(k), k + 1))[1:-1]})", f"reshape({rows}, {n})"]


def _extract(ops: Operands, t: Any) -> list[str]:
    args = [f"{dtype_text(t.dtype)}[{','.join(map(str, t.shape))}]", str(t.offset), str(t.alias_group_idx)]
    if (layout := attr(t.layout)) is not None:
        args.append(layout)
    return [f"extract({', '.join(args)})"]


def _cluster(ops: Operands, t: Any) -> list[str]:
    axes = [f"axis({quote(ops.writer.axis_name(d))}, {_scalar(ops, i)})" for d, i in zip(t.dims, t.idxs)]
    return [f"cluster({', '.join(axes)})"]


def _multicast(ops: Operands, t: Any) -> list[str]:
    return [f"multicast({', '.join(quote(ops.writer.axis_name(a)) for a in t.collective_axes)})"]


def _peer(ops: Operands, t: Any) -> list[str]:
    device, kind, _ = ops.writer.device_id(ops, t.device_id, t.device_id_type)
    return [f"peer({device}, {symbol(kind)})"]


def _assumptions(ops: Operands, t: Any) -> list[str]:
    """Claims about accesses. What is sound whatever the kernel does says nothing here; nobody checks the others."""
    unsound = [n for n in ("no_store", "no_hazard_no_deps") if getattr(t.assumption, n)]
    if unsound:
        raise Unsupported(f"annotate({unsound[0]}=True), a claim that is not checked")
    return []


def _dims(name: str, field: str) -> Any:
    def handler(ops: Operands, t: Any) -> list[str]:
        return [f"{name}({', '.join([ops.writer.dim(d) for d in getattr(t, field)])})"]

    return handler


_HANDLERS: dict[str, Any] = {
    "NDIndexer": _index,
    "ReshapeTransform": _dims("reshape", "shape"),
    "RefReshaper": _dims("reshape", "shape"),
    "TransposeTransform": _dims("transpose", "permutation"),
    "TransposeRef": _dims("transpose", "permutation"),
    "BitcastTransform": lambda ops, t: [f"bitcast({dtype_text(t.dtype)}[])"],
    "RefBitcaster": lambda ops, t: [f"bitcast({dtype_text(t.dtype)}[])"],
    "UntilingTransform": _untile,
    "UntileRef": _untile,
    "TilingTransform": lambda ops, t: [f"tile({ints(t.tiling)[1:-1]})"],
    "TileTransform": lambda ops, t: [f"tile({ints(t.tiling)[1:-1]})"],
    "UnswizzleRef": lambda ops, t: [f"unswizzle({t.swizzle})"],
    "SwizzleTransform": lambda ops, t: [f"swizzle({t.swizzle})"],
    "ExpandLeadingBatchDimensionsTransform": _expand,
    "CollapseLeadingBatchDimensionsTransform": _collapse,
    "ExtractAliasedRef": _extract,
    "ClusterRefTransform": _cluster,
    "MulticastRef": _multicast,
    "PeerMemRef": _peer,
    "IdentityTransform": lambda ops, t: [],
    "AccessAssumptionTransform": _assumptions,
}
_NEEDS_SHAPE = frozenset(("ExpandLeadingBatchDimensionsTransform", "CollapseLeadingBatchDimensionsTransform"))
