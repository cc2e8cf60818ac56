"""A kernel's call as the emulator takes it: the captured module, and the options it runs under."""
from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_local = threading.local()


@dataclasses.dataclass(frozen=True)
class Site:
    """`options` as the call means them, `text` what of them shapes the plan, `settings` the rest. `numbered`: the launch is told which
    device of the mesh it is. `effects`: XLA must not drop the call."""

    captured: Any
    options: Any
    text: str
    settings: str
    numbered: bool
    effects: bool


def options_of(params: Mapping[str, Any]) -> Any:
    """The `Params` that this call runs under, None where it is not for the emulator."""
    from . import _context, _interpret
    from ._params import Params

    given = params.get("interpret")
    options = _context.active()
    if options is not None:
        _context.note(params)
    elif isinstance(given, Params):
        options = given
    else:
        return None
    return _interpret.merge(options, given)


def capture(ctx: Any, primitive: str, params: Mapping[str, Any], options: Any) -> Any:
    """The captured module (`_capture.module.Captured`); raises `_capture.types.Unsupported`."""
    from ._capture import jaxver, locs, module

    settings = module.Settings(options.ir_machine, jaxver.mesh_axes(ctx), options.skip_floating_point_ops, locs.launch_site(), options.prints == "anything")
    if primitive == "pallas_call":
        return module.pallas_call(params, settings)
    return module.mpmd_map(params, ctx.avals_in, settings)


def make(ctx: Any, primitive: str, params: Mapping[str, Any], options: Any) -> Site:
    """Captures the call. `ctx`: JAX's context of the lowering (the axes around the kernel, the operands' types)."""
    from . import _interpret, _jax_checks

    options = _interpret.without_bounds(options, params.get("compiler_params"))
    if options.refuses:
        _jax_checks.check(params.get("interpret"), params, options.machine)
    captured = capture(ctx, primitive, params, options)
    numbered = any(size > 1 for _, size in captured.device_axes) and bool(captured.facts & {"communicates", "axes"})
    options = _interpret.met(options, params.get("interpret"), captured)
    effects = bool(captured.facts & {"prints", "checks", "communicates"}) or _declares_effects(params)
    return Site(captured, options, _interpret.in_order(options, captured).text(), options.settings(), numbered, effects)


@contextlib.contextmanager
def handed_over(params: Mapping[str, Any], options: Any, site: Site) -> Iterator[None]:
    """A lowering of just this call in this thread, inside, need not capture it again. Only for calls outside of meshes."""
    _local.handed = params, options, site
    try:
        yield
    finally:
        _local.handed = None


def find(ctx: Any, primitive: str, params: Mapping[str, Any], options: Any) -> Site:
    """The site that was handed over, or a new one."""
    from ._capture import jaxver

    given, of, site = getattr(_local, "handed", None) or ({}, None, None)
    same = given.keys() == params.keys() and all(given[k] is v for k, v in params.items())
    if site is not None and same and of == options and not jaxver.mesh_axes(ctx):
        return site
    return make(ctx, primitive, params, options)


def _declares_effects(params: Mapping[str, Any]) -> bool:
    effects = getattr(params.get("compiler_params"), "has_side_effects", False)
    return bool(effects) and getattr(effects, "value", "") != "pure"
