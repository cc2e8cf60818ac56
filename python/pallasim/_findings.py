"""Findings as Python objects, and the exceptions of the package."""
from __future__ import annotations

import dataclasses
import functools
import re
import time
from typing import TYPE_CHECKING, Any

from . import _cells, _display

if TYPE_CHECKING:
    from ._report import Page
    from ._times import KernelTime


@dataclasses.dataclass(frozen=True)
class SourceLine:
    """A line of a kernel's source; `file` is empty where it is unknown, and `In[3]` where it is a cell of IPython. As a string it is the place in
    words, "kernels.py:20" or "In[3], line 20"."""

    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return _cells.said(self.file, self.line) if self.file else ""


@dataclasses.dataclass(frozen=True)
class Site:
    """One side of a finding: what was done and where; `callers` innermost first; `scope` has the kernel's `jax.named_scope`s
    around it, "attention/softmax"."""

    what: str = ""
    source: SourceLine = SourceLine()
    callers: tuple[SourceLine, ...] = ()
    scope: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something wrong with a kernel.

    code: stable, such as `PS-OOB-001`. severity: error, warning or note. `grid_point` is None outside a grid;
    `also` has the other sides (both ends of a race); `report` is the text as printed, which `str(finding)` is, too. A notebook shows it as a box.
    chip: whose sizes and rules held, empty on the generic machine.
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
    chip: str = ""

    def __repr__(self) -> str:
        where = f" at {self.site.source}" if self.file else ""
        return f"<{self.severity} {self.code}{where}: {self.message}>"

    def __str__(self) -> str:
        return self.report

    def _repr_html_(self) -> str:
        return _display.finding(self)

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        _display.pretty(p, self)

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

    finding: Finding | None = None
    refused: tuple[str, str, str] | None = None

    def __init__(self, report: str, finding: Finding | None = None) -> None:
        super().__init__(report)
        self.finding = finding

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnsupportedError(KernelError, NotImplementedError):
    """A kernel uses something that the emulator cannot run; the text names it."""


class RefusedError(KernelError, NotImplementedError, ValueError):
    """What the compiler of the machine's chip refuses; JAX's own compilers raise ValueError or NotImplementedError."""


def _source(d: dict[str, Any]) -> SourceLine:
    return SourceLine(d["file"], d["line"], d["column"], d["function"], d["text"])


def _site(d: dict[str, Any]) -> Site:
    return Site(d["what"], _source(d), tuple(_source(c) for c in d["callers"]), d["scope"])


def from_dict(d: dict[str, Any]) -> Finding:
    """A finding from the extension's dictionary."""
    d = _worded(d)
    return Finding(d["code"], d["severity"], d["message"], d["kernel"], d["thread"], d["grid_point"], _site(d["site"]),
                   tuple(_site(s) for s in d["also"]), tuple(d["numbers"]), d["hint"], d["report"], d["chip"])


def _worded(d: dict[str, Any]) -> dict[str, Any]:
    """The extension's dictionary with the places in cells as people say them."""
    return d | {key: _cells.worded(d[key]) for key in ("message", "hint", "report")} | {"numbers": list(map(_cells.worded, d["numbers"]))}


def to_dict(f: Finding) -> dict[str, Any]:
    """The inverse of `from_dict`: plain values, which go from process to process."""
    def site(s: Site) -> dict[str, Any]:
        return dataclasses.asdict(s.source) | {"what": s.what, "callers": [dataclasses.asdict(c) for c in s.callers], "scope": s.scope}

    return {**{field.name: getattr(f, field.name) for field in dataclasses.fields(f)}, "site": site(f.site), "also": [site(s) for s in f.also]}


def report_of(code: str, message: str, kernel: str, line: SourceLine, numbers: tuple[str, ...] = (), hint: str = "", chip: str = "") -> Finding:
    """An error that is found before anything becomes a module."""
    from . import _core

    return from_dict(_core.diagnostic(code, message, kernel, dataclasses.astuple(line), list(numbers), hint, "" if chip == "generic" else chip))


def launch_line() -> SourceLine:
    """The user's line that launches the kernel which is lowered now; an empty one where nobody knows."""
    from ._capture import locs

    site = locs.launch_site()
    return SourceLine() if site is None else source_line(*site)


def source_line(file: str, line: int, column: int, function: str) -> SourceLine:
    """A line of a file, with its text; of a cell of IPython as people know it."""
    file, line, text = _cells.place(file, line)
    return SourceLine(file, line, column, function, text)


def unsupported(kernel: str, error: Any, chip: str = "") -> UnsupportedError:
    """The exception for a kernel that cannot be captured: `error` is a `_capture.types.Unsupported`."""
    line = SourceLine(*error.at) if error.at is not None else launch_line()
    finding = report_of("PS-UNSUP-001", f"unsupported: {error}", kernel, line, hint="nothing ran; this is a limit of Pallasim, not a mistake of the kernel",
                        chip=chip)
    return UnsupportedError(finding.report, finding)


@functools.cache
def _codes() -> dict[str, tuple[str, str, str]]:
    """Code -> severity, whom it is about, title."""
    from . import _core

    return _core.diagnostics()


def _blame(code: str) -> str:
    return _codes()[code][1]


def from_error(error: Exception) -> KernelError:
    """The exception for a DiagnosticError of the extension."""
    finding = from_dict(error.finding)  # type: ignore[attr-defined]
    kind = {"unsupported": UnsupportedError, "chip": RefusedError}.get(_blame(finding.code), KernelError)
    if finding.code == "PS-MEM-001":  # a ValueError of JAX's compilers, too, which tuners of libraries catch
        kind = RefusedError
    return kind(finding.report, finding)


def adopt(error: BaseException) -> bool:
    """Makes JAX's error of one of our launches a `KernelError` in place, so that it has one text and one traceback: that of
    the user's call. It stays an error of JAX's type as well. False: it is another error, and untouched."""
    if isinstance(error, KeyboardInterrupt):
        return _say_where(error)
    if isinstance(error, KernelError) or type(error).__name__ not in ("JaxRuntimeError", "XlaRuntimeError"):
        return False
    known = _failure_of(error)
    if known is None:
        return False
    if known and _blame(known["code"]) == "interrupt":
        global _stopped
        _stopped = time.monotonic(), known
    error.__class__ = _launch_error(type(error))
    finding = from_dict(known) if known else None
    error.args = (finding.report if finding else _cells.worded(_NUMBER.sub("", str(error))),)
    if notes := getattr(error, "__notes__", None):  # what JAX says about its own frames
        error.__notes__ = [n for n in notes if "JAX_TRACEBACK_FILTERING" not in n]
    error.finding = finding  # type: ignore[attr-defined]
    return True


def in_place_of(error: BaseException) -> KernelError | None:
    """A `KernelError` for JAX's plain ValueError of one of our launches, which nobody can change in place: what a jitted function raises that was
    compiled in an earlier block. None: it is another error."""
    if type(error) is not ValueError or (known := _failure_of(error)) is None:
        return None
    import jax

    finding = from_dict(known) if known else None
    kind = type("KernelError", (KernelError, jax.errors.JaxRuntimeError, ValueError), {"__module__": "pallasim", "__doc__": KernelError.__doc__})
    return kind(finding.report if finding else _cells.worded(_NUMBER.sub("", str(error))), finding)


def adopt_in_shell() -> None:
    """Errors of launches that leave no block become `KernelError`s where IPython shows them, if somebody runs it and has no handler of his own."""
    shell = _cells.shell()

    def shown(shell: Any, kind: Any, error: BaseException, tb: Any, tb_offset: int | None = None) -> None:
        adopt(error)
        shell.showtraceback((type(error), error, tb), tb_offset=tb_offset)

    if shell is not None and shell.custom_exceptions == ():
        import jax

        shell.set_custom_exc((jax.errors.JaxRuntimeError,), shown)


# XLA hands on nothing of an error but its text: the last line of ours is the number under which the extension keeps it.
_NUMBER = re.compile(r"^  failure (\d+) of this process\n?", re.M)


def _failure_of(error: BaseException) -> dict[str, Any] | None:
    """What the extension keeps of JAX's error of one of our launches, empty where it has been dropped; None: it is another error."""
    from . import _core

    numbers = _NUMBER.findall(str(error))
    return (_core.failure(int(numbers[-1])) or {}) if numbers else None


# When a block was left last because a request to stop ended its launch, and that error. Ctrl-C is told to the main thread, which may
# only wait for those that launch.
_stopped: tuple[float, dict[str, Any]] | None = None
_RECENT = 1.0  # seconds


def _stopped_just_now() -> dict[str, Any] | None:
    return _stopped[1] if _stopped is not None and time.monotonic() - _stopped[0] < _RECENT else None


def _say_where(error: KeyboardInterrupt) -> bool:
    """Gives Ctrl-C the place where the kernel was: JAX's error of the stopped launch has it, if it came to be; else the launch
    itself. False: no kernel was stopped."""
    from . import _core

    stopped, known = error.__context__, None
    while stopped is not None:
        known = _failure_of(stopped)
        if known and _blame(known["code"]) == "interrupt":
            adopt(stopped)
            break
        stopped, known = stopped.__context__, None
    for tries in range(500):  # launches of other threads notice within milliseconds, on a busy machine within seconds
        known = known or _core.interrupted_failure() or _stopped_just_now()
        if known or (tries > 20 and not _core.running_launches()):
            break
        time.sleep(0.01)
    if not known:
        return False
    error.args = (_cells.worded(known["report"]),)
    error.__suppress_context__ = True
    return True


@functools.cache
def _launch_error(jax_error: type[BaseException]) -> type[BaseException]:
    return type("KernelError", (KernelError, jax_error), {"__module__": "pallasim", "__doc__": KernelError.__doc__})


class FindingList(list[Finding]):
    """Findings, which a notebook shows as boxes."""

    def _repr_html_(self) -> str:
        return "".join(map(_display.finding, self)) or "<p>nothing found</p>"


def findings() -> FindingList:
    """All findings since the last call, oldest first, of every launch of this process: a list, which a notebook shows as boxes."""
    from . import _core

    return FindingList(from_dict(d) for d in _core.findings())


def last_report() -> str:
    """Text of what the latest launch found, empty where it found nothing: `runs()[-1].report`. A kernel that was refused before it ran
    is no launch; the error that refused it has the text."""
    latest = runs()
    return latest[-1].report if latest else ""


def launch_count() -> int:
    """Kernels that the emulator ran in this process: a test's proof that no fallback did."""
    from . import _core

    return _core.launch_count()


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What a checked run did to one operand.

    reads, writes: accesses of the kernel in `space`, where it sees the operand. fetches, write_backs: blocks of it that the pipeline of a
    TPU's grid moves from HBM and back; grid points that follow each other with the same block share it. Bytes are without padding.
    """

    name: str
    reads: int
    writes: int
    bytes_read: int
    bytes_written: int
    space: str = ""
    fetches: int = 0
    write_backs: int = 0
    bytes_fetched: int = 0
    bytes_written_back: int = 0


class TrafficTable(tuple[Traffic, ...]):
    """The traffic of a run, one `Traffic` per operand. As a string it is a table, which notebooks show as one."""

    def __str__(self) -> str:
        return _display.traffic_text(self)

    def _repr_html_(self) -> str:
        return _display.traffic(self)

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        _display.pretty(p, self)


@dataclasses.dataclass(frozen=True)
class Run:
    """One launch that ended.

    number: counts the launches of the process that ended, from 1. chip: the machine. seconds: wall time of the launch.
    planned: whether its plan was made for it, in `plan_seconds`; else an earlier launch had left it in the cache.
    findings: what others follow from first; of a launch that `failed`, its error. races: a data race or a false `parallel`
    claim was found. traffic: per ref, of runs with `detect_races=True` only; `str` of it is a table. token: replays the schedule.
    time: what it would take on the chip, of runs with `time=True` only.
    A notebook shows all of it.
    """

    number: int
    kernel: str
    chip: str
    seconds: float
    planned: bool
    plan_seconds: float
    token: str
    steps: int
    grid_points: int
    threads: int
    units: int
    races: bool
    checked: bool
    failed: bool
    findings: tuple[Finding, ...]
    traffic: TrafficTable
    time: KernelTime | None

    @property
    def report(self) -> str:
        """The text of its findings, empty where there are none."""
        return "\n".join(f.report for f in self.findings)

    def __repr__(self) -> str:
        found = ", ".join(f.code for f in self.findings) or "nothing found"
        return f"<run {self.number}: {self.kernel} on {self.chip}, {_display.facts(self)}: {found}>"

    def _repr_html_(self) -> str:
        return _display.run(self)


class RunList(list[Run]):
    """Runs, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return _display.runs(self)


def runs() -> RunList:
    """The latest launches that ended, in the order of their ends, at most 256: a list, which a notebook shows as a table."""
    from . import _core

    return RunList(_run(d) for d in _core.runs())


def _run(d: dict[str, Any]) -> Run:
    return Run(**d | {"findings": tuple(map(from_dict, d["findings"])), "traffic": TrafficTable(Traffic(**t) for t in d["traffic"]),
                      "time": _time(d["time"])})


def _time(text: str | None) -> KernelTime | None:
    from . import _times

    return _times.of_json(text) if isinstance(text, str) else text


class LastRun(dict[str, Any]):
    """A launch as a dictionary, which a notebook shows as it shows a `Run`."""

    @property
    def time(self) -> KernelTime | None:
        """What it would take on the chip, of a run with `time=True`."""
        return self.get("time")

    def report(self, path: str = "") -> Page:
        """A page that shows the latest launch as its chip would run it, predicted again (docs/report.md): written to `path`, and shown by a
        notebook. Control that depends on arrays takes zeros for them: `predict(f, *args, report=path)` takes what they hold."""
        from . import _core, _report

        try:
            return _report.latest(path)
        except _core.DiagnosticError as e:
            raise from_error(e) from None

    def _repr_html_(self) -> str | None:
        return _display.run(_run(self)) if self.get("number") else None


def last_run() -> LastRun:
    """The latest launch that ended as a dictionary: what `runs()[-1]` has, in a notebook shown as that is.

    `races`: whether it had a data race or a false `parallel` claim. `traffic`: accesses and bytes per ref, of runs with
    `detect_races=True` only.
    """
    from . import _core

    d = _core.last_run()
    return LastRun(d | {"findings": list(map(_worded, d["findings"])), "time": _time(d.get("time"))})
