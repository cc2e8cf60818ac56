"""What bench/builds.py and bench/checked.py share: kernels one after the other, each with a ratio of CPU times."""
from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

BATCH_S = 0.05  # of CPU time: calls that are timed together


def calls_of(seconds: float) -> int:
    """How many calls of so many seconds are a batch."""
    return max(1, int(BATCH_S / max(seconds, 1e-6)))


def medians(times: list[list[float]], first: str, second: str) -> dict[str, float]:
    """Of rounds of two times each: the median of either, under these names, and that of the rounds' ratios second / first."""
    return {first: statistics.median(t[0] for t in times), second: statistics.median(t[1] for t in times),
            "ratio": statistics.median(t[1] / t[0] for t in times)}


def last_words(stderr: str) -> str:
    """Why a process gave no result."""
    return (stderr.strip().splitlines() or ["no output"])[-1][:160]


def measure_all(names: Iterable[str], measure: Callable[[str], dict[str, Any]], line: Callable[[str, dict[str, Any]], str], out: str | None) -> None:
    """Measures each kernel and prints its line, then the geometric mean of the ratios; a JSON file `out` has the results. A kernel that
    cannot be measured is said to be so, and left out."""
    results: dict[str, Any] = {}
    for name in names:
        try:
            results[name] = measure(name)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print(f"{name:38} not measured: {e}", flush=True)
            continue
        print(f"{name:38} {line(name, results[name])}", flush=True)
    ratios = [r["ratio"] for r in results.values()]
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.3f}, largest {max(ratios):.3f}")
    if out:
        pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(out).write_text(json.dumps(results, indent=1) + "\n")
