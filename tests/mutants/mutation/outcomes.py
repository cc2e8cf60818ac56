"""What a mutant is, by what comes of it: many schedules, fillings of undefined memory, inputs. Nothing here asks a checked run.

* `faulty`: a run stops, hangs or leaves a semaphore or barrier behind, or its result depends on who is first, on when copies move, on the order of
  parallel axes, on whether windows are modelled, or on what fresh memory holds.
* `equal`: on all inputs and schedules the bytes of the kernel that it was made from, and nothing that orders things was touched.
* `hidden`: the same, but something that orders things was touched: either it was not needed, or no schedule of the emulator shows why.
* `other`: another value, the same in every schedule: a correct kernel, of something else.
* `stillborn`, `refused`: JAX does not trace it, or the chip's compiler or the emulator does not take it: no kernel.
"""
from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import time
from types import ModuleType
from typing import Any

import jax
import numpy as np

import pallasim
from pallasim import _capsule, _explore

INPUTS = 20
SCHEDULES = 200
FIRST = 60  # schedules of the cheap questions
SECONDS = 12.0  # for the inputs behind the first; above it there are fewer schedules of each
LIMITS = {"livelock_steps": 300_000, "max_steps": 20_000_000}
NO_KERNEL = ("PS-TPU", "PS-TRI", "PS-MGPU", "PS-CHIP", "PS-MEM", "PS-SIZE", "PS-UNSUP", "PS-IR", "PS-DMA")
LEFT_BEHIND = ("PS-SEM", "PS-BAR")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`kind` and why; `lines`: of the mutant, where the order of two steps decided, or where it stopped. `schedules`: that were run. `input`: the number of
    the one that shows it."""

    kind: str
    why: str = ""
    lines: tuple[int, ...] = ()
    schedules: int = 0
    input: int = 0


class Faulty(Exception):
    """What was seen of a faulty kernel, and at which lines."""

    def __init__(self, why: str, lines: tuple[int, ...] = ()) -> None:
        super().__init__(why)
        self.lines = lines


@dataclasses.dataclass
class Program:
    """A kernel's file as a program."""

    path: pathlib.Path
    module: ModuleType
    ran: int = 0
    input: int = 0  # that was recorded or explored last

    @property
    def machine(self) -> str:
        return self.module.MACHINE

    def inputs(self, seed: int) -> tuple[Any, ...]:
        return self.module.inputs(np.random.default_rng(seed))

    def run(self, seed: int, **options: Any) -> list[np.ndarray]:
        with pallasim.emulate(self.machine, **{"findings": "collect", "progress": False, **LIMITS, **options}):
            return [np.asarray(x) for x in jax.tree.leaves(jax.block_until_ready(self.module.run(*self.inputs(seed))))]

    def record(self, seeds: range) -> tuple[list[list[dict[str, Any]]], list[list[np.ndarray]]]:
        """Of each seed the launches, and what the program returns."""
        launches, results = [], []
        with pallasim.emulate(self.machine, findings="collect", progress=False, **LIMITS):
            f = jax.jit(self.module.run)
            for seed in seeds:
                self.input = seed
                with _capsule.Recording() as recording:
                    results.append([np.asarray(x) for x in jax.tree.leaves(jax.block_until_ready(f(*self.inputs(seed))))])
                launches.append(recording.launches)
        return launches, results

    def explore(self, launches: list[dict[str, Any]], schedules: int, policy: str, seed: int = 0, **options: Any) -> dict[int, set[bytes]]:
        """The outputs that came of each launch. Raises Faulty where a schedule stops or leaves something behind."""
        changed = [x | {"options": _with(x["options"], LIMITS | options)} for x in launches]
        found = _explore.of_launches(changed, schedules=schedules, policy=policy, depth=3, seed=seed, jobs=1)
        self.ran += found.schedules
        values: dict[int, set[bytes]] = {}
        for o in found:
            if o.stop is not None:
                raise Faulty(f"stops: {o.stop.code} {o.stop.message}", self.lines(o.stop.site, *o.stop.also))
            for f in o.findings:
                if f.code.startswith(LEFT_BEHIND) and f.severity != "note":
                    raise Faulty(f"leaves behind: {f.code} {f.message}", self.lines(f.site, *f.also))
            values.setdefault(o.launch, set()).add(b"".join(np.ascontiguousarray(o.outputs[k]).tobytes() for k in o.outputs))
            if len(values[o.launch]) > 1:
                raise Faulty("the result depends on the schedule", self.lines(*(o.order or ())))
        return values

    def lines(self, *sites: Any) -> tuple[int, ...]:
        sources = [s for site in sites for s in (site.source, *site.callers)]
        return tuple(sorted({s.line for s in sources if s.file == str(self.path)}))


def _with(options: str, changed: dict[str, Any]) -> str:
    kept = [o for o in options.split(";") if o and o.partition("=")[0] not in changed]
    return ";".join(kept + [f"{k}={v}" for k, v in changed.items()])


def load(path: pathlib.Path) -> Program:
    spec = importlib.util.spec_from_file_location(f"mutant_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Program(path, module)


def judge(path: pathlib.Path, synchronises: bool, original: list[list[np.ndarray]]) -> Verdict:
    """`original`: what the kernel that it was made from returns for each input."""
    try:
        program = load(path)
        launches, results = program.record(range(1))
    except pallasim.KernelError as e:
        code = e.finding.code if e.finding else ""
        if code.startswith(NO_KERNEL) or isinstance(e, (pallasim.UnsupportedError, pallasim.RefusedError)):
            return Verdict("refused", f"{code} {e.finding.message if e.finding else str(e).splitlines()[0]}")
        return Verdict("faulty", f"stops: {code} {e.finding.message}", program.lines(e.finding.site, *e.finding.also))
    except Exception as e:
        return Verdict("stillborn", f"{type(e).__name__}: {str(e).strip().splitlines()[0][:200] if str(e).strip() else ''}")
    if not launches[0]:
        return Verdict("stillborn", "no kernel ran")
    try:
        _one_input(program, launches[0], results[0])
        same = _all_inputs(program, original)
    except Faulty as e:
        return Verdict("faulty", str(e), e.lines, program.ran, program.input)
    if not same:
        return Verdict("other", "", (), program.ran)
    return Verdict("hidden" if synchronises else "equal", "", (), program.ran)


def _one_input(program: Program, launches: list[dict[str, Any]], result: list[np.ndarray]) -> None:
    """All questions about one input, the cheap ones first."""
    values = program.explore(launches, FIRST, "random")
    for fill in ("most", "zero"):
        if program.explore(launches, 10, "random", uninitialized_memory=fill) != values:
            raise Faulty("undefined data reaches an output")
    program.explore(launches, SCHEDULES - FIRST, "random", seed=1)
    program.explore(launches, SCHEDULES, "pct")
    if program.machine.startswith("tpu"):
        if program.explore(launches, 10, "random", pipeline="modelled") != values:
            raise Faulty("the result depends on whether windows are modelled")
        if '"parallel"' in program.path.read_text():
            for seed in (1, 2, 3):
                if not same(program.run(0, random_seed=seed), result):
                    raise Faulty("the result depends on the order of a parallel axis")


def _all_inputs(program: Program, original: list[list[np.ndarray]]) -> bool:
    """Whether all inputs give what the original gives; every input under as many schedules as there is time for."""
    try:
        launches, results = program.record(range(len(original)))
    except pallasim.KernelError as e:
        raise Faulty(f"stops for another input: {e.finding.code} {e.finding.message}", program.lines(e.finding.site)) from e
    n, left = 10, SECONDS
    for i, each in enumerate(launches[1:]):
        begin, program.input = time.perf_counter(), 1 + i
        program.explore(each, n, "random", seed=2 + i)
        spent = time.perf_counter() - begin
        left -= spent
        n = int(max(10, min(SCHEDULES, left / (len(launches) - 1 - i) / max(spent / n, 1e-6))))
    return all(map(same, results, original))


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """The same bytes."""
    return len(a) == len(b) and all(x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a, b))
