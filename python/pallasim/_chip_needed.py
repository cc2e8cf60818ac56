"""Questions that only a chip can answer, asked while a machine is emulated that is none: an error that names the option."""
from __future__ import annotations

import functools
from typing import Any

from . import _context
from ._params import MACHINES

_patched = False
# What devices are asked, and the family of chips that has an answer.
_ATTRIBUTES = {"num_cores": "tpu", "coords": "tpu", "core_on_chip": "tpu", "compute_capability": "gpu", "core_count": "gpu"}


def _sentence(question: str, family: str) -> str:
    """Empty where nothing is emulated, or a chip that knows."""
    params = _context.active()
    if params is None or MACHINES[params.machine].ir_machine == family:
        return ""
    chips = [name for name, machine in MACHINES.items() if machine.ir_machine == family]
    kind = {"tpu": "TPU", "gpu": "GPU"}[family]
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

    @functools.wraps(original)
    def get_tpu_info(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except ValueError as e:
            if sentence := _sentence("pltpu.get_tpu_info()", "tpu"):
                raise ValueError(f"{e}: {sentence}") from None
            raise

    for module in modules:
        module.get_tpu_info = get_tpu_info


def patch() -> None:
    """Adds the sentence to JAX's errors. After `_hardware.patch`; safe to call often."""
    global _patched
    if _patched:
        return
    _patched = True
    from jax._src.lib import xla_client

    _attributes(xla_client.Device)
    try:
        from jax._src.pallas.mosaic import tpu_info
        from jax.experimental.pallas import tpu as pltpu
    except ImportError:
        return
    if hasattr(tpu_info, "get_tpu_info"):
        _tpu_info([tpu_info, pltpu])
