"""Writes one graph (a kernel body or an index map): values, constants, regions."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._breakpoint import Callback
from . import jaxver
from .arguments import Arguments
from .attrs import array_literal, attr, is_name, quote
from .locs import Locations
from .types import Unsupported, dim_text, dtype_text, space_text

Literal = jaxver.Literal
DropVar = jaxver.DropVar
ShapedArray = jaxver.core.ShapedArray
Rule = Callable[["Writer", Any], None]

MAX_DENSE = 64 << 10  # bytes of an array constant in the text


class ModuleContext:
    """What the graphs of one module share: machine, meshes, device axes, shape parameters, locations, facts."""

    def __init__(self, machine: str, debug_info: Any, device_axes: Sequence[tuple[str, int]] = (), skip_floats: bool = False) -> None:
        self.machine = machine
        self.spaces: dict[str, str] = _core.default_spaces(machine)
        self.prints_anything = False    # whatever the chip's compiler takes
        self.grid: tuple[int, ...] = ()  # of a launch of blocks whose body is not written as one
        self.skip_floats = skip_floats  # floating-point values are inf and are not computed
        self.device_axes = tuple(device_axes)
        self.locs = Locations(debug_info)
        self.given: Arguments | None = None  # of the launch
        self.params: dict[str, None] = {}
        self.mesh_names: dict[Any, str] = {}
        self.outside_axes: dict[Any, int] = {}  # of meshes that the launch only names: sizes
        self.gpu_axes: dict[str, str] = {}  # axis of a GPU mesh -> "grid", "cluster" or "thread"
        self.facts: set[str] = set()  # communicates, prints, checks, reads_devices
        self.externs: dict[str, None] = {}
        self._axis_names: dict[int, str] = {}
        self.types: dict[Any, str] = {}
        self.constants: list[np.ndarray] = []        # too large for the text: inputs hold them
        self.wanted: dict[Any, np.ndarray] = {}       # such constants that have no input
        self.callbacks: list[Callback] = []  # of debug_callback

    def tensor_text(self, shape: Sequence[Any], dtype: Any) -> str:
        key = (tuple(shape), dtype)
        try:
            return self.types[key]
        except (KeyError, TypeError):
            pass
        text = f"{dtype_text(dtype)}[{','.join([dim_text(d, self.params) for d in shape])}]"
        try:
            self.types[key] = text
        except TypeError:
            pass
        return text

    def axis_name(self, name: Any) -> str:
        """Text of an axis name; names that are no strings get a number."""
        if isinstance(name, str):
            return name
        if isinstance(name, tuple) and name and all(isinstance(n, str) for n in name):
            return ".".join(name)
        return self._axis_names.setdefault(id(name), f"axis{len(self._axis_names)}")

    def mesh_name(self, mesh: Any) -> str:
        for known, name in self.mesh_names.items():
            if known is mesh or known == mesh:
                return name
        core = getattr(getattr(mesh, "core_type", None), "name", None)
        return str(core or type(mesh).__name__).lower()

    def memory(self, space: Any, default_mesh: Any = None) -> tuple[str, str]:
        """(space, `, @"mesh"` or "") of a Pallas memory space on this machine."""
        text, mesh = space_text(space)
        if text == "deflt":
            text = self.spaces["unnamed"]
        elif self.machine == "triton":
            text = "gmem" if text in ("any", "hbm", "vmem", "smem") else text  # refs are pointers to global memory
        elif text == "any":
            text = self.spaces["any"]
        elif text in ("error", "index", "key") and self.machine == "tpu":
            text = "smem"
        suffix = ""
        if mesh is not None and mesh is not default_mesh and len(self.mesh_names) > 1:
            suffix = f", @{quote(self.mesh_name(mesh))}"
        elif mesh is not None and mesh not in self.mesh_names.keys():
            suffix = f", @{quote(self.mesh_name(mesh))}"
        return text, suffix


class Writer:
    """Text of one graph under construction. `env` maps JAX variables to value names (`%3`)."""

    def __init__(self, module: ModuleContext, rules: dict[Any, Rule], fallback: Rule) -> None:
        self.module = module
        self.rules = rules
        self.fallback = fallback
        self.lines: list[str] = []
        self.env: dict[Any, str] = {}
        self.count = 0
        self.indent = "  "
        self.loc = ""
        self.scope = ""  # "attention/softmax": the kernel's named scopes around what is emitted
        self.constants: dict[Any, str] = {}
        self.constant_refs: dict[Any, str] = {}  # inputs that hold large constants
        self.undo: list[list[Any]] = []
        self.value_types: dict[str, str] = {}                      # refs only
        self.ref_shapes: dict[str, tuple[tuple[Any, ...], Any]] = {}  # refs only: shape, dtype
        self.tiled_blocks: dict[str, tuple[Any, Any, Any]] = {}     # of such bodies: ref, its transforms, those that accesses repeat
        self.program_ids: list[tuple[str | None, ...]] = []         # bound ids of inlined pipeline bodies
        self.mesh_axes: tuple[tuple[Any, int], ...] = ()            # program_id counts these where there is no grid
        self.jaxpr: Any = None                                      # the jaxpr whose equations are being written
        self.used: dict[int, set[Any]] = {}

    # --- values ---------------------------------------------------------------------------------------------------
    def fresh(self) -> str:
        name = f"%{self.count}"
        self.count += 1
        return name

    def read(self, atom: Any) -> str:
        """Name of the value of a variable or a literal (a constant is emitted where it is new)."""
        if type(atom) is Literal:
            return self.literal(atom)
        try:
            return self.env[atom]
        except (KeyError, TypeError):
            pass
        if isinstance(atom, Literal):
            return self.literal(atom)
        if isinstance(atom, str):
            return atom
        if isinstance(atom, (bool, int, float, np.ndarray, np.generic)):
            return self.constant(np.asarray(atom, np.int32) if type(atom) is int else np.asarray(atom))
        raise Unsupported(f"a value of type {type(atom).__name__} in a kernel")

    def literal(self, literal: Any) -> str:
        array = jaxver.literal_array(literal)
        if array.ndim == 0:
            name = self.constants.get((array.dtype, array.tobytes()))
            if name is not None:
                return name
        return self.constant(array)

    def constant(self, array: np.ndarray) -> str:
        """An array constant; equal constants of a region and of those around it are one value."""
        if array.ndim and array.size > 1 and _is_splat(array):
            scalar = self.constant(array.reshape(-1)[0:1].reshape(()))
            return self.emit1("broadcast_in_dim", [scalar], " {dims = []}", self.tensor(array.shape, array.dtype))
        key = constant_key(array)
        name = self.constants.get(key)
        if name is None:
            type_text = self.tensor(array.shape, array.dtype)
            if array.nbytes > MAX_DENSE:
                ref = self.constant_refs.get(key)
                if ref is None:  # this text is thrown away
                    self.module.wanted[key] = array
                name = self.emit1("get", [ref or "%0"], "", type_text)
            else:
                name = self.fresh()
                self.lines.append(f"{self.indent}{name} = constant {{value = {array_literal(array)}}} : {type_text}")
            self.constants[key] = name
            if self.undo:
                self.undo[-1].append(key)
        return name

    def i32(self, value: int) -> str:
        return self.constant(np.asarray(value, np.int32))

    def read_index(self, x: Any) -> str:
        """A scalar that may be a Python number."""
        return self.i32(int(x)) if type(x) is int else self.read(x)

    def define(self, var: Any) -> str:
        """A new value for a variable."""
        name = f"%{self.count}"
        self.count += 1
        self.env[var] = name
        aval = var.aval
        if type(aval) is not ShapedArray and hasattr(aval, "inner_aval"):
            self.note_ref(name, aval, self.type(aval))
        return name

    def note_ref(self, name: str, aval: Any, text: str) -> None:
        self.value_types[name] = text
        self.ref_shapes[name] = (tuple(getattr(aval, "shape", ())), getattr(aval, "dtype", None))

    def alias(self, var: Any, atom: Any) -> None:
        """The variable is the same value as an atom."""
        self.env[var] = self.read(atom)

    # --- types ----------------------------------------------------------------------------------------------------
    def tensor(self, shape: Sequence[Any], dtype: Any) -> str:
        return self.module.tensor_text(shape, dtype)

    def dim(self, d: Any) -> str:
        return dim_text(d, self.module.params)

    def type(self, aval: Any) -> str:
        """Type text of an aval (a tensor or a ref)."""
        if type(aval) is ShapedArray:
            try:
                return self.module.types[aval.shape, aval.dtype]
            except (KeyError, TypeError):
                return self.module.tensor_text(aval.shape, aval.dtype)
        inner = getattr(aval, "inner_aval", None)
        if inner is None:
            shape = getattr(aval, "shape", None)
            if shape is None:
                if type(aval).__name__ == "AbstractToken":
                    return "token[]"
                raise Unsupported(f"a value of type {type(aval).__name__}")
            return self.module.tensor_text(shape, aval.dtype)
        space, mesh = self.module.memory(aval.memory_space)
        if inner.dtype.__class__.__name__ in ("BarrierType", "ClusterBarrierType"):
            space = "gsmem"
        return f"ref<{self.tensor(inner.shape, inner.dtype)}, {space}{scope_of(self.module, space)}{mesh}>"

    def ref_text(self, shape: Sequence[Any], dtype: Any, like: str | None) -> str:
        """Ref type of a part of a ref: the space, scope and mesh of `like`."""
        rest = like.split("]", 1)[1] if like else ", any>"
        return f"ref<{self.tensor(shape, dtype)}{rest}"

    def axis_name(self, name: Any) -> str:
        return self.module.axis_name(name)

    def dim_value(self, dim: Any) -> str:
        """A scalar value of a dimension expression."""
        text = self.dim(dim)
        if text.lstrip("-").isdigit():
            return self.i32(int(text))
        return self.emit1("dim_value", [], f" {{dim = {text}}}", "i32[]")

    # --- operations -----------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append(f"{self.indent}{text}{self.loc}")

    def emit1(self, op: str, operands: Sequence[str], attrs: str, type_text: str) -> str:
        """An operation with one result that no variable names."""
        name = f"%{self.count}"
        self.count += 1
        args = " " + ", ".join(operands) if operands else ""
        self.lines.append(f"{self.indent}{name} = {op}{args}{attrs} : {type_text}{self.loc}")
        return name

    def emit(self, op: str, operands: Sequence[str], attrs: str, outvars: Sequence[Any]) -> None:
        """An operation that defines variables. `attrs` is "" or " {k = v}"."""
        args = " " + ", ".join(operands) if operands else ""
        if not outvars:
            self.lines.append(f"{self.indent}{op}{args}{attrs}{self.loc}")
            return
        names = ", ".join([self.define(v) for v in outvars])
        types = ", ".join([self.type(v.aval) for v in outvars])
        self.lines.append(f"{self.indent}{names} = {op}{args}{attrs} : {types}{self.loc}")

    # --- regions --------------------------------------------------------------------------------------------------
    def open_op(self, op: str, operands: Sequence[str], attrs: str, outvars: Sequence[Any]) -> tuple[str, list[str]]:
        """Begins an operation with regions: returns its line so far and the types of its results."""
        args = " " + ", ".join(operands) if operands else ""
        if outvars:
            names = ", ".join([self.define(v) for v in outvars])
            return f"{self.indent}{names} = {op}{args}{attrs}", [self.type(v.aval) for v in outvars]
        return f"{self.indent}{op}{args}{attrs}", []

    def open_region(self, head: str, args: Sequence[tuple[str, str, str]]) -> None:
        """Begins a region after `head`; args are (name, label, type)."""
        inner = ", ".join([f"{n}{' ' + quote(label) if label else ''}: {t}" for n, label, t in args])
        self.lines.append(f"{head} ({inner}) {{")
        self.indent += "  "
        self.undo.append([])

    def close_region(self, values: Sequence[str], loc: str = "") -> str:
        """Ends a region with its yield; returns the line that the next region or `close_op` continues."""
        self.lines.append(f"{self.indent}yield{' ' + ', '.join(values) if values else ''}{loc}")
        self.indent = self.indent[:-2]
        for key in self.undo.pop():
            del self.constants[key]
        return self.indent + "}"

    def close_op(self, head: str, types: Sequence[str], loc: str) -> None:
        self.lines.append(f"{head}{' : ' + ', '.join(types) if types else ''}{loc}")

    # --- jaxprs ---------------------------------------------------------------------------------------------------
    def bind(self, variables: Sequence[Any], names: Sequence[str]) -> None:
        for v, n in zip(variables, names, strict=True):
            self.env[v] = n

    def bind_consts(self, jaxpr: Any, consts: Sequence[Any]) -> None:
        for v, c in zip(jaxpr.constvars, consts, strict=True):
            self.env[v] = self.captured(c)

    def captured(self, value: Any) -> str:
        """A constant of a closed jaxpr."""
        if isinstance(value, (jaxver.core.Var, Literal)):
            return self.read(value)
        array = np.asarray(value)
        return self.constant(array)

    def run(self, jaxpr: Any) -> list[str]:
        """Emits the equations of an open jaxpr whose inputs are bound; returns the names of its outputs."""
        rules, fallback, locs = self.rules, self.fallback, self.module.locs
        get = rules.get
        around, scope_around = self.loc, self.scope
        outer, self.jaxpr = self.jaxpr, jaxpr
        skip_floats = self.module.skip_floats
        try:
            for eqn in jaxpr.eqns:
                names = eqn.source_info.name_stack.stack
                self.scope = locs.scope(scope_around, names) if names else scope_around
                self.loc = locs.suffix(eqn.source_info.traceback, self.scope) or around
                rule = get(eqn.primitive)
                if skip_floats and not self._with_floats(eqn):
                    continue
                if rule is None:
                    fallback(self, eqn)
                else:
                    rule(self, eqn)
                if skip_floats:
                    self._forget_floats(eqn)
        except Unsupported as e:
            e.at = e.at or locs.source(self.loc)
            raise
        self.jaxpr, self.scope = outer, scope_around
        return [self.read(v) for v in jaxpr.outvars]

    def _with_floats(self, eqn: Any) -> bool:
        """Under `skip_floats`: whether an equation is written at all. Only values that nothing else needs are skipped."""
        pure = not eqn.effects and not any(hasattr(p, "eqns") or hasattr(p, "jaxpr") for p in eqn.params.values())
        if not (pure and eqn.outvars and all(_is_float(v.aval) for v in eqn.outvars)):
            return True
        self._forget_floats(eqn)
        return False

    def _forget_floats(self, eqn: Any) -> None:
        """Under `skip_floats`: the floating-point results of an equation are inf."""
        for v in eqn.outvars:
            if type(v) is not DropVar and _is_float(v.aval):
                inf = self.constant(np.asarray(np.inf, v.aval.dtype))
                shape = tuple(v.aval.shape)
                self.env[v] = inf if not shape else self.emit1("broadcast_in_dim", [inf], " {dims = []}", self.tensor(shape, v.aval.dtype))

    def is_unused(self, var: Any) -> bool:
        """Whether nothing in the jaxpr around reads a variable."""
        if type(var) is DropVar:
            return True
        used = self.used.get(id(self.jaxpr))
        if used is None:
            used = {v for e in self.jaxpr.eqns for v in e.invars if type(v) is not Literal}
            used.update(v for v in self.jaxpr.outvars if type(v) is not Literal)
            self.used[id(self.jaxpr)] = used
        return var not in used

    def inline(self, jaxpr: Any, names: Sequence[str], debug: bool = True) -> list[str]:
        """Emits a closed or open jaxpr in place; `names` are its inputs."""
        inner, consts = jaxver.open_jaxpr(jaxpr)
        loc = self.loc
        self.bind_consts(inner, consts) if consts else None
        self.bind(inner.invars, names)
        locs = self.module.locs
        if debug:
            locs.enter(loc, getattr(inner, "debug_info", None))
        out = self.run(inner)
        if debug:
            locs.leave()
        self.loc = loc
        return out

    # --- devices --------------------------------------------------------------------------------------------------
    def device_id(self, ops: Any, device: Any, kind: Any) -> tuple[str, str, str | None]:
        """(device attribute, its kind, core index attribute) of a device id; mesh coordinates become a logical id
        where the device mesh is known."""
        self.module.facts.add("communicates")
        kind = getattr(kind, "value", None) or str(kind or "mesh")
        core: str | None = None
        if isinstance(device, dict):
            device, core = self._device_dict(ops, device)
            if device is None:
                return "none", kind, core
        if isinstance(device, (tuple, list)):
            axes = self.module.device_axes
            if len(device) == len(axes) and axes:
                return ops.add_value(self._linear(device, axes)), "logical", core
            return "[" + ", ".join([ops.add(d) for d in device]) + "]", kind, core
        if kind == "mesh" and len(self.module.device_axes) == 1:
            kind = "logical"
        return ops.add(device), kind, core

    def _device_dict(self, ops: Any, device: dict[Any, Any]) -> tuple[Any, str | None]:
        axes = dict(self.module.device_axes)
        known: dict[str, Any] = {}
        other: dict[Any, Any] = {}
        for name, value in device.items():
            if isinstance(name, tuple) and all(n in axes for n in name):
                rest = self.read(value)
                for n in reversed(name):
                    size = self.i32(axes[n])
                    known[n] = self.emit1("rem", [rest, size], "", "i32[]")
                    rest = self.emit1("div", [rest, size], "", "i32[]")
            elif name in axes:
                known[name] = value
            elif self._is_only_core_outside(name, value):
                continue
            else:
                other[name] = value
        core = None
        if other:
            items = [f"axis({quote(self.axis_name(k))}, {ops.add(v)})" for k, v in other.items()]
            core = "[" + ", ".join(items) + "]"
        if not known:
            return None, core
        coords = []
        for n, _ in self.module.device_axes:
            coords.append(known[n] if n in known else self.emit1("axis_index", [], f" {{axis = {quote(n)}}}", "i32[]"))
        return coords, core

    def _is_only_core_outside(self, name: Any, value: Any) -> bool:
        """Whether an axis of a mesh outside of the launch is named, at its only coordinate: arrays of that mesh are the call's own."""
        size = self.module.outside_axes.get(name)
        if size is None or any(name in mesh.shape for mesh in self.module.mesh_names):
            return False
        at = jaxver.literal_array(value) if isinstance(value, Literal) else value
        if size != 1 or not isinstance(at, (int, np.integer, np.ndarray)) or int(at) != 0:
            raise Unsupported(f"a core of a mesh outside of the launch, of {size} along axis {name!r}")
        return True

    def _linear(self, coords: Sequence[Any], axes: Sequence[tuple[str, int]]) -> str:
        total: str | None = None
        stride = 1
        for c, (_, size) in zip(reversed(coords), reversed(axes)):
            term = self.read_index(c) if not isinstance(c, str) else c
            if stride != 1:
                term = self.emit1("mul", [term, self.i32(stride)], "", "i32[]")
            total = term if total is None else self.emit1("add", [total, term], "", "i32[]")
            stride *= size
        return total or self.i32(0)


def constant_key(array: np.ndarray) -> Any:
    """Equal for equal constants."""
    return (array.dtype, array.tobytes()) if array.ndim == 0 else (array.dtype, array.shape, array.tobytes())


def _is_float(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return type(aval) is ShapedArray and dtype is not None and jaxver.is_float(dtype)


def _is_splat(array: np.ndarray) -> bool:
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw == raw[0]).all())


def scope_of(module: ModuleContext, space: str) -> str:
    """`, scope` of an allocation by its space, "" for one thread's own."""
    if space == "vmem_shared":
        return ", subcore_group"
    return ""


def attr_list(items: Sequence[tuple[str, str | None]]) -> str:
    """` {k = v}` of the items that have a value."""
    text = ", ".join([f"{k} = {v}" for k, v in items if v is not None])
    return f" {{{text}}}" if text else ""


def other_params(eqn: Any, *known: str) -> list[tuple[str, str | None]]:
    """Parameters that a rule does not know, as attributes: nothing is dropped at capture."""
    out: list[tuple[str, str | None]] = []
    for k, v in eqn.params.items():
        if k in known or v is None:
            continue
        text = attr(v)
        if text is not None and text != "[]":
            out.append((k if is_name(k) else f"p_{len(out)}", text))
    return out
