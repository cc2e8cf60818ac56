"""Switching the emulator on: for a block of code, or for the process."""
from __future__ import annotations

from types import TracebackType
from typing import Any

from . import _hardware, _lowering
from ._params import Params


def _switch() -> Any:
    """JAX's configuration value that reaches every Pallas call's `interpret` and is part of the jit cache key."""
    from jax._src import config

    return config.pallas_tpu_interpret_mode_context_manager


class emulate:
    """`with pallasim.emulate("tpu-v5e", detect_races=True): ...`

    Pallas kernels that are traced inside run on the emulator; outside, JAX's own rules are untouched. Options are those
    of `Params`. Libraries that ask for the device see the emulated one. A failing kernel raises `KernelError` when the
    error leaves the block (JAX's own JaxRuntimeError inside it), with the report as its text.
    """

    def __init__(self, machine: str = "generic", **options: Any) -> None:
        self.params = Params(machine=machine, **options)
        self._previous: list[Any] = []

    def __enter__(self) -> Params:
        _lowering.register()
        _hardware.push(self.params.machine)
        self._previous.append(_switch().swap_local(self.params))
        _lowering.innermost.append(self.params)
        return self.params

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _lowering.innermost.pop()
        _switch().set_local(self._previous.pop())
        _hardware.pop()
        if error is not None:
            _lowering.reraise(error)


def install(machine: str = "generic", **options: Any) -> Params:
    """Runs all Pallas kernels of the process on the emulator from now on; `uninstall()` ends that."""
    params = Params(machine=machine, **options)
    uninstall()
    _hardware.push(machine)
    _switch().set_global(params)
    global _installed
    _installed = True
    return params


_installed = False


def uninstall() -> None:
    """Undoes `install`."""
    global _installed
    if _installed:
        _switch().set_global(None)
        _hardware.pop()
        _installed = False
