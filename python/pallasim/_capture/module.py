"""pallas_call and mpmd_map parameters as a module's text."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._breakpoint import Callback
from . import accounts, arguments, functions, gpu_blocks, jaxver, pipelines, rules_control, rules_gpu, rules_lax, rules_memory, rules_newer, rules_random, rules_sparsecore
from . import names as kernel_names
from .attrs import attr, params_dict, quote, symbol
from .rules_control import alloc_attrs, mesh_kind
from .types import Unsupported
from .views import Operands, steps
from .writer import ModuleContext, Rule, Writer, attr_list, constant_key

_rules: tuple[int, dict[Any, Rule]] = -1, {}  # what JAX had imported by then, and the table


def rule_table() -> dict[Any, Rule]:
    """Primitive -> rule of every primitive that the imported parts of JAX have. Any thread: a table is whole when it is kept."""
    global _rules
    imported, table = _rules
    if imported != (now := jaxver.imported()):
        found = rules_lax.rules() | rules_control.rules() | rules_memory.rules() | rules_random.rules() | rules_gpu.rules()
        found |= pipelines.rules() | rules_newer.rules() | rules_sparsecore.rules()
        table = {prim: accounts.guarded(prim, rule) for prim, rule in found.items()}
        _rules = now, table
    return table


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a capture needs to know besides the primitive's parameters.

    `machine` is used where the compiler parameters do not name one; `device_axes` are the manual device mesh axes around
    the call. `skip_floats`: floating-point values are inf and are not computed. `call`: file, line, column and
    function of the launch. `prints_anything`: the chip's rules of prints do not hold.
    """

    machine: str = "generic"
    device_axes: tuple[tuple[str, int], ...] = ()
    skip_floats: bool = False
    call: tuple[str, int, int, str] | None = None
    prints_anything: bool = False


@dataclasses.dataclass
class Captured:
    """Text of a module and what the caller of it must know.

    `aliases` are (input, output) pairs counted as the module does (prefetch operands first); `num_dynamic` operands
    (grid bounds) come before them. `facts`: communicates, prints, checks, axes. `externs`: names without a meaning.
    `constants`: arrays that the kernel closed over and that are too large for the text; they follow the inputs.
    `parallel`: sizes of the grid axes of fixed size that claim to be `parallel`. `callbacks`: what debug callbacks call.
    """

    text: str
    name: str
    machine: str
    num_dynamic: int
    aliases: tuple[tuple[int, int], ...]
    facts: frozenset[str]
    externs: tuple[str, ...]
    params: tuple[str, ...]
    device_axes: tuple[tuple[str, int], ...]
    constants: tuple[np.ndarray, ...]
    parallel: dict[int, int]
    callbacks: tuple[Callback, ...] = ()


def choose_machine(compiler_params: Any, meshes: Sequence[Any], default: str = "generic") -> str:
    """The machine of a launch: by the class of its compiler parameters, then by its mesh, then the default."""
    owner = type(compiler_params).__module__ if compiler_params is not None else ""
    for part, machine in (("mosaic_gpu", "mosaic_gpu"), ("triton", "triton"), ("mosaic", "tpu")):
        if f".{part}." in owner or owner.endswith(f".{part}"):
            return machine
    for mesh in meshes:
        kind = mesh_kind(mesh) if mesh is not None else "generic"
        if kind in ("gpu", "warp"):
            return "mosaic_gpu"
        if kind != "generic":
            return "tpu"
    return default


def _names(debug_info: Any, count: int) -> list[str]:
    names = getattr(debug_info, "arg_names", None)
    names = list(names) if names is not None and len(names) == count else [""] * count
    return [n or "" for n in names]


def _name_of(name: Any, debug_info: Any) -> str:
    return str(name or getattr(debug_info, "func_name", None) or "kernel")


def _header(cx: ModuleContext, name: str, compiler_params: Any, extra: Mapping[str, Any]) -> str:
    items: list[tuple[str, str | None]] = [("machine", cx.machine), ("params", params_dict(compiler_params))]
    if cx.device_axes:
        items.append(("devices", "[" + ", ".join(f"axis({quote(n)}, {s})" for n, s in cx.device_axes) + "]"))
    if "communicates" in cx.facts:
        items.append(("communicates", "true"))
    collective = getattr(compiler_params, "collective_id", None)
    if collective is not None:
        items.append(("collective_id", str(int(collective))))
        items.append(("lines", arguments.rows({"collective_id": cx.given and cx.given.inside("compiler_params", "collective_id")}, cx.locs.site_row)))
    items += [(k, attr(v)) for k, v in extra.items()]
    if cx.prints_anything and "prints" in cx.facts:
        items.append(("prints", quote("anything")))
    if (row := cx.locs.call_row()) >= 0:
        items.append(("call", str(row)))
    items.append(("jax", jaxver.rules_of(cx.machine)))
    return f"module {quote(name)}{attr_list(items)}"


def _assemble(cx: ModuleContext, header: str, decls: Sequence[str]) -> str:
    out = ["pallasim-ir 1", header, *[f"param {p}" for p in cx.params], *decls, *cx.locs.lines()]
    return "\n".join(out) + "\n"


def _captured(cx: ModuleContext, text: str, name: str, num_dynamic: int, aliases: Sequence[tuple[int, int]],
              parallel: Mapping[int, int] | None = None) -> Captured:
    return Captured(text, name, cx.machine, num_dynamic, tuple(aliases), frozenset(cx.facts), tuple(cx.externs), tuple(cx.params),
                    cx.device_axes, tuple(cx.constants), dict(parallel or {}), tuple(cx.callbacks))


def _context(machine: str, debug_info: Any, settings: Settings, grid: tuple[int, ...] = ()) -> ModuleContext:
    cx = ModuleContext(machine, debug_info, settings.device_axes, settings.skip_floats)
    cx.grid = grid
    cx.locs.call = settings.call
    cx.prints_anything = settings.prints_anything
    return cx


def _with_constants(cx: Callable[[], ModuleContext], capture: Callable[[ModuleContext], Captured]) -> Captured:
    """Captures once; where that met constants too large for the text, again with inputs for them."""
    first = cx()
    captured = capture(first)
    if not first.wanted:
        return captured
    second = cx()
    second.constants = list(first.wanted.values())
    return capture(second)


def _constant_inputs(cx: ModuleContext) -> list[str]:
    out = []
    for i, array in enumerate(cx.constants):
        out.append(f"input {quote(f'constant{i}')} : {cx.tensor_text(array.shape, array.dtype)} {{space = {_constant_space(cx)}}}")
    return out


def _constant_space(cx: ModuleContext) -> str:
    return cx.spaces["constants"]


# --- pallas_call ----------------------------------------------------------------------------------------------------
def _semantics(compiler_params: Any, grid_mapping: Any) -> list[str]:
    """Dimension semantics per grid axis: those of the user for its axes, parallel for axes added by vmap."""
    count = len(grid_mapping.grid)
    given = getattr(compiler_params, "dimension_semantics", None)
    if given is None:
        return [""] * count
    mapped = set(grid_mapping.vmapped_dims)
    rest = iter(given)
    out = []
    for i in range(count):
        out.append("parallel" if i in mapped else symbol(next(rest, "")).strip('"'))
    return out


def _grid(cx: ModuleContext, grid_mapping: Any, compiler_params: Any) -> tuple[list[str], int]:
    names = jaxver.grid_names(grid_mapping)
    semantics = _semantics(compiler_params, grid_mapping)
    lines, dynamic = [], 0
    for i, (size, name) in enumerate(zip(grid_mapping.grid, names)):
        if isinstance(size, int):
            text = str(size)
        else:
            text = f"dynamic({dynamic})"
            dynamic += 1
        items = [("size", text), ("name", None if name is None else quote(cx.axis_name(name))), ("semantics", semantics[i] or None),
                 ("vmapped", "true" if i in grid_mapping.vmapped_dims else None)]
        lines.append(f"grid{attr_list(items)}")
    return lines, dynamic


def _block_dim(w: Writer, d: Any) -> str:
    kind = type(d).__name__
    if kind == "Squeezed" or d is None:
        return "squeezed"
    if isinstance(d, int):
        return f"blocked({d})"
    size = w.dim(d.block_size)
    if not size.isdigit():
        raise Unsupported(f"a block of symbolic shape ({size}); blocks of numbers and whole arrays can be exported")
    if kind == "Element":
        low, high = d.padding
        return f"element({size}, {low}, {high})"
    name = {"Blocked": "blocked", "BoundedSlice": "bounded"}.get(kind)
    if name is None:
        raise Unsupported(f"Unsupported block dimension type: {d}")
    return f"{name}({size})"


def _whole(bm: Any) -> bool:
    """The kernel gets the whole array: no block, no index map."""
    if bm.pipeline_mode is not None or tuple(bm.transforms or ()):
        return False
    for b, s in zip(bm.block_shape, bm.array_aval.shape):
        if type(b).__name__ not in ("Blocked", "int") or (getattr(b, "block_size", b) != s):
            return False
    outs = jaxver.open_jaxpr(bm.index_map_jaxpr)[0].outvars
    return all(isinstance(v, jaxver.Literal) and int(jaxver.literal_array(v)) == 0 for v in outs)


def _operand(cx: ModuleContext, kind: str, name: str, bm: Any, prefetch: Sequence[tuple[str, Any]], grid_rank: int,
             made: arguments.Line | None) -> str:
    w = Writer(cx, rule_table(), functions.fallback)
    array = bm.array_aval
    array = getattr(array, "inner_aval", array)
    space, mesh = cx.memory(bm.transformed_block_aval.memory_space)
    head = f"{kind} {quote(name)} : {w.tensor(array.shape, array.dtype)}"
    if _whole(bm):
        return f"{head}{attr_list([('space', space), _made_item(cx, made)])}"
    items: list[tuple[str, str | None]] = [("space", space), ("block", "[" + ", ".join(_block_dim(w, b) for b in bm.block_shape) + "]")]
    if bm.pipeline_mode is not None:
        items.append(("pipeline", _pipeline(bm.pipeline_mode)))
    if tuple(bm.transforms or ()):
        items.append(("transforms", "[" + ", ".join(steps(Operands(w), tuple(bm.transforms), None)) + "]"))
    items.append(_made_item(cx, made))
    graph = _index_map(cx, w, bm, prefetch, grid_rank, name)
    return f"{head}{attr_list(items)} {graph}"


def _made_item(cx: ModuleContext, made: arguments.Line | None) -> tuple[str, str | None]:
    """Where a declaration was asked for, outside of the kernel."""
    return "made", None if made is None else str(cx.locs.site_row(made))


def _output_line(given: arguments.Arguments, i: int, count: int) -> arguments.Line | None:
    return given.line("out_specs", i, count) or given.line("out_shape", i, count)


def _pipeline(mode: Any) -> str:
    args = [str(int(mode.buffer_count))]
    if getattr(mode, "use_lookahead", False):
        args.append("lookahead")
    revisit = getattr(mode, "revisit", None)
    if revisit is not None and symbol(revisit) != "immediate":
        args.append(f"revisit_{symbol(revisit)}")
    return f"buffered({', '.join(args)})"


def _index_map(cx: ModuleContext, w: Writer, bm: Any, prefetch: Sequence[tuple[str, Any]], grid_rank: int, name: str) -> str:
    jaxpr, consts = jaxver.open_jaxpr(bm.index_map_jaxpr)
    args = []
    for i, v in enumerate(jaxpr.invars):
        n = w.fresh()
        w.env[v] = n
        label = ""
        if i < grid_rank:
            text = "i32[]"
        else:
            label, aval = prefetch[i - grid_rank]
            text = w.type(aval)
            w.note_ref(n, aval, text)
        args.append((n, label, text))
    w.indent = ""
    w.open_region("", args)
    w.bind_consts(jaxpr, consts)
    cx.locs.enter("", getattr(jaxpr, "debug_info", None))
    values = _block_place(w, bm, w.run(jaxpr))
    cx.locs.leave()
    end = w.close_region(values, cx.locs.function_suffix(getattr(jaxpr, "debug_info", None), f"the BlockSpec of {name}"))
    return "\n".join([w.lines[0].lstrip(), *w.lines[1:], end])


def _block_place(w: Writer, bm: Any, values: Sequence[str]) -> list[str]:
    """The indices of a block, then the sizes of its bounded slices, whose numbers may be part of the map's structure."""
    if not any(type(b).__name__ == "BoundedSlice" for b in bm.block_shape):
        return list(values)
    from jax.tree_util import tree_unflatten

    def value(x: Any) -> str:
        return w.constant(np.asarray(x, np.int32)) if isinstance(x, (int, np.integer)) else x

    indices, sizes = [], []
    for i in tree_unflatten(bm.index_map_out_tree, values):
        if isinstance(i, str):
            indices.append(i)
            continue
        if i.stride != 1:
            raise Unsupported(f"a bounded slice with stride {i.stride}")
        indices.append(value(i.start))
        sizes.append(value(i.size))
    return [*indices, *sizes]


# What the primitives are bound with. The last line is for compilers and costs, or is what the kernel and its blocks say again.
_PALLAS_CALL = accounts.Account(frozenset(
    "jaxpr grid_mapping compiler_params input_output_aliases mesh metadata name"
    " backend cost_estimate debug interpret kernel_arg_transforms out_avals".split()))
_MPMD_MAP = accounts.Account(frozenset(
    "jaxprs meshes compiler_params input_output_aliases external_meshes out_avals name"
    " cost_estimate debug interpret metadata".split()))


def pallas_call(params: Mapping[str, Any], settings: Settings = Settings()) -> Captured:
    """Text of one `pallas_call` with the primitive's parameters. Raises Unsupported."""
    accounts.check("pallas_call", params, _PALLAS_CALL)
    jaxpr, compiler_params = params["jaxpr"], params.get("compiler_params")
    machine = choose_machine(compiler_params, [params.get("mesh")], settings.machine)
    if machine == "mosaic_gpu" and params.get("mesh") is None:
        gm = params["grid_mapping"]
        return _launch_of_meshes(gpu_blocks.as_kernel(params, _semantics(compiler_params, gm)), gm.num_inputs, settings,
                                 tuple(gpu_blocks.user_axes(gm, gm.grid)))
    return _with_constants(lambda: _context(machine, jaxpr.debug_info, settings), lambda cx: _pallas_call(cx, params))


def _pallas_call(cx: ModuleContext, params: Mapping[str, Any]) -> Captured:
    gm, jaxpr, compiler_params = params["grid_mapping"], params["jaxpr"], params.get("compiler_params")
    name = _name_of(params.get("name"), jaxpr.debug_info)
    grid, num_dynamic = _grid(cx, gm, compiler_params)
    names = _names(jaxpr.debug_info, len(jaxpr.invars))
    given = cx.given = arguments.Arguments(cx.locs.call, getattr(jaxpr.debug_info, "func_name", None) or "")
    n_index, n_in, n_out = gm.num_index_operands, gm.num_inputs, gm.num_outputs
    if n_index + n_in + n_out + len(gm.scratch_avals) != len(jaxpr.invars):
        raise Unsupported("a kernel whose arguments do not match its block mappings")
    for i in range(len(names)):
        names[i] = names[i] or _default_name(i, n_index, n_in, n_out)

    # The body first: it collects facts and parameters that the header needs. Locations are numbered in that order.
    w = Writer(cx, rule_table(), functions.fallback)
    prefetch = [(names[i], jaxpr.invars[i].aval) for i in range(n_index)]
    decls = list(grid)
    for label, aval in prefetch:
        inner = aval.inner_aval
        decls.append(f"prefetch {quote(label)} : {w.tensor(inner.shape, inner.dtype)} {{space = {cx.memory(aval.memory_space)[0]}}}")
    for i, bm in enumerate(gm.block_mappings):
        if i == n_in:
            decls += _constant_inputs(cx)
        made = given.line("in_specs", i, n_in) if i < n_in else _output_line(given, i - n_in, n_out)
        decls.append(_operand(cx, "input" if i < n_in else "output", names[n_index + i], bm, prefetch, len(gm.grid), made))
    if n_out == 0:
        decls += _constant_inputs(cx)
    for i, v in enumerate(jaxpr.invars[n_index + n_in + n_out :]):
        made = given.line("scratch_shapes", i, len(gm.scratch_avals))
        decls.append(_scratch(w, names[n_index + n_in + n_out + i], v.aval, "", made))
    aliases = [(int(i), int(o)) for i, o in params.get("input_output_aliases") or ()]
    decls += [f"alias {{input = {i}, output = {o}}}" for i, o in aliases]
    blocks = [None] * n_index + [bm.transformed_block_aval for bm in gm.block_mappings]
    decls.append(_body(w, "", jaxpr, names, n_index + n_in, blocks))
    extra = {}
    if params.get("metadata"):
        extra["metadata"] = {str(k): v for k, v in dict(params["metadata"]).items()}
    text = _assemble(cx, _header(cx, name, compiler_params, extra), decls)
    semantics = zip(gm.grid, _semantics(compiler_params, gm))
    parallel = {i: size for i, (size, kind) in enumerate(semantics) if kind == "parallel" and isinstance(size, int)}
    return _captured(cx, text, name, num_dynamic, aliases, parallel)


def _default_name(i: int, n_index: int, n_in: int, n_out: int) -> str:
    if i < n_index:
        return f"prefetch{i}"
    if i < n_index + n_in:
        return f"in{i - n_index}"
    if i < n_index + n_in + n_out:
        return f"out{i - n_index - n_in}"
    return f"scratch{i - n_index - n_in - n_out}"


def _scratch(w: Writer, name: str, aval: Any, scope: str, made: arguments.Line | None) -> str:
    text = w.type(aval)
    if scope and text.endswith(">") and text.count(", ") == 1:
        text = f"{text[:-1]}, {scope}>"
    facts: list[tuple[str, str | None]] = [*alloc_attrs(w, aval)]
    if not any(k == "made" for k, _ in facts):  # a barrier knows its own
        facts.append(_made_item(w.module, made))
    return f"scratch {quote(name)} : {text}{attr_list(facts)}"


def _body(w: Writer, mesh: str, jaxpr: Any, names: Sequence[str], num_in: int, blocks: Sequence[Any] = ()) -> str:
    """The region of a body. `blocks`: types that the block mappings give to the first arguments, None for no opinion."""
    args, constants = [], []
    for i, (v, label) in enumerate(zip(jaxpr.invars, names)):
        if i == num_in:
            constants = _constant_args(w)
        n = w.fresh()
        aval = v.aval
        # A kernel over a type of many arrays is traced before its parts get their own block specs.
        if i < len(blocks) and blocks[i] is not None and blocks[i].memory_space != getattr(aval, "memory_space", None):
            aval = blocks[i]
        if hasattr(aval, "inner_aval"):
            text = w.type(aval)
            w.env[v] = n
        else:  # a scalar that the kernel closed over: read once from a ref
            text = f"ref<{w.type(aval)}, {w.module.spaces['scalars']}>"
        w.note_ref(n, aval, text)
        args.append((n, label, text))
    constants = constants or _constant_args(w)
    w.indent = ""
    w.open_region(f"body{' ' + quote(mesh) if mesh else ''}", [*args[:num_in], *constants, *args[num_in:]])
    for v, (n, _, _) in zip(jaxpr.invars, args):
        if not hasattr(v.aval, "inner_aval"):
            w.env[v] = w.emit1("get", [n], "", w.type(v.aval))
    w.run(jaxpr)
    end = w.close_region([])
    return "\n".join([*w.lines, end])


def _constant_args(w: Writer) -> list[tuple[str, str, str]]:
    args = []
    for i, array in enumerate(w.module.constants):
        n, text = w.fresh(), f"ref<{w.tensor(array.shape, array.dtype)}, {_constant_space(w.module)}>"
        w.constant_refs[constant_key(array)] = n
        args.append((n, f"constant{i}", text))
    return args


# --- mpmd_map -------------------------------------------------------------------------------------------------------
def _mesh_decl(cx: ModuleContext, name: str, mesh: Any) -> str:
    axes = ", ".join(f"axis({quote(cx.axis_name(k))}, {int(v)})" for k, v in mesh.shape.items())
    items: list[tuple[str, str | None]] = [("kind", mesh_kind(mesh)), ("axes", f"[{axes}]")]
    if mesh_kind(mesh) == "gpu":
        kinds = ["grid"] * len(mesh.grid) + ["cluster"] * len(mesh.cluster) + ["thread"]
        cx.gpu_axes.update(zip([cx.axis_name(k) for k in mesh.shape], kinds))
        items += [("grid", str(len(mesh.grid))), ("cluster", str(len(mesh.cluster))), ("threads", "1" if mesh.num_threads is not None else "0")]
    return f"mesh {quote(name)}{attr_list(items)}"


def mpmd_map(params: Mapping[str, Any], avals_in: Sequence[Any], settings: Settings = Settings()) -> Captured:
    """Text of one `mpmd_map` (pl.kernel, core_map, plgpu.kernel, SparseCore and MPMD kernels).

    `avals_in` are the types of the call's operands. Raises Unsupported.
    """
    accounts.check("mpmd_map", params, _MPMD_MAP)
    return _launch_of_meshes(params, len(avals_in), settings)


def _launch_of_meshes(params: Mapping[str, Any], n_in: int, settings: Settings, grid: tuple[int, ...] = ()) -> Captured:
    """`grid`: what num_programs counts of a launch of blocks."""
    jaxprs = [jaxver.dce(jaxver.open_jaxpr(j)[0]) for j in params["jaxprs"]]
    machine = choose_machine(params.get("compiler_params"), params["meshes"], settings.machine)
    return _with_constants(lambda: _context(machine, jaxprs[0].debug_info, settings, grid), lambda cx: _mpmd_map(cx, params, jaxprs, n_in))


def _mpmd_map(cx: ModuleContext, params: Mapping[str, Any], jaxprs: Sequence[Any], n_in: int) -> Captured:
    meshes, compiler_params = params["meshes"], params.get("compiler_params")
    name = _name_of(params.get("name"), jaxprs[0].debug_info)
    mesh_names: list[str] = []
    for m in meshes:
        kind = mesh_kind(m)
        mesh_names.append(kind if kind not in mesh_names else f"{kind}{len(mesh_names)}")
    cx.mesh_names = dict(zip(meshes, mesh_names))
    cx.outside_axes = {k: int(n) for m in params.get("external_meshes") or () for k, n in m.shape.items()}
    n_out = len(params["out_avals"])
    first = jaxprs[0]
    names = kernel_names.of_kernel(first, _names(first.debug_info, len(first.invars)))
    for i in range(len(names)):
        names[i] = names[i] or _default_name(i, 0, n_in, n_out)

    given = cx.given = arguments.Arguments(cx.locs.call, getattr(first.debug_info, "func_name", None) or "")
    n_scratch = len(first.invars) - n_in - n_out
    w = Writer(cx, rule_table(), functions.fallback)
    decls = [_mesh_decl(cx, n, m) for n, m in zip(mesh_names, meshes)]
    for i, v in enumerate(first.invars):
        aval = v.aval
        if i == n_in:
            decls += _constant_inputs(cx)
        if i >= n_in + n_out:
            made = given.line("scratch_shapes", i - n_in - n_out, n_scratch)
            decls.append(_scratch(w, names[i], aval, _scratch_scope(cx, aval), made))
            continue
        inner = getattr(aval, "inner_aval", aval)
        space = cx.memory(aval.memory_space)[0] if inner is not aval else cx.spaces["scalars"]
        made = None if i < n_in else given.line("out_type", i - n_in, n_out)
        facts = attr_list([("space", space), _made_item(cx, made)])
        decls.append(f"{'input' if i < n_in else 'output'} {quote(names[i])} : {w.tensor(inner.shape, inner.dtype)}{facts}")
    if len(first.invars) == n_in:
        decls += _constant_inputs(cx)
    aliases = [(int(i), int(o)) for i, o in dict(params.get("input_output_aliases") or {}).items()]
    decls += [f"alias {{input = {i}, output = {o}}}" for i, o in aliases]
    for mesh_name, mesh, jaxpr in zip(mesh_names, meshes, jaxprs):
        w = Writer(cx, rule_table(), functions.fallback)
        w.mesh_axes = tuple(mesh.shape.items())
        decls.append(_body(w, mesh_name, jaxpr, names, n_in))
    extra = {"external_meshes": [cx.mesh_name(m) for m in params.get("external_meshes") or ()] or None}
    text = _assemble(cx, _header(cx, name, compiler_params, extra), decls)
    return _captured(cx, text, name, 0, aliases)


def _scratch_scope(cx: ModuleContext, aval: Any) -> str:
    space, _ = cx.memory(aval.memory_space)
    return "grid" if space in ("hbm", "any", "gmem", "host") else ""
