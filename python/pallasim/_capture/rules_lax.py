"""lax primitives: elementwise, shape, reductions, contractions."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import jaxver
from .accounts import takes
from .attrs import array_literal, attr, bool_text, ints, symbol
from .writer import Rule, Writer, attr_list, other_params

_UNARY = (
    "abs neg sign not ceil floor square sqrt rsqrt cbrt exp exp2 expm1 log log2 log1p logistic sin cos tan sinh cosh tanh asin "
    "acos atan asinh acosh atanh is_finite real imag clz population_count"
).split()
_BINARY = (
    "add sub mul div rem max min pow atan2 nextafter and or xor shift_left shift_right_logical shift_right_arithmetic mulhi "
    "complex eq ne lt le gt ge"
).split()
_SPECIAL = "erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e igamma igammac zeta polygamma regularized_incomplete_beta".split()
_TYPE_SAYS = "out_dtype sharding out_sharding unreduced reduced"  # the result's type has it, or there is one device
_IGNORED = frozenset(_TYPE_SAYS.split())


def elementwise(op: str) -> Rule:
    """Operands and result as they are; parameters that change values stay."""

    @takes(ignores=_TYPE_SAYS, rest=True)
    def rule(w: Writer, eqn: Any) -> None:
        invars = eqn.invars
        var = eqn.outvars[0]
        if len(invars) == 1:
            args = w.read(invars[0])
        else:
            shape = var.aval.shape
            args = ", ".join([w.read(v) if v.aval.shape == shape or not v.aval.shape else widen(w, v, shape) for v in invars])
        name = w.define(var)
        extra = ""
        for k, v in eqn.params.items():
            if v is not None and k not in _IGNORED:
                extra = attr_list(other_params(eqn, *_IGNORED))
                break
        w.lines.append(f"{w.indent}{name} = {op} {args}{extra} : {w.type(var.aval)}{w.loc}")

    return rule


def widen(w: Writer, atom: Any, shape: Any) -> str:
    """An operand with extents of 1 where the result has more."""
    aval = atom.aval
    dims = ints(range(len(shape) - len(aval.shape), len(shape)))
    return w.emit1("broadcast_in_dim", [w.read(atom)], f" {{dims = {dims}}}", w.tensor(shape, aval.dtype))


def simple(op: str, **fields: Any) -> Rule:
    """One operation whose attributes are parameters: `attribute=(parameter, formatter)`."""

    @takes(" ".join([p for p, _ in fields.values()]), ignores=_TYPE_SAYS, rest=True)
    def rule(w: Writer, eqn: Any) -> None:
        args = [w.read(v) for v in eqn.invars]
        items = []
        for name, (param, fmt) in fields.items():
            value = eqn.params.get(param)
            items.append((name, None if value is None else fmt(value)))
        known = [p for p, _ in fields.values()]
        items += other_params(eqn, *known, *_IGNORED)
        w.emit(op, args, attr_list(items), eqn.outvars)

    return rule


def identity(ignores: str = "") -> Rule:
    """No operation: the results are the operands."""

    @takes(ignores=ignores)
    def rule(w: Writer, eqn: Any) -> None:
        for out, value in zip(eqn.outvars, eqn.invars, strict=True):
            w.alias(out, value)

    return rule


@takes(ignores="new_dtype weak_type sharding")
def convert(w: Writer, eqn: Any) -> None:
    x, out = eqn.invars[0], eqn.outvars[0]
    if x.aval.dtype == out.aval.dtype:
        w.alias(out, x)
        return
    w.emit("convert", [w.read(x)], "", eqn.outvars)


@takes(ignores="new_dtype")
def bitcast(w: Writer, eqn: Any) -> None:
    w.emit("bitcast_convert", [w.read(eqn.invars[0])], "", eqn.outvars)


@takes()
def tie(w: Writer, eqn: Any) -> None:
    w.alias(eqn.outvars[0], eqn.invars[-1])


@takes("padding_config")
def pad(w: Writer, eqn: Any) -> None:
    config = eqn.params["padding_config"]
    args = [w.read(v) for v in eqn.invars]
    low, high, interior = ([c[i] for c in config] for i in range(3))
    w.emit("pad", args, f" {{low = {ints(low)}, high = {ints(high)}, interior = {ints(interior)}}}", eqn.outvars)


@takes("start_indices limit_indices strides")
def slice_(w: Writer, eqn: Any) -> None:
    p = eqn.params
    strides = p.get("strides")
    items = [("start", _dims(w, p["start_indices"])), ("limit", _dims(w, p["limit_indices"])),
             ("stride", None if strides is None else ints(strides))]
    w.emit("slice", [w.read(eqn.invars[0])], attr_list(items), eqn.outvars)


def _dims(w: Writer, dims: Any) -> str:
    return "[" + ", ".join([w.dim(d) for d in dims]) + "]"


@takes("slice_sizes")
def dynamic_slice(w: Writer, eqn: Any) -> None:
    args = [w.read(v) for v in eqn.invars[: 1 + len(eqn.invars[0].aval.shape)]]
    w.emit("dynamic_slice", args, f" {{sizes = {_dims(w, eqn.params['slice_sizes'])}}}", eqn.outvars)


@takes("dimensions", ignores="new_sizes sharding")
def reshape(w: Writer, eqn: Any) -> None:
    x = eqn.invars[0]
    dims = eqn.params.get("dimensions")
    if eqn.primitive is jaxver.find("lax.reshape_p") and dims is not None:
        perm = w.emit1("transpose", [w.read(x)], f" {{perm = {ints(dims)}}}",
                       w.tensor([x.aval.shape[d] for d in dims], x.aval.dtype))
        w.emit("reshape", [perm], "", eqn.outvars)
        return
    w.emit("reshape", [w.read(x)], "", eqn.outvars)


@takes("broadcast_dimensions", ignores="shape sharding")
def broadcast(w: Writer, eqn: Any) -> None:
    dims = eqn.params["broadcast_dimensions"]
    w.emit("broadcast_in_dim", [w.read(eqn.invars[0])], f" {{dims = {ints(dims)}}}", eqn.outvars)


@takes(ignores="shape sharding")
def broadcast_to(w: Writer, eqn: Any) -> None:
    x, out = eqn.invars[0], eqn.outvars[0]
    if tuple(x.aval.shape) == tuple(out.aval.shape):
        w.alias(out, x)
        return
    skip = len(out.aval.shape) - len(x.aval.shape)
    dims = ints(range(skip, len(out.aval.shape)))
    w.emit("broadcast_in_dim", [w.read(x)], f" {{dims = {dims}}}", eqn.outvars)


@takes("dimension", ignores="dtype shape sharding")
def iota(w: Writer, eqn: Any) -> None:
    w.emit("iota", [], f" {{axis = {int(eqn.params['dimension'])}}}", eqn.outvars)


def arg_reduce(op: str) -> Rule:
    @takes("axes", ignores="index_dtype out_sharding")
    def rule(w: Writer, eqn: Any) -> None:
        axes = eqn.params["axes"]
        axis = str(int(axes[0])) if len(axes) == 1 else ints(axes)
        w.emit(op, [w.read(eqn.invars[0])], f" {{axis = {axis}}}", eqn.outvars)

    return rule


def precision(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        if all(v == value[0] for v in value):
            return precision(value[0])
        return "[" + ", ".join(precision(v) or "none" for v in value) + "]"
    return symbol(value.name) if hasattr(value, "name") else attr(value)


@takes("dimension_numbers precision", ignores="preferred_element_type " + _TYPE_SAYS, rest=True)
def dot_general(w: Writer, eqn: Any) -> None:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    args = [w.read(v) for v in eqn.invars[:2]]
    items = [("lhs_contract", ints(lhs_contract)), ("rhs_contract", ints(rhs_contract)), ("lhs_batch", ints(lhs_batch)),
             ("rhs_batch", ints(rhs_batch)), ("precision", precision(eqn.params.get("precision")))]
    items += other_params(eqn, "dimension_numbers", "precision", "preferred_element_type", *_IGNORED)
    w.emit("dot_general", args, attr_list(items), eqn.outvars)


@takes("dimension_numbers padding window_strides lhs_dilation rhs_dilation feature_group_count batch_group_count precision",
       ignores="preferred_element_type")
def convolution(w: Writer, eqn: Any) -> None:
    p = eqn.params
    d, low, high = p["dimension_numbers"], *([pair[i] for pair in p["padding"]] for i in range(2))
    items = [("strides", ints(p["window_strides"])), ("low", ints(low)), ("high", ints(high)), ("lhs_dilation", ints(p["lhs_dilation"])),
             ("rhs_dilation", ints(p["rhs_dilation"])), ("lhs_spec", ints(d.lhs_spec)), ("rhs_spec", ints(d.rhs_spec)),
             ("out_spec", ints(d.out_spec)), ("feature_groups", str(int(p["feature_group_count"]))),
             ("batch_groups", str(int(p["batch_group_count"]))), ("precision", precision(p.get("precision")))]
    w.emit("conv_general_dilated", [w.read(v) for v in eqn.invars], attr_list(items), eqn.outvars)


@takes("dimension_numbers slice_sizes mode fill_value", ignores="indices_are_sorted unique_indices")
def gather(w: Writer, eqn: Any) -> None:
    d, p = eqn.params["dimension_numbers"], eqn.params
    args = [w.read(v) for v in eqn.invars]
    fill = p.get("fill_value")
    items = [
        ("offset_dims", ints(d.offset_dims)), ("collapsed_slice_dims", ints(d.collapsed_slice_dims)),
        ("start_index_map", ints(d.start_index_map)),
        ("operand_batching_dims", _some(d, "operand_batching_dims")),
        ("start_indices_batching_dims", _some(d, "start_indices_batching_dims")),
        ("slice_sizes", _dims(w, p["slice_sizes"])), ("mode", symbol(p["mode"].name if p["mode"] is not None else "none")),
        ("fill", None if fill is None else array_literal(np.asarray(fill, eqn.outvars[0].aval.dtype).reshape(()))),
    ]
    w.emit("gather", args, attr_list(items), eqn.outvars)


def _some(d: Any, name: str) -> str | None:
    value = getattr(d, name, ())
    return ints(value) if value else None


def scatter(op: str) -> Rule:
    """The primitive's own combination; `update_jaxpr` repeats it, but where elements are replaced it would be a function of the user."""
    combination = "" if op == "scatter" else " update_jaxpr"

    @takes("dimension_numbers mode unique_indices", ignores="indices_are_sorted update_consts" + combination)
    def rule(w: Writer, eqn: Any) -> None:
        d, p = eqn.params["dimension_numbers"], eqn.params
        args = [w.read(v) for v in eqn.invars]
        items = [
            ("update_window_dims", ints(d.update_window_dims)), ("inserted_window_dims", ints(d.inserted_window_dims)),
            ("scatter_dims_to_operand_dims", ints(d.scatter_dims_to_operand_dims)),
            ("operand_batching_dims", _some(d, "operand_batching_dims")),
            ("scatter_indices_batching_dims", _some(d, "scatter_indices_batching_dims")),
            ("mode", symbol(p["mode"].name if p["mode"] is not None else "none")),
            ("unique", bool_text(True) if p.get("unique_indices") else None),
        ]
        w.emit(op, args, attr_list(items), eqn.outvars)

    return rule


@takes("jaxpr consts dimensions", ignores="computation out_sharding")
def reduce(w: Writer, eqn: Any) -> None:
    """A reduction with a Python monoid: the region combines two elements per operand."""
    args = [w.read(v) for v in eqn.invars]
    jaxpr, consts = jaxver.open_jaxpr(eqn.params["jaxpr"])
    consts = consts or tuple(eqn.params.get("consts", ()))
    loc = w.loc
    head, types = w.open_op("reduce", args, f" {{axes = {ints(eqn.params['dimensions'])}}}", eqn.outvars)
    names = [w.fresh() for _ in jaxpr.invars]
    w.open_region(head, [(n, "", w.type(v.aval)) for n, v in zip(names, jaxpr.invars)])
    w.bind_consts(jaxpr, consts)
    w.bind(jaxpr.invars, names)
    w.close_op(w.close_region(w.run(jaxpr)), types, loc)


def rules() -> dict[Any, Rule]:
    """Primitive -> rule."""
    out: dict[str, Rule] = {}
    for n in _UNARY:
        out[f"lax.{n}_p"] = elementwise(n)
    for n in _BINARY:
        out[f"lax.{n}_p"] = elementwise(n)
    for n in _SPECIAL:
        out[f"special.{n}_p"] = elementwise(n)
    for n in "sum prod max min and or xor".split():
        out[f"lax.reduce_{n}_p"] = simple(f"reduce_{n}", axes=("axes", ints))
    for n in "cumsum cumprod cummax cummin cumlogsumexp".split():
        out[f"loops.{n}_p"] = simple(n, axis=("axis", str), reverse=("reverse", bool_text))
    for n in ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub"):
        out[f"slicing.{n}_p"] = scatter(n)
    for n in ("copy", "copy_p", "stage"):
        out[f"lax.{n}_p"] = identity()
    out |= {
        "lax.eq_to_p": elementwise("eq_total"),
        "lax.le_to_p": elementwise("le_total"),
        "lax.lt_to_p": elementwise("lt_total"),
        "gpu_lowering._copysign_p": elementwise("copysign"),
        "ad_util.add_jaxvals_p": elementwise("add"),
        "ad_util.stop_gradient_p": elementwise("stop_gradient"),
        "lax.conj_p": simple("conj"),
        "lax.select_n_p": elementwise("select_n"),
        "lax.clamp_p": elementwise("clamp"),
        "lax.integer_pow_p": simple("integer_pow", y=("y", str)),
        "lax.round_p": simple("round", method=("rounding_method", lambda m: symbol(m.name))),
        "lax.reduce_precision_p": simple("reduce_precision", exponent_bits=("exponent_bits", str), mantissa_bits=("mantissa_bits", str)),
        "lax.convert_element_type_p": convert,
        "lax.bitcast_convert_type_p": bitcast,
        "lax.broadcast_in_dim_p": broadcast,
        "state.broadcast_to_p": broadcast_to,
        "lax.reshape_p": reshape,
        "lax.squeeze_p": reshape,
        "lax.expand_dims_p": reshape,
        "lax.transpose_p": simple("transpose", perm=("permutation", ints)),
        "lax.concatenate_p": simple("concatenate", axis=("dimension", str)),
        "lax.stack_p": simple("stack", axis=("axis", str)),
        "lax.unstack_p": simple("unstack", axis=("axis", str)),
        "lax.split_p": simple("split", sizes=("sizes", ints), axis=("axis", str)),
        "lax.tile_p": simple("tile", reps=("reps", ints)),
        "lax.rev_p": simple("rev", axes=("dimensions", ints)),
        "lax.pad_p": pad,
        "lax.iota_p": iota,
        "lax.sort_p": simple("sort", axis=("dimension", str), num_keys=("num_keys", str), stable=("is_stable", bool_text)),
        # Ours keeps the order of equal elements, asked for (newer JAX) or not.
        "lax.top_k_p": simple("top_k", k=("k", str), axis=("axis", str), is_stable=("is_stable", lambda _: None)),
        "lax.argmax_p": arg_reduce("argmax"),
        "lax.argmin_p": arg_reduce("argmin"),
        "lax.reduce_p": reduce,
        "lax.dot_general_p": dot_general,
        "lax.optimization_barrier_p": simple("optimization_barrier"),
        "lax.tie_p": tie,
        "slicing.slice_p": slice_,
        "slicing.dynamic_slice_p": dynamic_slice,
        "slicing.dynamic_update_slice_p": simple("dynamic_update_slice"),
        "slicing.gather_p": gather,
        "conv.conv_general_dilated_p": convolution,
        "core.stage_p": identity(),
        "core.pvary_p": identity("axes"),
        "core.reduced_vary_cast_p": identity("axes"),
        "core.mutable_array_p": None,
        "pjit.reshard_p": identity("dst_sharding concrete_mesh"),
        "pjit.mesh_cast_p": identity("dst_sharding"),
        "pjit.sharding_constraint_p": identity("sharding layout context_mesh unconstrained_dims"),
        "pjit.layout_constraint_p": identity("layout"),
        "remat.name_p": identity("name"),
        "pallas_core.with_memory_space_constraint_p": simple("memory_space_constraint"),
    }
    found: dict[Any, Rule] = {}
    for path, rule in out.items():
        prim = jaxver.find(path)
        if prim is not None and rule is not None:
            found[prim] = rule
    return found
