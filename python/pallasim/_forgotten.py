"""A program that imports pallasim and forgets the block: JAX's error for its kernel says which line is missing.

JAX is not imported for that. Where it is there, or once it comes, the lowering of kernels on the CPU is watched; and its barriers, whose
lines reports name (`_made`).
"""
from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_BARRIERS = "jax._src.pallas.mosaic_gpu.core"
# Modules of JAX, and which of its primitives each has; one has barriers, those without either know the chip.
_WATCHED = {"jax._src.pallas.pallas_call": "pallas_call", "jax._src.pallas.mpmd": "mpmd_map",
            "jax._src.tpu_info": "", "jax._src.pallas.mosaic.tpu_info": "", _BARRIERS: ""}


def _loaded(name: str) -> None:
    if name == _BARRIERS:
        importlib.import_module(f"{__package__}._made").watch(sys.modules[name])
        return
    chip_needed, lowering = (importlib.import_module(f"{__package__}.{m}") for m in ("_chip_needed", "_lowering"))  # the package imports this module
    if primitive := _WATCHED[name]:
        lowering.explain(primitive)
        chip_needed.patch_devices()
    else:
        chip_needed.patch_tpu_info(sys.modules[name])


class _Finder:
    """Is told what is imported, and finds nothing itself."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _WATCHED or name in _looking:
            return None
        from importlib.util import find_spec

        _looking.add(name)
        try:
            spec = find_spec(name)
        finally:
            _looking.discard(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            _loaded(name)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_looking: set[str] = set()


def watch() -> None:
    """To be called once, when the package is imported."""
    for name in _WATCHED:
        if name in sys.modules:
            _loaded(name)
    if not all(name in sys.modules for name in _WATCHED):
        sys.meta_path.insert(0, _Finder())
