"""Questions that only a chip can answer, asked while nothing is emulated or a machine that is none: an error that names the option."""
from __future__ import annotations

import functools
import sys
from typing import Any

from . import _context

_patched: set[str] = set()
# What devices are asked, and the family of chips that has an answer.
_ATTRIBUTES = {"num_cores": "tpu", "coords": "tpu", "core_on_chip": "tpu", "compute_capability": "gpu", "core_count": "gpu"}


def _sentence(question: str, family: str) -> str:
    """Empty where a chip is emulated that knows."""
    from ._params import MACHINES

    params = _context.active()
    if params is not None and MACHINES[params.machine].ir_machine == family:
        return ""
    chips = [name for name, machine in MACHINES.items() if machine.ir_machine == family]
    kind = {"tpu": "TPU", "gpu": "GPU"}[family]
    if params is None:
        return f"{question} needs a {kind}: pallasim emulates one inside `with pallasim.emulate({chips[-1]!r}):` (there are {', '.join(chips)})"
    return (f"{question} needs a {kind}, and the emulated machine is {params.machine!r}: "
            f"pallasim.emulate({chips[-1]!r}) names one (there are {', '.join(chips)})")


def _attributes(device: type) -> None:
    """Whatever a device lacks, JAX's `__getattr__` is asked last, and answers with an error that has no text."""
    original = getattr(device, "__getattr__", None)
    if original is None:
        return

    def missing(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if name in _ATTRIBUTES and (sentence := _sentence(f"Device.{name}", _ATTRIBUTES[name])):
                raise AttributeError(sentence) from None
            raise

    device.__getattr__ = missing  # type: ignore[attr-defined]


def _tpu_info(modules: list[Any]) -> None:
    original = modules[0].get_tpu_info
    if hasattr(original, "_says_pallasim"):
        for module in modules[1:]:
            module.get_tpu_info = original
        return

    @functools.wraps(original)
    def get_tpu_info(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except ValueError as e:
            if sentence := _sentence("pltpu.get_tpu_info()", "tpu"):
                raise ValueError(f"{e}: {sentence}") from None
            raise

    get_tpu_info._says_pallasim = True  # type: ignore[attr-defined]
    for module in modules:
        module.get_tpu_info = get_tpu_info


def patch_devices() -> None:
    """Adds the sentence to errors of devices. Safe to call often."""
    if "devices" in _patched:
        return
    _patched.add("devices")
    from jax._src.lib import xla_client

    _attributes(xla_client.Device)


def patch_tpu_info(module: Any) -> None:
    """The same for `get_tpu_info` of JAX's module, before others have the function from it."""
    if hasattr(module, "get_tpu_info"):
        others = [sys.modules.get("jax.experimental.pallas.tpu")]
        _tpu_info([module, *(m for m in others if hasattr(m, "get_tpu_info"))])


def patch() -> None:
    """Adds the sentence to JAX's errors. After `_hardware.patch`; safe to call often."""
    patch_devices()
    if "info" in _patched:
        return
    _patched.add("info")
    try:
        from jax._src.pallas.mosaic import tpu_info
        from jax.experimental.pallas import tpu as pltpu
    except ImportError:
        return
    if hasattr(tpu_info, "get_tpu_info"):
        _tpu_info([tpu_info, pltpu])
