"""Findings as Python objects, and the exceptions of the package."""
from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of a kernel's source; `file` is empty where it is unknown."""

    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Site:
    """One side of a finding: what was done and where; `callers` innermost first."""

    what: str = ""
    source: SourceLine = SourceLine()
    callers: tuple[SourceLine, ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something wrong with a kernel.

    code: stable, such as `PS-OOB-001`. severity: error, warning or note. `grid_point` is None outside a grid;
    `also` has the other sides (both ends of a race); `report` is the text as printed.
    """

    code: str
    severity: str
    message: str
    kernel: str = ""
    thread: str = ""
    grid_point: tuple[int, ...] | None = None
    site: Site = Site()
    also: tuple[Site, ...] = ()
    numbers: tuple[str, ...] = ()
    hint: str = ""
    report: str = ""

    @property
    def file(self) -> str:
        return self.site.source.file

    @property
    def line(self) -> int:
        return self.site.source.line

    @property
    def text(self) -> str:
        """The source line."""
        return self.site.source.text


class KernelError(RuntimeError):
    """A kernel did something wrong. The text is the report; `finding` has its parts where they are known.

    `refused`: name, text and options of a kernel that was refused before it ran.
    """

    def __init__(self, report: str, finding: Finding | None = None) -> None:
        super().__init__(report)
        self.finding = finding
        self.refused: tuple[str, str, str] | None = None


class UnsupportedError(KernelError, NotImplementedError):
    """A kernel uses something that the emulator cannot run; the text names it."""


class RefusedError(KernelError, NotImplementedError, ValueError):
    """What the compiler of the machine's chip refuses; JAX's own compilers raise ValueError or NotImplementedError."""


def _source(d: dict[str, Any]) -> SourceLine:
    return SourceLine(d["file"], d["line"], d["column"], d["function"], d["text"])


def _site(d: dict[str, Any]) -> Site:
    return Site(d["what"], _source(d), tuple(_source(c) for c in d["callers"]))


def from_dict(d: dict[str, Any]) -> Finding:
    """A finding from the extension's dictionary."""
    return Finding(d["code"], d["severity"], d["message"], d["kernel"], d["thread"], d["grid_point"], _site(d["site"]),
                   tuple(_site(s) for s in d["also"]), tuple(d["numbers"]), d["hint"], d["report"])


def from_error(error: Exception) -> KernelError:
    """The exception for a DiagnosticError of the extension."""
    finding = from_dict(error.finding)  # type: ignore[attr-defined]
    kind = {"PS-UNSUP": UnsupportedError, "PS-TPU": RefusedError, "PS-TRI": RefusedError}.get(finding.code.rpartition("-")[0], KernelError)
    return kind(str(error), finding)


def findings() -> list[Finding]:
    """All findings since the last call, oldest first, of every launch of this process."""
    from . import _core

    return [from_dict(d) for d in _core.findings()]


def last_report() -> str:
    """Text of the latest finding, empty when there was none."""
    from . import _core

    return _core.last_report()


def launch_count() -> int:
    """Kernels that the emulator ran in this process: a test's proof that no fallback did."""
    from . import _core

    return _core.launch_count()


def last_run() -> dict[str, Any]:
    """Schedule token, steps, grid points, threads and units of the latest launch that ended.

    `races`: whether it, or a later launch that failed, had a data race or a false `parallel` claim.
    `traffic`: accesses and bytes per ref, of runs with `detect_races=True` only.
    """
    from . import _core

    return _core.last_run()
