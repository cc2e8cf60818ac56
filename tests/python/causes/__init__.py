"""Kernels with one mistake each: what a checked run says of it, and how often. `bugs.py` has the form, the others have the kernels."""
from __future__ import annotations

import importlib

from .bugs import BUGS, Bug

FAMILIES = ("tpu", "triton", "mosaic")


def all_bugs() -> dict[str, Bug]:
    """Name -> bug, of every family."""
    for family in ("tpu", "tpu_copies", "triton", "triton_memory", "mosaic", "mosaic_blocks", "mosaic_tensor", "mosaic_pairs"):
        importlib.import_module(f"{__name__}.{family}")
    return BUGS
