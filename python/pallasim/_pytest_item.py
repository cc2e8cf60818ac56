"""One test of pytest: its options, what its launches found and told, and what it leaves behind when it fails."""
from __future__ import annotations

import contextlib
import hashlib
import pathlib
import re
import sys
from typing import Any

import pytest

from ._pytest_session import Found


class PallasimWarning(pytest.PytestWarning):
    """A finding that does not fail the test."""


def codes(text: str) -> tuple[str, ...]:
    """Families and codes of a list of them; "" stands for all."""
    if text in ("all", "none"):
        return ("",) if text == "all" else ()
    listed = tuple(c.strip() for c in text.split(","))
    if wrong := [c for c in listed if not re.fullmatch(r"PS-[A-Z]+(-[0-9]{3})?", c)]:
        raise ValueError(f"'{wrong[0]}' is no code such as PS-RACE-001, no family such as PS-RACE, and not all or none")
    return listed


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """Tests look at every access unless they say otherwise."""
    return {"detect_races": True} | options


def _remaining() -> list[Any]:
    """The findings that nobody took, of launches that have ended once the arrays of the process are there."""
    if "pallasim._core" not in sys.modules:
        return []
    import jax

    import pallasim

    for array in jax.live_arrays():
        with contextlib.suppress(Exception):  # of who uses the array
            array.block_until_ready()
    return pallasim.findings()


class Told:
    """What the launches of one test found and told, and which of it fails the test."""

    def __init__(self, failing: tuple[str, ...]) -> None:
        self._failing = failing
        self._told: list[Any] = []
        self._found: list[Found] = []
        self.reports: list[str] = []  # of all findings that the test did not take
        self.times: dict[str, tuple[int, int, float]] = {}  # of its kernels: launches, those that were checked, seconds

    def begin(self) -> None:
        from . import _deliver

        _remaining()  # those of earlier tests
        _deliver.redirect(self._told.append)

    def end(self) -> None:
        from . import _deliver

        _deliver.redirect(None)

    def _fails(self, finding: Any) -> bool:
        family = finding.code.rpartition("-")[0]
        return any(c == finding.code or (c in ("", family) and finding.severity != "note") for c in self._failing)

    def check(self, item: pytest.Item) -> list[Any]:
        """The findings since the last call that fail the test. The others become warnings, each place once."""
        from . import _deliver

        left = _remaining()
        self.reports += [f.report for f in left]
        told = {f.report for f in self._told}
        self._told.clear()
        wrong = {}
        for finding in {f.report: f for f in left if f.report in told}.values():
            fails = self._fails(finding)
            self._found.append(Found(finding, fails))
            if fails:
                wrong[finding.report] = finding
            elif _deliver.first(finding):
                item.warn(PallasimWarning(finding.report))
        return list(wrong.values())

    def stopped(self, error: BaseException) -> None:
        """An error leaves the test: the finding that it is, if it is one."""
        if (finding := getattr(error, "finding", None)) is not None and finding not in [f.finding for f in self._found]:
            self._found.append(Found(finding, True))

    def phase(self) -> tuple[dict[str, tuple[int, int, float]], list[Found]]:
        """Kernels and findings since the last call."""
        found, self._found = self._found, []
        times: dict[str, tuple[int, int, float]] = {}
        if "pallasim._core" in sys.modules:
            from . import _core

            times = _core.take_kernel_times()
        for kernel, (launches, seen, seconds) in times.items():
            before = self.times.get(kernel, (0, 0, 0.0))
            self.times[kernel] = before[0] + launches, before[1] + seen, before[2] + seconds
        return times, found


class Run:
    """One test on the emulator: its parameters and its recording."""

    def __init__(self, machine: str, options: dict[str, Any], max_bytes: int, schedules: int = 0, tolerance: float = 0.0) -> None:
        from . import Recording

        self._schedules, self._tolerance = schedules, tolerance
        self._emulation = {"machine": machine, **checked(options)}
        self._stack = contextlib.ExitStack()
        self.recording = Recording(max_bytes)

    def begin(self) -> None:
        import pallasim

        self.recording.params = self._stack.enter_context(pallasim.emulate(**self._emulation))
        self._stack.enter_context(self.recording)

    def end(self) -> None:
        self._stack.close()

    def explored(self) -> str:
        """What is wrong with the launches so far under other schedules, if the test asked for those; "" for nothing."""
        if not self._schedules:
            return ""
        from . import _explore

        self.recording.stop()
        if not self.recording.launches:
            return ""
        found = _explore.of_launches(self.recording.launches, schedules=self._schedules, policy="pct", depth=3, seed=0, jobs=0, tolerance=self._tolerance)
        return "" if found.ok else "\n".join([str(found), *(f.report for o in found for f in o.findings)])

    def save(self, folder: pathlib.Path, report: Any, error: BaseException | None, told: Told) -> list[pathlib.Path]:
        """Writes the report of a phase that failed with `error`, and the capsule if a kernel was launched; the files."""
        self.recording.stop()
        if error is not None:
            self.recording.refused(error)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "report.txt"]
        files[0].write_text("\n".join(self._text(report, told)) + "\n", encoding="utf-8")
        if self.recording.launches:
            files.append(folder / "program.capsule")
            self.recording.save(files[-1])
        return files

    def _text(self, report: Any, told: Told) -> list[str]:
        lines = [f"{report.nodeid} failed ({report.when})", f"options: {self.recording.params!r}"]
        for kernel, (launches, seen, seconds) in told.times.items():
            lines.append(f"kernel {kernel or '(others)'}: {launches} launches, {seen} of them checked, {seconds * 1e3:.3g} ms")
        if not told.times:
            lines.append("no kernel ran on the emulator")
        lines += ["", *(told.reports or ["nothing was found"]), "", str(report.longreprtext)]
        return lines


def folder_name(nodeid: str) -> str:
    """A name for the files of a test: of its id what a file may be called, and a digest where that may not tell tests apart."""
    name = nodeid.replace("::", "_").replace("/", "_").replace("[", "-").removesuffix("]")
    short = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[-120:]
    return short if short == name else f"{short}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"
