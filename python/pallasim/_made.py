"""The line where a barrier is made. JAX keeps no word of it, and a report about a barrier names it.

`plgpu.Barrier` and `plgpu.ClusterBarrier` remember their place, and hand it to the type of the ref that is made of them.
"""
from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

_SITE = "_pallasim_site"


def site_of(dtype: Any) -> tuple[str, int, int, str] | None:
    """(file, line, column, function) of the barrier that a ref's element type is of, None where nobody knows."""
    return getattr(dtype, _SITE, None)


def watch(module: ModuleType) -> None:
    """From now on barriers of JAX's module remember. Safe to call often."""
    for name in ("Barrier", "ClusterBarrier"):
        cls = getattr(module, name, None)
        if cls is not None and not hasattr(cls, _SITE) and hasattr(cls, "__post_init__") and hasattr(cls, "get_ref_aval"):
            _remember(cls)


def _remember(cls: type) -> None:
    made, aval_of = cls.__post_init__, cls.get_ref_aval  # type: ignore[attr-defined]

    @functools.wraps(made)
    def __post_init__(self: Any) -> None:
        from ._capture import locs

        made(self)
        object.__setattr__(self, _SITE, locs.running_site(2))  # above the class's __init__

    @functools.wraps(aval_of)
    def get_ref_aval(self: Any) -> Any:
        aval = aval_of(self)
        dtype = getattr(getattr(aval, "inner_aval", None), "dtype", None)
        if dtype is not None:  # made for this call
            object.__setattr__(dtype, _SITE, getattr(self, _SITE))
        return aval

    setattr(cls, _SITE, None)
    cls.__post_init__, cls.get_ref_aval = __post_init__, get_ref_aval  # type: ignore[attr-defined]
