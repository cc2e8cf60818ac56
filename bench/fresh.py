"""Fresh processes as those of an installed package are: Python's bytecode lies ready."""
from __future__ import annotations

import os
import pathlib

BYTECODE = pathlib.Path(__file__).resolve().parent.parent / "build" / "bench" / "bytecode"


def environment() -> dict[str, str]:
    """Variables of a process that keeps its bytecode; the first one compiles, and is not to be measured."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}
