"""Prediction: what a program's kernels would take on a chip, and why (docs/time.md). A model."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _findings, _report, _times
from ._times import KernelTime


class Prediction(tuple[KernelTime, ...]):
    """The launches of a program, in the order of its trace. `seconds`: their sum, as if each one waited for those before. Its string is a
    report, which notebooks show; `to_json()` is for programs. page: the page that shows them, where it was asked for."""

    page: _report.Page | None = None

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
            sample: bool = False, trace: str = "", report: str | bool = "", options: dict[str, Any] | None = None, **kwargs: Any) -> Prediction:
    """What the kernels of `f(*args, **kwargs)` would take on `chip`, in seconds of the device; nothing is run on one.

    Arguments are arrays or `jax.ShapeDtypeStruct`. Where control depends on what arrays hold, kernels are run with those values: with
    arrays, with what they are given when f runs on the emulator; with shapes alone, with zeros. values: compute them in any case.
    sensitivity: say how much the guessed figures matter, and what changes would gain, which predicts once more for each of them: when a launch's
    figures, advice or text are asked for, and where there is a trace or a report at once. waves: programs of a grid beyond so many waves
    are not run where all do the same, nor trips in the middle of long loops; 0: all are. cold: caches are empty; else they hold the arrays
    where those fit, as when a launch is repeated. sample: of a GPU's programs that are alike and share nothing but a cache that holds the
    arrays, run some, on as many SMs with their share of it, as sweeps do; flops and bytes are estimates then.
    trace: a file for the time line, in Perfetto's format. report: a file for a page that shows the launches (docs/report.md), or True; it is
    the prediction's `page` then.
    options: of `Params`.

    Raises RuntimeError where f launches no kernel, KernelError for a configuration that the chip's rules refuse, with rule and line.
    """
    import jax

    launches = _traced(f, args, kwargs, chip, options or {})
    how = values, sensitivity, waves, cold, trace, bool(report), sample
    concrete = all(not isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves((args, kwargs)))
    try:
        found = [_one(*launch, *how) for launch in launches]
    except _findings.KernelError as e:
        # Where a launch goes by what another one makes, arrays tell more than shapes.
        if not concrete or not e.finding or e.finding.code != "PS-OPT-001":
            raise
        found = []
    if concrete and launches and (not found or any(k.reads_inputs for k, _ in found)):
        found = [_one(*launch, *how) for launch in recorded(f, args, kwargs, chip, options or {})]
    if not found:
        raise RuntimeError("nothing to predict: no Pallas kernel is launched")
    prediction = Prediction(k for k, _ in found)
    if report:
        prediction.page = _report.page(", ".join(dict.fromkeys(k.kernel for k, _ in found)), [data for _, data in found])
        if isinstance(report, str):
            prediction.page.save(report)
    return prediction


def _one(text: str, settings: str, contents: list[list[bytes | None]], values: bool, sensitivity: bool, waves: int, cold: bool, trace: str,
         report: bool, sample: bool) -> tuple[KernelTime, str]:
    from . import _core

    def made(sensitivity: bool) -> tuple[KernelTime, str]:
        try:
            found, data = _core.predict(text, settings, contents, values, sensitivity, waves, cold, trace, 0, report, sample)
            return _times.of_json(found), data
        except _core.DiagnosticError as e:
            raise _findings.from_error(e) from None

    if not sensitivity or trace or report:
        return made(sensitivity)
    first, data = made(False)
    return _times.later(first, lambda: made(True)[0]), data


_Launch = tuple[str, str, list[list[bytes | None]]]  # text, options, contents of the arguments of each device


def _traced(f: Callable[..., Any], args: Any, kwargs: Any, chip: str, options: dict[str, Any]) -> list[_Launch]:
    import jax

    from . import _check, _emulate, _findings, _known
    from ._capture import jaxver
    from ._capture.types import Unsupported
    from ._params import require_machine

    require_machine(chip)
    found: list[_Launch] = []
    with _emulate.emulate(chip, **options) as params:
        closed = jax.make_jaxpr(lambda *a, **k: f(*a, **k))(*args, **kwargs)
        leaves = jax.tree.leaves((args, kwargs))
        given = [None if isinstance(x, jax.ShapeDtypeStruct) else x for x in leaves]
        for eqn, axes, values in _known.launches(*jaxver.open_jaxpr(closed), given):
            try:
                captured = _check.captured(eqn, axes, params.ir_machine)
            except Unsupported as e:
                raise _findings.unsupported(str(eqn.params.get("name") or "kernel"), e, chip) from None
            found.append((captured.text, params.text(), [_known.contents(eqn, values)] if not axes else []))
    return found


def recorded(f: Callable[..., Any], args: Any, kwargs: Any, chip: str, options: dict[str, Any]) -> Iterator[_Launch]:
    """The launches of a run, with what their arguments hold."""
    from . import _core, _explore

    launches: Sequence[dict[str, Any]] = _explore._recorded(f, args, kwargs, chip, options)
    at = 0
    while at < len(launches):
        first = launches[at]
        group = launches[at:at + _core.devices_of(first["module"], first["options"])]
        yield first["module"], _explore._free(first["options"]), [[a["bytes"] for a in x["arguments"]] for x in group]
        at += len(group)
