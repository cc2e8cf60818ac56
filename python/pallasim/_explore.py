"""Exploration: a kernel under many schedules, and what may come of it."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._findings import Finding, Site


@dataclasses.dataclass(frozen=True)
class OutputDifference:
    """Of an output that differs from the first outcome's: how many elements, and the indices of the first and the last of them."""

    name: str
    device: int
    elements: int
    first: tuple[int, ...]
    last: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ExploredOutcome:
    """One of the ways in which a launch may end.

    count: schedules that end like this. variants, spread: where `explore` had a tolerance, results of other bytes that are one within it, and
    how far a number of them is from that of `outputs`, at most. token: repeats one of them: `emulate(replay=token)`, `pallasim run --replay`. switches: in which
    that one leaves running each thread until it waits. outputs: by name, or by (name, device) where several devices run; none where it
    stopped. findings: what was found, and what stopped it, last. stop: that error. deadlock: nobody could go on, or all looked for
    something in vain. differs: where outputs are not those of the first outcome that ended. order: the two lines whose order decides, in
    the order that they have here. launch: the number of the launch, from 1.
    """

    count: int
    token: str
    switches: int
    outputs: dict[Any, np.ndarray]
    findings: tuple[Finding, ...]
    stop: Finding | None
    deadlock: bool
    prints: tuple[str, ...]
    differs: tuple[OutputDifference, ...]
    order: tuple[Site, Site] | None
    launch: int = 1
    variants: int = 1
    spread: float = 0.0


@dataclasses.dataclass(frozen=True)
class Exploration:
    """What `explore` found; its text says it for people, `to_json()` for programs.

    schedules: that ran to an end. exhausted: all schedules that differ were run, for these inputs on this chip. interrupted: Ctrl-C ended
    it early. outcomes: in the order in which they were found, those of all launches.
    """

    kernels: tuple[str, ...]
    policy: str
    seed: int
    schedules: int
    exhausted: bool
    interrupted: bool
    outcomes: tuple[ExploredOutcome, ...]
    text: str
    launches: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)  # each as JSON

    @property
    def ok(self) -> bool:
        """Every launch has one outcome, which ends without a finding."""
        return all(not o.findings for o in self.outcomes) and len(self.outcomes) == len(self.kernels)

    def __str__(self) -> str:
        return self.text

    def __iter__(self) -> Iterator[ExploredOutcome]:
        return iter(self.outcomes)

    def to_json(self) -> str:
        """One object with the launches, as `pallasim explore --json` prints them (docs/explore.md)."""
        return json.dumps({"launches": [json.loads(x) for x in self.launches]})


def explore(f: Callable[..., Any], *args: Any, chip: str = "generic", schedules: int = 1000, policy: str = "pct", depth: int = 3, seed: int = 0,
            jobs: int = 0, tolerance: float = 0.0, launch: int | None = None, executor: Any = None, options: dict[str, Any] | None = None, **kwargs: Any) -> Exploration:
    """Runs `f(*args, **kwargs)` once on the emulator, and each launch of a kernel in it under up to `schedules` schedules.

    policy: "pct" (priorities of threads and copies that change depth - 1 times: finds a bug that needs `depth` orders with a known
    probability), "random" (anybody who can go on is as likely as any other), "exhaustive" (all schedules that differ). Copies in flight
    move at any moment. seed: of the schedules; jobs: OS threads, 0 for one per core; what is found does not depend on jobs.
    tolerance: outcomes are one where nothing but floats a, b of outputs tells them apart, and |a - b| <= tolerance * max(1, |a|, |b|), held
    against the first of them: sums whose order the schedule decides, such as those of atomics.
    launch: only this one, the first being 1. executor: a `concurrent.futures.Executor` whose workers run the schedules (docs/sweep.md), but for
    "exhaustive", whose schedules follow from each other; what is found is the same. options: further ones of `Params`, such as `{"detect_races": True}`.

    Ctrl-C ends it with what there is. Raises RuntimeError where f launches no kernel; an error of f that no launch caused is f's.
    """
    from . import _core

    if policy not in (known := _core.policies()):
        raise ValueError(f"policy is one of {', '.join(known)}, not {policy!r}")
    if schedules < 1 or depth < 1 or jobs < 0:
        raise ValueError("schedules and depth are at least 1, jobs at least 0")
    if not tolerance >= 0:
        raise ValueError(f"tolerance is at least 0, not {tolerance!r}")
    return of_launches(_recorded(f, args, kwargs, chip, options or {}), schedules=schedules, policy=policy, depth=depth, seed=seed, jobs=jobs, launch=launch,
                       executor=executor, tolerance=tolerance)


def _recorded(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], chip: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    import jax

    from . import _capsule, _emulate, _findings

    recording = _capsule.Recording()
    try:
        with _emulate.emulate(chip, **{"findings": "collect", **options}), recording:
            jax.block_until_ready(f(*args, **kwargs))
    except _findings.KernelError:
        if not recording.launches:
            raise
    if not recording.launches:
        raise RuntimeError("nothing to explore: no Pallas kernel ran on the emulator")
    if recording.omitted:
        raise RuntimeError(f"{recording.omitted} launches have more arrays than can be kept")
    return recording.launches


def of_launches(launches: list[dict[str, Any]], *, schedules: int, policy: str, depth: int, seed: int, jobs: int, launch: int | None = None,
                executor: Any = None, tolerance: float = 0.0) -> Exploration:
    """The same of launches that were recorded."""
    from . import _core

    if launch is not None and not 1 <= launch <= len(launches):
        raise ValueError(f"launch {launch}: the launches are 1 to {len(launches)}")
    found, numbers, at = [], [], 0
    while at < len(launches):
        first = launches[at]
        group = launches[at:at + _core.devices_of(first["module"], first["options"])]
        if launch is None or at < launch <= at + len(group):
            devices = [(x["device"], [_array(a) for a in x["arguments"]], [_array(a, False) for a in x["results"]]) for x in group]
            given = first["module"], _free(first["options"]), devices, policy, schedules, depth, seed
            counted = _counted(_Part(*given), executor) if executor is not None and policy != "exhaustive" else None
            found.append(_core.explore(*given, jobs, tolerance, counted))
            numbers.append(at + 1)
        at += len(group)
        if found and found[-1]["interrupted"]:
            break
    outcomes = tuple(_outcome(o, n) for x, n in zip(found, numbers) for o in x["outcomes"])
    return Exploration(tuple(x["kernel"] for x in found), policy, seed, sum(x["schedules"] for x in found), all(x["exhausted"] for x in found),
                       any(x["interrupted"] for x in found), outcomes, "".join(x["text"] for x in found).rstrip("\n"),
                       tuple(x["json"] for x in found))


@dataclasses.dataclass
class _Part:
    """Some of the schedules of a launch, for a worker."""

    text: str
    options: str
    devices: list[Any]
    policy: str
    schedules: int
    depth: int
    seed: int

    def run(self, part: tuple[int, int]) -> dict[str, Any]:
        from . import _core

        counted = _core.count_outcomes(self.text, self.options, self.devices, self.policy, self.schedules, self.depth, self.seed, 1, *part)
        return {"status": "ok", "counted": [[key.decode("latin-1"), count, first] for key, count, first in counted]}


_PARTS = 32


def _counted(launch: _Part, executor: Any) -> list[tuple[bytes, int, int]]:
    """The outcomes of all schedules, added up from what workers say. Ctrl-C is the caller's: there is no part of the whole."""
    from . import _many

    size = max(1, -(-launch.schedules // _PARTS))
    parts = [(begin, min(begin + size, launch.schedules)) for begin in range(0, launch.schedules, size)]
    sums: dict[bytes, tuple[int, int]] = {}

    def told(n: int, outcome: dict[str, Any]) -> None:
        if outcome["status"] != "ok":
            raise RuntimeError(f"schedules {parts[n][0]} to {parts[n][1] - 1} could not be run: {outcome['reason']}")
        for text, count, first in outcome["counted"]:
            key = text.encode("latin-1")
            had = sums.get(key, (0, first))
            sums[key] = had[0] + count, min(had[1], first)

    if _many.run(launch, parts, told, executor=executor, jobs=0, seconds=0, most_bytes=0):
        raise KeyboardInterrupt
    return [(key, *sums[key]) for key in sums]


def _free(options: str) -> str:
    """Without the schedule of the recorded run."""
    return ";".join(o for o in options.split(";") if o.partition("=")[0] not in ("random_seed", "replay", "grid_order"))


def _array(a: dict[str, Any], content: bool = True) -> tuple[str, list[int], bytes]:
    return a["dtype"], list(a["shape"]), a["bytes"] if content else b""


def _outcome(o: dict[str, Any], launch: int) -> ExploredOutcome:
    from . import _capsule, _findings

    several = len({a["device"] for a in o["outputs"]}) > 1
    outputs = {(a["name"], a["device"]) if several else a["name"]: _capsule._numpy(a) for a in o["outputs"]}
    stop = _findings.from_dict(o["stop"]) if o["stop"] else None
    findings = tuple(map(_findings.from_dict, o["findings"])) + ((stop,) if stop else ())
    differs = tuple(OutputDifference(**d) for d in o["differs"])
    order = (_findings._site(o["order"][0]), _findings._site(o["order"][1])) if o["order"] else None
    return ExploredOutcome(o["count"], o["token"], o["switches"], outputs, findings, stop, o["deadlock"], tuple(o["prints"]), differs, order, launch,
                           o["variants"], o["spread"])
