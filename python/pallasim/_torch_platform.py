"""Kernels that a program exports for TPUs are the emulator's where it is in force."""
from __future__ import annotations

from typing import Any

_done = False


def export_for_tpus() -> None:
    """`jax.export(..., platforms=["tpu"])` takes kernels of the emulator, as it does those of Mosaic. Safe to call often."""
    global _done
    if _done:
        return
    from jax._src.export import _export

    from . import _lowering

    _lowering.register_for("tpu")
    stable: Any = _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE  # the programs live no longer than the process
    stable.add(_lowering.TARGET)
    _done = True
