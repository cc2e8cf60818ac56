"""One configuration of a program on one chip: legal, fitting, free of findings, right, and how fast. Sweeps and `pallasim eval` ask it.

What it says is plain data, a dictionary of JSON's types, because it goes from process to process and into files.
"""
from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# What may come of a configuration, in the order in which it is asked. Behind the first one that is not "ok" nothing is asked.
STATUSES = {
    "error": "the program raises while it is traced",
    "unsupported": "Pallasim cannot run it",
    "refused": "the chip's compiler refuses it",
    "memory": "it does not fit into the chip's memory",
    "stopped": "a kernel's error stopped it",
    "findings": "it ran, and warnings were found",
    "wrong": "its results are not the reference's",
    "untimed": "its time cannot be predicted",
    "time limit": "it took longer than time_limit",
    "memory limit": "it took more than memory_limit",
    "died": "its process died",
    "ok": "nothing is against it",
}
_TOLERANCE = {"float64": 1e-10, "complex128": 1e-10, "float32": 1e-4, "complex64": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}


class Lost(Exception):
    """A configuration is judged no further: its status, and why."""

    def __init__(self, status: str, reason: str, **facts: Any) -> None:
        super().__init__(reason)
        self.outcome = {"status": status, "reason": reason, **facts}


@dataclasses.dataclass
class Program:
    """What is judged: `make(config)` gives the function, which is called with `args` and `kwargs`. Goes to workers as it is.

    values: run it, too. checked: such runs look at every access. reference: a function of the same arguments, or its results, or None.
    tolerance: of results, None: by their type. options: of `Params`. most_steps: of a prediction.
    """

    make: Callable[[Any], Callable[..., Any]]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    reference: Any = None
    values: bool = True
    checked: bool = True
    tolerance: float | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    most_steps: int = 0
    cache: str = ""
    workers: int = 0  # threads of a launch, 0: one per core
    _expected: Any = dataclasses.field(default=None, repr=False)

    def run(self, item: Any) -> dict[str, Any]:
        """Of one configuration and chip."""
        config, chip = item
        return judge(self, config, chip)

    def expected(self) -> list[np.ndarray] | None:
        """The reference's results, which are computed once in a process."""
        if self.reference is not None and self._expected is None:
            import jax

            given = self.reference(*self.args, **self.kwargs) if callable(self.reference) else self.reference
            self._expected = [np.asarray(x) for x in jax.tree.leaves(given)]
        return self._expected  # type: ignore[no-any-return]


def concrete(args: Any) -> bool:
    """Whether arguments are arrays, not shapes of arrays."""
    import jax

    return all(not isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(args))


def judge(program: Program, config: Any, chip: str) -> dict[str, Any]:
    """status, reason and what is known: code, hint, kernels, memories, findings, error, seconds, bound, next, shares, advice, spent."""
    from . import _outcomes

    spent = {"tracing": 0.0, "compiling": 0.0, "running": 0.0, "predicting": 0.0}
    found: dict[str, Any] = {"status": "ok", "reason": ""}
    key = ""
    try:
        with _timed(spent, "tracing"):
            traced = _traced(program, config, chip)
        if program.cache:
            key = _outcomes.key_of(program, traced.launches, chip, traced.jaxpr)
            if (known := _outcomes.find(program.cache, key)) is not None:
                return known | {"cached": True, "spent": spent}
        with _timed(spent, "compiling"):
            found |= _fits(traced.launches, chip)
        if program.values:
            found |= _ran(program, traced, chip, spent)
        with _timed(spent, "predicting"):
            found |= _predicted(program, config, traced, chip)
    except Lost as e:
        found |= e.outcome
    if key:
        _outcomes.keep(program.cache, key, found)
    return found | {"spent": spent}


clock = time.perf_counter  # of `spent`


class _timed:
    def __init__(self, spent: dict[str, float], what: str) -> None:
        self.spent, self.what = spent, what

    def __enter__(self) -> None:
        self.start = clock()

    def __exit__(self, *_: Any) -> None:
        self.spent[self.what] += clock() - self.start


@dataclasses.dataclass
class _Traced:
    staged: Any                  # JAX's trace, from which the program is compiled
    jaxpr: Any
    launches: list[Any]          # captured modules
    settings: str                # options of their launches


def _traced(program: Program, config: Any, chip: str) -> _Traced:
    import jax

    from . import _check, _emulate
    from ._capture import jaxver
    from ._capture.types import Unsupported

    try:
        f = program.make(config)
        with _emulate.emulate(chip, **program.options) as params:
            staged = jax.jit(lambda *a, **k: f(*a, **k)).trace(*program.args, **program.kwargs)
            closed = staged.jaxpr
            eqns = list(_check.launches(jaxver.open_jaxpr(closed)[0]))
    except Exception as e:
        raise Lost("error", _said(e)) from e
    if not eqns:
        raise Lost("error", "it launches no Pallas kernel")
    launches = []
    for eqn, axes in eqns:
        try:
            launches.append(_check.captured(eqn, axes, params.ir_machine))
        except Unsupported as e:
            raise Lost("unsupported", str(e), code="PS-UNSUP-001", kernels=[str(eqn.params.get("name") or "kernel")]) from None
    return _Traced(staged, closed, launches, params.text())


def _said(e: BaseException) -> str:
    """An exception in a line."""
    first = next((line for line in str(e).splitlines() if line.strip()), "")
    return f"{type(e).__name__}: {first}" if first else type(e).__name__


def _fits(launches: Sequence[Any], chip: str) -> dict[str, Any]:
    from . import _check

    memories: dict[str, tuple[int, int | None]] = {}
    names = [c.name for c in launches]
    for c in launches:
        remarks, used = _check.legality(c, chip)
        for m in used:
            if m.bytes > memories.get(m.space, (-1, None))[0]:
                memories[m.space] = m.bytes, m.capacity
        facts = {"kernels": names, "memories": [[s, *n] for s, n in memories.items()]}
        for r in remarks:
            if r.severity == "error":
                hint = next((f for m in used for f in m.fits), "") or r.hint
                status = {"PS-MEM-001": "memory", "PS-UNSUP-001": "unsupported"}.get(r.code, "refused")
                raise Lost(status, r.message, code=r.code, hint=hint, **_place(r.file, r.line, r.text), **facts)
    return facts


def _place(file: str, line: int, text: str) -> dict[str, Any]:
    return {"file": file, "line": line, "text": text} if file else {}


# --- values ---------------------------------------------------------------------------------------------------------
def _ran(program: Program, traced: _Traced, chip: str, spent: dict[str, float]) -> dict[str, Any]:
    import jax

    from . import _emulate, _findings

    options = {"findings": "collect", "progress": False, "detect_races": program.checked, **({"workers": program.workers} if program.workers else {})}
    options |= program.options
    number = _last_number()
    stop: _findings.KernelError | None = None
    results: list[Any] = []
    try:
        with _emulate.emulate(chip, **options):
            with _timed(spent, "compiling"):
                compiled = traced.staged.lower().compile()
            with _timed(spent, "running"):
                results = jax.tree.leaves(jax.block_until_ready(compiled(*program.args, **program.kwargs)))
    except _findings.KernelError as e:
        stop = e
    except Exception as e:
        raise Lost("error", _said(e)) from e
    found = [f for r in _findings.runs() if r.number > number for f in r.findings]
    if stop is not None:
        f = stop.finding
        facts: dict[str, Any] = {"findings": _plain_findings(found)}
        if f is not None:
            raise Lost("stopped", f.message, code=f.code, hint=f.hint, **_place(f.file, f.line, f.text), **facts)
        raise Lost("stopped", _said(stop), **facts)
    said = {"findings": _plain_findings(found)}
    if (worst := next((f for f in found if f.severity in ("error", "warning")), None)) is not None:
        raise Lost("findings", worst.message, code=worst.code, hint=worst.hint, **_place(worst.file, worst.line, worst.text), **said)
    expected = program.expected()
    if expected is None:
        return said
    error, wrong = compare([np.asarray(x) for x in results], expected, program.tolerance)
    if wrong:
        raise Lost("wrong", wrong, error=error if error is not None and math.isfinite(error) else None, **said)
    return said | {"error": error}


def _last_number() -> int:
    from . import _findings

    latest = _findings.runs()
    return latest[-1].number if latest else 0


def _plain_findings(found: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"code": f.code, "severity": f.severity, "message": f.message, "kernel": f.kernel, "file": f.file, "line": f.line, "text": f.text, "hint": f.hint}
            for f in found[:100]]


def compare(results: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float | None) -> tuple[float | None, str]:
    """The largest difference as a part of the reference's largest element, and what is wrong, "" where it is within the tolerance."""
    if len(results) != len(expected):
        return None, f"{len(results)} results, the reference has {len(expected)}"
    worst = 0.0
    for n, (a, b) in enumerate(zip(results, expected)):
        name = f"result {n}" if len(results) > 1 else "the result"
        if a.shape != b.shape:
            return None, f"{name} has the shape {list(a.shape)}, the reference's {list(b.shape)}"
        error, wrong = _difference(a, b, _tolerance(a, b) if tolerance is None else tolerance)
        worst = max(worst, error)
        if wrong:
            return worst, f"{name} {wrong}"
    return worst, ""


def _tolerance(a: np.ndarray, b: np.ndarray) -> float:
    """Of the narrower one; 0 for integers."""
    return max(_TOLERANCE.get(str(x.dtype), 0.0 if x.dtype.kind in "biu" or str(x.dtype).startswith(("int", "uint")) else 0.25) for x in (a, b))


def _difference(a: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[float, str]:
    kind = complex if "complex" in str(a.dtype) or "complex" in str(b.dtype) else float
    x, y = a.astype(kind), b.astype(kind)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if bool(same.all()):
        return 0.0, ""
    finite = np.isfinite(y)
    scale = float(np.abs(y[finite]).max()) if bool(finite.any()) else 0.0
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.where(np.isfinite(x) & finite, np.abs(x - y), np.inf)) / (scale or 1.0)
    error = float(off.max())
    if error <= tolerance:
        return error, ""
    bad = off > tolerance
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape)) if bad.ndim else ()
    where = f"[{', '.join(map(str, first))}] is {a[first]}, the reference's {b[first]}"
    return error, f"differs in {int(bad.sum()):,} of {bad.size:,} elements by up to {error:.3g} of the largest (tolerance {tolerance:g}): {where}"


# --- time -----------------------------------------------------------------------------------------------------------
_MOST = 4  # parts of a path, and pieces of advice, that are kept


def _predicted(program: Program, config: Any, traced: _Traced, chip: str) -> dict[str, Any]:
    from . import _core, _predict

    if any(c.params for c in traced.launches):
        raise Lost("untimed", "its shapes are symbolic")
    try:
        times: list[dict[str, Any]] = []
        try:
            times = [_one(c.text, traced.settings, [], program) for c in traced.launches]
        except _core.DiagnosticError as e:
            if not program.values or e.finding["code"] != "PS-OPT-001":  # else arrays tell what shapes do not
                raise
        if program.values and (not times or any(t["reads_inputs"] for t in times)):
            f = program.make(config)
            times = [_one(*launch, program) for launch in _predict.recorded(f, program.args, program.kwargs, chip, program.options)]
    except _core.DiagnosticError as e:
        d = e.finding
        status = "memory" if d["code"] == "PS-MEM-001" else "untimed"
        raise Lost(status, d["message"], code=d["code"], hint=d["hint"]) from None
    longest = max(times, key=lambda t: float(t["seconds"]))
    advice = [a["text"] for t in sorted(times, key=lambda t: -float(t["seconds"])) for a in t["advice"]]
    return {"seconds": sum(t["seconds"] for t in times), "bound": longest["bound"], "next": longest["next"],
            "shares": [[s["name"], s["seconds"]] for s in longest["critical"][:_MOST]], "roofline": sum(t["peak_seconds"] for t in times),
            "zeros": not program.values and any(t["reads_inputs"] for t in times), "advice": advice[:_MOST]}


def _one(text: str, settings: str, contents: Any, program: Program) -> dict[str, Any]:
    from . import _core

    said = _core.predict(text, settings, contents, False, False, 3, False, "", program.most_steps, sample=True)[0]
    return json.loads(said)  # type: ignore[no-any-return]
