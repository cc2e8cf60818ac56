"""The device "tpu" of PyTorch, in the memory of the CPU: every operation runs as PyTorch's own for the CPU, kernels run on the emulator.

The Pallas back ends of Helion and Inductor choose their code for TPUs by the device of the tensors. PyTorch lets one device be added to a
process (PrivateUse1); where torch_tpu or something else has taken that place, nothing is done and the error says so. A tensor of the device
and the CPU tensor below it are two views of one memory, and no operation copies.
"""
from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils import _pytree

from ._torch_tensors import DEVICE, on_device, on_host

_library: torch.library.Library | None = None
_named: torch.library.Library | None = None


class _Module:
    """torch.tpu, as far as PyTorch and the back ends ask it."""

    __name__ = "torch.tpu"

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        if torch.device(device if not isinstance(device, int) else f"{DEVICE}:{device}").index not in (None, 0):
            raise ValueError(f"there is one emulated device, {DEVICE}:0, not {device}")

    def synchronize(self, device: Any = None) -> None:
        """Kernels are done when their call returns."""

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers of the device are those of the CPU, which torch.manual_seed seeds."""

    manual_seed = manual_seed_all

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


def present() -> bool:
    """Whether the device of this module is there."""
    return _library is not None


def start() -> None:
    """Adds the device to PyTorch, for the rest of the process. Safe to call often. Raises RuntimeError where its place is taken."""
    global _library
    if _library is not None:
        return
    from torch.utils import backend_registration

    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone" or hasattr(torch, DEVICE):
        raise RuntimeError(f"PyTorch has the device {name if name != 'privateuseone' else DEVICE!r} already, and can be given one alone: "
                           "install before it is loaded (TORCH_DEVICE_BACKEND_AUTOLOAD=0), or pass device=False")
    setup = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        raise RuntimeError(f"PyTorch {torch.__version__} cannot be given a device by a program in Python: take PyTorch 2.10 or later, or pass device=False")
    setup(DEVICE, _Module())
    _library = torch.library.Library("_", "IMPL", "PrivateUse1")
    _library.fallback(_run)
    _of_constants()
    _wait_for_nothing()


# What PyTorch calls to make `torch.tensor(2.0, device=...)`, and to read it.
_CONSTANTS = ("empty.memory_format", "empty_strided", "_copy_from", "as_strided", "view", "fill_.Scalar", "zero_", "_local_scalar_dense")


def _of_constants() -> None:
    """Registers these operations by name as well: while a program is traced with fake tensors, constants are made by real operations, and PyTorch
    calls no fallback then."""
    global _named
    _named = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for name in _CONSTANTS:
        base, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        _named.impl(name, functools.partial(_run, op))


def _wait_for_nothing() -> None:
    """`torch.accelerator.synchronize()` on the device. PyTorch asks the guard of a device for it, which a device in Python cannot answer: this one
    function of its extension is replaced. Other devices have theirs."""
    original = torch._C._accelerator_synchronizeDevice

    def wait(index: int) -> None:
        if not _of_device(torch.accelerator.current_accelerator()):
            original(index)

    torch._C._accelerator_synchronizeDevice = wait  # type: ignore[assignment]


def _of_device(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE


def _with_tensors(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with numbers as tensors again where the operation takes tensors: PyTorch hands them over as numbers (`x % 3`)."""
    if not any(isinstance(a, int | float | complex) for a in args):
        return args
    kinds = [str(a.type) for a in op._schema.arguments]
    return tuple(torch.tensor(a) if k == "Tensor" and isinstance(a, int | float | complex) else a for a, k in zip(args, kinds, strict=False))


def _run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation of PyTorch with tensors of the device, or one that makes them."""
    asked = kwargs.get("device")
    if _of_device(asked):
        kwargs["device"] = "cpu"
    below: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Size]] = {}

    def down(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.device.type != DEVICE:
            return x
        host = on_host(x)
        below[id(host)] = host, x, host.shape
        return host

    args = _with_tensors(op, args)
    if op is torch.ops.aten._copy_from.default:
        down(args[1]).copy_(down(args[0]))
        return args[1]
    args, kwargs = _pytree.tree_map_only(torch.Tensor, down, (args, kwargs))
    out = op(*args, **kwargs)
    for host, x, shape in below.values():
        if host.shape != shape:  # an output that the operation made as large as it needs it
            x.data = on_device(host)
    elsewhere = asked is not None and not _of_device(asked)

    def up(x: torch.Tensor) -> torch.Tensor:
        if id(x) in below:
            return below[id(x)][1]
        return x if elsewhere or x.device.type != "cpu" else on_device(x)

    return _pytree.tree_map_only(torch.Tensor, up, out)
