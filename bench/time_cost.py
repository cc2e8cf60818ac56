"""What virtual time costs: CPU time of runs that are predicted, and traced, over fast ones, kernel by kernel.

    .venv/bin/python bench/time_cost.py [--corpus FOLDER] [--cases REGEX] [--rounds 7] [--out build/bench/time_cost.json]

Each kernel of bench/kernels, or of FOLDER/corpus.py (as bench/checked.py takes them), runs in one process, in turn (A B C A B C) in batches of about
50 ms with one worker; ratios are medians of the rounds' ratios of CPU time, over a fast run:

    time=True   a launch under emulate(..., time=True), behind the first one: what it was predicted from has not changed
    predicted   a fast run, and pallasim.predict's engine on the captured kernel with the arrays: each time anew, without sensitivity
    traced      the same with the time line written to a file
"""
from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
from typing import Any

import checked
import compare
from ratios import calls_of

WHAT = ("fast", "time=True", "predicted", "traced")


def worker(corpus: str, name: str, rounds: int) -> None:
    """Prints one line of JSON: seconds per call, and the ratios to fast ones."""
    import jax
    import pallasim
    from pallasim import _core, _predict

    k = checked.kernels(corpus)[name]
    chip = {"generic": "tpu-v5e"}.get(checked.CHIPS[k.machine], checked.CHIPS[k.machine])
    functions = []
    with k.context(), tempfile.TemporaryDirectory() as folder:
        arguments = jax.block_until_ready(k.arguments())
        for timed in (False, True):
            with pallasim.emulate(chip, workers=1, findings="collect", time=timed):
                functions.append(jax.jit(k.build(False)).trace(*arguments).lower().compile())
        with pallasim.emulate(chip):
            launches = _predict._traced(k.build(False), arguments, {}, chip, {})

        def predicted(trace: str) -> None:
            for text, options, contents in launches:
                _core.predict(text, options, contents, False, False, 3, False, trace, 0, False, False)

        def calls(f: Any) -> None:
            jax.block_until_ready(f(*arguments))

        def both(trace: str) -> None:
            calls(functions[0])
            predicted(trace)

        ways = [lambda: calls(functions[0]), lambda: calls(functions[1]), lambda: both(""), lambda: both(os.path.join(folder, "x.perfetto-trace"))]

        def seconds(f: Any, n: int) -> float:
            begin = compare.cpu_seconds()
            for _ in range(n):
                f()
            return (compare.cpu_seconds() - begin) / n

        for f in ways:
            f()
        batches = [calls_of(seconds(f, 2)) for f in ways]
        times = [[seconds(f, n) for f, n in zip(ways, batches)] for _ in range(rounds)]
    found = {"seconds": [statistics.median(t[i] for t in times) for i in range(len(ways))],
             "ratios": [statistics.median(t[i] / t[0] for t in times) for i in range(len(ways))]}
    print(json.dumps(found), flush=True)
    os._exit(0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus", default="", help="a folder with corpus.py; bench/kernels without it")
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--timeout", type=float, default=120, help="seconds per kernel")
    p.add_argument("--out", help="a JSON file for the results")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.worker:
        return worker(o.corpus, o.worker, o.rounds)
    results: dict[str, Any] = {}
    for name, devices in ((n, k.devices) for n, k in checked.kernels(o.corpus).items() if re.search(o.cases, n)):
        try:
            results[name] = checked.measure(o, name, devices, __file__)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print(f"{name:34} not measured: {e}", flush=True)
            continue
        r = results[name]
        print(f"{name:34} fast {1e3 * r['seconds'][0]:9.3f} ms  " + "  ".join(f"{w} {x:8.2f}" for w, x in zip(WHAT[1:], r["ratios"][1:])), flush=True)
    for i, what in enumerate(WHAT[1:], 1):
        ratios = [r["ratios"][i] for r in results.values()]
        if ratios:
            within = sum(x <= (3 if what == "traced" else 2) for x in ratios)
            print(f"{what}: geometric mean {statistics.geometric_mean(ratios):.2f}, largest {max(ratios):.1f}, {within} of {len(ratios)} within the goal")
    if o.out:
        with open(o.out, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
