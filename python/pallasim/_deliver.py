"""Findings are told when a launch ends: on standard error, in a notebook as a box; each place of a kernel once per process."""
from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import _display, _findings, _progress

_lock = threading.Lock()
_started = False
_said: set[tuple[Any, ...]] = set()
_sink: Callable[[_findings.Finding], None] | None = None


def start() -> None:
    """Launches tell their findings from now on. Safe to call often."""
    global _started
    with _lock:
        if _started:
            return
        _started = True
    from . import _core

    _progress.start()
    _core.tell_with(tell)
    atexit.register(_core.tell_with, None)


def tell(found: list[dict[str, Any]]) -> None:
    """Says what was not said yet. Called from the thread of the launch."""
    for finding in map(_findings.from_dict, found):
        if _sink is not None:
            _sink(finding)
        elif first(finding):
            say(finding)


def redirect(sink: Callable[[_findings.Finding], None] | None) -> None:
    """Findings go to `sink`, every one of them, instead of being said; None ends that."""
    global _sink
    _sink = sink


def first(f: _findings.Finding) -> bool:
    """Whether nothing with this code was said about the kernel's line before (of a finding without a line: about the kernel)."""
    place = (f.code, f.file, f.line) if f.file else (f.code, f.kernel, f.message)
    with _lock:
        if place in _said:
            return False
        _said.add(place)
        return True


def say(finding: _findings.Finding) -> None:
    """Shows one finding, whether or not it was said before."""
    if _progress.in_notebook() and _show_box(finding):
        return
    sys.stderr.write(finding.report if finding.report.endswith("\n") else finding.report + "\n")
    sys.stderr.flush()


def _show_box(finding: _findings.Finding) -> bool:
    from IPython.display import publish_display_data

    try:
        publish_display_data({"text/plain": finding.report, "text/html": _display.finding(finding)})
    except Exception:  # a kernel that is going away
        return False
    return True
