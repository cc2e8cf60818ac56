"""Many configurations of a program on chips: which run, which are right, which is the fastest, and why the others are not (docs/sweep.md)."""
from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _build, _check, _judge, _many, _progress, _sweep_text, _tasks

_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class SweepRow:
    """A configuration on a chip.

    status: "ok", or the first thing against it: one of `Sweep.STATUSES`; reason, code, hint: of that, and file, line, text where it has a place.
    seconds: predicted, of all launches; ratio: to the best one on the chip. bound, next: what bounds the longest launch, and what would next; shares:
    its critical path by what it was spent on; roofline: the seconds of flops or bytes at their peak rates. advice: what the prediction says to change.
    memories: by space, bytes and capacity. findings: of the run, as dictionaries. error: the largest difference from the reference, as a part of its
    largest element; None where nothing was compared. zeros: the time depends on what arrays hold, and zeros were taken. spent: seconds of this process.
    """

    index: int
    config: Any
    chip: str
    status: str
    reason: str = ""
    code: str = ""
    hint: str = ""
    file: str = ""
    line: int = 0
    text: str = ""
    kernels: tuple[str, ...] = ()
    seconds: float | None = None
    ratio: float | None = None
    bound: str = ""
    next: str = ""
    shares: tuple[tuple[str, float], ...] = ()
    roofline: float | None = None
    advice: tuple[str, ...] = ()
    memories: dict[str, tuple[int, int | None]] = dataclasses.field(default_factory=dict)
    findings: tuple[dict[str, Any], ...] = ()
    error: float | None = None
    zeros: bool = False
    cached: bool = False
    spent: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def why(self) -> str:
        """Why it is not the best one, in a line; of the best one what bounds it."""
        return _sweep_text.why(self)


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What `sweep` found: rows in the order of the configurations, chip by chip for each. `str` is a table per chip, which notebooks show as one."""

    STATUSES = _judge.STATUSES

    rows: tuple[SweepRow, ...]
    chips: tuple[str, ...]
    values: bool
    interrupted: bool = False
    left: int = 0
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> dict[str, SweepRow]:
        """By chip the fastest row that nothing is against; a chip without one is missing."""
        rows = [r for r in self.rows if r.ok and r.seconds is not None]
        return {chip: min(on, key=lambda r: r.seconds or 0.0) for chip in self.chips if (on := [r for r in rows if r.chip == chip])}

    def ranked(self, chip: str) -> list[SweepRow]:
        """Rows of a chip: the fastest first, then what lost for other reasons."""
        order = {s: n for n, s in enumerate(reversed(_judge.STATUSES))}
        return sorted((r for r in self.rows if r.chip == chip), key=lambda r: (order[r.status], r.seconds or 0.0, r.index))

    def json(self, indent: int | None = None) -> str:
        return json.dumps({"pallasim_sweep": 1, "build": _build.build(), "chips": self.chips, "values": self.values, "interrupted": self.interrupted,
                           "left": self.left, "notes": self.notes, "best": {c: r.index for c, r in self.best.items()},
                           "rows": [dataclasses.asdict(r) | {"config": _sweep_text.plain(r.config), "why": r.why} for r in self.rows]}, indent=indent)

    def csv(self) -> str:
        return _sweep_text.csv_of(self.rows)

    def to_pandas(self) -> Any:
        """A DataFrame; needs pandas."""
        import pandas

        head, *rows = _sweep_text.records(self.rows)
        return pandas.DataFrame(rows, columns=head)

    def plot(self, path: str = "") -> Any:
        """Predicted seconds of what runs, the fastest first, a line per chip; written to `path` where one is given. Needs matplotlib."""
        return _sweep_text.plot(self, path)

    def table(self, chip: str, most: int | None = None) -> str:
        """All rows of a chip, or the first so many."""
        return _sweep_text.table(self, chip, most)

    def __str__(self) -> str:
        return _sweep_text.text(self)

    def __repr__(self) -> str:
        return f"<pallasim.Sweep: {len(self.rows)} rows on {', '.join(self.chips)}, {sum(r.ok for r in self.rows)} run>"

    def _repr_html_(self) -> str:
        return _sweep_text.html(self)


def sweep(f: Callable[[Any], Callable[..., Any]], configs: Iterable[Any] | Mapping[str, Iterable[Any]], *args: Any, chips: Sequence[str] = (), reference: Any = None,
          values: bool | None = None, checked: bool = True, tolerance: float | None = None, jobs: int | None = None, executor: Any = None,
          time_limit: float = 60.0, memory_limit: int = 8 * _GIB, cache: str = "", resume: str = "", progress: bool = True, most_steps: int = 0,
          options: dict[str, Any] | None = None, **kwargs: Any) -> Sweep:
    """Judges `f(config)(*args, **kwargs)` for each configuration on each chip: whether it is legal, fits, runs without findings, is right, and how
    long it would take. What loses at one question is not asked the next, so nothing is computed for what cannot run.

    configs: any objects, or a dictionary of lists, of which all combinations are taken, as dictionaries. chips: keys of `pallasim.MACHINES`; without it
    that of the `emulate` block around the call, else all TPUs. Arguments are arrays, or `jax.ShapeDtypeStruct`: then nothing runs; `values=False`
    says the same of arrays. reference: a function of the same arguments, or its results. tolerance: the largest difference, as a part of the
    reference's largest element; None takes one by type (docs/sweep.md). checked: runs look at every access (`detect_races`).

    jobs: processes of this machine, None for one per core, 0 to stay in this process, without limits. executor: a `concurrent.futures.Executor`
    instead, of Dask, MPI, loky or `pallasim.RayExecutor`. time_limit (seconds), memory_limit (bytes), 0 for none: of one row; one that exceeds
    them, or whose process dies, is a row that says so. cache: a folder that keeps outcomes, by kernels, chip and build. resume: a file that keeps rows;
    those that it has are not judged again. options: of `Params`. most_steps: of a prediction, 0 for predict's limit.

    Ctrl-C gives what there is. Raises ValueError for chips and arguments that cannot be, RuntimeError where a worker is of another build.
    """
    wanted = _check.chips_of(chips)
    taken = _combinations(configs)
    shapes = not _judge.concrete((args, kwargs))
    if values and shapes:
        raise ValueError("values=True needs arrays, not jax.ShapeDtypeStruct")
    runs = not shapes if values is None else values
    program = _judge.Program(f, args, kwargs, reference if runs else None, runs, checked, tolerance, options or {}, most_steps, os.path.abspath(cache) if cache else "")
    made = _Rows(taken, wanted, program, resume, progress)
    interrupted, notes = made.judge(jobs, executor, time_limit, memory_limit)
    return made.result(interrupted, notes)


def _combinations(configs: Any) -> list[Any]:
    if isinstance(configs, Mapping):
        return [dict(zip(configs, values)) for values in itertools.product(*configs.values())]
    return list(configs)


class _Rows:
    """Rows as they come, those of a file first."""

    def __init__(self, configs: list[Any], chips: tuple[str, ...], program: _judge.Program, resume: str, progress: bool) -> None:
        self._configs, self._chips, self._program = configs, chips, program
        self._items = [(config, chip) for config in configs for chip in chips]
        self._outcomes: dict[int, dict[str, Any]] = {}
        self._kept = _Kept(resume, self._items, program) if resume else None
        if self._kept is not None:
            self._outcomes |= self._kept.known
        self._line = _progress.Line("sweep", len(self._items)) if progress else None

    def judge(self, jobs: int | None, executor: Any, seconds: float, most_bytes: int) -> tuple[bool, list[str]]:
        left = [n for n in range(len(self._items)) if n not in self._outcomes]
        told = lambda k, outcome: self._take(left[k], outcome)  # noqa: E731
        items = [self._items[n] for n in left]
        notes: list[str] = []
        try:
            if not items:
                return False, notes
            if jobs == 0 and executor is None:
                return _many.here(self._program, items, told), notes
            count = jobs or _many.cores()
            if executor is None:
                self._program.workers = max(1, _many.cores() // count)
            try:
                return _many.run(self._program, items, told, executor=executor, jobs=count, seconds=seconds, most_bytes=most_bytes), notes
            except _tasks.NotSendable as e:
                if executor is not None or jobs is not None:
                    raise
                notes.append(f"ran in this process, without limits of time and memory, as the program cannot be sent to others: {e}")
                return _many.here(self._program, items, told), notes
            except _many.BrokenRun as e:
                notes.append(str(e))
                return True, notes
        finally:
            if self._line is not None:
                self._line.end()
            if self._kept is not None:
                self._kept.close()

    def _take(self, n: int, outcome: dict[str, Any]) -> None:
        self._outcomes[n] = outcome
        if self._kept is not None:
            self._kept.keep(n, outcome)
        if self._line is not None:
            self._line.show(len(self._outcomes), f"{sum(o['status'] == 'ok' for o in self._outcomes.values())} run")

    def result(self, interrupted: bool, notes: list[str]) -> Sweep:
        best: dict[str, float] = {}
        for n, o in self._outcomes.items():
            if o["status"] == "ok":
                chip = self._items[n][1]
                best[chip] = min(best.get(chip, o["seconds"]), o["seconds"])
        rows = tuple(self._row(n, o, best) for n, o in sorted(self._outcomes.items()))
        return Sweep(rows, self._chips, self._program.values, interrupted, len(self._items) - len(rows), tuple(notes))

    def _row(self, n: int, o: dict[str, Any], best: dict[str, float]) -> SweepRow:
        config, chip = self._items[n]
        seconds = o.get("seconds")
        given = {k: o[k] for k in ("status", "reason", "code", "hint", "file", "line", "text", "seconds", "bound", "next", "roofline", "error", "zeros", "cached", "spent") if k in o}
        ratio = seconds / best[chip] if seconds is not None and best.get(chip) else None
        return SweepRow(n // len(self._chips), config, chip, ratio=ratio, kernels=tuple(o.get("kernels", ())), shares=tuple((a, b) for a, b in o.get("shares", ())),
                        advice=tuple(o.get("advice", ())), memories={s: (b, c) for s, b, c in o.get("memories", ())}, findings=tuple(o.get("findings", ())), **given)


class _Kept:
    """A file of rows, one per line below a head that says of what. A line that was not written to its end is left out."""

    def __init__(self, path: str, items: Sequence[tuple[Any, str]], program: _judge.Program) -> None:
        self._names = [f"{c!r} on {chip}" for c, chip in items]
        if any(" object at 0x" in name for name in self._names) or len(set(self._names)) < len(self._names):
            raise ValueError("resume= tells configurations apart by their repr, which has to be one of their own, and the same in another process")
        head = {"pallasim_sweep": 1, "build": _build.build(), "arguments": _described(program)}
        self.known: dict[int, dict[str, Any]] = {}
        lines: list[str] = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = [line for line in file if line.endswith("\n")]
        if lines:
            self._require(path, json.loads(lines[0]), head)
            number = {name: n for n, name in enumerate(self._names)}
            rows = [json.loads(line) for line in lines[1:]]
            self.known = {number[r["row"]]: r["outcome"] for r in rows if r["row"] in number}
        self._file = open(path, "a" if lines else "w", encoding="utf-8")
        if lines:
            self._file.truncate(sum(len(line.encode()) for line in lines))
        else:
            self._write(head)

    @staticmethod
    def _require(path: str, had: dict[str, Any], head: dict[str, Any]) -> None:
        for key, what in head.items():
            if had.get(key) != what:
                raise ValueError(f"{path} is of another sweep: its {key} is {had.get(key)}, this one's {what}")

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def keep(self, n: int, outcome: dict[str, Any]) -> None:
        self._write({"row": self._names[n], "outcome": outcome})

    def close(self) -> None:
        self._file.close()


def _described(program: _judge.Program) -> str:
    import jax

    shapes = [f"{getattr(x, 'dtype', type(x).__name__)}{list(getattr(x, 'shape', ()))}" for x in jax.tree.leaves((program.args, program.kwargs))]
    how = "predicted only" if not program.values else "checked runs" if program.checked else "runs"
    return f"{', '.join(shapes) or 'none'}; {how}; tolerance {program.tolerance}; options {sorted(program.options.items())}"
