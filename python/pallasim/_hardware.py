"""What kernels and libraries ask the device, answered for the emulated one."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _context
from ._params import MACHINES, Machine

_patched = False


def current() -> Machine | None:
    """The emulated machine of this thread, None where nothing is emulated or the machine is generic."""
    params = _context.active()
    machine = None if params is None else MACHINES[params.machine]
    return None if machine is None or machine.ir_machine == "generic" else machine


def _answer(module: Any, name: str, value: Callable[[Machine], Any], applies: Callable[[Machine], bool]) -> None:
    original = getattr(module, name, None)
    if original is None:
        return

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        machine = current()
        if machine is not None and applies(machine) and not _abstract_device():
            return value(machine)
        return original(*args, **kwargs)

    wrapped.__wrapped__ = original  # type: ignore[attr-defined]
    setattr(module, name, wrapped)


def _abstract_device() -> bool:
    from jax._src import mesh

    try:
        return mesh.get_abstract_mesh().abstract_device is not None
    except Exception:
        return False


def patch() -> None:
    """Wraps JAX's questions about the device. Safe to call often; what is not emulated gets JAX's own answer."""
    global _patched
    if _patched:
        return
    _patched = True
    from ._capture import jaxver

    tpu_info = jaxver.module("tpu_info", load=True) or jaxver.module("tpu_info_0_10", load=True)
    if tpu_info is None:
        return
    is_tpu = lambda m: m.ir_machine == "tpu"  # noqa: E731
    _answer(tpu_info, "get_device_kind", lambda m: m.device_kind, is_tpu)
    _answer(tpu_info, "get_num_device_cores", lambda m: m.num_cores, is_tpu)
