"""What a launch would take on a chip, as predicted (docs/time.md)."""
from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import Any

from . import _display


@dataclasses.dataclass(frozen=True)
class Bound:
    """A unit or a memory. seconds: what it would take if nothing else was in its way; busy: the part of the whole time."""

    name: str
    seconds: float
    busy: float


@dataclasses.dataclass(frozen=True)
class Share:
    """A part of the critical path, by what it was spent on."""

    name: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class LineShare:
    """A line of the kernel. seconds: of the critical path; busy: of all threads, summed."""

    file: str
    line: int
    text: str
    scope: str
    seconds: float
    busy: float


@dataclasses.dataclass(frozen=True)
class Wait:
    """A line at which threads wait, and for what; seconds of all threads, summed, the longest one, and how often."""

    file: str
    line: int
    text: str
    what: str
    seconds: float
    longest: float
    count: int


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that the prediction rests on. status: measured, published or guessed. change: of the seconds if it was a quarter larger,
    of guessed ones."""

    name: str
    value: float
    unit: str
    status: str
    source: str
    change: float | None


@dataclasses.dataclass(frozen=True)
class Advice:
    """What to change, from the numbers. seconds: at stake, at most; predicted: the launch's seconds with the change, where it was predicted again."""

    text: str
    seconds: float
    predicted: float | None
    file: str
    line: int
    numbers: dict[str, float]

    def __str__(self) -> str:
        return self.text


# What is found when somebody asks for it, see later().
_LATER = frozenset(("figures", "advice", "text"))
_ASKING = threading.RLock()


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """What one launch would take. critical: the critical path, the largest part first; bounds: units and memories, the busiest first;
    bound and next: what bounds it, and what would if that was gone. bytes are those of the device's memory; bytes_cached came from a cache.
    peak_flops, peak_bandwidth: of the chip, per second; peak_seconds: of the roofline. programs, resident, waves: of a grid on a GPU."""

    kernel: str
    chip: str
    seconds: float
    bound: str
    next: str
    critical: tuple[Share, ...]
    bounds: tuple[Bound, ...]
    lines: tuple[LineShare, ...]
    waits: tuple[Wait, ...]
    figures: tuple[Figure, ...]
    flops: float
    bytes_read: float
    bytes_written: float
    bytes_cached: float
    peak_flops: float
    peak_bandwidth: float
    peak_seconds: float
    programs: int
    programs_run: int
    resident: int
    waves: float
    with_values: bool
    reads_inputs: bool
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]
    text: str

    def __getattribute__(self, name: str) -> Any:
        if name in _LATER and "_whole" in vars(self):
            with _ASKING:
                if whole := vars(self).get("_whole"):
                    found = whole()
                    vars(self).update({field: getattr(found, field) for field in _LATER})
                    del vars(self)["_whole"]
        return super().__getattribute__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return KernelTime, tuple(getattr(self, field.name) for field in dataclasses.fields(self))

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        first, _, rest = self.text.rstrip("\n").partition("\n")
        return f"<details open><summary>{_display.text(first)}</summary>{_display.pre(rest)}</details>"


def later(first: KernelTime, whole: Callable[[], KernelTime]) -> KernelTime:
    """`first`, whose figures, advice and text `whole` tells once, when somebody asks for one of them."""
    vars(first)["_whole"] = whole
    return first


def of_json(text: str) -> KernelTime:
    """What the engine says of a launch."""
    d = json.loads(text)

    def site(x: dict[str, Any]) -> dict[str, Any]:
        return {"file": x["site"]["file"], "line": x["site"]["line"], "text": x["site"]["text"]}

    d["critical"] = tuple(Share(**s) for s in d["critical"])
    d["bounds"] = tuple(Bound(**b) for b in d["bounds"])
    d["lines"] = tuple(LineShare(**site(x), scope=x["site"]["scope"], seconds=x["seconds"], busy=x["busy"]) for x in d["lines"])
    d["waits"] = tuple(Wait(**site(x), what=x["what"], seconds=x["seconds"], longest=x["longest"], count=x["count"]) for x in d["waits"])
    d["figures"] = tuple(Figure(**x) for x in d["figures"])
    d["advice"] = tuple(Advice(x["text"], x["seconds"], x["predicted"], x["site"]["file"], x["site"]["line"], x["numbers"]) for x in d["advice"])
    d["notes"] = tuple(d["notes"])
    return KernelTime(**d)
