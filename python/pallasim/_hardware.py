"""What kernels and libraries ask the device, answered for the emulated one."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _context, _cuda, _platform
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
    """Whether the program names a device of its own. Inside shard_map there is that of the process, which is none; it bears
    the kind that the devices answered with when the mesh was made, emulated or not."""
    import jax
    from jax._src import mesh

    try:
        device = mesh.get_abstract_mesh().abstract_device
        return device is not None and device.platform != jax.devices()[0].platform
    except Exception:
        return False


_ABSENT = object()


def _attribute(device: type, name: str, value: Callable[[Machine, Any], Any], applies: Callable[[Machine], bool]) -> None:
    """Devices of the process answer as the emulated chip where one is emulated, else as they are."""
    original = getattr(device, name, _ABSENT)

    def get(self: Any) -> Any:
        machine = current()
        if machine is not None and applies(machine):
            return value(machine, self)
        if original is _ABSENT:
            raise AttributeError(f"'{device.__name__}' object has no attribute '{name}'")
        return original.__get__(self)  # type: ignore[attr-defined]

    setattr(device, name, property(get))


def _device_attributes(device: type) -> None:
    """What libraries read off `jax.devices()[0]`; its platform, which JAX's own code depends on, is in `_platform`."""
    _attribute(device, "device_kind", lambda m, d: m.device_kind, lambda m: True)
    is_tpu: Callable[[Machine], bool] = lambda m: m.ir_machine == "tpu"  # noqa: E731
    _attribute(device, "num_cores", lambda m, d: m.num_cores, is_tpu)
    _attribute(device, "coords", lambda m, d: (d.id, 0, 0), is_tpu)
    _attribute(device, "slice_index", lambda m, d: 0, is_tpu)
    _attribute(device, "core_on_chip", lambda m, d: 0, is_tpu)
    _attribute(device, "core_count", lambda m, d: m.num_cores, lambda m: not is_tpu(m))
    _attribute(device, "compute_capability", lambda m, d: m.compute_capability, lambda m: not is_tpu(m))


def _count_cores(core: Any) -> None:
    """create_tensorcore_mesh asks a device for its cores, which a CPU's has not."""
    import jax.experimental.pallas.tpu as pltpu

    original = core.create_tensorcore_mesh

    def create_tensorcore_mesh(axis_name: str, devices: Any = None, num_cores: int | None = None) -> Any:
        machine = current()
        if devices is None and num_cores is None and machine is not None and machine.ir_machine == "tpu" and not _abstract_device():
            num_cores = machine.num_cores
        return original(axis_name, devices, num_cores)

    create_tensorcore_mesh.__wrapped__ = original  # type: ignore[attr-defined]
    core.create_tensorcore_mesh = pltpu.create_tensorcore_mesh = create_tensorcore_mesh


def _drop_compiler_options() -> None:
    """Options of the TPU's compiler (`xla_tpu_…`), which the CPU's does not know, are left out."""
    from jax._src import compiler

    original = compiler.get_compile_options

    def get_compile_options(*args: Any, env_options_overrides: Any = None, **kwargs: Any) -> Any:
        machine = current()
        if env_options_overrides and machine is not None and machine.ir_machine == "tpu":
            env_options_overrides = {k: v for k, v in env_options_overrides.items() if not k.startswith("xla_tpu_")}
        return original(*args, env_options_overrides=env_options_overrides, **kwargs)

    get_compile_options.__wrapped__ = original  # type: ignore[attr-defined]
    compiler.get_compile_options = get_compile_options


def patch() -> None:
    """Wraps JAX's questions about the device. Safe to call often; what is not emulated gets JAX's own answer."""
    global _patched
    if _patched:
        return
    _patched = True
    from ._capture import jaxver

    from jax._src.lib import xla_client

    _device_attributes(xla_client.Device)
    _platform.patch()
    _cuda.patch()
    _drop_compiler_options()
    if (core := jaxver.module("tpu_core", load=True)) is not None and hasattr(core, "create_tensorcore_mesh"):
        _count_cores(core)

    tpu_info = jaxver.module("tpu_info", load=True) or jaxver.module("tpu_info_0_10", load=True)
    if tpu_info is None:
        return
    is_tpu = lambda m: m.ir_machine == "tpu"  # noqa: E731
    _answer(tpu_info, "get_device_kind", lambda m: m.device_kind, is_tpu)
    _answer(tpu_info, "get_num_device_cores", lambda m: m.num_cores, is_tpu)
