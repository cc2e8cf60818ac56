"""Which platform a program runs on, as code outside JAX is told: that of the emulated chip. JAX itself gets the truth.

Who asks decides: the module of the Python function that calls or reads. Kernels that come with JAX
(`jax.experimental.pallas.ops`) choose by platform as other libraries do and are told what those are.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import _context
from ._params import MACHINES

_LIBRARIES_OF_JAX = "jax.experimental.pallas.ops."
_INSIDE = ("jax.", "jaxlib.", "pallasim.")
# Platforms of a chip, as programs spell them; the first is what JAX on such a machine says.
_NAMES = {"tpu": ("tpu",), "gpu": ("gpu", "cuda")}


def emulated() -> str:
    """"tpu" or "gpu" where such a chip is emulated and answers for the platform, else ""."""
    params = _context.active()
    if params is None or not params.platform:
        return ""
    kind = MACHINES[params.machine].ir_machine
    return kind if kind in _NAMES else ""


def is_outside(name: str) -> bool:
    """Whether a module of that name is a program's, or one of the kernel libraries that come with JAX."""
    return name.startswith(_LIBRARIES_OF_JAX) or not (name.startswith(_INSIDE) or name in ("jax", "jaxlib", "pallasim"))


def _asked_from_outside(depth: int) -> bool:
    return is_outside(sys._getframe(depth + 1).f_globals.get("__name__") or "")


def _attribute(owner: type, name: str) -> None:
    """A property with the platform's name."""
    original = getattr(owner, name)

    def get(self: Any) -> Any:
        chip = emulated()
        return chip if chip and _asked_from_outside(1) else original.__get__(self)

    setattr(owner, name, property(get))


def everywhere(wrapped: dict[int, tuple[Any, Any]]) -> None:
    """Binds the names that modules have for functions of JAX anew (id -> function and its replacement); who imports one later gets it from those."""
    originals = frozenset(wrapped)
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict):
            for name in [n for n, v in names.items() if id(v) in originals]:
                names[name] = wrapped[id(names[name])][1]


def _replacement(module: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[tuple[int, tuple[Any, Any]]]:
    original = getattr(module, name, None)
    if original is not None:
        yield id(original), (original, functools.wraps(original)(wrap(original)))


def _says_chip(original: Any) -> Any:
    def default_backend() -> Any:
        chip = emulated()
        return chip if chip and _asked_from_outside(1) else original()

    return default_backend


def _takes_chip(position: int, keyword: str) -> Callable[[Any], Any]:
    """A function that takes the name of a platform: the chip's is that of the process."""

    def wrap(original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            names = _NAMES.get(emulated(), ())
            if names and _asked_from_outside(1):
                if len(args) > position and args[position] in names:
                    args = (*args[:position], None, *args[position + 1:])
                elif kwargs.get(keyword) in names:
                    kwargs[keyword] = None
            return original(*args, **kwargs)

        return call

    return wrap


def _chooses_chip(original: Any) -> Any:
    """platform_dependent: the branch of the chip, where JAX would stage all and take that of the process."""

    def platform_dependent(*args: Any, default: Any = None, **per_platform: Any) -> Any:
        if (names := _NAMES.get(emulated(), ())) and _asked_from_outside(1):
            chosen = [per_platform[n] for n in reversed(names) if n in per_platform] or [default]
            if chosen[0] is not None:
                return chosen[0](*args)
        return original(*args, default=default, **per_platform)

    return platform_dependent


def patch() -> None:
    """Wraps JAX's answers; to be called once. Without an emulated chip they are JAX's own."""
    from jax._src import xla_bridge
    from jax._src.lax.control_flow import conditionals
    from jax._src.lib import xla_client

    _attribute(xla_client.Device, "platform")
    _attribute(xla_client.Client, "platform")
    wrapped = dict(_replacement(xla_bridge, "default_backend", _says_chip))
    for name in ("devices", "device_count", "local_device_count", "get_backend", "process_count"):
        wrapped.update(_replacement(xla_bridge, name, _takes_chip(0, "platform" if name == "get_backend" else "backend")))
    wrapped.update(_replacement(xla_bridge, "local_devices", _takes_chip(1, "backend")))
    wrapped.update(_replacement(conditionals, "platform_dependent", _chooses_chip))
    everywhere(wrapped)
