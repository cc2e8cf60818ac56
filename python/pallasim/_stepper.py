"""A kernel that stands, in a notebook: `pallasim.debug(f, x)` there, with buttons where widgets are to be had."""
from __future__ import annotations

import base64
import dataclasses
import math
import os
import re
from typing import Any

from . import _adapter, _stepper_html, _stepper_widget

_MOST_ELEMENTS, _MOST_PICTURES = 4_000_000, 24
_TYPE = re.compile(r"\w+\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Picture:
    """An array as colours. `png`: the file. `legend`: what marks there are. `block`: where it begins in the array that it is a part of, empty where it is none."""

    expression: str
    summary: str
    elements: str
    legend: str
    png: bytes
    dims: tuple[int, ...]
    block: tuple[int, ...]
    array: tuple[int, ...]
    cells: dict[str, Any]

    def _repr_png_(self) -> bytes:
        return self.png

    def _repr_html_(self) -> str:
        return _stepper_html.picture(self)

    def __repr__(self) -> str:
        return f"{self.expression}: {self.summary}\n{self.elements}"


@dataclasses.dataclass(frozen=True)
class Shown:
    """A value or a ref. `whole`: the array that a ref shows a block of."""

    name: str
    text: str
    picture: Picture | None = None
    whole: Picture | None = None


@dataclasses.dataclass(frozen=True)
class View:
    """What there is to see where it stands."""

    why: str
    said: tuple[str, ...]  # findings, prints
    frames: tuple[dict[str, Any], ...]
    threads: tuple[dict[str, Any], ...]
    thread: int
    values: tuple[Shown, ...]
    refs: tuple[Shown, ...]
    watched: tuple[Shown, ...]
    semaphores: tuple[tuple[str, str], ...]
    flight: tuple[tuple[str, str], ...]
    memory: tuple[tuple[str, str], ...]
    breakpoints: frozenset[tuple[str, int]]


class Stepper:
    """A launch of a capsule that stands at its first line. A notebook shows where it stands, with buttons where `anywidget` is installed.

    `next`, `step`, `finish`, `go_on`, `back`, `go_back` and `restart` move it; each returns the stepper. docs/debugger.md has expressions.
    """

    def __init__(self, path: str | os.PathLike[str], *, checked: bool = False, launch: int | None = None) -> None:
        self._adapter = _adapter.Adapter()
        self._breakpoints: dict[str, dict[int, str]] = {}
        self._watched: list[str] = []
        self._thread, self._widget = 1, None
        self._adapter.ask("initialize", adapterID="pallasim", linesStartAt1=True)
        options: dict[str, Any] = {"checked": True} if checked else {}
        self._adapter.ask("launch", program=os.path.abspath(path), options=options, **({"launch": launch} if launch is not None else {}))
        self._adapter.event("initialized")
        self._adapter.ask("configurationDone")
        self._take(self._adapter.event("stopped"))

    # --- going ---
    def next(self) -> Stepper:
        """To the next line of this function."""
        return self.do("next")

    def step(self) -> Stepper:
        """To the next line, into functions and regions."""
        return self.do("step")

    def finish(self) -> Stepper:
        """To the line behind this function or region."""
        return self.do("finish")

    def go_on(self) -> Stepper:
        """To the next breakpoint, finding or the end."""
        return self.do("continue")

    def back(self) -> Stepper:
        """One line back."""
        return self.do("back")

    def go_back(self) -> Stepper:
        """Back to the last breakpoint, or to the start."""
        return self.do("reverse-continue")

    def restart(self) -> Stepper:
        return self.do("restart")

    def do(self, command: str) -> Stepper:
        """By the name of a button."""
        self._adapter.ask(_adapter.GOING[command], threadId=self._thread)
        self._take(self._adapter.event("stopped"))
        return self

    # --- where to stop ---
    def break_at(self, line: int, file: str = "", condition: str = "") -> Stepper:
        """Stops before a line, of the file where it stands if none is named. Raises RuntimeError where no operation is of it or behind it."""
        self._set_breakpoints(file or self.file, self._breakpoints.get(file or self.file, {}) | {line: condition})
        return self._changed()

    def clear(self, line: int | None = None, file: str = "") -> Stepper:
        """Forgets a breakpoint, or all."""
        if line is None:
            for each in list(self._breakpoints):
                self._set_breakpoints(each, {})
        else:
            self._set_breakpoints(file or self.file, {n: c for n, c in self._breakpoints.get(file or self.file, {}).items() if n != line})
        return self._changed()

    def toggle(self, line: int, file: str = "") -> Stepper:
        return self.clear(line, file) if line in self._breakpoints.get(file or self.file, {}) else self.break_at(line, file)

    def _set_breakpoints(self, file: str, wanted: dict[int, str]) -> None:
        answer = self._adapter.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": n, "condition": c} for n, c in wanted.items()])["breakpoints"]
        refused = next((b["message"] for b in answer if not b["verified"]), None)
        self._breakpoints[file] = {b["line"]: c for b, c in zip(answer, wanted.values()) if b["verified"]}
        if refused is not None:
            raise _adapter.Refused(refused)

    # --- looking ---
    @property
    def file(self) -> str:
        return str(self.view.frames[0].get("source", {}).get("path", "")) if self.view.frames else ""

    @property
    def line(self) -> int:
        """Where it stands; 0: nowhere."""
        return int(self.view.frames[0]["line"]) if self.view.frames else 0

    def value(self, expression: str) -> str:
        """What `print` says of an expression."""
        return str(self._adapter.ask("evaluate", expression=expression, frameId=self._frame, context="repl")["result"])

    def picture(self, expression: str) -> Picture:
        """An array as a picture. Raises RuntimeError for one element, and for what has no numbers."""
        cells = self._adapter.ask("pallasim/picture", expression=expression, frameId=self._frame)
        return Picture(expression, cells["summary"], cells["elements"], cells["legend"], base64.b64decode(cells.pop("png")),
                       tuple(cells["dims"]), tuple(cells["block"]), tuple(cells["array"]), cells)

    def watch(self, expression: str) -> Stepper:
        """Shows an expression wherever it stands."""
        self._watched.append(expression)
        return self._changed()

    def unwatch(self, expression: str) -> Stepper:
        self._watched = [w for w in self._watched if w != expression]
        return self._changed()

    def choose(self, thread: int) -> Stepper:
        """Looks at another thread, and steps that one."""
        before, self._thread = self._thread, thread
        try:
            return self._changed()
        except _adapter.Refused:
            self._thread = before
            raise

    def close(self) -> None:
        """Ends the debugger's process."""
        self._adapter.close()

    # --- what was seen ---
    def _take(self, stop: dict[str, Any]) -> None:
        self._stop, self._thread = stop, stop["threadId"]
        self._said = tuple(e["output"] for e in self._adapter.events("output") if e.get("category") != "console")
        self._changed()

    def _changed(self) -> Stepper:
        self.view = self._look()
        if self._widget is not None:
            self._widget.html = _stepper_html.page(self.view)
        return self

    def _look(self) -> View:
        ask = self._adapter.ask
        frames = tuple(ask("stackTrace", threadId=self._thread)["stackFrames"])
        self._frame = frames[0]["id"] if frames else 0
        scopes = {s["name"]: s["variablesReference"] for s in ask("scopes", frameId=self._frame)["scopes"]} if frames else {}
        rows = {name: ask("variables", variablesReference=number)["variables"] for name, number in scopes.items()}
        plain = {name: tuple((v["name"], v["value"]) for v in rows.get(name, ())) for name in ("Semaphores", "In flight", "Memory")}
        self._drawn = 0
        found = frozenset((file, line) for file, lines in self._breakpoints.items() for line in lines)
        return View(_why(self._stop), self._said, frames, tuple(ask("threads")["threads"]), self._thread,
                    tuple(self._shown(v) for v in rows.get("Locals", ())), tuple(self._shown(v, ref=True) for v in rows.get("Refs", ())),
                    tuple(map(self._expression, self._watched)), plain["Semaphores"], plain["In flight"], plain["Memory"], found)

    def _shown(self, variable: dict[str, Any], ref: bool = False) -> Shown:
        kind = _TYPE.match(variable.get("type", ""))
        size = math.prod(int(d) for d in kind[1].split(",")) if kind and kind[1] else 0
        if not 0 < size <= _MOST_ELEMENTS or not variable["variablesReference"]:
            return Shown(variable["name"], variable["value"])
        picture = self._draw(variable["name"])
        whole = None
        if ref and picture and picture.block and picture.array != picture.dims and math.prod(picture.array) <= _MOST_ELEMENTS:
            whole = self._draw(f"{variable['name']}.array")
        return Shown(variable["name"], variable["value"], picture, whole)

    def _expression(self, expression: str) -> Shown:
        try:
            return Shown(expression, self.value(expression), self._draw(expression))
        except _adapter.Refused as e:
            return Shown(expression, str(e))

    def _draw(self, expression: str) -> Picture | None:
        self._drawn += 1
        try:
            return self.picture(expression) if self._drawn <= _MOST_PICTURES else None
        except _adapter.Refused:
            return None  # one element, or no numbers

    # --- showing ---
    def __repr__(self) -> str:
        return _stepper_html.text(self.view)

    def _repr_html_(self) -> str:
        return _stepper_html.page(self.view, plain=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self._widget is None:
            self._widget = _stepper_widget.of(self)
        return bundle | (_stepper_widget.bundle(self._widget) if self._widget is not None else {})


def _why(stop: dict[str, Any]) -> str:
    """Why it stands, as a person says it."""
    reason = {"entry": "at the start", "end": "the launch ended", "step": "", "pause": "interrupted"}.get(stop["reason"], stop["reason"])
    text = stop.get("text", "")
    return f"{reason}: {text}" if reason and text and text != reason else reason or text
