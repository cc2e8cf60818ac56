"""The lowering of the two Pallas primitives on the CPU: capture (`_site`), then one FFI custom call.

Registered for platform "cpu" when Pallas is loaded. A rule acts only under `emulate` (or `install`) and where the call's `interpret`
is a `Params`; every other call goes to the rule that JAX had before.
"""
from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

TARGET = "pallasim_launch"
_PRIMITIVES = {"pallas_call": "pallas_call.pallas_call_p", "mpmd_map": "mpmd.mpmd_map_p"}

_lock = threading.RLock()  # loading Pallas while our rules are put in place explains its errors first
_registered = False
_handlers = False


def register() -> None:
    """Puts our rules before JAX's own on the CPU. Safe to call often."""
    global _registered
    with _lock:
        if _registered:
            return
        from jax._src.interpreters import mlir

        from . import _breakpoint, _deliver, _reuse
        from ._capture import jaxver

        _hide_frames()
        _deliver.start()
        for name, path in _PRIMITIVES.items():
            if (prim := jaxver.find(path, load=True)) is not None:
                _override(mlir, prim, name)
        jaxver.keep_parallel_loops()
        _breakpoint.patch()
        _reuse.patch(drop_failed_tokens)
        _registered = True


def _hide_frames() -> None:
    """JAX leaves our frames out of tracebacks where it leaves out its own."""
    from jax._src import traceback_util

    if hide := getattr(traceback_util, "register_exclusion", None):
        hide(os.path.dirname(__file__))


_overridden: set[tuple[str, str]] = set()


def explain(name: str) -> None:
    """JAX's error for a kernel outside of every block says what would run it, from now on: of one primitive, whose module is loaded."""
    from jax._src.interpreters import mlir

    from ._capture import jaxver

    with _lock:
        if (prim := jaxver.find(_PRIMITIVES[name])) is not None:
            _override(mlir, prim, name)


def register_for(platform: str) -> None:
    """Our rules for programs that are exported for another platform and run here. Safe to call often."""
    from jax._src.interpreters import mlir

    from ._capture import jaxver

    register()
    with _lock:
        for name, path in _PRIMITIVES.items():
            if (prim := jaxver.find(path, load=True)) is not None:
                _override(mlir, prim, name, platform)


def _override(mlir: Any, prim: Any, name: str, platform: str = "cpu") -> None:
    if (name, platform) in _overridden:
        return
    _overridden.add((name, platform))
    before = mlir._platform_specific_lowerings[platform].get(prim) or mlir._lowerings.get(prim)
    default = getattr(before, "rule", before)

    def rule(ctx: Any, *in_nodes: Any, **params: Any) -> Sequence[Any]:
        from . import _context, _site

        options = _site.options_of(params)
        if options is None:
            with _context.explained(params):
                return default(ctx, *in_nodes, **params)
        return lower(ctx, *in_nodes, primitive=name, options=options, **params)

    mlir.register_lowering(prim, rule, platform=platform)


def prepare() -> None:
    """Registers the custom call, which kernels that are lowered here do by themselves: for programs that were exported
    elsewhere (`jax.export`, with the safety check of custom call "pallasim_launch" disabled). Starts JAX's CPU client."""
    global _handlers
    with _lock:
        if _handlers:
            return
        import jax
        from jax._src import xla_bridge

        from . import _core

        xla_bridge.get_backend("cpu")  # it must exist before the type of the call's state is registered
        jax.ffi.register_ffi_type("pallasim_executable", _core.ffi_state_type(), platform="cpu")
        jax.ffi.register_ffi_target(TARGET, _core.ffi_handlers(), platform="cpu")
        _handlers = True


def drop_failed_tokens() -> None:
    """JAX keeps the token of a computation with ordered effects, and raises its error again in each later one that has the same
    effects. Behind a kernel that failed the order begins anew."""
    from jax._src import dispatch

    tokens = dispatch.runtime_tokens.current_tokens
    for effect, token in list(tokens.items()):
        try:
            if token._buf.is_ready():
                token.block_until_ready()
        except Exception:
            del tokens[effect]


def lower(ctx: Any, *in_nodes: Any, primitive: str, options: Any, **params: Any) -> Sequence[Any]:
    """Lowers one site to a custom call; `options` is a Params.

    Raises UnsupportedError for what cannot be captured or run, KernelError for a module that does not verify.
    """
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    from . import _breakpoint, _core, _findings, _interpret, _site
    from ._capture import jaxver
    from ._capture.types import Unsupported

    drop_failed_tokens()
    try:
        site = _site.find(ctx, primitive, params, options)
    except Unsupported as e:
        raise _findings.unsupported(str(params.get("name") or "kernel"), e, options.machine) from None
    captured, numbered, settings, after = site.captured, site.numbered, [site.settings], []
    if (recorder := site.options.grid_point_recorder) is not None:
        number, setting = _interpret.recording("grid")
        settings.append(setting)
        after.append(_interpret.tell_recorder(recorder, number))
    if setting := _breakpoint.known_to_launches(captured.callbacks):
        settings.append(setting)
    if not all(c.stops for c in captured.callbacks):
        number, setting = _interpret.recording("calls")
        settings.append(setting)
        after.append(_interpret.make_calls(captured.callbacks, number))
    if not captured.params:
        try:
            _core.compile(captured.text, site.text)
        except _core.DiagnosticError as e:
            error = _findings.from_error(e)
            error.refused = (captured.name, captured.text, site.text)
            if primitive == "pallas_call" and captured.machine == "mosaic_gpu" and params.get("compiler_params") is None:
                error.add_note("this JAX makes a Mosaic GPU kernel of a pallas_call without compiler_params, which copies its blocks through shared memory; "
                               "compiler_params=pltriton.CompilerParams() makes it a Triton kernel")
            raise error from None
    prepare()
    if getattr(ctx, "tokens_in", None) is not None:
        ctx.set_tokens_out(ctx.tokens_in)
    first = captured.num_dynamic + numbered
    aliases = {first + i: o for i, o in captured.aliases}
    number = (_device_number(ctx, captured.device_axes),) if numbered else ()
    in_nodes = (*number, *in_nodes, *(mlir.ir_constant(c) for c in captured.constants))
    types = jaxver.ir_types(ctx, ctx.avals_out)
    extra = {}
    if captured.params:
        extra["result_shapes"] = [mlir.eval_dynamic_shape_as_tensor(ctx, a.shape) for a in ctx.avals_out]
    op = mlir.custom_call(
        TARGET, result_types=types, operands=in_nodes,
        backend_config={"ir": ir.StringAttr.get(captured.text), "options": ir.StringAttr.get(site.text),
                        "settings": ir.StringAttr.get(";".join(filter(None, settings))), "numbered": ir.BoolAttr.get(numbered)},
        has_side_effect=site.effects,
        operand_output_aliases=aliases, api_version=4,
        operand_layouts=[_row_major(v.type) for v in in_nodes], result_layouts=[_row_major(t) for t in types], **extra)
    results = list(op.results)
    for take in after:
        results = _interpret.after_launch(ctx, results, take)
    return results


def _device_number(ctx: Any, axes: Sequence[tuple[str, int]]) -> Any:
    """The number of the device that runs the program among those of the mesh around the kernel, the last axis fastest."""
    import jax
    import jax.numpy as jnp
    from jax._src.interpreters import mlir

    def number() -> Any:
        n = jnp.int32(0)
        for name, size in axes:
            n = n * size + jax.lax.axis_index(name)
        return n

    aval = jax.core.ShapedArray((), jnp.int32)
    inner = ctx.replace(primitive=None, avals_in=[], avals_out=[aval], tokens_in=mlir.TokenSet(), tokens_out=None)
    return mlir.lower_fun(number, multiple_results=False)(inner)[0]


def _row_major(mlir_type: Any) -> list[int]:
    from jax._src.lib.mlir import ir

    return list(range(ir.RankedTensorType(mlir_type).rank))[::-1]
