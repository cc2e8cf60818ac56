"""Breakpoints in kernels: the launch waits while somebody looks at values, as NumPy arrays, in pdb or whatever `sys.breakpointhook` is."""
from __future__ import annotations

import bdb
import dataclasses
import functools
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from . import _findings

_lock = threading.Lock()  # one debugger at a time
_callbacks: dict[int, Sequence[Callback]] = {}  # by the number that launches know
_numbers = itertools.count(1)
_here = threading.local()  # .finding: where the launch of this thread is


@dataclasses.dataclass(frozen=True)
class Callback:
    """What a debug callback of a kernel calls, and the arguments of it: types of arrays; of refs what stands for them.
    `stops`: the launch waits for it; others are called when it has ended."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    stops: bool = False

    def __call__(self, arrays: Sequence[tuple[str, Sequence[int], bytes]]) -> None:
        given = iter(arrays)
        self.call(*[a if isinstance(a, Reference) else _array(a, next(given)) for a in self.arguments])


def _array(dtype: Any, argument: tuple[str, Sequence[int], bytes]) -> Any:
    _, dims, data = argument
    return np.frombuffer(data, dtype).reshape(dims)


@dataclasses.dataclass(frozen=True)
class Reference:
    """Stands for a ref at a breakpoint: its elements are not copied. `x=x_ref[...]` shows them."""

    aval: str

    def __repr__(self) -> str:
        return f"<{self.aval}>"


@dataclasses.dataclass(frozen=True)
class Stop:
    """Where a launch waits, in the debugger by the name `stop`.

    file, line, function: of the breakpoint. kernel: its name. thread: "core 1", empty for a single thread. `grid_point` is None outside
    a grid. values: by name, NumPy arrays.
    """

    file: str
    line: int
    function: str
    kernel: str = ""
    thread: str = ""
    grid_point: tuple[int, ...] | None = None
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        places = [f"in {self.kernel}" if self.kernel else f"in {self.function}", self.thread, f"grid point {self.grid_point}" if self.grid_point is not None else ""]
        return f"{self.file}:{self.line} " + ", ".join(filter(None, places))


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of a kernel: who calls it with values stops there."""

    file: str
    line: int
    function: str
    globals: dict[str, Any] = dataclasses.field(repr=False)

    def __call__(self, **values: Any) -> None:
        where: _findings.Finding | None = getattr(_here, "finding", None)
        stop = Stop(self.file, self.line, self.function, values=values)
        if where is not None:
            stop = dataclasses.replace(stop, kernel=where.kernel, thread=where.thread, grid_point=where.grid_point)
        _enter(self, stop)


def breakpoint(when: Any = True, **values: Any) -> None:
    """Stops a kernel here, each time that `when`, one truth value, holds.

    Called in a kernel. The debugger that `sys.breakpointhook` starts, pdb unless somebody said otherwise, sees a frame of the kernel's
    line with `values` as NumPy arrays; without any, all arrays that the caller's variables hold. `stop` there is a `Stop`: kernel, line,
    grid point and thread. The launch waits: with a breakpoint it runs in one piece, in the order of the grid. Whoever quits the debugger
    ends the launch with an error (PS-INT-001).
    """
    import jax
    import jax.numpy as jnp

    from ._capture import jaxver

    if isinstance(when, bool) and not when:
        return
    frame = sys._getframe(1)
    place = Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_globals)
    shown = {name: reference(v) or v for name, v in (values or {n: v for n, v in frame.f_locals.items() if jaxver.is_of_current_trace(v)}).items()}
    if isinstance(when, bool):
        jax.debug.callback(place, **shown)
        return
    if np.shape(when) != ():
        raise ValueError(f"when is one truth value, not {np.shape(when)} of them: jnp.any(...) or jnp.all(...)")
    jax.lax.cond(jnp.asarray(when, bool), lambda: jax.debug.callback(place, **shown), lambda: None)


def reference(value: Any) -> Reference | None:
    """What stands for a ref at a breakpoint; None for other values."""
    from ._capture import jaxver

    aval = jaxver.aval_of_ref(value)
    return None if aval is None else Reference(str(aval))


def known_to_launches(callbacks: Sequence[Callback]) -> str:
    """The setting of a launch whose kernel has these callbacks; empty where none of them stops it."""
    stops = [i for i, c in enumerate(callbacks) if c.stops]
    if not stops:
        return ""
    from . import _core

    number = next(_numbers)
    _callbacks[number] = callbacks
    _core.stop_with(_stop)
    return f"breakpoints={number}:{','.join(map(str, stops))}"


def _stop(number: int, call: tuple[int, Any], where: dict[str, Any]) -> str:
    """A launch is at a breakpoint. Returns why it is to end there."""
    index, arrays = call
    with _lock:
        _here.finding = _findings.from_dict(where)
        traced = sys.gettrace()
        try:
            _callbacks[number][index](arrays)
        except (bdb.BdbQuit, SystemExit, KeyboardInterrupt):
            return "the debugger was quit at a breakpoint"
        except BaseException as e:
            if type(e).__name__ == "Exit":  # as pytest's debugger ends
                return "the debugger was quit at a breakpoint"
            return f"a breakpoint failed with {type(e).__name__}: {e}".partition("\n")[0]
        finally:
            sys.settrace(traced)  # whoever steps out of the kernel's line goes on with the launch
            _here.finding = None
    return ""


def _enter(place: Place, stop: Stop) -> None:
    """Calls `sys.breakpointhook` from a frame of the kernel's line with the values for variables."""
    variables = {**stop.values, "stop": stop, "__stops__": (1,), "__hook__": sys.breakpointhook}
    exec(_code(place), place.globals, variables)


def _code(place: Place) -> CodeType:
    # A debugger stops at the next line that begins behind its hook: this one, where the loop looks for a second turn.
    lines = "\n" * (place.line - 1) + "for __stop__ in __stops__: __hook__()\n"
    return compile(lines, place.file, "exec").replace(co_name=place.function)


# --- jax.debug.breakpoint -------------------------------------------------------------------------------------------
def as_breakpoint(callback: Any) -> Callable[..., None] | None:
    """What stops a launch for the callback of an operation: of `breakpoint()` and of `jax.debug.breakpoint()`; None for other callbacks."""
    from ._capture import jaxver

    target = jaxver.callback_target(callback)
    if isinstance(target, Place):
        return callback  # type: ignore[no-any-return]
    frames = jaxver.breakpoint_frames(target)
    return None if frames is None else lambda *arrays: _enter_frames(frames(arrays))


def patch() -> None:
    """A kernel's breakpoints are at the kernel's lines, and `jax.debug.breakpoint()` in a kernel takes the kernel's values alone: those of
    the functions around it are of another program, which Pallas lets in as constants of the kernel, or not at all. Safe to call often."""
    from jax._src import source_info_util

    from ._capture import jaxver

    frame = jaxver.find("debugger.DebuggerFrame", load=True)
    if frame is None or hasattr(frame.tree_flatten, "__wrapped__"):
        return
    source_info_util.register_exclusion(__file__)
    flatten = frame.tree_flatten

    @functools.wraps(flatten)
    def tree_flatten(self: Any) -> Any:
        if not _in_kernel(sys._getframe()):
            return flatten(self)
        variables = {n: v if jaxver.is_of_current_trace(v) else _still(v) for n, v in self.locals.items()}
        return flatten(dataclasses.replace(self, locals=variables))

    frame.tree_flatten = tree_flatten


def _in_kernel(frame: FrameType | None) -> bool:
    while frame is not None and "jax/_src/pallas/" not in frame.f_code.co_filename.replace("\\", "/"):
        frame = frame.f_back
    return frame is not None


def _still(value: Any) -> Any:
    """A value without what is traced elsewhere."""
    import jax

    leaves, tree = jax.tree.flatten(value)
    return tree.unflatten([Reference(str(v.aval)) if isinstance(v, jax.core.Tracer) else v for v in leaves])


def _enter_frames(frames: Sequence[Any]) -> None:
    frame = frames[0]
    function = next((line.strip() for line in frame.source[:1]), "")
    name = function.removeprefix("def ").partition("(")[0] if function.startswith("def ") else "kernel"
    Place(frame.filename, frame.lineno, name, dict(frame.globals))(**frame.locals)
