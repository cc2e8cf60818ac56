"""How far a launch is that takes long: a line on the terminal or in the notebook, which is wiped when the launch ends.

Launches never call Python. They count in the core, and a thread of ours looks there twice a second; it exists only where
standard error is a terminal or a notebook's.
"""
from __future__ import annotations

import atexit
import sys
import threading
import time
from typing import Any

from . import _cells, _core

LONG = 2.0     # seconds after which a launch is shown
_EVERY = 0.5

_stop = threading.Event()
_watcher: threading.Thread | None = None


def on_terminal() -> bool:
    """Whether Python's standard error is that of the process, and a terminal."""
    try:
        return sys.stderr.isatty() and sys.stderr.fileno() == 2
    except (AttributeError, OSError, ValueError):  # replaced by something that is no file, or closed
        return False


def in_notebook() -> bool:
    """Whether output goes to a notebook."""
    return getattr(_cells.shell(), "kernel", None) is not None


def start() -> None:
    """Launches are watched from now on, where somebody would see it. Safe to call often."""
    global _watcher
    if _watcher is not None or not (in_notebook() or on_terminal()):
        return
    _core.watch_progress(True)
    _watcher = threading.Thread(target=_watch, name="pallasim progress", daemon=True)
    _watcher.start()
    atexit.register(_end)


def _end() -> None:
    _stop.set()
    if _watcher is not None:
        _watcher.join()
    _core.watch_progress(False)


def _watch() -> None:
    box = _Box()
    while not _stop.wait(_EVERY):
        if in_notebook():
            box.show(_core.progress_of_oldest(LONG))
        elif on_terminal():
            _core.show_progress(LONG)


class _Box:
    """A notebook's line; empty again once nothing runs for long."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._text = ""

    def show(self, text: str) -> None:
        if text == self._text:
            return
        try:
            self._display({"text/plain": text}, fresh=not self._text)
        except Exception:  # a kernel that is going away
            return
        self._text = text

    def _display(self, data: dict[str, str], fresh: bool) -> None:
        from IPython.display import DisplayHandle

        if fresh:  # each launch in the output of its own cell
            self._handle = DisplayHandle()
            self._handle.display(data, raw=True)
        else:
            self._handle.update(data, raw=True)


class Line:
    """How far many runs are, where somebody would see it: on the terminal, or in the notebook. Wiped at the end."""

    def __init__(self, what: str, count: int) -> None:
        self._what, self._count = what, count
        self._begun = self._shown = time.monotonic()
        self._box = _Box() if in_notebook() else None
        self._terminal = self._box is None and on_terminal()

    def show(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if not (self._box or self._terminal) or now - self._shown < _EVERY:
            return
        self._shown = now
        rate = done / (now - self._begun)
        self._write(f"{self._what}: {done:,} of {self._count:,}, {rate:.3g} a second{f', {note}' if note else ''}")

    def _write(self, text: str) -> None:
        if self._box:
            self._box.show(text)
        else:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown > self._begun:
            self._write("")
