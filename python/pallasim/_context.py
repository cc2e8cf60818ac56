"""Which options are in force where a program is traced or lowered.

They live in a context value of JAX's own (`jax.make_user_context`): it is local to the thread and part of the key of
every trace and executable that JAX caches, so nothing compiled under other options is found, inside or outside. JAX's
switches for its interpreters stay as they are; what they ask for is merged (`_interpret`).
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_value: Any = None
_lock = threading.Lock()
_blocks: dict[int, tuple[int, Any]] = {}   # a number of each `emulate` block that is open: its thread and its options
_kernels: set[str] = set()                 # where the kernels are written that were lowered for the emulator
_MAX_KERNELS = 4096


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


@contextlib.contextmanager
def block(options: Any) -> Iterator[None]:
    """The options hold in this thread inside."""
    number = threading.get_ident(), options
    with _lock:
        _blocks[id(number)] = number
    try:
        with value()(options):
            yield
    finally:
        with _lock:
            del _blocks[id(number)]


def _written(params: Mapping[str, Any]) -> str:
    """Where a kernel is written, and its name."""
    jaxpr = params.get("jaxpr") or next(iter(params.get("jaxprs") or ()), None)
    info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    return str(getattr(info, "func_src_info", "") or "")


def note(params: Mapping[str, Any]) -> None:
    """A kernel is lowered for the emulator."""
    if (written := _written(params)) and len(_kernels) < _MAX_KERNELS:
        _kernels.add(written)


@contextlib.contextmanager
def explained(params: Mapping[str, Any]) -> Iterator[None]:
    """JAX refuses a kernel outside of every block: its error says what would run it."""
    try:
        yield
    except (ValueError, NotImplementedError) as e:
        e.args = (f"{e}\n{_advice(params)}",)
        raise


def _advice(params: Mapping[str, Any]) -> str:
    name = str(params.get("name") or "this kernel")
    with _lock:
        others = [options for thread, options in _blocks.values() if thread != threading.get_ident()]
    if others:
        chip = others[-1].machine
        return (f"pallasim: another thread is inside `with pallasim.emulate({chip!r})`, which holds for that thread alone. Let this thread run "
                f"pallasim.emulate({chip!r})(function), or call pallasim.install({chip!r}) for the whole process.")
    if _written(params) in _kernels:
        return (f"pallasim: {name} ran on the emulator before, inside an emulate block, and is called outside of it. A jitted function is compiled "
                "anew there, without the emulator: call it inside the block, or call pallasim.install() for the whole process.")
    return f"pallasim: call it inside `with pallasim.emulate():` to run {name} on the emulator."
