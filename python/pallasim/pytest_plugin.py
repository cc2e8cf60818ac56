"""pytest on the emulator: `pytest --pallasim=tpu-v5e` runs the Pallas kernels of unmodified tests.

    @pytest.mark.pallasim("gpu-h100", detect_races=True)    # this test's machine and options (those of `Params`)
    @pytest.mark.pallasim(None)                             # this test runs without the emulator

A test that fails leaves the reports and a capsule of its launches in the folder of `--pallasim-artifacts`; the failure
names them. An installed Pallasim is found by pytest; from a build tree it takes `-p pallasim.pytest_plugin`.
"""
from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

_FOLDER = "pallasim-artifacts"
_KEY = pytest.StashKey["_Run"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pallasim", "Pallas kernels on the emulator")
    group.addoption("--pallasim", metavar="CHIP", default=None, help="run the Pallas kernels of every test on this machine: generic, tpu-v5e, gpu-h100, ...")
    group.addoption("--pallasim-option", metavar="NAME=VALUE", action="append", default=[], help="an option of pallasim.Params, such as detect_races=True")
    group.addoption("--pallasim-artifacts", metavar="DIR", default=_FOLDER, help=f"where failing tests leave reports and capsules (default: {_FOLDER})")
    parser.addini("pallasim_capsule_bytes", "arrays that a test's capsule may hold, in bytes", default=str(256 << 20))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "pallasim(machine, **options): run this test's Pallas kernels on the emulator; None: without it")
    if config.getoption("--pallasim") is not None:
        try:
            _params(config.getoption("--pallasim"), _options(config))
        except (TypeError, ValueError) as e:
            raise pytest.UsageError(f"--pallasim: {e}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    machine = config.getoption("--pallasim")
    return f"pallasim: {machine}" if machine else None


def _options(config: pytest.Config) -> dict[str, Any]:
    import ast

    options = {}
    for item in config.getoption("--pallasim-option"):
        name, eq, value = item.partition("=")
        if not eq:
            raise ValueError(f"'{item}' is not NAME=VALUE")
        try:
            options[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            options[name] = value
    return options


def _params(machine: str, options: dict[str, Any]) -> Any:
    from . import Params

    return Params(machine=machine, **options)


class _Run:
    """One test on the emulator: its parameters, its recording, and its findings so far."""

    def __init__(self, machine: str, options: dict[str, Any], max_bytes: int) -> None:
        from . import Recording

        self._emulation = {"machine": machine, **options}
        self._stack = contextlib.ExitStack()
        self.recording = Recording(max_bytes)
        self.findings: list[Any] = []

    def begin(self) -> None:
        import pallasim

        pallasim.findings()  # those of earlier tests
        self.recording.params = self._stack.enter_context(pallasim.emulate(**self._emulation))
        self._stack.enter_context(self.recording)

    def end(self) -> None:
        self._stack.close()

    def save(self, folder: pathlib.Path, error: BaseException | None) -> list[pathlib.Path]:
        """Writes what there is of report and capsule of a test that failed with `error`; the files."""
        import pallasim

        self.recording.stop()
        if error is not None:
            self.recording.refused(error)
        reports = [f.report for f in pallasim.findings()]
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


def _run_of(item: pytest.Item) -> _Run | None:
    """What the test's marker says, else the command line; None: without the emulator."""
    machine, options = item.config.getoption("--pallasim"), _options(item.config)
    if (marker := item.get_closest_marker("pallasim")) is not None:
        if len(marker.args) > 1:
            raise pytest.UsageError(f"{item.nodeid}: the marker pallasim takes a machine and options by name")
        options |= marker.kwargs
        machine = marker.args[0] if marker.args else machine or "generic"
    if machine is None:
        return None
    return _Run(machine, options, int(item.config.getini("pallasim_capsule_bytes")))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    # Before the test's fixtures: what they run is emulated as well.
    run = _run_of(item)
    if run is not None:
        run.begin()
        item.stash[_KEY] = run
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    error = outcome.excinfo[1] if outcome.excinfo else None
    if _KEY in item.stash and error is not None:
        from . import KernelError, _lowering

        try:
            _lowering.reraise(error)
        except KernelError as e:
            outcome.force_exception(e)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield
    if (run := item.stash.get(_KEY, None)) is not None:
        run.end()
        del item.stash[_KEY]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    run = item.stash.get(_KEY, None)
    if run is None or not report.failed or report.when == "teardown":
        return
    folder = pathlib.Path(item.config.getoption("--pallasim-artifacts")) / re.sub(r"[^A-Za-z0-9_.-]+", "_", item.nodeid)[-150:]
    if files := run.save(folder, call.excinfo.value if call.excinfo else None):
        lines = [f"{'report' if f.suffix == '.txt' else 'capsule'}: {f}" for f in files]
        if files[-1].suffix == ".capsule":
            lines.append(f"repeat it without Python: pallasim run {files[-1]}")
        report.sections.append(("pallasim", "\n".join(lines)))
