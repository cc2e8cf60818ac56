"""Loads, stores, atomics, allocations; copies, semaphores and random state of the TPU; hints and debugging."""
from __future__ import annotations

from typing import Any

import numpy as np

from .._breakpoint import Callback, as_breakpoint, reference
from . import jaxver
from .accounts import takes
from .attrs import attr, bool_text, quote, symbol
from .types import Unsupported, dtype_text
from .views import Operands
from .rules_lax import simple
from .rules_control import alloc_attrs
from .writer import Rule, Writer, attr_list, other_params


@takes("tree")
def get(w: Writer, eqn: Any) -> None:
    p = eqn.params
    invars = eqn.invars
    ops = Operands(w)
    transforms = p["tree"].unflatten(invars[1:])
    if not transforms:
        w.emit("get", [w.read(invars[0])], "", eqn.outvars)
        return
    base, rest = ops.first_ref(invars[0], transforms)
    view = ops.view_of(base, rest)
    w.emit("get", ops.names, f" {{view = {view}}}" if view else "", eqn.outvars)


@takes("tree")
def swap(w: Writer, eqn: Any) -> None:
    """A store, or a swap where the old value is used."""
    invars = eqn.invars
    ops = Operands(w)
    base, rest = ops.first_ref(invars[0], eqn.params["tree"].unflatten(invars[2:]))
    ops.add(invars[1])
    view = ops.view_of(base, rest)
    attrs = f" {{view = {view}}}" if view else ""
    out = eqn.outvars[0]
    if w.is_unused(out):
        w.emit("store", ops.names, attrs, ())
    else:
        w.emit("swap", ops.names, attrs, eqn.outvars)


@takes("tree")
def addupdate(w: Writer, eqn: Any) -> None:
    invars = eqn.invars
    ops = Operands(w)
    base, rest = ops.first_ref(invars[0], eqn.params["tree"].unflatten(invars[2:]))
    ops.add(invars[1])
    view = ops.view_of(base, rest)
    w.emit("addupdate", ops.names, f" {{view = {view}}}" if view else "", ())


@takes("args_tree cache_modifier eviction_policy is_volatile")
def masked_load(w: Writer, eqn: Any) -> None:
    p = eqn.params
    ref, transforms, mask, other = p["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    view = ops.view_of(base, rest)
    items = [("view", view), ("mask", ops.optional(mask)), ("other", _other(w, ops, other, eqn.outvars[0].aval)),
             ("cache", _symbol(p.get("cache_modifier"))), ("eviction", _symbol(p.get("eviction_policy"))),
             ("volatile", bool_text(True) if p.get("is_volatile") else None)]
    w.emit("masked_load", ops.names, attr_list(items), eqn.outvars)


def _other(w: Writer, ops: Operands, other: Any, aval: Any) -> str | None:
    """The value of masked-off elements, in the dtype of the others."""
    if other is None:
        return None
    if other.aval.dtype == aval.dtype:
        return ops.add(other)
    return ops.add_value(w.emit1("convert", [w.read(other)], "", w.tensor(other.aval.shape, aval.dtype)))


def _symbol(value: Any) -> str | None:
    return None if value in (None, "") else symbol(value)


@takes("args_tree eviction_policy")
def masked_swap(w: Writer, eqn: Any) -> None:
    p = eqn.params
    ref, transforms, value, mask = p["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    ops.add(value)
    view = ops.view_of(base, rest)
    items = [("view", view), ("mask", ops.optional(mask)), ("eviction", _symbol(p.get("eviction_policy")))]
    dropped = w.is_unused(eqn.outvars[0])
    w.emit("masked_store" if dropped else "masked_swap", ops.names, attr_list(items), () if dropped else eqn.outvars)


@takes("args_tree atomic_type")
def atomic_rmw(w: Writer, eqn: Any) -> None:
    p = eqn.params
    ref, transforms, value, mask = p["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    ops.add(value)
    view = ops.view_of(base, rest)
    items = [("kind", symbol(p["atomic_type"])), ("view", view), ("mask", ops.optional(mask))]
    w.emit("atomic_rmw", ops.names, attr_list(items), eqn.outvars)


@takes("args_tree")
def atomic_cas_at(w: Writer, eqn: Any) -> None:
    """Of older texts (_compat_atomic.py)."""
    ref, transforms, cmp, val = eqn.params["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    ops.add(cmp)
    ops.add(val)
    w.emit("atomic_cas", ops.names, attr_list([("view", ops.view_of(base, rest))]), eqn.outvars)


def allocation(op: str) -> Rule:
    """Operations that make a ref; its type says of what kind."""

    @takes(ignores="what memory_space ty kind")
    def rule(w: Writer, eqn: Any) -> None:
        aval = eqn.outvars[0].aval
        items = [(k, v) for k, v in alloc_attrs(w, aval)]
        args = [w.read(v) for v in eqn.invars]
        facts = "{" + ", ".join(f"{k} = {v}" for k, v in items) + "}" if items and op == "get_global" else None
        attrs = attr_list([("what", facts)])
        names = [w.define(v) for v in eqn.outvars]
        text = w.type(aval)
        if op == "get_global":
            text = f"{text[:-1]}, grid>"
        elif op == "get_barrier_semaphore":
            w.module.facts.add("communicates")
            text = f"{text[:-1]}, session>"
        w.value_types[names[0]] = text
        w.line(f"{names[0]} = {op}{' ' + ', '.join(args) if args else ''}{attrs} : {text}")

    return rule


@takes()
def freeze(w: Writer, eqn: Any) -> None:
    w.emit("freeze", [w.read(eqn.invars[0])], "", eqn.outvars)


# --- copies and semaphores ------------------------------------------------------------------------------------------
def dma(op: str) -> Rule:
    # A dummy device is how JAX's compiler tells two of its waits apart; a wait for the sender names what is awaited as its
    # destination (newer JAX says so besides).
    @takes("tree device_id_type" + (" priority add" if op == "dma_start" else ""),
           ignores="insert_dummy_device is_wait_send" if op == "dma_wait" else "")
    def rule(w: Writer, eqn: Any) -> None:
        p = eqn.params
        src, dst, dst_sem, src_sem, device = p["tree"].unflatten(eqn.invars)
        kind_of_id = p["device_id_type"]
        ops = Operands(w)
        items = [("src", ops.ref(src)), ("dst", ops.ref(dst)), ("dst_sem", ops.ref(dst_sem)),
                 ("src_sem", ops.ref(src_sem) if src_sem is not None else None)]
        if device is not None:
            where, kind, core = w.device_id(ops, device, kind_of_id)
            items += [("device_id", where), ("device_id_type", kind), ("core_index", core)]
        if op == "dma_start":
            if p.get("priority"):
                items.append(("priority", str(p["priority"])))
            if p.get("add"):
                items.append(("add", "true"))
        w.emit(op, ops.names, attr_list(items), ())

    return rule


def sem_signal(op: str) -> Rule:
    @takes("args_tree device_id_type memory_scope")
    def rule(w: Writer, eqn: Any) -> None:
        p = eqn.params
        ref, transforms, inc, device, core_index = p["args_tree"].unflatten(eqn.invars)
        ops = Operands(w)
        base, rest = ops.first_ref(ref, transforms)
        items = [("view", ops.view_of(base, rest)), ("inc", ops.add(inc))]
        core, kind_of_id = None, p.get("device_id_type")
        if device is not None:
            where, kind, core = w.device_id(ops, device, kind_of_id)
            items += [("device_id", where), ("device_id_type", kind)]
        if core_index is not None:
            index = ops.add(core_index)
            core = index if core is None else f"[{core[1:-1]}, {index}]"  # both: no machine takes that
        items.append(("core_index", core))
        if p.get("memory_scope") is not None:
            items.append(("memory_scope", symbol(p["memory_scope"])))
        w.emit(op, ops.names, attr_list(items), ())

    return rule


def sem_wait(op: str) -> Rule:
    @takes("args_tree memory_scope")
    def rule(w: Writer, eqn: Any) -> None:
        p = eqn.params
        ref, transforms, value, decrement = p["args_tree"].unflatten(eqn.invars)
        ops = Operands(w)
        base, rest = ops.first_ref(ref, transforms)
        items = [("view", ops.view_of(base, rest)), ("value", ops.add(value)), ("decrement", _not_true(decrement)),
                 ("memory_scope", _symbol(p.get("memory_scope")))]
        w.emit(op, ops.names, attr_list(items), ())

    return rule


def _not_true(x: Any) -> str | None:
    if isinstance(x, jaxver.Literal):
        x = bool(jaxver.literal_array(x))
    return None if x is True else bool_text(x)


@takes("args_tree")
def sem_read(w: Writer, eqn: Any) -> None:
    ref, transforms = eqn.params["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    base, rest = ops.first_ref(ref, transforms)
    view = ops.view_of(base, rest)
    w.emit("sem_read", ops.names, f" {{view = {view}}}" if view else "", eqn.outvars)


def plain(op: str, typed: str = "") -> Rule:
    """Operands and results only: the result types say what the parameters `typed` do."""

    @takes(ignores=typed)
    def rule(w: Writer, eqn: Any) -> None:
        w.emit(op, [w.read(v) for v in eqn.invars], "", eqn.outvars)

    return rule


# --- debugging ------------------------------------------------------------------------------------------------------
@takes("fmt ordered in_tree static_args has_placeholders", ignores="partitioned np_printoptions logging_record")
def debug_print(w: Writer, eqn: Any) -> None:
    p = eqn.params
    w.module.facts.add("prints")
    text = p.get("fmt") or ""
    placeholders = True if p.get("has_placeholders") else False if eqn.invars and "{" not in text else None
    items = [("format", quote(text)), ("placeholders", None if placeholders is None else bool_text(placeholders)),
             ("ordered", bool_text(True) if p.get("ordered") else None)]
    static = p.get("static_args") or ()
    if static:
        items.append(("static_args", "[" + ", ".join(f"item({attr(k)}, {attr(v) or 'none'})" for k, v in static) + "]"))
    names = _call_names(p.get("in_tree"), len(eqn.invars))
    if names is not None:
        items.append(("names", names))
    w.emit("debug_print", [w.read(v) for v in eqn.invars], attr_list(items), ())


def _call_names(tree: Any, n: int) -> str | None:
    """Keyword names of the arguments of a print, where it has any."""
    try:
        args, kwargs = tree.unflatten(list(range(n)))
    except Exception:
        return None
    if not kwargs:
        return None
    order = {v: k for k, v in kwargs.items() if isinstance(v, int)}
    return "[" + ", ".join(quote(order.get(i, "")) for i in range(n)) + "]"


@takes("callback effect", ignores="partitioned")
def debug_callback(w: Writer, eqn: Any) -> None:
    w.module.facts.add("prints")
    callback = eqn.params.get("callback")
    inner = getattr(callback, "func", callback)
    stop = as_breakpoint(callback)
    # No function has this name: compilers' rules let what stops a launch pass (hw_models, triton_rules.cc).
    name = "(breakpoint)" if stop else getattr(inner, "__qualname__", None) or type(inner).__qualname__
    items = [("name", quote(name)), ("index", str(len(w.module.callbacks))), ("ordered", bool_text(True) if eqn.params.get("effect") is not None and
                                     "Ordered" in type(eqn.params["effect"]).__name__ else None)]
    refs = [reference(v) if stop else None for v in eqn.invars]
    w.module.callbacks.append(Callback(stop or callback, tuple(r or v.aval.dtype for r, v in zip(refs, eqn.invars)), stop is not None))
    w.emit("debug_callback", [w.read(v) for r, v in zip(refs, eqn.invars) if r is None], attr_list(items), eqn.outvars)


@takes("err_tree debug")
def check(w: Writer, eqn: Any) -> None:
    """A check fails where its JAX predicate is true; ours states what must hold. Debug checks exist where JAX enables them."""
    tree = eqn.params["err_tree"]
    if eqn.params.get("debug") and not jaxver.debug_checks_enabled():
        return
    w.module.facts.add("checks")
    error = tree.unflatten(eqn.invars)
    preds, trees, payloads = error._pred, error._metadata, error._payload
    for kind, pred in preds.items():
        message, args, names = str(getattr(kind, "error_type", kind)), [], None
        try:
            exception = next(iter(trees.values())).unflatten(payloads[kind])
            message = getattr(exception, "fmt_string", None) or message
            args = list(getattr(exception, "args", ()))
            named = dict(getattr(exception, "kwargs", None) or {})
            names = [""] * len(args) + list(named)
            args += named.values()
            if not all(isinstance(a, (jaxver.core.Var, jaxver.Literal)) for a in args):
                args, names = [], None
        except Exception:
            pass
        holds = w.emit1("not", [w.read(pred)], "", w.type(pred.aval))
        ops = Operands(w)
        ops.add_value(holds)
        for a in args:
            ops.add(a)
        debug = bool_text(True) if eqn.params.get("debug") else None
        labels = "[" + ", ".join(map(quote, names)) + "]" if names and any(names) else None
        w.emit("check", ops.names, attr_list([("message", quote(message)), ("debug", debug), ("names", labels)]), ())


@takes("asm constraints pack", ignores="result_shape_dtypes")
def inline_asm(w: Writer, eqn: Any) -> None:
    p = eqn.params
    items = [("asm", quote(p["asm"])), ("constraints", attr(p.get("constraints"))), ("pack", attr(p.get("pack")))]
    w.emit("inline_asm", [w.read(v) for v in eqn.invars], attr_list(items), eqn.outvars)


@takes(rest=True)
def extern(w: Writer, eqn: Any) -> None:
    """A primitive without an operation of ours: its name, its types and what its parameters say."""
    name = eqn.primitive.name
    w.module.externs[name] = None
    items: list[tuple[str, str | None]] = [("name", quote(name))]
    for k, text in other_params(eqn):
        if text is not None and len(text) < 4096:
            items.append((k if k != "name" else "name_", text))
    try:
        w.emit("extern", [w.read(v) for v in eqn.invars], attr_list(items), eqn.outvars)
    except Unsupported as e:
        raise Unsupported(f"primitive {name}: {e}") from e


def rules() -> dict[Any, Rule]:
    out: dict[str, Rule] = {
        "state.get_p": get, "state.swap_p": swap, "state.addupdate_p": addupdate,
        "pallas.load_p": masked_load, "pallas.swap_p": masked_swap,
        "triton.atomic_rmw_p": atomic_rmw, "triton.atomic_cas_p": plain("atomic_cas"), "older.atomic_cas_at_p": atomic_cas_at,
        "core.ref_p": allocation("new_ref"), "core.mutable_array_p": allocation("new_ref"),
        "core.empty_ref_p": allocation("empty_ref"), "core.freeze_p": freeze,
        "pallas.get_global_p": allocation("get_global"), "tpu.get_barrier_semaphore_p": allocation("get_barrier_semaphore"),
        "tpu.dma_start_p": dma("dma_start"), "tpu.dma_wait_p": dma("dma_wait"),
        "pallas.semaphore_signal_p": sem_signal("sem_signal"), "pallas.semaphore_wait_p": sem_wait("sem_wait"),
        "pallas.semaphore_read_p": sem_read,
        # The result's shape says which dimension is packed; another one than the second minor is refused by name.
        "tpu.bitcast_p": plain("bitcast_tpu", "ty dim"),
        "tpu.roll_p": simple("roll", axis=("axis", str), stride=("stride", str), stride_axis=("stride_axis", str)),
        "tpu.stochastic_round_p": plain("stochastic_round", "target_dtype"),
        "tpu.pack_elementwise_p": simple("pack_elementwise", packed_dtype=("packed_dtype", _dtype)),
        "tpu.unpack_elementwise_p": simple(
            "unpack_elementwise", index=("index", str), packed_dtype=("packed_dtype", _dtype), unpacked_dtype=("unpacked_dtype", _dtype)),
        "tpu.repeat_p": simple("repeat", repeats=("repeats", str), axis=("axis", str)),
        "tpu.touch_p": plain("touch"), "tpu.trace_value_p": simple("trace_value", label=("label", quote)),
        "tpu.matmul_push_rhs_p": simple("matmul_push_rhs"), "tpu.matmul_acc_lhs_p": simple("matmul_acc_lhs"),
        "tpu.matmul_pop_p": simple("matmul_pop"),
        "einshape.einshape_lo_p": simple("einshape", equation=("equation", quote), sizes=("sizes", _sizes),
                                         assert_is_tile_preserving=("assert_is_tile_preserving", bool_text)),
        "pallas.reciprocal_p": simple("reciprocal", approx=("approx", bool_text), full_range=("full_range", bool_text)),
        "pallas.delay_p": plain("delay"), "pallas.multiple_of_p": simple("multiple_of"),
        "triton.max_contiguous_p": simple("max_contiguous"), "triton.debug_barrier_p": plain("debug_barrier"),
        "triton.elementwise_inline_asm_p": inline_asm,
        "debugging.debug_print_p": debug_print, "debugging.debug_callback_p": debug_callback,
        "checkify.check_p": check,
    }
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}


def _dtype(value: Any) -> str:
    return f"{dtype_text(np.dtype(value))}[]"


def _sizes(value: Any) -> str | None:
    if not value:
        return None
    pairs = value.items() if hasattr(value, "items") else value
    return "[" + ", ".join(f"item({quote(str(k))}, {int(v)})" for k, v in pairs) + "]"
