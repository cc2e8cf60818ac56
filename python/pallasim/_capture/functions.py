"""Primitives without a rule of ours: by a registered function, or by name alone."""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .. import _lowerings
from . import jaxver
from .accounts import takes
from .rules_memory import extern
from .types import Unsupported
from .writer import Writer


def by_function(w: Writer, eqn: Any, name: str, function: Callable[..., Any]) -> None:
    """Emits what a registered function of the equation's operands does. Raises Unsupported where it does not fit them."""
    def flat(*args: Any) -> list[Any]:
        return importlib.import_module("jax").tree.leaves(function(*args))

    try:
        jaxpr, consts = jaxver.trace(flat, [v.aval for v in eqn.invars], name)
    except Exception as e:
        raise Unsupported(f"the function registered for {name}: {type(e).__name__}: {e}") from e
    have = [(tuple(v.aval.shape), str(v.aval.dtype)) for v in jaxpr.outvars]
    want = [(tuple(v.aval.shape), str(v.aval.dtype)) for v in eqn.outvars]
    if have != want:
        raise Unsupported(f"the function registered for {name} returns {_types(have)}; the kernel takes {_types(want)}")
    w.bind_consts(jaxpr, consts)
    w.bind(eqn.outvars, w.inline(jaxpr, [w.read(v) for v in eqn.invars]))


def _types(types: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{d}[{','.join(map(str, s))}]" for s, d in types) or "nothing"


@takes(rest=True)
def fallback(w: Writer, eqn: Any) -> None:
    """The rule of primitives that have none: a registered function of its operands and parameters, or the name alone."""
    function = _lowerings.registered(eqn.primitive.name)
    if function is None:
        extern(w, eqn)
    else:
        by_function(w, eqn, eqn.primitive.name, lambda *args: function(*args, **eqn.params))
