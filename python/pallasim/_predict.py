"""Prediction: what a program's kernels would take on a chip, and why (docs/time.md). A model."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
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
class KernelTime:
    """What one launch would take. critical: the critical path, the largest part first; bounds: units and memories, the busiest first;
    bound and next: what bounds it, and what would if that was gone. bytes are those of the device's memory; bytes_cached came from a cache.
    peak_seconds: of the roofline. programs, resident, waves: of a grid on a GPU."""

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
    peak_seconds: float
    programs: int
    programs_run: int
    resident: int
    waves: float
    with_values: bool
    reads_inputs: bool
    notes: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        first, _, rest = self.text.rstrip("\n").partition("\n")
        return f"<details open><summary>{_display.text(first)}</summary>{_display.pre(rest)}</details>"


class Prediction(tuple[KernelTime, ...]):
    """The launches of a program, in the order of its trace. `seconds`: their sum, as if each one waited for those before. Its string is a
    report, which notebooks show; `to_json()` is for programs."""

    @property
    def seconds(self) -> float:
        return sum(k.seconds for k in self)

    def __str__(self) -> str:
        return "\n".join(k.text for k in self).rstrip("\n")

    def __repr__(self) -> str:
        return f"<pallasim.Prediction: {len(self)} launches, {self.seconds:.4g} s>"

    def _repr_html_(self) -> str:
        return "".join(k._repr_html_() for k in self)

    def to_json(self) -> str:
        return json.dumps({"seconds": self.seconds, "launches": [dataclasses.asdict(k) for k in self]})


def predict(f: Callable[..., Any], *args: Any, chip: str, values: bool = False, sensitivity: bool = True, waves: int = 3, cold: bool = False,
            trace: str = "", options: dict[str, Any] | None = None, **kwargs: Any) -> Prediction:
    """What the kernels of `f(*args, **kwargs)` would take on `chip`, in seconds of the device; nothing is run on one.

    Arguments are arrays or `jax.ShapeDtypeStruct`. Where control depends on what arrays hold, kernels are run with those values: with
    arrays, with what they are given when f runs on the emulator; with shapes alone, with zeros. values: compute them in any case.
    sensitivity: say how much the guessed figures matter, which predicts once more for each. waves: programs of a grid beyond so many waves
    are not run where all do the same; 0: all are. cold: caches are empty; else they hold the arrays where those fit, as when a launch is
    repeated. trace: a file for the time line, in Perfetto's format. options: of `Params`.

    Raises RuntimeError where f launches no kernel, KernelError for a configuration that the chip's rules refuse, with rule and line.
    """
    import jax

    launches = _traced(f, args, kwargs, chip, options or {})
    found = [_one(*launch, values, sensitivity, waves, cold, trace) for launch in launches]
    concrete = all(not isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves((args, kwargs)))
    if concrete and any(k.reads_inputs for k in found):
        found = [_one(*launch, values, sensitivity, waves, cold, trace) for launch in _recorded(f, args, kwargs, chip, options or {})]
    if not found:
        raise RuntimeError("nothing to predict: no Pallas kernel is launched")
    return Prediction(found)


def _one(text: str, settings: str, contents: list[list[bytes | None]], values: bool, sensitivity: bool, waves: int, cold: bool, trace: str) -> KernelTime:
    from . import _core, _findings

    try:
        return _kernel(json.loads(_core.predict(text, settings, contents, values, sensitivity, waves, cold, trace)))
    except _core.DiagnosticError as e:
        raise _findings.from_error(e) from None


def _kernel(d: dict[str, Any]) -> KernelTime:
    def site(x: dict[str, Any]) -> dict[str, Any]:
        return {"file": x["site"]["file"], "line": x["site"]["line"], "text": x["site"]["text"]}

    d["critical"] = tuple(Share(**s) for s in d["critical"])
    d["bounds"] = tuple(Bound(**b) for b in d["bounds"])
    d["lines"] = tuple(LineShare(**site(x), scope=x["site"]["scope"], seconds=x["seconds"], busy=x["busy"]) for x in d["lines"])
    d["waits"] = tuple(Wait(**site(x), what=x["what"], seconds=x["seconds"], longest=x["longest"], count=x["count"]) for x in d["waits"])
    d["figures"] = tuple(Figure(**x) for x in d["figures"])
    d["notes"] = tuple(d["notes"])
    return KernelTime(**d)


_Launch = tuple[str, str, list[list[bytes | None]]]  # text, options, contents of the arguments of each device


def _traced(f: Callable[..., Any], args: Any, kwargs: Any, chip: str, options: dict[str, Any]) -> list[_Launch]:
    import jax

    from . import _check, _emulate, _findings
    from ._capture import jaxver, module
    from ._capture.types import Unsupported
    from ._params import require_machine

    require_machine(chip)
    found: list[_Launch] = []
    with _emulate.emulate(chip, **options) as params:
        closed = jax.make_jaxpr(lambda *a, **k: f(*a, **k))(*args, **kwargs)
        for eqn, axes in _check.launches(jaxver.open_jaxpr(closed)[0]):
            p = eqn.params
            settings = module.Settings(params.ir_machine, axes)
            try:
                captured = (module.pallas_call(p, settings) if p.get("grid_mapping") is not None
                            else module.mpmd_map(p, [v.aval for v in eqn.invars], settings))
            except Unsupported as e:
                raise _findings.unsupported(str(p.get("name") or "kernel"), e, chip) from None
            found.append((captured.text, params.text(), []))
    return found


def _recorded(f: Callable[..., Any], args: Any, kwargs: Any, chip: str, options: dict[str, Any]) -> Iterator[_Launch]:
    from . import _core, _explore

    launches: Sequence[dict[str, Any]] = _explore._recorded(f, args, kwargs, chip, options)
    at = 0
    while at < len(launches):
        first = launches[at]
        group = launches[at:at + _core.devices_of(first["module"], first["options"])]
        yield first["module"], _explore._free(first["options"]), [[a["bytes"] for a in x["arguments"]] for x in group]
        at += len(group)
