"""The lowering of the two Pallas primitives: capture, then one FFI custom call."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def capture(ctx: Any, primitive: str, params: Mapping[str, Any], options: Any) -> Any:
    """The captured module (`_capture.module.Captured`) of one site; raises `_capture.types.Unsupported`."""
    from ._capture import jaxver, module

    machine = getattr(options, "ir_machine", None) or "generic"
    axes = jaxver.mesh_axes(ctx)
    if primitive == "pallas_call":
        return module.pallas_call(params, machine=machine, device_axes=axes)
    return module.mpmd_map(params, ctx.avals_in, machine=machine, device_axes=axes)
