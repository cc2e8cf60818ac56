"""Launches of a traced function, and what their arguments hold as far as it does not depend on arguments that are shapes alone: masks that a
library makes, sizes of groups, bounds of grids."""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Bytes: larger values are not computed, nor handed on.
_MOST = 64 << 20
_CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call",
          "custom_lin")

Axes = tuple[tuple[str, int], ...]


def launches(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], axes: Axes = ()) -> Iterator[tuple[Any, Axes, list[Any]]]:
    """As `_check.launches`; of each launch the values of its arguments besides, None where nobody knows one."""
    yield from _walk(jaxpr, consts, args, axes)


def _walk(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], axes: Axes) -> Iterator[tuple[Any, Axes, list[Any]]]:
    """Returns what is known of the results."""
    from . import _check
    from ._capture import jaxver

    known: dict[Any, Any] = {v: x for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)) if x is not None}

    def read(v: Any) -> Any:
        return v.val if hasattr(v, "val") else known.get(v)

    ours = _check.launching()
    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        if eqn.primitive in ours:
            yield eqn, axes, values
            continue
        results: Sequence[Any] = ()
        inner = jaxver.sub_jaxprs(eqn)
        if eqn.primitive.name in _CALLS and len(inner) == 1 and len(inner[0].invars) == len(values):
            results = yield from _walk(inner[0], _constants(eqn), values, axes)
        elif any(True for j in inner for _ in _check.launches(j)):
            mesh = eqn.params.get("mesh") if eqn.primitive.name == "shard_map" else None
            inside = axes if mesh is None else tuple((str(k), int(v)) for k, v in mesh.shape.items())
            for j in inner:
                yield from _walk(j, (), [None] * len(j.invars), inside)
        elif all(x is not None for x in values):
            results = _computed(eqn, values)
        known |= {v: x for v, x in zip(eqn.outvars, results) if x is not None}
    return [read(v) for v in jaxpr.outvars]


def _constants(eqn: Any) -> tuple[Any, ...]:
    from ._capture import jaxver

    return next((jaxver.open_jaxpr(v)[1] for v in eqn.params.values() if hasattr(v, "jaxpr") or hasattr(v, "eqns")), ())


def _size(aval: Any) -> float:
    dtype = getattr(aval, "dtype", None)
    return math.prod(aval.shape) * getattr(dtype, "itemsize", math.inf) if dtype is not None else math.inf


def _computed(eqn: Any, values: Sequence[Any]) -> Sequence[Any]:
    if eqn.effects or any(_size(v.aval) > _MOST for v in (*eqn.invars, *eqn.outvars)):
        return ()
    try:
        given = eqn.primitive.get_bind_params(eqn.params)
        subfuns, params = given if isinstance(given, tuple) else ((), given)  # older JAX gives functions apart
        r = eqn.primitive.bind(*subfuns, *values, **params)
    except Exception:  # what cannot be known before the function runs stays unknown
        return ()
    return r if eqn.primitive.multiple_results else [r]


def contents(eqn: Any, values: Sequence[Any]) -> list[bytes | None]:
    """Of a launch's arguments, as the predictor takes them."""
    def of(v: Any, x: Any) -> bytes | None:
        dtype = getattr(v.aval, "dtype", None)
        return np.asarray(x, dtype).tobytes() if x is not None and isinstance(dtype, np.dtype) and _size(v.aval) <= _MOST else None

    return [of(v, x) for v, x in zip(eqn.invars, values)]
