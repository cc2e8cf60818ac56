"""What a checked run says of a mutant."""
from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pallasim

from .outcomes import load


@dataclasses.dataclass(frozen=True)
class Said:
    """One finding: `line` is where it stands in the kernel's file (0: elsewhere), `lines` are all that it names there."""

    code: str
    severity: str
    line: int
    lines: tuple[int, ...]
    message: str
    seed: int | None = None


def check(path: pathlib.Path, seed: int | None = None, data: int = 0, **options: Any) -> list[Said]:
    """All findings of a checked run on the inputs number `data`, the error that stopped it included, in their order."""
    program = load(path)
    pallasim.findings()
    error = None
    try:
        program.run(data, detect_races=True, random_seed=seed, **options)
    except pallasim.KernelError as e:
        error = e.finding
    found = pallasim.findings()
    if error is not None and error not in found:
        found.append(error)
    return [said(f, path, program.lines(f.site, *f.also), seed) for f in found]


def said(f: pallasim.Finding, path: pathlib.Path, lines: tuple[int, ...], seed: int | None) -> Said:
    callers = [s.line for s in (f.site.source, *f.site.callers) if s.file == str(path)]
    return Said(f.code, f.severity, callers[0] if callers else 0, lines, f.message, seed)


def check_all(path: pathlib.Path, data: int = 0) -> list[Said]:
    """Of an ordinary schedule; where that has nothing but notes, of two others, and on the inputs number `data`."""
    for seed, inputs in ((None, 0), (1, 0), (2, 0), *([(None, data)] if data else [])):
        found = check(path, seed, inputs)
        if any(s.severity != "note" for s in found):
            break
    return found
