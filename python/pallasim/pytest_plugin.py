"""pytest on the emulator: `pytest --pallasim=tpu-v5e` runs the Pallas kernels of unmodified tests.

    @pytest.mark.pallasim("gpu-h100", random_seed=3)        # this test's machine and options (those of `Params`)
    @pytest.mark.pallasim("tpu-v5e", explore=200)           # its launches also run under 200 other schedules
    @pytest.mark.pallasim(None)                             # this test runs without the emulator

Runs are checked (`detect_races=True`) unless an option says otherwise. A test whose kernels race or use memory that nobody
wrote fails, also one that switches the emulator on by itself, unless it takes the findings (`pallasim.findings()`) or asked
for `findings="collect"`. `--pallasim-fail-on=CODES`, or `fail_on=` of the marker, chooses what fails a test; other warnings
are pytest's.

A test that fails leaves a report and a capsule of its launches in the folder of `--pallasim-artifacts`; the failure names
them. Findings are properties of JUnit's test cases, annotations of GitHub Actions, and SARIF (`--pallasim-sarif=FILE`). pytest
finds the plugin by itself, in an installation and in a build tree.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from . import _pytest_session
from ._pytest_capture import Captured
from ._pytest_item import PallasimWarning as PallasimWarning, Run, Told, checked, codes, folder_name

_FOLDER = "pallasim-artifacts"
_FAIL_ON = "PS-RACE,PS-PAR,PS-UNINIT,PS-OUT"
_KEY = pytest.StashKey["Run"]()
_TOLD = pytest.StashKey["Told"]()
_CAPTURED = pytest.StashKey["Captured"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pallasim", "Pallas kernels on the emulator")
    group.addoption("--pallasim", metavar="CHIP", default=None, help="run the Pallas kernels of every test on this machine: generic, tpu-v5e, gpu-h100, ...")
    group.addoption("--pallasim-option", metavar="NAME=VALUE", action="append", default=[],
                    help="an option of pallasim.Params; every access is looked at without detect_races=False")
    group.addoption("--pallasim-artifacts", metavar="DIR", default=_FOLDER, help=f"where failing tests leave reports and capsules (default: {_FOLDER})")
    group.addoption("--pallasim-capture", metavar="DIR", default=None, help="write a capsule of each test that runs a kernel, for `pallasim suite DIR`")
    group.addoption("--pallasim-fail-on", metavar="CODES", default=_FAIL_ON,
                    help=f"findings that fail a test: families or codes, all, or none; notes only where their code is named (default: {_FAIL_ON})")
    group.addoption("--pallasim-sarif", metavar="FILE", default=None, help="write the findings as SARIF 2.1.0, for code hosts and editors")
    group.addoption("--pallasim-annotations", choices=("auto", "github", "none"), default="auto",
                    help="print the findings as annotations of GitHub Actions (auto: where GITHUB_ACTIONS is true)")
    group.addoption("--pallasim-pdb", action="store_true", help="open the debugger on the launches of a test that fails")
    parser.addini("pallasim_capsule_bytes", "arrays that a test's capsule may hold, in bytes", default=str(256 << 20))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pallasim(machine, **options): run this test's Pallas kernels on the emulator; None: without it")
    if not hasattr(config, "workerinput"):  # workers of pytest-xdist send their reports
        config.pluginmanager.register(_Reporter(config), "pallasim reports")
    if (path := _sarif_path(config)) is not None and (path.is_dir() or not os.access(next(p for p in path.parents if p.exists()), os.W_OK)):
        raise pytest.UsageError(f"--pallasim-sarif: {path} cannot be written")
    try:
        codes(config.getoption("--pallasim-fail-on"))
    except ValueError as e:
        raise pytest.UsageError(f"--pallasim-fail-on: {e}") from None
    if config.getoption("--pallasim") is not None:
        try:
            _params(config.getoption("--pallasim"), _options(config))
        except (TypeError, ValueError) as e:
            raise pytest.UsageError(f"--pallasim: {e}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    machine = config.getoption("--pallasim")
    if not machine:
        return None
    return f"pallasim: {machine}, {'checked' if checked(_options(config))['detect_races'] else 'not checked (detect_races=False)'}"


def _options(config: pytest.Config) -> dict[str, Any]:
    from ._params import read_value

    options = {}
    for item in config.getoption("--pallasim-option"):
        name, eq, value = item.partition("=")
        if not eq:
            raise ValueError(f"'{item}' is not NAME=VALUE")
        options[name] = read_value(value)
    return options


def _params(machine: str, options: dict[str, Any]) -> Any:
    from ._params import given

    return given(machine, options)


def _run_of(item: pytest.Item) -> tuple[Run | None, tuple[str, ...]]:
    """What the test's marker says, else the command line: the run, None without the emulator, and the codes that fail it."""
    machine, options = item.config.getoption("--pallasim"), _options(item.config)
    fail_on = item.config.getoption("--pallasim-fail-on")
    if (marker := item.get_closest_marker("pallasim")) is not None:
        if len(marker.args) > 1:
            raise pytest.UsageError(f"{item.nodeid}: the marker pallasim takes a machine and options by name")
        options |= marker.kwargs
        fail_on = options.pop("fail_on", fail_on)
        machine = marker.args[0] if marker.args else machine or "generic"
    failing = codes(fail_on)
    if machine is None:
        return None, failing
    schedules = options.pop("explore", 0)
    if not isinstance(schedules, int) or isinstance(schedules, bool) or schedules < 0:
        raise pytest.UsageError(f"{item.nodeid}: explore is a number of schedules, not {schedules!r}")
    tolerance = options.pop("explore_tolerance", 0.0)
    if not isinstance(tolerance, (int, float)) or not tolerance >= 0:
        raise pytest.UsageError(f"{item.nodeid}: explore_tolerance is a number of at least 0, not {tolerance!r}")
    return Run(machine, options, int(item.config.getini("pallasim_capsule_bytes")), schedules, tolerance), failing


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    # Before the test's fixtures: what they run is emulated as well.
    run, failing = _run_of(item)
    told = item.stash[_TOLD] = Told(failing)
    told.begin()
    if run is not None:
        run.begin()
        item.stash[_KEY] = run
    if (folder := item.config.getoption("--pallasim-capture")) is not None:
        captured = Captured(item.config.invocation_params.dir / folder, item.nodeid, int(item.config.getini("pallasim_capsule_bytes")))
        captured.begin(run.recording.params if run is not None else None)
        item.stash[_CAPTURED] = captured
    outcome: Any = yield
    if outcome.excinfo:
        _judge(item, outcome)


def _judge(item: pytest.Item, outcome: Any) -> None:
    """The outcome of a phase: an error of a launch as such; findings that fail the test, where nothing else did."""
    from . import _findings

    told = item.stash.get(_TOLD, None)
    wrong = told.check(item) if told is not None else []
    error = outcome.excinfo[1] if outcome.excinfo else None
    if error is not None:
        if _findings.adopt(error):
            outcome.force_exception(error)
        if told is not None:
            told.stopped(error)
        if (captured := item.stash.get(_CAPTURED, None)) is not None:
            captured.stopped(error)
    elif wrong:
        outcome.force_exception(_failure(wrong))


def _failure(wrong: list[Any]) -> BaseException:
    """A failure whose text is the reports: there is no traceback to show, the kernels ran to their ends."""
    return pytest.fail.Exception("\n".join(f.report for f in wrong), pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    _judge(item, outcome)
    run = item.stash.get(_KEY, None)
    if run is not None and not outcome.excinfo and (wrong := run.explored()):
        outcome.force_exception(pytest.fail.Exception(wrong, pytrace=False))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    _judge(item, outcome)
    if (captured := item.stash.get(_CAPTURED, None)) is not None:
        captured.end()
    if (run := item.stash.get(_KEY, None)) is not None:
        run.end()
    if (told := item.stash.get(_TOLD, None)) is not None:
        told.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    run, told = item.stash.get(_KEY, None), item.stash.get(_TOLD, None)
    if told is None:
        return
    properties = []
    times, found = told.phase()
    if run is not None and report.failed:
        files = _save(item, run, report, call, told)
        shown = [os.path.relpath(f, item.config.invocation_params.dir) for f in files]
        properties += [("pallasim_artifact", path) for path in shown]
        lines = [f"{'report' if path.endswith('.txt') else 'capsule'}: {path}" for path in shown]
        if shown[-1].endswith(".capsule"):
            lines.append(f"repeat it without Python: pallasim run {shown[-1]}")
            if item.config.getoption("--pallasim-pdb"):
                _debug_at_terminal(item, files[-1])
        # What was found stands in the failure itself, unless something else failed the test.
        lines += [f.finding.report for f in found if f.finding.report.strip() not in report.longreprtext]
        report.sections.append(("pallasim", "\n".join(lines)))
    for f in found:
        f.expected = f"the test is expected to fail: {report.wasxfail}" if hasattr(report, "wasxfail") else ""
        where = f"{_pytest_session.relative(f.finding.file, str(item.config.rootpath))}:{f.finding.line}: " if f.finding.file else ""
        properties.append(("pallasim_finding", f"{f.finding.severity} {f.finding.code} {where}{f.finding.message}"))
    if report.when == "teardown" and told.times:
        properties.append(("pallasim_launches", str(sum(launches for launches, _, _ in told.times.values()))))
    item.user_properties += properties  # of the reports that follow, and of this one
    report.user_properties += properties
    captured = item.stash.get(_CAPTURED, None)
    kept = report.when == "teardown" and captured is not None and captured.saved
    if times or found or kept or (run is not None and report.failed):
        setattr(report, _pytest_session.REPORT, _pytest_session.of_phase(times, found, run is not None and report.failed, kept))
    if report.when == "teardown":
        del item.stash[_TOLD]
        if captured is not None:
            del item.stash[_CAPTURED]
        if run is not None:
            del item.stash[_KEY]


def _save(item: pytest.Item, run: Run, report: Any, call: pytest.CallInfo[None], told: Told) -> list[pathlib.Path]:
    # Not where a test may have gone in the meantime.
    folder = item.config.invocation_params.dir / item.config.getoption("--pallasim-artifacts") / folder_name(item.nodeid)
    return run.save(folder, report, call.excinfo.value if call.excinfo else None, told)


def _debug_at_terminal(item: pytest.Item, capsule: pathlib.Path) -> None:
    from . import _debug_session

    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend(in_=True)
    try:
        _debug_session.session(str(capsule), False, None, None)
    finally:
        if capture is not None:
            capture.resume()


class _Reporter:
    """Of the process that the reports of all tests come to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session = _pytest_session.Session(config.rootpath)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._session.add(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if (path := _sarif_path(self._config)) is not None:
            self._session.sarif(path, exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        machine = self._config.getoption("--pallasim")
        if machine is not None or self._session.launches:
            terminalreporter.section("pallasim")
            for line in self._session.lines(machine, self._config.getoption("--pallasim-artifacts"), self._config.getoption("--pallasim-capture")):
                terminalreporter.write_line(line)
        wanted = self._config.getoption("--pallasim-annotations")
        if wanted == "github" or (wanted == "auto" and os.environ.get("GITHUB_ACTIONS") == "true"):
            for line in self._session.annotations():
                terminalreporter.write_line(line)


def _sarif_path(config: pytest.Config) -> pathlib.Path | None:
    name = config.getoption("--pallasim-sarif")
    return None if name is None else config.invocation_params.dir / name
