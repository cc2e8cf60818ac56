"""pytest on the emulator: `pytest --pallasim=tpu-v5e` runs the Pallas kernels of unmodified tests.

    @pytest.mark.pallasim("gpu-h100", detect_races=True)    # this test's machine and options (those of `Params`)
    @pytest.mark.pallasim(None)                             # this test runs without the emulator

A test whose kernels race or use memory that nobody wrote fails, also one that switches the emulator on by itself, unless
it takes the findings (`pallasim.findings()`) or asked for `findings="collect"`. `--pallasim-fail-on=CODES`, or
`fail_on=` of the marker, chooses what fails a test; other warnings are pytest's.

A test that fails leaves the reports and a capsule of its launches in the folder of `--pallasim-artifacts`; the failure
names them. An installed Pallasim is found by pytest; from a build tree it takes `-p pallasim.pytest_plugin`.
"""
from __future__ import annotations

import contextlib
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

_FOLDER = "pallasim-artifacts"
_FAIL_ON = "PS-RACE,PS-PAR,PS-UNINIT,PS-OUT"
_KEY = pytest.StashKey["_Run"]()
_TOLD = pytest.StashKey["_Told"]()


class PallasimWarning(pytest.PytestWarning):
    """A finding that does not fail the test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pallasim", "Pallas kernels on the emulator")
    group.addoption("--pallasim", metavar="CHIP", default=None, help="run the Pallas kernels of every test on this machine: generic, tpu-v5e, gpu-h100, ...")
    group.addoption("--pallasim-option", metavar="NAME=VALUE", action="append", default=[], help="an option of pallasim.Params, such as detect_races=True")
    group.addoption("--pallasim-artifacts", metavar="DIR", default=_FOLDER, help=f"where failing tests leave reports and capsules (default: {_FOLDER})")
    group.addoption("--pallasim-fail-on", metavar="CODES", default=_FAIL_ON,
                    help=f"findings that fail a test: families or codes, all, or none; notes only where their code is named (default: {_FAIL_ON})")
    parser.addini("pallasim_capsule_bytes", "arrays that a test's capsule may hold, in bytes", default=str(256 << 20))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pallasim(machine, **options): run this test's Pallas kernels on the emulator; None: without it")
    try:
        _codes(config.getoption("--pallasim-fail-on"))
    except ValueError as e:
        raise pytest.UsageError(f"--pallasim-fail-on: {e}") from None
    if config.getoption("--pallasim") is not None:
        try:
            _params(config.getoption("--pallasim"), _options(config))
        except (TypeError, ValueError) as e:
            raise pytest.UsageError(f"--pallasim: {e}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    machine = config.getoption("--pallasim")
    return f"pallasim: {machine}" if machine else None


def _options(config: pytest.Config) -> dict[str, Any]:
    from ._params import read_value

    options = {}
    for item in config.getoption("--pallasim-option"):
        name, eq, value = item.partition("=")
        if not eq:
            raise ValueError(f"'{item}' is not NAME=VALUE")
        options[name] = read_value(value)
    return options


def _codes(text: str) -> tuple[str, ...]:
    """Families and codes of a list of them; "" stands for all."""
    if text in ("all", "none"):
        return ("",) if text == "all" else ()
    codes = tuple(c.strip() for c in text.split(","))
    if wrong := [c for c in codes if not re.fullmatch(r"PS-[A-Z]+(-[0-9]{3})?", c)]:
        raise ValueError(f"'{wrong[0]}' is no code such as PS-RACE-001, no family such as PS-RACE, and not all or none")
    return codes


class _Told:
    """What the launches of one test found and told, and which of it fails the test."""

    def __init__(self, codes: tuple[str, ...]) -> None:
        self._codes = codes
        self._told: list[Any] = []
        self.reports: list[str] = []  # of all findings that the test did not take

    def begin(self) -> None:
        from . import _deliver

        _remaining()  # those of earlier tests
        _deliver.redirect(self._told.append)

    def end(self) -> None:
        from . import _deliver

        _deliver.redirect(None)

    def _fails(self, finding: Any) -> bool:
        family = finding.code.rpartition("-")[0]
        return any(c == finding.code or (c in ("", family) and finding.severity != "note") for c in self._codes)

    def check(self, item: pytest.Item) -> list[Any]:
        """The findings since the last call that fail the test. The others become warnings, each place once."""
        from . import _deliver

        left = _remaining()
        self.reports += [f.report for f in left]
        told = {f.report for f in self._told}
        self._told.clear()
        wrong = []
        for finding in left:
            if finding.report not in told:
                continue
            if self._fails(finding):
                wrong.append(finding)
            elif _deliver.first(finding):
                item.warn(PallasimWarning(finding.report))
        return list({f.report: f for f in wrong}.values())


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


def _params(machine: str, options: dict[str, Any]) -> Any:
    from ._params import given

    return given(machine, options)


class _Run:
    """One test on the emulator: its parameters, its recording, and its findings so far."""

    def __init__(self, machine: str, options: dict[str, Any], max_bytes: int) -> None:
        from . import Recording

        self._emulation = {"machine": machine, **options}
        self._stack = contextlib.ExitStack()
        self.recording = Recording(max_bytes)

    def begin(self) -> None:
        import pallasim

        self.recording.params = self._stack.enter_context(pallasim.emulate(**self._emulation))
        self._stack.enter_context(self.recording)

    def end(self) -> None:
        self._stack.close()

    def save(self, folder: pathlib.Path, error: BaseException | None, reports: list[str]) -> list[pathlib.Path]:
        """Writes what there is of report and capsule of a test that failed with `error`; the files."""
        self.recording.stop()
        if error is not None:
            self.recording.refused(error)
        if not reports and not self.recording.launches:
            return []
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        if reports:
            files.append(folder / "report.txt")
            files[-1].write_text("\n".join(reports), encoding="utf-8")
        if self.recording.launches:
            files.append(folder / "program.capsule")
            self.recording.save(files[-1])
        return files


def _run_of(item: pytest.Item) -> tuple[_Run | None, tuple[str, ...]]:
    """What the test's marker says, else the command line: the run, None without the emulator, and the codes that fail it."""
    machine, options = item.config.getoption("--pallasim"), _options(item.config)
    fail_on = item.config.getoption("--pallasim-fail-on")
    if (marker := item.get_closest_marker("pallasim")) is not None:
        if len(marker.args) > 1:
            raise pytest.UsageError(f"{item.nodeid}: the marker pallasim takes a machine and options by name")
        options |= marker.kwargs
        fail_on = options.pop("fail_on", fail_on)
        machine = marker.args[0] if marker.args else machine or "generic"
    codes = _codes(fail_on)
    if machine is None:
        return None, codes
    return _Run(machine, options, int(item.config.getini("pallasim_capsule_bytes"))), codes


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    # Before the test's fixtures: what they run is emulated as well.
    run, codes = _run_of(item)
    told = item.stash[_TOLD] = _Told(codes)
    told.begin()
    if run is not None:
        run.begin()
        item.stash[_KEY] = run
    yield


def _judge(item: pytest.Item, outcome: Any) -> None:
    """The outcome of a phase: an error of a launch as such; findings that fail the test, where nothing else did."""
    from . import _findings

    told = item.stash.get(_TOLD, None)
    wrong = told.check(item) if told is not None else []
    error = outcome.excinfo[1] if outcome.excinfo else None
    if error is not None:
        if _findings.adopt(error):
            outcome.force_exception(error)
    elif wrong:
        outcome.force_exception(_failure(wrong))


def _failure(wrong: list[Any]) -> BaseException:
    """A failure whose text is the reports: there is no traceback to show, the kernels ran to their ends."""
    return pytest.fail.Exception("\n".join(f.report for f in wrong), pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    _judge(item, outcome)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    _judge(item, outcome)
    if (run := item.stash.get(_KEY, None)) is not None:
        run.end()
        del item.stash[_KEY]
    if (told := item.stash.get(_TOLD, None)) is not None:
        told.end()
        del item.stash[_TOLD]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    run, told = item.stash.get(_KEY, None), item.stash.get(_TOLD, None)
    if run is None or told is None or not report.failed or report.when == "teardown":
        return
    told.check(item)
    folder = pathlib.Path(item.config.getoption("--pallasim-artifacts")) / re.sub(r"[^A-Za-z0-9_.-]+", "_", item.nodeid)[-150:]
    if files := run.save(folder, call.excinfo.value if call.excinfo else None, told.reports):
        lines = [f"{'report' if f.suffix == '.txt' else 'capsule'}: {f}" for f in files]
        if files[-1].suffix == ".capsule":
            lines.append(f"repeat it without Python: pallasim run {files[-1]}")
        report.sections.append(("pallasim", "\n".join(lines)))
