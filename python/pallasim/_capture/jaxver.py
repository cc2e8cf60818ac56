"""Everything that differs between JAX versions, and the lookups of optional primitives.

JAX 0.10 is the oldest version. Primitives are looked up by module and name, and dispatched on as
objects: their printed names collide ("load" is three primitives).
"""
from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax._src import core
from jax._src import source_info_util

JAX_VERSION: tuple[int, ...] = tuple(int(p) for p in importlib.import_module("jax").__version__.split(".")[:3] if p.isdigit())

Literal = core.Literal
DropVar = core.DropVar

_MODULES = {
    "core": "jax._src.core",
    "lax": "jax._src.lax.lax",
    "slicing": "jax._src.lax.slicing",
    "special": "jax._src.lax.special",
    "conv": "jax._src.lax.convolution",
    "parallel": "jax._src.lax.parallel",
    "loops": "jax._src.lax.control_flow.loops",
    "cond": "jax._src.lax.control_flow.conditionals",
    "pjit": "jax._src.pjit",
    "ad_util": "jax._src.ad_util",
    "remat": "jax._src.ad_checkpoint",
    "custom": "jax._src.custom_derivatives",
    "batching": "jax._src.custom_batching",
    "prng": "jax._src.prng",
    "random_prng": "jax._src.random.prng",
    "random": "jax._src.random",
    "random_core": "jax._src.random.core",
    "threefry": "jax._src.random.threefry2x32",
    "checkify": "jax._src.checkify",
    "debugging": "jax._src.debugging",
    "debugger": "jax._src.debugger.core",
    "shape_poly": "jax._src.export.shape_poly",
    "state": "jax._src.state.primitives",
    "discharge": "jax._src.state.discharge",
    "pallas": "jax._src.pallas.primitives",
    "pallas_core": "jax._src.pallas.core",
    "pallas_call": "jax._src.pallas.pallas_call",
    "mpmd": "jax._src.pallas.mpmd",
    "einshape": "jax._src.pallas.einshape",
    "fusion": "jax._src.pallas.fuser.custom_fusion_lib",
    "fusible": "jax._src.pallas.fuser.fusible",
    "tpu": "jax._src.pallas.mosaic.primitives",
    "tpu_core": "jax._src.pallas.mosaic.core",
    "tpu_info": "jax._src.tpu_info",
    "tpu_info_0_10": "jax._src.pallas.mosaic.tpu_info",
    "tpu_pipeline": "jax._src.pallas.mosaic.pipeline",
    "sc": "jax._src.pallas.mosaic.sc_primitives",
    "sc_core": "jax._src.pallas.mosaic.sc_core",
    "gpu": "jax._src.pallas.mosaic_gpu.primitives",
    "gpu_core": "jax._src.pallas.mosaic_gpu.core",
    "gpu_lowering": "jax._src.pallas.mosaic_gpu.lowering",
    "triton": "jax._src.pallas.triton.primitives",
    "triton_core": "jax._src.pallas.triton.core",
    "older": "pallasim._compat_atomic",
    "blocks": "pallasim._capture.gpu_blocks",
}
_loaded: dict[str, Any] = {}
_looked = 0  # how many modules Python had when all of them were looked for


def rules_of(machine: str) -> str | None:
    """The version whose compiler says what a kernel may contain, as a module names it; the oldest is not named."""
    return f'"{importlib.import_module("jax").__version__}"' if machine in ("tpu", "mosaic_gpu") and JAX_VERSION >= (0, 11) else None


def module(key: str, load: bool = False) -> Any:
    """The JAX module behind a short name, or of a whole one; None where this JAX has none, or where nobody imported it yet.

    What nobody imported cannot occur in a kernel, and importing every backend takes most of a second. `load` imports.
    """
    found = _loaded.get(key)
    if found is None:
        path = _MODULES.setdefault(key, key)
        found = sys.modules.get(path)
        if found is None and load:
            try:
                found = importlib.import_module(path)
            except Exception:  # optional backends fail to import in many ways
                return None
        if found is not None:
            _loaded[key] = found
    return found


def imported() -> int:
    """How many of the modules are there; rule tables made for fewer are out of date."""
    global _looked
    if _looked != len(sys.modules):
        _looked = len(sys.modules)
        for key in _MODULES:
            module(key)
    return len(_loaded)


def find(path: str, load: bool = False) -> Any:
    """`"lax.add_p"`, or with the module's whole name, -> the object, or None."""
    mod, _, attr = path.rpartition(".")
    return getattr(module(mod, load), attr, None)


def open_jaxpr(jaxpr: Any) -> tuple[Any, tuple[Any, ...]]:
    """Jaxpr and constants of a closed or an open jaxpr (newer JAX has one class for both)."""
    if type(jaxpr).__name__ == "ClosedJaxpr":
        return jaxpr.jaxpr, tuple(jaxpr.consts)
    return jaxpr, tuple(getattr(jaxpr, "consts", ()) or ())


def trace(function: Any, avals: Sequence[Any], name: str) -> tuple[Any, tuple[Any, ...]]:
    """Open jaxpr and constants of a function of flat arguments, which may be refs, and of flat results."""
    linear_util, api_util = (importlib.import_module(f"jax._src.{m}") for m in ("linear_util", "api_util"))
    wrapped = linear_util.wrap_init(function, debug_info=api_util.debug_info(name, function, avals, {}))
    jaxpr, _, consts = importlib.import_module("jax._src.interpreters.partial_eval").trace_to_jaxpr_dynamic(wrapped, list(avals))[:3]
    return jaxpr, tuple(consts)


def grid_names(grid_mapping: Any) -> list[Any]:
    """Of each axis of the grid; None: it has none, as those that vmap adds."""
    names, count = grid_mapping.grid_names, len(grid_mapping.grid)
    if names is None or len(names) == count:
        return [None] * count if names is None else list(names)
    mapped, rest = set(grid_mapping.vmapped_dims), iter(names)
    return [None if i in mapped else next(rest) for i in range(count)]


def named_axes(sizes: Mapping[Any, int]) -> Any:
    """A context in which functions are traced that know these axes."""
    return core.extend_axis_env_nd(list(sizes.items()))


def scan_split(params: Any) -> tuple[int, int]:
    """How many constants and how many carried values a scan has (newer JAX keeps the tree of its operands)."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def literal_array(literal: Any) -> np.ndarray:
    """Value of a literal in the dtype of its aval."""
    val = literal.val
    try:
        inner = val.val
    except AttributeError:
        inner = val
    dtype = literal.aval.dtype
    if type(inner) is np.ndarray and inner.dtype == dtype:
        return inner
    return np.asarray(inner).astype(dtype) if isinstance(inner, (np.ndarray, np.generic)) else np.asarray(inner, dtype)


def dce(jaxpr: Any) -> Any:
    """The jaxpr without dead code. What writes, communicates or reports stays, whatever an equation around it declares."""
    from jax._src.interpreters import partial_eval as pe

    try:
        out = pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]
    except Exception:
        return jaxpr
    return out if actions(out) == actions(jaxpr) else jaxpr


def sub_jaxprs(eqn: Any) -> list[Any]:
    """The open jaxprs among the parameters of an equation."""
    out = []
    for value in eqn.params.values():
        for v in value if isinstance(value, (tuple, list)) else (value,):
            inner = open_jaxpr(v)[0] if hasattr(v, "jaxpr") or hasattr(v, "eqns") else None
            if hasattr(inner, "eqns"):
                out.append(inner)
    return out


def actions(jaxpr: Any) -> dict[str, int]:
    """How often each primitive occurs that does more than to compute values or to read, in sub-jaxprs too."""
    out: dict[str, int] = {}
    for eqn in jaxpr.eqns:
        inner = sub_jaxprs(eqn)
        for j in inner:
            for name, n in actions(j).items():
                out[name] = out.get(name, 0) + n
        silent = not eqn.outvars and any(hasattr(v.aval, "inner_aval") for v in eqn.invars)
        if not inner and (silent or any(type(e).__name__ != "ReadEffect" for e in eqn.effects)):
            out[eqn.primitive.name] = out.get(eqn.primitive.name, 0) + 1
    return out


def keep_parallel_loops() -> None:
    """Makes SparseCore's parallel_loop declare what its body does to the refs that it closes over.

    JAX counts the body's arguments only, so that a loop without results seems to do nothing: dead code to JAX while it
    traces a kernel, long before capture.
    """
    prim = find("sc.parallel_loop_p", load=True)
    if prim is None or getattr(prim, "declares_captured", False):
        return
    before = prim.abstract_eval

    def abstract_eval(*args: Any, jaxpr: Any, **params: Any) -> Any:
        out, found = before(*args, jaxpr=jaxpr, **params)
        place = {v: 3 + i for i, v in enumerate(getattr(jaxpr, "constvars", ()))}  # after the bounds and the step
        captured = {e.replace(place[e.input]) for e in jaxpr.effects if getattr(e, "input", None) in place}
        return out, found | captured

    prim.def_effectful_abstract_eval(abstract_eval)
    prim.declares_captured = True


def is_user_file(name: str | None) -> bool:
    """Whether a source file is the user's and not JAX's or Python's."""
    return bool(name) and source_info_util.is_user_filename(name)


def code_position(code: Any, lasti: int) -> tuple[int, int]:
    """Line and column of an instruction of a code object."""
    from jax._src.lib import xla_client

    pos = xla_client.Traceback.code_addr2location(code, lasti)
    return pos[0], pos[1]


def mesh_axes(ctx: Any) -> tuple[tuple[str, int], ...]:
    """Device axes that are manual where a lowering happens: `(("x", 4), ...)`, empty outside shard_map."""
    axis_context = getattr(getattr(ctx, "module_context", None), "axis_context", None)
    mesh = getattr(axis_context, "mesh", None)
    if mesh is None:
        return ()
    shape = getattr(mesh, "shape", None)
    return tuple((str(k), int(v)) for k, v in shape.items()) if shape else ()


def default_gpu_machine() -> str:
    """What JAX makes of a GPU kernel without compiler parameters: Triton or Mosaic GPU. From 0.12 on pallas_call has no switch."""
    from jax._src import config

    flag = getattr(config, "jax_pallas_use_mosaic_gpu", None)
    return "mosaic_gpu" if flag is not None and flag.value else "triton"


def is_float(dtype: Any) -> bool:
    """Whether an element type is a floating-point one, the narrow ones included."""
    from jax._src import dtypes

    return bool(dtypes.issubdtype(dtype, np.floating))


def debug_checks_enabled() -> bool:
    """Whether `pl.debug_check` acts; without it the call does nothing, on hardware as here."""
    from jax._src import config

    flag = getattr(config, "jax_pallas_enable_debug_checks", None)
    return flag is None or bool(flag.value)


def ir_types(ctx: Any, avals: Any) -> list[Any]:
    """MLIR types of values; keys have the type of their words."""
    import inspect

    from jax._src.interpreters import mlir

    one = mlir.aval_to_ir_type
    args = (ctx.module_context,) if len(inspect.signature(one).parameters) > 1 else ()
    return [one(*args, a) for a in avals]


# --- debugging ------------------------------------------------------------------------------------------------------
def callback_target(callback: Any) -> Any:
    """The function that `jax.debug.callback` was given, of what it hands to its operation."""
    variables = inspect.getclosurevars(callback).nonlocals if inspect.isfunction(callback) else {}
    return variables.get("callback", callback)


def breakpoint_frames(target: Any) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """Of what `jax.debug.breakpoint()` gives to `jax.debug.callback`: from its arguments to the frames of the caller, the innermost first."""
    if getattr(target, "__module__", "") != "jax._src.debugger.core" or getattr(target, "__name__", "") != "_breakpoint_callback":
        return None
    variables = inspect.getclosurevars(target).nonlocals
    tree = variables.get("frames_tree")
    return None if tree is None or variables.get("backend") is not None else lambda arguments: tree.unflatten(arguments)


def aval_of_ref(value: Any) -> Any:
    """The abstract value of a ref that is traced, or of a variable that is one; None for anything else."""
    aval = getattr(value, "aval", None)
    return aval if hasattr(aval, "inner_aval") else None


def is_of_current_trace(value: Any) -> bool:
    """Whether a value is traced by the function that runs now, and not by one around it."""
    return isinstance(value, core.Tracer) and getattr(value, "_trace", None) is core.trace_ctx.trace
