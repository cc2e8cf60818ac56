"""Repeating a capsule from Python: what `pallasim run FILE.capsule` finds, as an object."""
from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from . import _cells, _program
from ._findings import Finding, KernelError, Site, SourceLine


@dataclasses.dataclass(frozen=True)
class ReplayedLaunch:
    """launch: its number in the capsule, from 1. error: the code of its report, "" if it ran. same: whether it ran and its outputs are
    those of the recording, within the tolerance. outputs: per output name, dtype, shape, how many elements differ and by how much at most."""

    launch: int
    kernel: str
    device: int
    error: str
    same: bool
    outputs: tuple[dict[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Replay:
    """What `replay` found; its text says it a line per launch, with the reports.

    ok: every launch ran, and gave what was recorded. omitted: launches that the recording left out.
    """

    capsule: str
    recorded_by: str
    ok: bool
    launches: tuple[ReplayedLaunch, ...]
    findings: tuple[Finding, ...]
    omitted: int

    def __str__(self) -> str:
        lines = [f"capsule {self.capsule}, recorded with {self.recorded_by}"]
        for x in self.launches:
            verdict = x.error or ("as recorded" if x.same else "differs from the recording")
            lines.append(f"launch {x.launch} {x.kernel} on device {x.device}: {verdict}")
        if self.omitted:
            lines.append(f"{self.omitted} later launches were not recorded")
        return "\n".join([*lines, *(f.report for f in self.findings)])


def replay(capsule: str | os.PathLike[str], *, launch: int | None = None, rtol: float = 0.0, atol: float = 0.0, detect_races: bool = False,
           chip: str = "", options: Sequence[str] = ()) -> Replay:
    """Repeats the launches of a capsule, in a process of its own, and compares what they write with the recording.

    launch: only this one, the first being 1. rtol, atol: outputs may differ by so much. detect_races, chip: as in `Params`, instead of what
    was recorded. options: further ones of the command line (`["--schedule", "random"]`).
    Raises KernelError for a file that is no capsule or an option that does not exist, FileNotFoundError for no file.
    """
    path = os.fspath(capsule)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no capsule at {path}")
    words = [path, "--rtol", repr(float(rtol)), "--atol", repr(float(atol)), *options]
    if launch is not None:
        words += ["--launch", str(int(launch))]
    if detect_races:
        words.append("--checked")
    if chip:
        words += ["--chip", chip]
    said = subprocess.run([_program.path(), "run", *words, "--json"], capture_output=True, text=True, env=_program.environment())
    found = json.loads(said.stdout) if said.stdout.startswith("{") else {}
    findings = tuple(map(_finding, found.get("findings", ())))
    if "launches" not in found:
        report = "\n".join(f.report for f in findings) or said.stderr.strip() or f"pallasim ended with {said.returncode} and said nothing"
        raise KernelError(report, findings[0] if findings else None)
    return Replay(path, found["recorded_by"], said.returncode == 0, tuple(map(_launch, found["launches"])), findings, int(found["omitted"]))


def _launch(entry: dict[str, Any]) -> ReplayedLaunch:
    error = entry.get("error") or ""
    return ReplayedLaunch(entry["launch"], entry["kernel"], entry["device"], error, bool(entry.get("same", False)), tuple(entry.get("outputs", ())))


def _finding(entry: dict[str, Any]) -> Finding:
    line = SourceLine(entry.get("file", ""), entry.get("line", 0), 0, "", entry.get("text", ""))
    point = entry.get("grid_point")
    at = [f"at {line}", f"    {line.text}"] if line.file else []
    at += [f"in scope {entry['scope']}"] if entry.get("scope") else []
    on = f" on {entry['chip']}" if entry.get("chip") else ""
    where = [f"in kernel {entry['kernel']}{on}"] if entry.get("kernel") else []
    hint = [f"hint: {entry['hint']}"] if entry.get("hint") else []
    report = "\n  ".join([f"{entry['severity']}[{entry['code']}]: {entry['message']}", *at, *where, *entry.get("numbers", ()), *hint])
    return Finding(entry["code"], entry["severity"], _cells.worded(entry["message"]), entry.get("kernel", ""), entry.get("thread", ""),
                   None if point is None else tuple(point), site=Site(source=line, scope=entry.get("scope", "")),
                   numbers=tuple(map(_cells.worded, entry.get("numbers", ()))), hint=_cells.worded(entry.get("hint", "")), report=_cells.worded(report),
                   chip=entry.get("chip", ""))
