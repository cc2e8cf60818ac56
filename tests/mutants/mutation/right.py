"""A kernel as it is: whether it is right, and what is said of it."""
from __future__ import annotations

from typing import Any

import jax
import numpy as np

import pallasim

from . import checked, outcomes, source

WAYS: tuple[dict[str, Any], ...] = ({}, {"seed": 1}, {"seed": 2, "dma_execution_mode": "scheduled"}, {"dma_execution_mode": "on_wait"})


def look(name: str) -> dict[str, Any]:
    """`wrong`: how its result differs from NumPy's; `said`: what checked runs say under each of `WAYS`, notes included."""
    path, before = source.kernels()[name], pallasim.launch_count()
    program = outcomes.load(path)
    got = program.run(0)
    want = [np.asarray(x) for x in jax.tree.leaves(program.module.reference(*program.inputs(0)))]
    wrong = "" if len(got) == len(want) else f"{len(got)} results instead of {len(want)}"
    for a, b in zip(got, want):
        if a.shape != b.shape or not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-5):
            wrong = f"not the result of NumPy: {a} instead of {b}"
    if not any(np.any(b) for b in want):
        wrong = "a result of zeros proves nothing"
    launched = pallasim.launch_count() > before
    said = [f"{s.code} at line {s.line} under {way}: {s.message}" for way in WAYS for s in checked.check(path, **way)]
    return {"wrong": wrong, "said": said, "launched": launched}
