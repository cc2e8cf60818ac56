"""Tensors of PyTorch as arrays of JAX and back: one memory where that is possible."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

DEVICE = "tpu"  # of PyTorch, as the Pallas back ends know it (`_torch_device`)
_CPU, _EXTENSION = 1, 12  # kDLCPU, kDLExtDev of DLPack; PyTorch takes the latter for the device that a program adds to it
_DEVICE_TYPE = 8  # where a DLManagedTensor has it: behind the pointer to its data

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_WIDE = {torch.int64: torch.int32, torch.uint64: torch.uint32, torch.float64: torch.float32, torch.complex128: torch.complex64}


def _elsewhere(tensor: torch.Tensor, kind: int) -> torch.Tensor:
    capsule = torch.utils.dlpack.to_dlpack(tensor.detach())
    ctypes.c_int32.from_address((_pointer(capsule, b"dltensor") or 0) + _DEVICE_TYPE).value = kind
    return torch.utils.dlpack.from_dlpack(capsule)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU tensor over the memory of a tensor of the emulated device; any other tensor as it is."""
    if tensor.device.type != DEVICE:
        return tensor
    # Memory of no bytes has no address by which PyTorch would know whose it is.
    return _elsewhere(tensor, _CPU) if tensor.numel() else torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor of the emulated device over the memory of a CPU tensor."""
    return _elsewhere(tensor.resolve_conj().resolve_neg(), _EXTENSION)


def require(tensor: Any, name: str) -> None:
    """Raises TypeError for what no kernel of the emulator can be given, with what to write instead."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}: a kernel takes tensors of PyTorch")
    if tensor.device.type not in ("cpu", DEVICE):
        raise TypeError(f"{name} is on {str(tensor.device)!r}, and the emulator runs in the memory of the CPU: use .cpu()")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"{name} has the layout {tensor.layout}, and kernels take plain strided tensors: use .to_dense()")
    if tensor.dtype in _WIDE and not _x64():
        raise TypeError(f"{name} is {tensor.dtype}, which TPUs do not have and JAX would cut to 32 bits: use .to({_WIDE[tensor.dtype]}), "
                        "or set jax_enable_x64 where a kernel is meant to have it")


def _x64() -> bool:
    import jax

    return bool(jax.config.jax_enable_x64)


def to_jax(tensor: torch.Tensor, name: str = "the tensor") -> Any:
    """The array of JAX over the memory of a tensor. Strides other than those of row-major order, and an address that XLA cannot use (a
    view that begins between multiples of 64 bytes), make a copy. Raises TypeError for what kernels cannot be given."""
    import jax

    require(tensor, name)
    host = on_host(tensor.detach()).resolve_conj().resolve_neg().contiguous()
    if host.dtype is torch.float4_e2m1fn_x2:
        raise TypeError(f"{name} is {host.dtype}, two elements to a byte, which the emulator keeps in another way: use float8_e4m3fn")
    if not host.numel():
        return jax.numpy.zeros(tuple(host.shape), torch_dtype_to_jax(host.dtype))
    return jax.dlpack.from_dlpack(host)


def torch_dtype_to_jax(dtype: torch.dtype) -> Any:
    """The dtype of JAX with the same name. Raises TypeError where JAX has none."""
    import jax.numpy as jnp

    name = str(dtype).removeprefix("torch.")
    try:
        return jnp.dtype(getattr(jnp, "bool_" if name == "bool" else name))
    except AttributeError:
        raise TypeError(f"JAX has no {dtype}") from None


def jax_dtype_to_torch(dtype: Any) -> torch.dtype:
    """The dtype of PyTorch with the same name. Raises TypeError where PyTorch has none."""
    found = getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"PyTorch has no {dtype}")
    return found


def to_torch(array: Any, taken: Sequence[int] = ()) -> torch.Tensor:
    """The CPU tensor over the memory of a result of JAX. Memory at an address that somebody else has (`taken`: a program that hands on an
    argument gives that back) is copied, as who writes to a result does not mean the argument."""
    if not array.size:
        return torch.empty(tuple(array.shape), dtype=jax_dtype_to_torch(array.dtype))
    tensor = torch.utils.dlpack.from_dlpack(array)
    return tensor.clone() if tensor.data_ptr() in taken else tensor


def addresses(arrays: Sequence[Any]) -> list[int]:
    """Where arrays lie."""
    return [a.unsafe_buffer_pointer() for a in arrays if a.size]


def results(arrays: Sequence[Any], taken: list[int], device: str) -> list[torch.Tensor]:
    """The results of a program as tensors of their own, on the device; `taken`: where its arguments lie."""
    found = []
    for array in arrays:
        tensor = to_torch(array, taken)
        if tensor.numel():
            taken.append(tensor.data_ptr())
        found.append(on_device(tensor) if device == DEVICE else tensor)
    return found
