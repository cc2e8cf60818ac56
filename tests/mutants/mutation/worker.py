"""What a process does that judges mutants."""
from __future__ import annotations

import dataclasses
import functools
import pathlib
import tempfile
import time
from typing import Any

import jax
import numpy as np

from . import checked, outcomes, source

DEVICES = 4
_originals: dict[str, list[list[np.ndarray]]] = {}


def original(kernel: str) -> list[list[np.ndarray]]:
    if kernel not in _originals:
        _originals[kernel] = outcomes.load(source.kernels()[kernel]).record(range(outcomes.INPUTS))[1]
    return _originals[kernel]


def mutant(name: str, directory: pathlib.Path, classify: bool) -> dict[str, Any]:
    """Everything about one mutant."""
    m = next(m for m in source.mutants_of(name.partition(":")[0]) if m.name == name)
    path = directory / f"{m.kernel}.py"
    path.write_text(m.source)
    begin = time.perf_counter()
    verdict = outcomes.judge(path, m.synchronises, original(m.kernel)) if classify else outcomes.Verdict("unknown")
    judged = time.perf_counter()
    found = [] if verdict.kind in ("stillborn", "refused") else checked.check_all(path, verdict.input)
    return {"name": name, "verdict": dataclasses.asdict(verdict), "said": [dataclasses.asdict(s) for s in found],
            "seconds": [round(judged - begin, 2), round(time.perf_counter() - judged, 2)]}


@functools.cache
def devices() -> None:
    """As many as the kernels ask for. Said by the process that judges, before it uses JAX; who sends it mutants keeps its own."""
    jax.config.update("jax_num_cpu_devices", DEVICES)


class Mutants:
    """What a process is sent: run(NAME) is the answer. mode: "checked" asks for the checks alone."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def run(self, name: str) -> dict[str, Any]:
        devices()
        with tempfile.TemporaryDirectory() as directory:
            try:
                answer = mutant(name, pathlib.Path(directory), self.mode != "checked")
            except Exception as e:  # a mistake of the harness or of the emulator: it is shown, and counted
                answer = {"name": name, "verdict": dataclasses.asdict(outcomes.Verdict("error", f"{type(e).__name__}: {e}")), "said": [], "seconds": [0, 0]}
        return {"status": "ok", "answer": answer}
