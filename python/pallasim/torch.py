"""Kernels of PyTorch's Pallas back ends, on the CPU: `pallasim.torch.install()` (docs/torch.md).

    import pallasim.torch
    pallasim.torch.install("tpu-7x")   # Helion and Inductor find torch_tpu and the device "tpu", and their kernels run on the emulator

Needs PyTorch, `pip install pallasim[torch]`; `import pallasim` does not load it.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

try:
    import torch as _torch  # noqa: F401
except ImportError as e:
    raise ImportError(f"pallasim.torch needs PyTorch ({e}): pip install pallasim[torch]") from e

from . import _context, _emulate, _params, _timers, _torch_device, _torch_modules, _torch_platform
from ._torch_kernels import JaxCallable, function, in_force
from ._torch_tensors import on_device, on_host, to_jax, to_torch

__all__ = ["CHIP", "JaxCallable", "VALUES", "benchmark", "function", "install", "on_device", "on_host", "seconds", "to_jax", "to_torch", "uninstall"]

# What a run is held to. VALUES: what a kernel computes, as JAX's interpreter; a load outside gives what fresh memory holds, and only
# `pallasim.findings()` speaks of it. CHIP: as the chip; a load outside is told even if it is thrown away, and what the compiler refuses is an error.
VALUES: _params.Options = {"rules": "off", "out_of_bounds": "uninitialized", "findings": "collect"}
CHIP: _params.Options = {"rules": "error", "out_of_bounds": "chip", "findings": "warn"}
_PRESETS = {"values": VALUES, "chip": CHIP}


def install(machine: str = "tpu-7x", *, preset: str = "values", device: bool = True, **options: Any) -> _params.Params:
    """Runs the kernels of Helion's and Inductor's Pallas back ends on the emulator from now on, in every thread.

    Puts modules of torch_tpu in place, where the package is not installed, adds the device "tpu" to PyTorch (`device`), whose tensors lie in
    the memory of the CPU, and calls `pallasim.install`. preset: "values" or "chip", `VALUES` and `CHIP`; `options` of `pallasim.Params`
    go before it. Installing again replaces the options.

    Raises RuntimeError, and changes nothing, where torch_tpu is installed or PyTorch's place for a device is taken; ValueError for a machine that
    is no TPU, or a preset that does not exist.
    """
    if preset not in _PRESETS:
        raise ValueError(f"preset is {' or '.join(map(repr, _PRESETS))}, not {preset!r}")
    params = _params.given(machine, {**_PRESETS[preset], **options})
    if _params.MACHINES[machine].ir_machine != "tpu":
        raise ValueError(f"torch_tpu has kernels for TPUs, and {machine!r} is none: take one of "
                         + ", ".join(n for n, m in _params.MACHINES.items() if m.ir_machine == "tpu"))
    _torch_modules.require_absent()
    if device:
        _torch_device.start()
    _emulate.install(**{f.name: getattr(params, f.name) for f in dataclasses.fields(params)})
    _torch_platform.export_for_tpus()
    _torch_modules.register()
    return params


def uninstall() -> None:
    """Undoes `install`. The device stays, as PyTorch gives none back: it computes, and a kernel on it is an error."""
    _torch_modules.remove()
    _emulate.uninstall()


def seconds(f: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    """What the launches of `f(*args, **kwargs)` would take on the chip in force, predicted with the values that they are given (docs/time.md):
    f runs once. Raises RuntimeError where it launches nothing, or more than are kept."""
    with _context.block(dataclasses.replace(in_force(), time=True)):
        _, launches = _timers.timed(f, args, kwargs)
    if not launches:
        raise RuntimeError("0 launches: there is no time to tell")
    return sum(k.seconds for k in launches)


def benchmark(functions: Sequence[Callable[[], Any]], *_: Any, **__: Any) -> list[float]:
    """Predicted milliseconds of each function, for tuners that time callables: Helion's setting `autotune_benchmark_fn`."""
    return [1e3 * seconds(f) for f in functions]
