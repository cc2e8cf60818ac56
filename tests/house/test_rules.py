"""hw_models/rules.csv names every place where JAX's Mosaic GPU lowering raises an error, by reading JAX's own source."""
from __future__ import annotations

import ast
import csv
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_VERSION = "0.10.2"  # of the line numbers
OTHERS = {"torch.py"}  # calls kernels from another framework: no part of a lowering


def raised(path: pathlib.Path) -> set[int]:
    """Lines of `raise` statements that raise something new."""
    return {n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise) and n.exc is not None}


def test_every_error_of_mosaic_gpu_has_a_fate() -> None:
    jax = pytest.importorskip("jax")
    if jax.__version__ != OF_VERSION:
        pytest.skip(f"the lines are those of JAX {OF_VERSION}")
    have: dict[str, set[int]] = {}
    for row in csv.DictReader((ROOT / "hw_models" / "rules.csv").open()):
        folder, _, rest = row["where"].partition("/")
        if folder == "mosaic_gpu":
            name, _, line = rest.partition(":")
            have.setdefault(name, set()).add(int(line))
    source = pathlib.Path(jax.__file__).parent / "_src" / "pallas" / "mosaic_gpu"
    assert sum(map(len, have.values())) > 400
    for path in sorted(p for p in source.glob("*.py") if p.name not in OTHERS):
        missing = sorted(raised(path) - have.get(path.name, set()))
        assert not missing, f"{path.name}: {missing}"
