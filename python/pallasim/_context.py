"""Which options are in force where a program is traced or lowered.

They live in a context value of JAX's own (`jax.make_user_context`): it is local to the thread and part of the key of
every trace and executable that JAX caches, so nothing compiled under other options is found, inside or outside. JAX's
switches for its interpreters stay as they are; what they ask for is merged (`_interpret`).
"""
from __future__ import annotations

from typing import Any

_value: Any = None


def value() -> Any:
    """JAX's context value: callable as a context manager, with `.value` and `.set_global`."""
    global _value
    if _value is None:
        import jax

        _value = jax.make_user_context(None)
    return _value


def active() -> Any:
    """The `Params` of the innermost `emulate` block of this thread, else of `install`, else None."""
    return None if _value is None else _value.value
