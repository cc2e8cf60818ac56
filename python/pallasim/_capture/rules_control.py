"""Control flow, calls, ids."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import _made
from . import jaxver
from .accounts import takes
from .attrs import attr, bool_text, quote
from .locs import function_site
from .names import of_decorated
from .types import Unsupported, bits_of, dtype_text
from .views import Operands, steps
from .writer import Rule, Writer, attr_list

_JIT = "in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh name keep_unused inline compiler_options_kvs"
_DERIVATIVES = "jvp_jaxpr_fun jvp_jaxpr_thunk fwd_jaxpr_thunk bwd num_consts out_trees symbolic_zeros subfuns"
# Primitives that call a jaxpr: parameter that holds it, and those that say nothing about the values.
_CALLS = {
    "pjit.jit_p": ("jaxpr", _JIT), "pjit.pjit_p": ("jaxpr", _JIT), "core.call_p": ("call_jaxpr", "name"), "core.closed_call_p": ("call_jaxpr", "name"),
    "custom.custom_jvp_call_p": ("call_jaxpr", _DERIVATIVES), "custom.custom_vjp_call_p": ("call_jaxpr", _DERIVATIVES),
    "custom.custom_vjp_call_jaxpr_p": ("fun_jaxpr", _DERIVATIVES), "custom.custom_jvp_call_jaxpr_p": ("call_jaxpr", _DERIVATIVES),
    "custom.remat_opt_p": ("fwd_jaxpr", "num_consts num_res fun_jaxpr_thunk"),
    "custom.linear_call_p": ("callee", "transpose transpose_thunk num_callee_consts num_transpose_consts num_res"),
    "remat.remat_p": ("jaxpr", "prevent_cse differentiated policy"), "batching.custom_vmap_p": ("call", "rule in_tree out_tree"),
    "lax.composite_p": ("jaxpr", "name attributes version"),
    "fusible.fusible_p": ("jaxpr", "num_consts in_tree out_tree func output_fusion_prefix"),
}


def inlined(param: str, ignores: str) -> Rule:
    @takes(param, ignores=ignores)
    def rule(w: Writer, eqn: Any) -> None:
        names = [w.read(v) for v in eqn.invars]
        for var, name in zip(eqn.outvars, w.inline(eqn.params[param], names), strict=True):
            w.env[var] = name

    return rule


@takes("jaxpr num_consts pallas_jaxpr pallas_num_consts",
       ignores="eval_rule pull_block_spec_rule push_block_spec_rule in_tree out_tree kernel_out_tree")
def custom_fusion(w: Writer, eqn: Any) -> None:
    p = eqn.params
    names = [w.read(v) for v in eqn.invars]
    if p.get("pallas_jaxpr") is not None:
        jaxpr, skip = p["pallas_jaxpr"], p.get("num_consts", 0)
        n = p.get("pallas_num_consts", 0)
        names = names[skip : skip + n] + names[skip + n :]
        if len(names) != len(jaxver.open_jaxpr(jaxpr)[0].invars):
            jaxpr, names = p["jaxpr"], [w.read(v) for v in eqn.invars]
    else:
        jaxpr = p["jaxpr"]
    names = names[: len(jaxver.open_jaxpr(jaxpr)[0].invars)]
    for var, name in zip(eqn.outvars, w.inline(jaxpr, names)):
        w.env[var] = name


# --- platforms ------------------------------------------------------------------------------------------------------
_PLATFORMS = {
    "tpu": ("mosaic", "tpu"), "triton": ("cuda", "gpu"), "mosaic_gpu": ("mosaic_gpu", "cuda", "gpu"), "generic": ("cpu",),
}


def platform_branch(machine: str, platforms: Any) -> int:
    """The branch of a platform switch that this machine takes."""
    for wanted in _PLATFORMS[machine]:
        for i, names in enumerate(platforms):
            if names is not None and wanted in names:
                return i
    for i, names in enumerate(platforms):
        if names is None:
            return i
    return len(platforms) - 1


@takes("platforms", ignores="has_default")
def platform_index(w: Writer, eqn: Any) -> None:
    w.env[eqn.outvars[0]] = w.i32(platform_branch(w.module.machine, eqn.params["platforms"]))


@takes("branches branches_platforms", ignores="linear")
def cond(w: Writer, eqn: Any) -> None:
    branches = eqn.params["branches"]
    args = eqn.invars[1:]
    platforms = eqn.params.get("branches_platforms")
    if platforms is not None:
        names = [w.read(v) for v in args]
        chosen = w.inline(branches[platform_branch(w.module.machine, platforms)], names, debug=False)
        for var, name in zip(eqn.outvars, chosen):
            w.env[var] = name
        return
    index = w.read(eqn.invars[0])
    names = [w.read(v) for v in args]
    loc = w.loc
    head, types = w.open_op("cond", [index], "", eqn.outvars)
    for branch in branches:
        w.open_region(head, [])
        w.loc = loc
        head = w.close_region(w.inline(branch, names, debug=False))
    w.close_op(head, types, loc)


def _labels(w: Writer, jaxpr: Any) -> list[str]:
    """What the user's function of a loop's body calls its arguments: "" for a part of one, such as carry[0], and for what JAX put in front of them."""
    info = getattr(jaxpr, "debug_info", None)
    found = getattr(info, "arg_names", None) or ()
    if len(found) != len(jaxpr.invars):
        return [""] * len(jaxpr.invars)
    if function_site(info)[0] != "<lambda>" or jaxver.is_user_file(function_site(info)[1]):
        return [n if n and n.isidentifier() else "" for n in found]
    return [_index_of_decorated(w, jaxpr, v) if n == "idx" else "" for n, v in zip(found, jaxpr.invars)]


def _index_of_decorated(w: Writer, jaxpr: Any, index: Any) -> str:
    """The first parameter of a function below `@pl.loop(0, n)`, whose index is JAX's own count; "" where they differ."""
    one = next((e for e in jaxpr.eqns if e.primitive.name == "mul" and e.invars[0] is index), None)
    both = one and next((e for e in jaxpr.eqns if e.primitive.name == "add" and e.invars[1] is one.outvars[0]), None)
    place = w.module.locs.place(w.loc)
    if both is None or place is None or getattr(one.invars[1], "val", 0) != 1 or getattr(both.invars[0], "val", 1) != 0:
        return ""
    return next(iter(of_decorated(*place)), "")


@takes("cond_nconsts cond_jaxpr body_nconsts body_jaxpr")
def while_(w: Writer, eqn: Any) -> None:
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    names = [w.read(v) for v in eqn.invars]
    cond_consts, body_consts, init = names[:nc], names[nc : nc + nb], names[nc + nb :]
    loc = w.loc
    head, types = w.open_op("while", init, "", eqn.outvars)
    for closed, consts in ((p["cond_jaxpr"], cond_consts), (p["body_jaxpr"], body_consts)):
        jaxpr, _ = jaxver.open_jaxpr(closed)
        carried = [w.fresh() for _ in init]
        labels = _labels(w, jaxpr)[len(consts):]
        w.open_region(head, [(n, label, w.type(v.aval)) for n, label, v in zip(carried, labels, jaxpr.invars[len(consts):])])
        w.loc = loc
        head = w.close_region(w.inline(closed, consts + carried, debug=False))
    w.close_op(head, types, loc)


@takes("jaxpr length reverse unroll num_consts num_carry ft_in", ignores="ft_out linear _split_transpose")
def scan(w: Writer, eqn: Any) -> None:
    """A counted loop. Scanned inputs are sliced by the index, stacked outputs are carried and updated in place."""
    p = eqn.params
    (n_consts, n_carry), length = jaxver.scan_split(p), p["length"]
    jaxpr, _ = jaxver.open_jaxpr(p["jaxpr"])
    names = [w.read(v) for v in eqn.invars]
    consts, init, xs = names[:n_consts], names[n_consts : n_consts + n_carry], names[n_consts + n_carry :]
    x_avals = [v.aval for v in eqn.invars[n_consts + n_carry :]]
    loc = w.loc
    ys_vars = eqn.outvars[n_carry:]
    ys_init = []
    for v in ys_vars:
        ys_init.append(_zeros(w, v.aval))
    bounds = [w.i32(0), w.dim_value(length), w.i32(1)]
    unroll = p.get("unroll", 1)
    attrs = attr_list([("reverse", bool_text(True) if p.get("reverse") else None),
                       ("unroll", str(int(unroll)) if unroll not in (1, False, None) else None)])
    head, types = w.open_op("for", bounds + init + ys_init, attrs, eqn.outvars)
    index = w.fresh()
    carried = [w.fresh() for _ in range(n_carry)]
    stacked = [w.fresh() for _ in ys_vars]
    args = [(index, "", "i32[]")]
    args += [(n, label, w.type(v.aval)) for n, label, v in zip(carried, _labels(w, jaxpr)[n_consts:], jaxpr.invars[n_consts:])]
    args += [(n, "", w.type(v.aval)) for n, v in zip(stacked, ys_vars)]
    w.open_region(head, args)
    w.loc = loc
    elements = [_element(w, x, a, index) for x, a in zip(xs, x_avals)]
    out = w.inline(p["jaxpr"], consts + carried + elements, debug=False)
    new_carry, ys = out[:n_carry], out[n_carry:]
    updated = []
    for buffer, y, v in zip(stacked, ys, ys_vars):
        shape = v.aval.shape
        row = w.emit1("reshape", [y], "", w.tensor((1, *shape[1:]), v.aval.dtype))
        starts = [index] + [w.i32(0)] * (len(shape) - 1)
        updated.append(w.emit1("dynamic_update_slice", [buffer, row, *starts], "", w.tensor(shape, v.aval.dtype)))
    w.close_op(w.close_region(new_carry + updated), types, loc)


def _zeros(w: Writer, aval: Any) -> str:
    try:
        zero = w.constant(np.zeros((), aval.dtype))
    except Exception as e:
        raise Unsupported(f"stacked outputs of type {aval.dtype}") from e
    return w.emit1("broadcast_in_dim", [zero], " {dims = []}", w.type(aval))


def _element(w: Writer, x: str, aval: Any, index: str) -> str:
    shape = aval.shape
    starts = [index] + [w.i32(0)] * (len(shape) - 1)
    sizes = "[" + ", ".join(["1", *[w.dim(d) for d in shape[1:]]]) + "]"
    row = w.emit1("dynamic_slice", [x, *starts], f" {{sizes = {sizes}}}", w.tensor((1, *shape[1:]), aval.dtype))
    return w.emit1("reshape", [row], "", w.tensor(shape[1:], aval.dtype))


# --- scopes ---------------------------------------------------------------------------------------------------------
def alloc_attrs(w: Writer, aval: Any) -> list[tuple[str, str]]:
    """Facts of an allocation that its type does not carry (barrier arrivals and the line that made it, TMEM layout)."""
    dtype = getattr(getattr(aval, "inner_aval", None), "dtype", None)
    out: list[tuple[str, str]] = []
    if type(dtype).__name__ in ("BarrierType", "ClusterBarrierType"):
        for k in ("num_arrivals", "orders_tensor_core", "collective_axes", "leader_tracked"):
            value = getattr(dtype, k, None)
            if k == "collective_axes" and value is not None:
                out.append((k, f"[{', '.join(_joint_axes(w, a) for a in value)}]"))
            elif value is not None and value is not False:
                out.append((k, attr(value) or "none"))
        if (site := _made.site_of(dtype)) is not None:
            out.append(("made", str(w.module.locs.site_row(site))))
    kind = type(aval).__name__
    if kind == "AbstractTMEMRef":
        if (layout := attr(aval.layout)) is not None:
            out.append(("layout", layout))
            out.append(("columns", str(aval.layout.cols_in_shape(tuple(aval.shape), bits_of(dtype_text(dtype))))))
        if aval.collective:
            out.append(("collective", "true"))
    elif kind == "WGMMAAbstractAccumulatorRef":
        out.append(("accumulator", "true"))
    return out


def _joint_axes(w: Writer, axes: Any) -> str:
    """An axis, or a list of axes that count as one."""
    if isinstance(axes, (tuple, list)):
        return f"[{', '.join(quote(w.axis_name(a)) for a in axes)}]"
    return quote(w.axis_name(axes))


@takes("jaxpr collective_axes ref_transforms")
def run_scoped(w: Writer, eqn: Any) -> None:
    p, jaxpr = eqn.params, eqn.params["jaxpr"]
    captured = [w.read(v) for v in eqn.invars]
    given = None if w.loc else w.module.given  # the kernel's own scratch: JAX wrote this scope
    loc = w.loc = w.loc or w.module.locs.call_suffix()
    axes = p.get("collective_axes") or ()
    axes = tuple(a for a in (axes if isinstance(axes, tuple) else (axes,)) if a is not None)  # None: JAX's name of the axis of one thread
    ops, layouts = Operands(w), []
    for v, t in zip(jaxpr.invars, p.get("ref_transforms") or ()):
        w.ref_shapes["%"] = (tuple(v.aval.shape), v.aval.dtype) if t else ((), None)
        layouts.append(steps(ops, tuple(t), "%"))
    allocs = [alloc_attrs(w, v.aval) for v in jaxpr.invars]
    if given is not None:
        given.note("scratch_shapes", allocs, w.module.locs.site_row)
    attrs = attr_list([
        ("collective", "[" + ", ".join(quote(w.axis_name(a)) for a in axes) + "]" if axes else None),
        ("transforms", "[" + ", ".join(f"[{', '.join(t)}]" for t in layouts) + "]" if any(layouts) else None),
        ("allocs", "[" + ", ".join(_dict(a) for a in allocs) + "]" if any(allocs) else None),
    ])
    head, types = w.open_op("run_scoped", [], attrs, eqn.outvars)
    w.open_region(head, _scoped_args(w, jaxpr.invars, jaxpr, axes))
    w.bind(jaxpr.constvars, captured)
    w.close_op(w.close_region(w.run(jaxpr)), types, loc)


def _scope(w: Writer, text: str, axes: tuple[Any, ...]) -> str:
    """Whose the allocation of a Mosaic GPU kernel is, "" a thread's; `text` is its type. What lies on an SM belongs to the CTA,
    however few threads ask for it; along the cluster's axes all its CTAs have one. Memory outside belongs to those that
    `collective_axes` name."""
    kinds = {w.module.gpu_axes.get(w.axis_name(a)) for a in axes}
    if ", gmem" in text:
        return "grid" if "grid" in kinds else "cluster" if "cluster" in kinds else "cta" if "thread" in kinds else ""
    if ", gsmem" in text or ", tmem" in text or "barrier" in text:
        return "cluster" if "cluster" in kinds else "cta"
    return ""


def _scoped_args(w: Writer, variables: Any, jaxpr: Any, axes: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    labels = getattr(getattr(jaxpr, "debug_info", None), "arg_names", None) or ()
    labels = tuple(labels) if len(labels) == len(variables) else ("",) * len(variables)
    args = []
    for v, label in zip(variables, labels):
        text = w.type(v.aval)
        scope = _scope(w, text, axes) if w.module.machine == "mosaic_gpu" and type(v.aval).__name__ != "WGMMAAbstractAccumulatorRef" else ""
        if scope and text.startswith("ref<") and not text.count(", ") > 1:
            text = f"{text[:-1]}, {scope}>"
        name = w.fresh()
        w.env[v] = name
        w.note_ref(name, v.aval, text)
        args.append((name, label or "", text))
    return args


def _dict(items: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{k} = {v}" for k, v in items) + "}" if items else "none"


@takes("jaxpr is_initialized", ignores="which_linear")
def run_state(w: Writer, eqn: Any) -> None:
    """Refs with initial values: a scope that stores them, runs, and yields their final values."""
    p = eqn.params
    jaxpr, _ = jaxver.open_jaxpr(p["jaxpr"])
    initialised = p.get("is_initialized") or (True,) * len(jaxpr.invars)
    values = iter(eqn.invars)
    given = [next(values) if init else None for init in initialised]
    loc = w.loc
    fresh = [v for v, g in zip(jaxpr.invars, given) if g is None or not hasattr(g.aval, "inner_aval")]
    names = [None if g is None else w.read(g) for g in given]
    outer = [g if g is not None and hasattr(g.aval, "inner_aval") else None for g in given]
    head, types = w.open_op("run_scoped", [], "", [v for v, g in zip(eqn.outvars, outer) if g is None])
    args = []
    for v in fresh:
        name, text = w.fresh(), _own_type(w, v.aval)
        w.env[v] = name
        w.note_ref(name, v.aval, text)
        args.append((name, "", text))
    w.open_region(head, args)
    for v, name in zip(jaxpr.invars, names):
        if v not in fresh:
            w.env[v] = name
        elif name is not None:
            w.loc = loc
            w.line(f"store {w.env[v]}, {name}")
    returned = w.run(jaxpr) or []
    w.loc = loc
    out = [_final(w, v) for v, g in zip(jaxpr.invars, outer) if g is None]
    if w.module.machine == "mosaic_gpu" and returned:
        out = _returned_first(w, jaxpr, returned, out, [v.aval for v, g in zip(eqn.outvars, outer) if g is None])
    w.close_op(w.close_region(out), types, loc)
    for v, g in zip(eqn.outvars, outer):
        if g is not None:
            w.env[v] = w.read(g)


def _own_type(w: Writer, aval: Any) -> str:
    """The type of a ref that a run_state makes: where nobody says what memory it lies in, each thread has one."""
    inner = aval.inner_aval
    own = {"mosaic_gpu": "regs", "tpu": "vmem" if inner.shape else "smem"}.get(w.module.machine)
    if own is None or getattr(aval, "memory_space", None) is not None:
        return w.type(aval)
    return f"ref<{w.tensor(inner.shape, inner.dtype)}, {own}>"


def _final(w: Writer, v: Any) -> str:
    """What a ref of a run_state holds in the end; products in flight into it are awaited."""
    if type(v.aval).__name__ == "WGMMAAbstractAccumulatorRef":
        return w.emit1("wgmma_accumulator_deref", [w.env[v]], " {wait_n = 0}", w.type(v.aval.inner_aval))
    return w.emit1("get", [w.env[v]], "", w.type(v.aval.inner_aval))


def _returned_first(w: Writer, jaxpr: Any, returned: list[str], final: list[str], avals: list[Any]) -> list[str]:
    """Mosaic GPU takes what the body returns for the first results, and the refs' final values for those behind them."""
    for v, aval in zip(jaxpr.outvars, avals):
        if (v.aval.shape, v.aval.dtype) != (aval.shape, aval.dtype):
            raise Unsupported("a run_state whose body returns values that are not its refs'")
    return (returned + final)[: len(avals)]


# How a launch inside a kernel is compiled and called: the launch around it says that.
_LAUNCH = "compiler_params interpret debug debug_info cost_estimate name metadata"


# --- nested meshes --------------------------------------------------------------------------------------------------
def mesh_dict(w: Any, mesh: Any) -> str:
    """`{kind = warp, axes = [axis("w", 4)]}` of an inner mesh."""
    axes = ", ".join(f"axis({quote(w.axis_name(k))}, {int(v)})" for k, v in mesh.shape.items())
    return f"{{kind = {mesh_kind(mesh)}, axes = [{axes}]}}"


def mesh_kind(mesh: Any) -> str:
    """tensorcore, scalar_subcore, vector_subcore, gpu, warp or generic."""
    name = type(mesh).__name__
    return {"TensorCoreMesh": "tensorcore", "ScalarSubcoreMesh": "scalar_subcore", "VectorSubcoreMesh": "vector_subcore",
            "WarpMesh": "warp", "Mesh": "gpu"}.get(name, "generic")


@takes("jaxpr mesh", ignores=_LAUNCH)
def core_map(w: Writer, eqn: Any) -> None:
    jaxpr, _ = jaxver.open_jaxpr(eqn.params["jaxpr"])
    captured = [w.read(v) for v in eqn.invars]
    _spawn(w, eqn, eqn.params["mesh"], jaxpr, captured, list(jaxpr.invars))


@takes("jaxprs meshes", ignores="out_avals " + _LAUNCH, only={"input_output_aliases": ({}, (), []), "external_meshes": ((), [])})
def inner_mpmd(w: Writer, eqn: Any) -> None:
    """A mesh launched inside a kernel: its operands are refs of the kernel, scratch is allocated per thread."""
    p = eqn.params
    if len(p["jaxprs"]) != 1 or eqn.outvars:
        raise Unsupported("mpmd_map with several meshes or results inside a kernel")
    jaxpr, _ = jaxver.open_jaxpr(p["jaxprs"][0])
    names = [w.read(v) for v in eqn.invars]
    w.bind(jaxpr.invars[: len(names)], names)
    _spawn(w, eqn, p["meshes"][0], jaxpr, [], list(jaxpr.invars[len(names):]))


def _spawn(w: Writer, eqn: Any, mesh: Any, jaxpr: Any, captured: list[str], scratch: list[Any]) -> None:
    loc = w.loc
    head, types = w.open_op("spawn", [], f" {{mesh = {mesh_dict(w, mesh)}}}", eqn.outvars)
    w.open_region(head, [])
    w.bind(jaxpr.constvars, captured)
    outer, w.mesh_axes = w.mesh_axes, tuple(mesh.shape.items())
    if scratch:
        inner, _ = w.open_op("run_scoped", [], "", [])
        w.open_region(inner, _scoped_args(w, scratch, jaxpr, ""))
        w.run(jaxpr)
        w.close_op(w.close_region([]), [], loc)
    else:
        w.run(jaxpr)
    w.mesh_axes = outer
    w.close_op(w.close_region([]), types, loc)


# --- ids ------------------------------------------------------------------------------------------------------------
def program_id(op: str) -> Rule:
    @takes("axis")
    def rule(w: Writer, eqn: Any) -> None:
        axis = int(eqn.params["axis"])
        if w.program_ids and op == "program_id" and axis < len(w.program_ids[-1]):
            bound = w.program_ids[-1][axis]
            if bound is not None:
                w.env[eqn.outvars[0]] = bound
                return
        if op == "num_programs" and axis < len(w.module.grid):
            w.env[eqn.outvars[0]] = w.constant(np.asarray(w.module.grid[axis], np.int32))
            return
        if w.mesh_axes and axis < len(w.mesh_axes):
            name = w.axis_name(w.mesh_axes[axis][0])
            other = "axis_index" if op == "program_id" else "axis_size"
            w.emit(other, [], f" {{axis = {quote(name)}}}", eqn.outvars)
            return
        w.emit(op, [], f" {{axis = {axis}}}", eqn.outvars)

    return rule


@takes("axis_name")
def axis_index(w: Writer, eqn: Any) -> None:
    names = eqn.params["axis_name"]
    out = eqn.outvars[0]
    if isinstance(names, (tuple, list)) and len(names) == 1:
        names = names[0]
    if isinstance(names, (tuple, list)):
        total: str | None = None
        for n in names:
            i = _coordinate(w, n)
            if total is not None:
                size = w.emit1("axis_size", [], f" {{axis = {quote(w.axis_name(n))}}}", "i32[]")
                total = w.emit1("mul", [total, size], "", "i32[]")
                i = w.emit1("add", [total, i], "", "i32[]")
            total = i
        w.env[out] = total if total is not None else w.i32(0)
        return
    w.env[out] = _coordinate(w, names)


def _coordinate(w: Writer, name: Any) -> str:
    """Coordinate on a grid, mesh or device axis; 0 on a device axis of one."""
    own = any(n == name for n, _ in w.mesh_axes)
    size = None if own else dict(w.module.device_axes).get(name)
    if size == 1:
        return w.i32(0)
    if size is not None:
        w.module.facts.add("axes")
    return w.emit1("axis_index", [], f" {{axis = {quote(w.axis_name(name))}}}", "i32[]")


@takes("dim")
def dim_as_value(w: Writer, eqn: Any) -> None:
    w.emit("dim_value", [], f" {{dim = {w.dim(eqn.params['dim'])}}}", eqn.outvars)


def rules() -> dict[Any, Rule]:
    out: dict[str, Rule] = {path: inlined(*call) for path, call in _CALLS.items()}
    out |= {
        "fusion.custom_fusion_p": custom_fusion,
        "cond.platform_index_p": platform_index,
        "cond.cond_p": cond,
        "loops.while_p": while_,
        "loops.scan_p": scan,
        "pallas.run_scoped_p": run_scoped,
        "discharge.run_state_p": run_state,
        "pallas_core.core_map_p": core_map,
        "mpmd.mpmd_map_p": inner_mpmd,
        "pallas.program_id_p": program_id("program_id"),
        "pallas.num_programs_p": program_id("num_programs"),
        "parallel.axis_index_p": axis_index,
        "shape_poly.dim_as_value_p": dim_as_value,
    }
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}
