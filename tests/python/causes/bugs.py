"""A bug is a right kernel with one changed place. A checked run must give one report, and it must be the cause.

The lines are marked in the kernel's own source: `# CAUSE` at those where the first report may stand, `# ALSO` at those that it must name besides (the
other side of a race, the condition of a store that never ran), `# MADE` where it must name one of several. A line may have several marks.
"""
from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import pallasim

# Called with `fixed`: a program to run, and what it returns where the kernel is right.
Builder = Callable[[bool], tuple[Callable[[], Any], Any]]


@dataclasses.dataclass(frozen=True)
class Cause:
    """What the first report must be: one of these codes at one of these lines. Its text has the words ("one | or another"), none of those that
    mislead, names all lines of `also` and one of `made`."""

    codes: tuple[str, ...]
    words: tuple[str, ...]
    misleading: tuple[str, ...]
    lines: frozenset[int]
    also: frozenset[int]
    made: frozenset[int]


@dataclasses.dataclass(frozen=True)
class Bug:
    """`run(fixed)` launches the kernel; `reports`: how many a checked run may give; `devices`: how many JAX must have."""

    name: str
    family: str
    machine: str
    build: Builder
    cause: Cause
    options: dict[str, Any]
    reports: int
    devices: int

    @property
    def file(self) -> str:
        return inspect.getsourcefile(self.build)

    def run(self, fixed: bool, **options: Any) -> Outcome:
        """Launches the kernel, or its twin, checked; under these options besides its own."""
        program, want = self.build(fixed)
        pallasim.findings()
        launches, error, got = pallasim.launch_count(), None, None
        try:
            with pallasim.emulate(self.machine, **{"detect_races": True, "findings": "collect"} | self.options | options):
                got = jax.tree.map(np.asarray, jax.block_until_ready(program()))
        except pallasim.KernelError as e:
            error = e.finding
        found = pallasim.findings()
        if error is not None and error not in found:
            found.append(error)
        launched = pallasim.launch_count() > launches or error is not None
        return Outcome([f for f in found if f.severity != "note"], launched, "" if got is None else difference(got, want))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one run: the reports (notes tell what may be a mistake, and do not count), whether a kernel ran, and how the result differs."""

    reports: list[pallasim.Finding]
    launched: bool
    differs: str


def difference(got: Any, want: Any) -> str:
    """How the results differ, "" where they do not."""
    assert any(np.any(b) for b in jax.tree.leaves(want)), "a result of zeros proves nothing"
    try:
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=2e-3, atol=1e-3)
    except (AssertionError, ValueError) as e:
        return str(e).strip()
    return ""


def missing(bug: Bug, report: pallasim.Finding) -> list[str]:
    """What the report lacks to be the bug's cause; nothing where it is the cause."""
    lacks = []
    if report.code not in bug.cause.codes:
        lacks.append(f"code {report.code} instead of {' or '.join(bug.cause.codes)}")
    if report.file != bug.file or report.line not in bug.cause.lines:
        lacks.append(f"line {report.line} instead of {' or '.join(map(str, sorted(bug.cause.lines)))}")
    lacks += [f"the word '{word}'" for word in bug.cause.words if not any(w in report.report for w in word.split(" | "))]
    lacks += [f"line {line}" for line in sorted(bug.cause.also) if not names(bug, report, line)]
    if bug.cause.made and not any(names(bug, report, line) for line in bug.cause.made):
        lacks.append(f"line {' or '.join(map(str, sorted(bug.cause.made)))}")
    lacks += [f"that it does not say '{word}'" for word in bug.cause.misleading if word in report.report]
    if re.search(r" by (.+) while \1 may ", report.message):
        lacks.append("two sides")
    return lacks


def names(bug: Bug, report: pallasim.Finding, line: int) -> bool:
    """Whether the report has this line of the bug's file."""
    return re.search(rf"{re.escape(bug.file)}:{line}\b", report.report) is not None


BUGS: dict[str, Bug] = {}


def bug(machine: str, *codes: str, words: tuple[str, ...], misleading: tuple[str, ...] = (), reports: int = 1, devices: int = 1,
        **options: Any) -> Callable[[Builder], Builder]:
    """Makes the builder a bug of this chip, and its module's name the family."""
    def add(build: Builder) -> Builder:
        source, first = inspect.getsourcelines(build)
        marks = {word: frozenset(first + i for i, line in enumerate(source) if word in line.partition("#")[2]) for word in ("CAUSE", "ALSO", "MADE")}
        assert marks["CAUSE"], f"{build.__name__} marks no line"
        family = build.__module__.rpartition(".")[2].partition("_")[0]
        cause = Cause(codes, words, misleading, *marks.values())
        assert build.__name__ not in BUGS, build.__name__
        BUGS[build.__name__] = Bug(build.__name__, family, machine, build, cause, options, reports, devices)
        return build

    return add
