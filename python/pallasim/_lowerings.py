"""Meanings that users give to what has none here: inline bodies in Python and primitives of their own."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

_registered: dict[str, Callable[..., Any]] = {}


@overload
def register_lowering(name: str) -> Callable[[F], F]: ...
@overload
def register_lowering(name: str, function: F) -> F: ...
def register_lowering(name: str, function: Any = None) -> Any:
    """Says in JAX what a primitive, or an inline body, does; kernels that contain it then run.

    `name`: as the report of PS-UNSUP-001 names it: a primitive's name, or "inline_mgpu." and the qualified name of the Python
    function. `function`: takes what the primitive takes, arrays and refs (to read and write as in a kernel), and returns arrays
    of the shapes and dtypes that the primitive returns. It is traced where the kernel is captured; nothing of it runs in Python
    later. Registering a name again replaces its function. Without `function`, a decorator.

        @pallasim.register_lowering("inline_mgpu.rescale")
        def rescale(x, factor):
            return x * factor

    Raises TypeError for a name that is no string or a function that cannot be called.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"register_lowering: a primitive's name is a string, not {name!r}")
    if function is None:
        return lambda f: register_lowering(name, f)
    if not callable(function):
        raise TypeError(f"register_lowering({name!r}): {function!r} cannot be called")
    _registered[name] = function
    return function


def unregister_lowering(name: str) -> None:
    """Forgets the function of a name; kernels captured before keep it. Raises KeyError where there is none."""
    del _registered[name]


def registered(name: str) -> Callable[..., Any] | None:
    return _registered.get(name)
