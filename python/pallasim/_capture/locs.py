"""The location table: source positions of equations, interned, with the call chain of inlined functions."""
from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Any

from .. import _cells
from . import jaxver
from .attrs import quote

_MAX_CHAIN = 8
_PACKAGE = __file__.rpartition("_capture")[0]  # our frames are nobody's
_position_cache: dict[tuple[Any, int], tuple[int, int]] = {}


def _position(code: Any, lasti: int) -> tuple[int, int]:
    key = (code, lasti)
    pos = _position_cache.get(key)
    if pos is None:
        if len(_position_cache) > 65536:
            _position_cache.clear()
        pos = _position_cache[key] = jaxver.code_position(code, lasti)
    return pos


def function_site(debug_info: Any) -> tuple[str, str]:
    """(function name, file) of a traced function; empty strings where unknown."""
    return _split_site(getattr(debug_info, "func_src_info", None) or "")


def call_site(traceback: Any) -> tuple[str, int, int, str] | None:
    """(file, line, column, function) of the user's innermost frame: where a launch was called, None where nobody knows."""
    if traceback is None:
        return None
    for code, lasti in zip(*traceback.raw_frames()):
        if _is_users(code.co_filename):
            return (code.co_filename, *_position(code, lasti), code.co_qualname)
    return None


def launch_site() -> tuple[str, int, int, str] | None:
    """The same for the launch that is lowered now: of an eager one JAX knows no frame of the user, but they are running."""
    if (site := call_site(jaxver.source_info_util.current().traceback)) is not None:
        return site
    return running_site(1)


def running_site(depth: int) -> tuple[str, int, int, str] | None:
    """The same for what runs now, `depth` frames above the caller or further out."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, 0, frame.f_code.co_qualname)


def _is_users(file: str) -> bool:
    return jaxver.is_user_file(file) and not file.startswith(_PACKAGE)


@functools.lru_cache(maxsize=4096)
def _split_site(info: str) -> tuple[str, str]:
    name, _, rest = info.partition(" at ")
    return name.partition(" ")[0], rest.rpartition(":")[0]


class Locations:
    """Numbers locations in order of first use. `suffix(traceback)` is what follows an operation: " @3" or ""."""

    def __init__(self, debug_info: Any) -> None:
        self._rows: dict[tuple[str, int, int, str, int, str], int] = {}
        self._caches: dict[Any, dict[Any, str]] = {}  # by (function, call site): traceback and scope -> text
        self._scopes: dict[Any, str] = {}  # by (scope around, JAX's stack of names)
        self._cache = self._caches.setdefault(None, {})
        self._boundary: list[tuple[str, str]] = [function_site(debug_info)]
        # The kernel's file counts as the user's, wherever it is, if it is not what JAX wraps around kernels.
        own = self._boundary[0][1]
        self._own = "" if f"{os.sep}jax{os.sep}_src{os.sep}" in own else own
        self._caller = -1
        self._saved: list[tuple[int, dict[Any, str]]] = []
        self.call: tuple[str, int, int, str] | None = None  # file, line, column and function of the launch

    def call_row(self) -> int:
        """The row of the line that launches the kernel, -1 where it is unknown."""
        return -1 if self.call is None else self._intern(*self.call, -1)

    def call_suffix(self) -> str:
        """Text of the location of the launch, "" where it is unknown."""
        row = self.call_row()
        return f" @{row}" if row >= 0 else ""

    def site_row(self, site: tuple[str, int, int, str]) -> int:
        """The row of a line outside of the kernel, as `running_site` names it."""
        return self._intern(*site, -1)

    def function_suffix(self, debug_info: Any, what: str) -> str:
        """Text of the location of a function as a whole, `what` in reports: its first line, or that of the launch where it
        is not the user's."""
        file, line = function_site(debug_info)[1], getattr(debug_info, "func_src_info", None) or ""
        number = line.rpartition(":")[2]
        if not number.isdigit() or not (jaxver.is_user_file(file) or file == self._own):
            row = self.call_row()
        else:
            row = self._intern(file, int(number), 0, what, -1)
        return f" @{row}" if row >= 0 else ""

    def source(self, suffix: str) -> tuple[str, int, int, str, str] | None:
        """(file, line, column, function, text) of a location's text, None for "" ."""
        if not suffix:
            return None
        file, line, column, function, *_ = list(self._rows)[int(suffix[2:])]
        file, line, text = _cells.place(file, line)
        return file, line, column, function, text

    def place(self, suffix: str) -> tuple[str, int] | None:
        """(file, line) of a location's text, as Python knows them; None for ""."""
        return list(self._rows)[int(suffix[2:])][:2] if suffix else None

    def scope(self, around: str, stack: Any) -> str:
        """The scope "a/b" of an equation with this stack of names, in a jaxpr whose own scope is `around`."""
        try:
            return self._scopes[around, stack]
        except KeyError:
            names = [n.name for n in stack if type(n).__name__ == "Scope"]  # not the names of transformations
            scope = self._scopes[around, stack] = "/".join([around, *names] if around else names)
            return scope

    def suffix(self, traceback: Any, scope: str = "") -> str:
        """Text of the location of an equation; its row is added to the table."""
        key = (traceback, scope) if scope else traceback
        try:
            return self._cache[key]
        except KeyError:
            pass
        row = self._caller
        if traceback is not None and self._boundary[-1] is not None:  # None: a library's function is its call site
            row = self._row(traceback, scope)
        text = self._cache[key] = f" @{row}" if row >= 0 else ""
        return text

    def enter(self, suffix: str, debug_info: Any) -> None:
        """Begins an inlined function: `suffix` is the location of its call."""
        self._saved.append((self._caller, self._cache))
        name, file = function_site(debug_info)
        user = self._boundary[-1] is not None and (jaxver.is_user_file(file) or file == self._own)
        self._boundary.append((name, file) if user else None)
        self._caller = int(suffix[2:]) if suffix else -1
        self._cache = self._caches.setdefault((self._boundary[-1], self._caller), {})

    def leave(self) -> None:
        """Ends the inlined function."""
        self._boundary.pop()
        self._caller, self._cache = self._saved.pop()

    def _row(self, traceback: Any, scope: str) -> int:
        codes, lastis = traceback.raw_frames()
        frames = []
        boundary, file = self._boundary[-1]
        is_user = jaxver.source_info_util.is_user_filename
        own = self._own
        for code, lasti in zip(codes, lastis):
            name = code.co_filename
            if not is_user(name) and name != own:
                continue
            frames.append((code, lasti))
            if code.co_name == boundary and name == file:
                break
            if len(frames) == _MAX_CHAIN:
                del frames[1:]
                break
        else:
            del frames[1:]  # the function's own frame is not in the traceback: its callers would mislead
        row = self._caller
        for n, (code, lasti) in reversed(list(enumerate(frames))):
            line, column = _position(code, lasti)
            row = self._intern(code.co_filename, line, column, code.co_qualname, row, "" if n else scope)
        return row

    def _intern(self, file: str, line: int, column: int, function: str, caller: int, scope: str = "") -> int:
        # `f.<locals>.kernel` says no more than `kernel` in a report that quotes the line.
        key = (file, line, column, function.rpartition("<locals>.")[2], caller, scope)
        return self._rows.setdefault(key, len(self._rows))

    def lines(self) -> list[str]:
        """The `loc` declarations."""
        out = []
        for n, (file, line, column, function, caller, scope) in enumerate(self._rows):
            file, line, text = _cells.place(file, line)
            parts = [f"file = {quote(file)}", f"line = {line}"]
            if column > 0:
                parts.append(f"column = {column}")
            if function:
                parts.append(f"function = {quote(function)}")
            if text:
                parts.append(f"text = {quote(text)}")
            if scope:
                parts.append(f"scope = {quote(scope)}")
            if caller >= 0:
                parts.append(f"caller = {caller}")
            out.append(f"loc {n} {{{', '.join(parts)}}}")
        return out
