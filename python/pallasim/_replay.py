"""Repeating a capsule from Python: what `pallasim run FILE.capsule` finds, as an object."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from ._findings import Finding


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
    """What `replay` found; its text says it a line per launch, with the reports. `to_json()` is what `pallasim run --json` prints.

    ok: every launch ran, and gave what was recorded. omitted: launches that the recording left out.
    """

    capsule: str
    recorded_by: str
    ok: bool
    launches: tuple[ReplayedLaunch, ...]
    findings: tuple[Finding, ...]
    omitted: int
    _json: str = dataclasses.field(repr=False, compare=False, default="")

    def __str__(self) -> str:
        lines = [f"capsule {self.capsule}, recorded with {self.recorded_by}"]
        for x in self.launches:
            verdict = x.error or ("as recorded" if x.same else "differs from the recording")
            lines.append(f"launch {x.launch} {x.kernel} on device {x.device}: {verdict}")
        if self.omitted:
            lines.append(f"{self.omitted} later launches were not recorded")
        return "\n".join([*lines, *(f.report for f in self.findings)])

    def to_json(self) -> str:
        """The outcome for programs."""
        return self._json


def replay(capsule: str | os.PathLike[str], *, launch: int | None = None, rtol: float = 0.0, atol: float = 0.0, detect_races: bool = False,
           chip: str = "", options: Mapping[str, Any] | None = None, compare: bool = False, time_rtol: float = 0.01) -> Replay:
    """Repeats the launches of a capsule in this process, and compares what they write with the recording.

    launch: only this one, the first being 1. rtol, atol: outputs may differ by so much. detect_races, chip: as in `Params`, instead of what
    was recorded. options: further ones of `Params` (`{"random_seed": 3}`). compare: also findings and predicted times where they were
    recorded, the times within time_rtol, as `pallasim suite` does.
    Raises KernelError for a file that is no capsule, TypeError or ValueError for an option that does not exist, FileNotFoundError for no file.
    """
    from . import _core, _findings

    path = os.fspath(capsule)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no capsule at {path}")
    given = _spelled({**(options or {}), **({"detect_races": True} if detect_races else {}), **({"machine": chip} if chip else {})})
    try:
        found, findings = _core.replay(path, 0 if launch is None else int(launch), float(rtol), float(atol), given, compare, float(time_rtol))
    except _core.DiagnosticError as e:
        raise _findings.from_error(e) from None
    outcome = json.loads(found)
    return Replay(path, outcome["recorded_by"], outcome["ok"], tuple(map(_launch, outcome["launches"])),
                  tuple(map(_findings.from_dict, findings)), int(outcome["omitted"]), found)


def _spelled(options: dict[str, Any]) -> list[tuple[str, str]]:
    """The options that were given, as the engine spells them."""
    from . import _params

    _params.given(options.get("machine", "generic"), {name: value for name, value in options.items() if name != "machine"})  # all of them exist
    of_runs = {"machine", *(f.name for f in dataclasses.fields(_params.RunParams))}
    if wrong := [name for name in options if name not in of_runs]:
        raise TypeError(f"a capsule is repeated without '{wrong[0]}', which is no option of a run")
    return [(name, _params._spelled(value)) for name, value in options.items() if value is not None]


def _launch(entry: dict[str, Any]) -> ReplayedLaunch:
    return ReplayedLaunch(entry["launch"], entry["kernel"], entry["device"], entry["error"] or "", bool(entry.get("same", False)),
                          tuple(entry.get("outputs", ())))
