"""The modules of torch_tpu that Pallas back ends of PyTorch import, over the emulator: only where there is no torch_tpu."""
from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, NoReturn

from . import _torch_kernels as kernels
from ._params import MACHINES

_ROOT = "torch_tpu"


def require_absent() -> None:
    """Raises RuntimeError where the real package is installed or loaded: its place is not taken."""
    loaded = sys.modules.get(_ROOT)
    if loaded is not None:
        found = not hasattr(loaded, "__pallasim__")
    else:
        found = importlib.util.find_spec(_ROOT) is not None
    if found:
        where = getattr(loaded, "__file__", None) or "this environment"
        raise RuntimeError(f"torch_tpu is installed ({where}), and pallasim.torch.install() does not take its place: uninstall it, or use another environment")


def register() -> None:
    """Puts the modules into `sys.modules`."""
    require_absent()
    from . import __version__

    for name, members in _members().items():
        module = sys.modules[name] = types.ModuleType(name, "Pallasim's stand-in for torch_tpu (pallasim.torch.install)")
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin="pallasim.torch")
        module.__path__ = []
        module.__dict__.update(members)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)
    sys.modules[_ROOT].__dict__.update(__pallasim__=True, __version__=f"pallasim-{__version__}")


def remove() -> None:
    """Takes them out again; real ones stay."""
    if hasattr(sys.modules.get(_ROOT), "__pallasim__"):
        for name in [n for n in sys.modules if n == _ROOT or n.startswith(_ROOT + ".")]:
            del sys.modules[name]


def _device_name() -> str:
    return MACHINES[kernels.in_force().machine].device_kind


def _no_mesh(*_: Any, **__: Any) -> NoReturn:
    raise kernels._unsupported("kernel", "a kernel on several devices of torch.distributed; the emulated one is alone")


def _members() -> dict[str, dict[str, Any]]:
    """Module -> names, parents first."""
    launch = {n: getattr(kernels, n) for n in ("lookup_custom_kernel", "register_custom_kernel", "call_custom_kernel")}
    functions = {n: getattr(kernels, n) for n in ("JaxCallable", "jax_placeholder", "_get_kernel_invocation_key")}
    mesh = {"get_default_pallas_mesh": _no_mesh, "get_pallas_mesh": _no_mesh}
    inside = f"{_ROOT}._internal"
    return {
        _ROOT: {}, inside: {}, f"{inside}.pallas": mesh,
        f"{inside}.pallas.tpu_torch_pallas": launch,
        f"{inside}.pallas.pallas": functions | mesh,
        f"{inside}.utils": {}, f"{inside}.utils.hardware": {"get_tpu_device_name": _device_name},
    }
