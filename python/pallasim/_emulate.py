"""Switching the emulator on: for a block of code, a function, or the process."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _chip_needed, _context, _findings, _hardware, _lowering, _second_line, _timers
from ._params import Params, given

if TYPE_CHECKING:
    from typing import Unpack

    from ._params import Options


class _Exit:
    """Leaves a block without a function of Python's, which Ctrl-C would stop before it does; an ExitStack finds it on the class and
    calls it with the block."""

    def __get__(self, block: Any, owner: Any = None) -> Any:
        return self if block is None else block._leave

    def __call__(self, block: Any, *error: Any) -> Any:
        return block._leave(*error)


class emulate:
    """`with pallasim.emulate("tpu-v5e", detect_races=True): ...`, or as a decorator of a function.

    Pallas kernels that are traced inside run on the emulator; outside, JAX's own rules are untouched. It holds for the
    thread that enters it: what other threads run is decorated as well (`pool.map(pallasim.emulate("tpu-v5e")(f), xs)`),
    or the process is switched (`install`). Options are those of `Params`. A call's own `interpret=` and JAX's interpreter
    switches do not lead out of the block; the options of JAX's InterpretParams are followed. Libraries that ask for the
    platform, or a device for its kind, cores or coordinates, see the emulated one (`platform=False`: the platform of the process). A failing kernel's error is
    JAX's own JaxRuntimeError inside the block, and also a `KernelError` with the report as its text once it leaves it.
    """

    def __new__(cls, machine: Any = "generic", **options: Unpack[Options]) -> Any:
        if callable(machine) and not options:  # @pallasim.emulate
            return cls()(machine)
        return super().__new__(cls)

    def __init__(self, machine: str = "generic", *, post_mortem: bool = False, **options: Unpack[Options]) -> None:
        """post_mortem: a block that a kernel's error ends opens the debugger where that was (docs/debugger.md); launches are recorded for it."""
        self._prepare(given(machine, options), post_mortem)

    def _prepare(self, params: Params, post_mortem: bool = False) -> None:
        from . import _core

        self.params = params
        self._recordings: list[Any] | None = [] if post_mortem else None
        self._entered: list[Any] = []
        self._leave = functools.partial(_core.leave, self)

    def __enter__(self) -> Params:
        _switch_on(self.params)
        block = _context.block(self.params)
        block.__enter__()
        self._entered.append(block)
        if self._recordings is not None:
            from . import Recording

            self._recordings.append(Recording())
            self._recordings[-1].params = self.params
            self._recordings[-1].__enter__()
        return self.params

    if TYPE_CHECKING:
        def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None: ...
    else:
        __exit__ = _Exit()

    def _left(self, error: BaseException | None) -> None:
        self._entered.pop().__exit__(None, None, None)
        if self._recordings:
            from . import post_mortem

            post_mortem(self._recordings.pop(), error)
        if error is not None and not _findings.adopt(error):
            if (ours := _findings.in_place_of(error)) is not None:
                raise ours.with_traceback(error.__traceback__) from None
            _second_line.explain(error)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose calls run inside a block of their own. Raises TypeError for a generator or a coroutine function,
        which would run outside."""
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} returns before it runs: write `with pallasim.emulate(...)` inside of it")

        @functools.wraps(function)
        def emulated(*args: Any, **kwargs: Any) -> Any:
            with _again(self.params, self._recordings is not None):
                return function(*args, **kwargs)

        return emulated

    def __repr__(self) -> str:
        return f"<pallasim.emulate {self.params!r}{', entered' if self._entered else ''}>"


def _again(params: Params, post_mortem: bool = False) -> emulate:
    """A block of these options: blocks are not shared by threads."""
    block = object.__new__(emulate)
    block._prepare(params, post_mortem)
    return block


def _switch_on(params: Params) -> None:
    _lowering.register()
    _hardware.patch()
    _chip_needed.patch()
    _timers.patch(params)


def install(machine: str = "generic", **options: Unpack[Options]) -> Params:
    """Runs all Pallas kernels of the process, of every thread, on the emulator from now on; `uninstall()` ends that.

    An `emulate` block inside has its own options. Returns the options; installing again replaces them.
    """
    params = given(machine, options)
    _switch_on(params)
    _context.value().set_global(params)
    _findings.adopt_in_shell()
    return params


def uninstall() -> None:
    """Undoes `install`."""
    _context.value().set_global(None)
