"""Switching the emulator on: for a block of code, or for the process."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _context, _hardware, _lowering
from ._params import Params

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import Options


class emulate:
    """`with pallasim.emulate("tpu-v5e", detect_races=True): ...`

    Pallas kernels that are traced inside run on the emulator; outside, JAX's own rules are untouched. Options are those
    of `Params`. A call's own `interpret=` and JAX's interpreter switches do not lead out of the block; the options of
    JAX's InterpretParams are followed. Libraries that ask for the platform, or a device for its kind, cores or coordinates,
    see the emulated one (`platform=False`: the platform of the process). A failing kernel raises `KernelError` when the error leaves the block (JAX's
    own JaxRuntimeError inside it), with the report as its text.
    """

    def __init__(self, machine: str = "generic", **options: Unpack[Options]) -> None:
        self.params = Params(machine=machine, **options)
        self._entered: list[Any] = []

    def __enter__(self) -> Params:
        _lowering.register()
        _hardware.patch()
        block = _context.value()(self.params)
        block.__enter__()
        self._entered.append(block)
        return self.params

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._entered.pop().__exit__(kind, error, tb)
        if error is not None:
            _lowering.reraise(error)


def install(machine: str = "generic", **options: Unpack[Options]) -> Params:
    """Runs all Pallas kernels of the process on the emulator from now on; `uninstall()` ends that."""
    params = Params(machine=machine, **options)
    _hardware.patch()
    _context.value().set_global(params)
    return params


def uninstall() -> None:
    """Undoes `install`."""
    _context.value().set_global(None)
