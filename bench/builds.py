"""CPU time of two builds of Pallasim, one against the other, over the kernels of bench/kernels.

    .venv/bin/python bench/builds.py OLD NEW [--cases REGEX] [--rounds 15] [--processes 5] [--out build/bench/builds.json]

OLD and NEW are folders with `python/pallasim` in them (build trees). Each kernel runs in one process per build, in turn
(A B A B) in batches of about 50 ms, on one core with one worker, and the rounds are spread over several pairs of
processes: which pages of memory a process gets moves kernels of some MiB by a tenth and more for as long as it lives.
The ratio NEW/OLD is the median of the rounds' ratios of CPU time; behind it stand the lowest and the highest pair's.
Results are compared with the reference first.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from ratios import calls_of, last_words, measure_all, medians  # noqa: E402


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


# Whether an array of some MiB is mapped anew for each call, or found where the last one lay, hangs on what was freed before: a factor of 3
# that is decided by chance once per process. Nothing is given back to the system here.
ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}


class Build:
    """One build's process for one kernel."""

    def __init__(self, folder: str, name: str, core: int) -> None:
        env = {**os.environ, **ALLOCATION, "PYTHONPATH": str(pathlib.Path(folder).resolve() / "python"),
               "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        self.process = subprocess.Popen(["taskset", "-c", str(core), sys.executable, __file__, "--worker", name], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            assert self.process.stderr is not None
            raise RuntimeError(last_words(self.process.stderr.read()))

    def seconds(self, calls: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def pair(name: str, old: str, new: str, rounds: int, core: int) -> list[list[float]]:
    """Of each round the seconds of a call in a process of OLD and in one of NEW."""
    builds = []
    try:
        for folder in (old, new):
            builds.append(Build(folder, name, core))
        for b in builds:
            b.seconds(3)
        calls = calls_of(builds[0].seconds(3) / 3)
        return [[b.seconds(calls) / calls for b in builds] for _ in range(rounds)]
    finally:
        for b in builds:
            b.close()


def measure(name: str, old: str, new: str, rounds: int, processes: int, core: int) -> dict[str, Any]:
    pairs = [pair(name, old, new, -(-rounds // processes), core) for _ in range(processes)]
    ratios = sorted(medians(p, "old", "new")["ratio"] for p in pairs)
    return {**medians([t for p in pairs for t in p], "old_s", "new_s"), "lowest": ratios[0], "highest": ratios[-1]}


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--processes", type=int, default=5, help="pairs of them")
    p.add_argument("--core", type=int, default=0)
    p.add_argument("--out", help="a JSON file for the results")
    o = p.parse_args()
    from kernels import all_cases

    measure_all([n for n in all_cases() if re.search(o.cases, n)], lambda n: measure(n, o.old, o.new, o.rounds, o.processes, o.core),
                lambda n, r: f"{1e3 * r['old_s']:9.3f} ms {1e3 * r['new_s']:9.3f} ms  {r['ratio']:.3f}  "
                             f"({r['lowest']:.2f} to {r['highest']:.2f})", o.out)


if __name__ == "__main__":
    main()
