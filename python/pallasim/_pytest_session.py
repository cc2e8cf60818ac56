"""What the tests of a session found, as its last lines, as annotations of GitHub and as SARIF.

Each report of a phase carries what its test did since the last one (`REPORT`), also from worker processes; `Session` puts it together."""
from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from . import _findings

REPORT = "pallasim"  # the attribute of pytest's reports: plain values, as they travel between processes
_SLOWEST = 3
# What checked runs alone look for, and what every run does.
_CHECKED = "races, false parallel claims, memory that nobody wrote and outputs that nobody stored"
_ALWAYS = "accesses outside of arrays, deadlocks and what the chip's compiler refuses"


@dataclasses.dataclass
class Found:
    """A finding of a test: whether it fails it, and why it was expected, if it was."""

    finding: _findings.Finding
    fails: bool
    expected: str = ""


@dataclasses.dataclass
class _Time:
    launches: int = 0
    checked: int = 0
    seconds: float = 0.0

    def add(self, launches: int, checked: int, seconds: float) -> None:
        self.launches += launches
        self.checked += checked
        self.seconds += seconds


def of_phase(times: dict[str, tuple[int, int, float]], found: list[Found], failed: bool, captured: bool) -> dict[str, Any]:
    """What a report carries."""
    return {"times": {kernel: list(t) for kernel, t in times.items()}, "failed": failed, "captured": captured,
            "found": [{"finding": _findings.to_dict(f.finding), "fails": f.fails, "expected": f.expected} for f in found]}


def _many(n: int, what: str, ending: str = "s") -> str:
    return f"{n} {what}{ending if n != 1 else ''}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"


class Session:
    """All reports of a session. `root`: the folder that paths are relative to, where the session's `start` lies."""

    def __init__(self, start: pathlib.Path) -> None:
        self._start = start
        self._times: dict[tuple[str, str], _Time] = collections.defaultdict(_Time)  # of kernel and test
        self._found: list[dict[str, Any]] = []                                      # as `_core.sarif` takes them
        self._artefacts = self._captured = 0

    def add(self, report: Any) -> None:
        phase = getattr(report, REPORT, None)
        if phase is None:
            return
        for kernel, time in phase["times"].items():
            self._times[kernel, report.nodeid].add(*time)
        file, line, _ = report.location
        for found in phase["found"]:
            self._found.append(found | {"test": report.nodeid, "file": os.path.normpath(self._start / file), "line": (line or 0) + 1})
        self._artefacts += phase["failed"]
        self._captured += phase["captured"]

    @property
    def launches(self) -> int:
        return sum(t.launches for t in self._times.values())

    def lines(self, machine: str | None, artefacts: str, capture: str | None) -> Iterator[str]:
        """What people read at the end of a session."""
        on = f"{machine}: " if machine else ""
        if not self.launches:
            yield f"{on}no kernel ran on the emulator"
        else:
            unchecked = self.launches - sum(t.checked for t in self._times.values())
            tests = len({test for _, test in self._times})
            yield f"{on}{_many(self.launches, 'launch', 'es')} in {_many(tests, 'test')}; {self._counts()}"
            if unchecked == self.launches:
                yield f"looked for {_ALWAYS}; not for {_CHECKED} (detect_races=False)"
            else:
                rest = f", not in {unchecked} of the launches (detect_races=False)" if unchecked else ""
                yield f"looked for {_CHECKED}{rest}; {_ALWAYS}"
            yield f"slowest kernels: {', '.join(self._slowest())}"
        if self._artefacts:
            yield f"reports and capsules of {_many(self._artefacts, 'failing test')}: {artefacts}"
        if capture is not None:
            yield f"capsules of {_many(self._captured, 'test')}: pallasim suite {capture}"

    def _counts(self) -> str:
        news = [f for f in self._found if not f["expected"]]
        if not news:
            return "no findings"
        counts = collections.Counter(f["finding"]["code"] for f in news)
        codes = ", ".join(f"{n} {code}" for code, n in counts.most_common())
        tests = len({f["test"] for f in news if f["fails"]})
        return f"{_many(len(news), 'finding')} ({codes}), failing {_many(tests, 'test') if tests else 'no test'}"

    def _slowest(self) -> Iterator[str]:
        for (kernel, test), time in sorted(self._times.items(), key=lambda i: -i[1].seconds)[:_SLOWEST]:
            yield f"{kernel or 'others'} {_milliseconds(time.seconds)} in {test}{f' ({time.launches} launches)' * (time.launches != 1)}"

    def annotations(self) -> Iterator[str]:
        """Commands of GitHub Actions, each place once, what fails tests first: it shows ten of a kind."""
        root = self._root()
        said = set()
        for found in sorted(self._found, key=lambda f: not f["fails"]):
            f = found["finding"]
            file, line, column = (f["site"]["file"], f["site"]["line"], f["site"]["column"]) if f["site"]["file"] else (found["file"], found["line"], 0)
            if found["expected"] or (place := (f["code"], file, line)) in said:
                continue
            said.add(place)
            kind = "error" if found["fails"] else {"error": "error", "warning": "warning", "note": "notice"}[f["severity"]]
            values = {"file": relative(file, root), "line": line} | ({"col": column + 1} if column else {}) | {"title": f["code"]}
            text = f["message"] + (f"\n{f['hint']}" if f["hint"] else "") + f"\nfound by {found['test']}"
            yield f"::{kind} {','.join(f'{k}={_escaped(str(v), _OF_VALUES)}' for k, v in values.items())}::{_escaped(text, _OF_TEXT)}"

    def sarif(self, path: pathlib.Path, complete: bool) -> None:
        """Writes the findings to a file; one without findings tells a code host that all are mended."""
        from . import __version__, _core

        path.parent.mkdir(parents=True, exist_ok=True)
        found = sorted(self._found, key=lambda f: (f["finding"]["site"]["file"] or f["file"], f["finding"]["site"]["line"], f["finding"]["code"], f["test"]))
        path.write_text(_core.sarif(found, self._root(), __version__, complete), encoding="utf-8")

    def _root(self) -> str:
        from . import _core

        return _core.source_root(str(self._start))


def relative(file: str, root: str) -> str:
    """A path below the root as one relative to it, others as they are."""
    path = os.path.abspath(file)
    return os.path.relpath(path, root) if path.startswith(os.path.join(root, "")) else path


_OF_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_OF_VALUES = _OF_TEXT | {":": "%3A", ",": "%2C"}


def _escaped(text: str, table: dict[str, str]) -> str:
    return re.sub("[%\r\n:,]", lambda m: table.get(m[0], m[0]), text)
