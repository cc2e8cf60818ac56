"""Cells of IPython: reports say `In[3], line 20` instead of the file under which IPython compiled the cell.

Nothing here imports IPython: who has not loaded it has no cells.
"""
from __future__ import annotations

import linecache
import os
import re
import sys
from typing import Any

_NUMBER = re.compile(r"In\[(\d+)\]")
_OF_FILE = re.compile(r"<ipython-input-(\d+)-\w+>")
_WRITTEN = re.compile(r"\b(In\[\d+\]):(\d+)(?::\d+)?")  # as the engine writes a place
_files: dict[str, str] = {}  # cell -> the file under which it was compiled last
_known: dict[tuple[str, int, int], tuple[int, int]] = {}


def shell() -> Any:
    """The shell of IPython that runs, None where there is none."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def in_notebook() -> bool:
    """Whether cells are those of a front end, and not lines of a terminal."""
    return hasattr(shell(), "kernel")


def place(file: str, line: int) -> tuple[str, int, str]:
    """(file, line, text) of a line of source as people know it: of a cell `In[3]`, and the line that the front end shows."""
    text = linecache.getline(file, line).strip()
    cell = _cell(file)
    if cell is None:
        return file, line, text
    number, before = cell
    _files[name := f"In[{number}]"] = file
    return name, line + before, text


def running() -> int | None:
    """The execution count of the cell that runs in this thread, None outside of cells."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (cell := _cell(frame.f_code.co_filename)) is not None:
            return cell[0]
        frame = frame.f_back
    return None


def lines(file: str) -> list[str]:
    """The lines of a file of source, or of a cell that `place` has named."""
    cell = _cell(_files[file]) if file in _files else None
    return linecache.getlines(file) if cell is None else ["\n"] * cell[1] + linecache.getlines(_files[file])


def _cell(file: str) -> tuple[int, int] | None:
    """The execution count of the cell that was compiled under this name last, and how many of its lines were not; None: it is no cell's.

    IPython compiles neither `%%capture` nor empty lines at the top, and what such a magic runs has the number after the cell's.
    """
    running_shell = shell()
    number = _number(running_shell, file)
    if number is None:
        return None
    inputs = getattr(getattr(running_shell, "history_manager", None), "input_hist_raw", ())
    key = file, number, len(inputs) if number < 0 else min(len(inputs), number + 1)  # what later cells say matters where no number is known
    if key not in _known:
        candidates = (number, number - 1) if number >= 0 else range(len(inputs) - 1, 0, -1)
        compiled = _stripped("".join(linecache.getlines(file)))
        befores = ((n, _lines_before(inputs[n], compiled)) for n in candidates if 0 <= n < len(inputs))
        _known[key] = next(((n, before) for n, before in befores if before is not None), (number, 0))
    return _known[key] if _known[key][0] >= 0 else None


def _stripped(code: str) -> list[str]:
    return [line.strip() for line in code.rstrip().splitlines()]


def _lines_before(cell: str, compiled: list[str]) -> int | None:
    """How many lines of a cell stand above what was compiled, None where that is not from this cell."""
    written = _stripped(cell)
    before = len(written) - len(compiled)
    same = before >= 0 and all(a == b or not b or "get_ipython()" in b for a, b in zip(written[before:], compiled))
    return before if same else None


def _number(running_shell: Any, file: str) -> int | None:
    """The execution count that IPython gives to the name of a file, None where it is no cell's. An IPython before 8 does not know those of Jupyter's
    files: -1."""
    if match := _OF_FILE.fullmatch(file):
        return int(match[1])
    if running_shell is None:
        return None
    known = getattr(running_shell.compile, "format_code_name", None)
    if known is None:
        return -1 if f"{os.sep}ipykernel_{os.getpid()}{os.sep}" in file else None
    found = known(file)
    match = _NUMBER.fullmatch(found[1]) if found else None
    return int(match[1]) if match else None


def said(file: str, line: int) -> str:
    """A place in words: `In[3], line 20`, of a file `kernels.py:20`."""
    return f"{file}, line {line}" if _NUMBER.fullmatch(file) else f"{file}:{line}"


def worded(text: str) -> str:
    """A text of the engine with the places in cells as people say them."""
    return _WRITTEN.sub(r"\1, line \2", text) if "In[" in text else text
