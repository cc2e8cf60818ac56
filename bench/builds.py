"""CPU time of two builds of Pallasim, one against the other, over the kernels of bench/kernels.

    .venv/bin/python bench/builds.py OLD NEW [--cases REGEX] [--rounds 15] [--out build/bench/builds.json]

OLD and NEW are folders with `python/pallasim` in them (build trees). Each kernel runs in one process per build, in turn
(A B A B) in batches of about 50 ms, on one core with one worker; the ratio NEW/OLD is the median of the rounds' ratios of
CPU time. Results are compared with the reference first.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

BATCH_S = 0.05


def worker(name: str) -> None:
    """Answers each line "N" on standard input with the CPU seconds of N calls."""
    import jax
    from compare import checked, compiled, cpu_seconds
    from kernels import all_cases

    case = all_cases()[name]
    arguments = jax.block_until_ready(case.arguments())
    function, _ = compiled("pallasim", case, arguments)
    checked("pallasim", case, function, arguments)
    print("ready", flush=True)
    for line in sys.stdin:
        begin = cpu_seconds()
        for _ in range(int(line)):
            jax.block_until_ready(function(*arguments))
        print(cpu_seconds() - begin, flush=True)
    os._exit(0)


class Build:
    """One build's process for one kernel."""

    def __init__(self, folder: str, name: str, core: int) -> None:
        env = {**os.environ, "PYTHONPATH": str(pathlib.Path(folder).resolve() / "python"), "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        self.process = subprocess.Popen(["taskset", "-c", str(core), sys.executable, __file__, "--worker", name], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            assert self.process.stderr is not None
            raise RuntimeError((self.process.stderr.read().strip().splitlines() or ["no output"])[-1])

    def seconds(self, calls: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(name: str, old: str, new: str, rounds: int, core: int) -> dict[str, Any]:
    builds = []
    try:
        for folder in (old, new):
            builds.append(Build(folder, name, core))
        for b in builds:
            b.seconds(3)
        calls = max(1, int(3 * BATCH_S / max(builds[0].seconds(3), 1e-6)))
        times = [[b.seconds(calls) / calls for b in builds] for _ in range(rounds)]
    finally:
        for b in builds:
            b.close()
    return {"old_s": statistics.median(t[0] for t in times), "new_s": statistics.median(t[1] for t in times),
            "ratio": statistics.median(t[1] / t[0] for t in times), "calls": calls}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--core", type=int, default=0)
    p.add_argument("--out", help="a JSON file for the results")
    o = p.parse_args()
    from kernels import all_cases

    results: dict[str, Any] = {}
    for name in all_cases():
        if not re.search(o.cases, name):
            continue
        start = time.perf_counter()
        try:
            r = results[name] = measure(name, o.old, o.new, o.rounds, o.core)
        except RuntimeError as e:
            print(f"{name:28} {e}", flush=True)
            continue
        print(f"{name:28} {1e3 * r['old_s']:9.3f} ms {1e3 * r['new_s']:9.3f} ms  {r['ratio']:.3f}   ({time.perf_counter() - start:.0f} s)", flush=True)
    ratios = [r["ratio"] for r in results.values()]
    print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.3f}, largest {max(ratios):.3f}")
    if o.out:
        pathlib.Path(o.out).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(o.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
