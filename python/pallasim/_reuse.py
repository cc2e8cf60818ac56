"""Programs that are one kernel's call and no more are lowered and compiled once, whoever asks for them.

`pl.pallas_call(kernel, ...)(x)` outside of `jit` makes a new function each time. JAX traces it, as it must, and then lowers and
compiles it as if nobody had before. Where the captured module, the options and all that JAX itself looks at are equal, so
is the program, and the one that is there is used again.
"""
from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any

_MAX_PROGRAMS = 256
_PRIMITIVES = {"pallas_call", "mpmd_map"}


class _Programs:
    """Lowered programs by all that they depend on, the latest of them. `jax.clear_caches` forgets them, too."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        with self._lock:
            if (program := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return program

    def keep(self, key: Any, program: Any) -> None:
        with self._lock:
            self._kept[key] = program
            if len(self._kept) > _MAX_PROGRAMS:
                self._kept.popitem(last=False)

    def cache_clear(self) -> None:
        with self._lock:
            self._kept.clear()


_programs = _Programs()


class _Outside:
    """The context of a lowering outside of every mesh."""

    def __init__(self, avals_in: Any) -> None:
        self.avals_in = avals_in


def patch(before_each: Callable[[], None]) -> None:
    """Puts the programs before JAX's lowering of jitted functions; `before_each` is called where one is used again. Without effect on a
    JAX that has no lowering at this place."""
    from jax._src import pjit, util

    original = getattr(pjit, "_pjit_lower", None)
    register = getattr(util, "register_cache", None)
    if original is not None and register is not None:
        pjit._pjit_lower = _kept(original, before_each)
        register(_programs, "programs of single kernels")


def _kept(original: Callable[..., Any], before_each: Callable[[], None]) -> Callable[..., Any]:
    def lowered(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        found = _key(jaxpr, args, tuple(sorted(kwargs.items())))
        if found is None:
            return original(jaxpr, *args, **kwargs)
        key, handed_over = found
        if (program := _programs.get(key)) is not None:
            before_each()
            return program
        with handed_over:
            program = original(jaxpr, *args, **kwargs)
        _programs.keep(key, program)
        return program

    lowered.__wrapped__ = original  # type: ignore[attr-defined]
    return lowered


def _key(jaxpr: Any, args: Any, kwargs: Any) -> Any:
    """All that the program depends on, and what spares its lowering the capture; None for what is more than one call of a kernel for the emulator, or records its runs."""
    import jax
    from jax._src import config

    from . import _site
    from ._capture import jaxver

    inner, consts = jaxver.open_jaxpr(jaxpr)
    if len(inner.eqns) != 1 or consts or inner.constvars:
        return None
    eqn = inner.eqns[0]
    primitive, params = eqn.primitive.name, eqn.params
    if primitive not in _PRIMITIVES or (options := _site.options_of(params)) is None or options.grid_point_recorder is not None:
        return None
    places = {v: i for i, v in enumerate((*inner.invars, *eqn.outvars))}
    try:
        wiring = tuple(places[v] for v in (*eqn.invars, *inner.outvars))
        with jaxver.source_info_util.user_context(eqn.source_info.traceback), eqn.ctx.manager:  # as where JAX lowers it
            site = _site.make(_Outside([v.aval for v in eqn.invars]), primitive, params, options)
        captured = site.captured
        if captured.callbacks or captured.constants or captured.params:
            return None
        key = (primitive, captured.text, site.text, site.settings, site.effects, site.numbered, captured.aliases, captured.num_dynamic, captured.facts,
               wiring, tuple(v.aval for v in inner.invars), tuple(v.aval for v in inner.outvars), frozenset(inner.effects), args, kwargs,
               config.trace_context(), jax.config.jax_default_device)
        hash(key)
    except Exception:  # what has no key, or is refused, takes JAX's way and says there what is wrong
        return None
    return key, _site.handed_over(params, options, site)
