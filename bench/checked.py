"""What looking costs: CPU time of checked runs over fast ones, kernel by kernel.

    .venv/bin/python bench/checked.py [--corpus FOLDER] [--cases REGEX] [--rounds 9] [--steps] [--out build/bench/checked.json]

Each kernel of bench/kernels, or of FOLDER/corpus.py (cases as in bench/kernels, under the names that file gives them), runs
in one process, fast and checked in turn (A B A B) in batches of about 50 ms with one worker; a ratio is the median of the
rounds' ratios of CPU time. Results of both are compared with the reference first. --steps: instead, small blocks,
from 32 to 4,096 grid steps: time per step, which must not grow.
"""
from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import compare  # noqa: E402
from ratios import calls_of, last_words, measure_all, medians  # noqa: E402

CHIPS = compare.CHIPS | {"tpu": "tpu-v6e", "sc": "tpu-v6e", "mgpu": "gpu-h100"}  # and the names of another corpus


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A case of either corpus, in one form."""

    name: str
    machine: str
    build: Any
    arguments: Any
    reference: Any
    tolerance: float
    devices: int = 1
    context: Any = contextlib.nullcontext


def kernels(corpus: str) -> dict[str, Kernel]:
    if not corpus:
        from kernels import all_cases

        return {n: Kernel(n, c.machine, c.build, c.arguments, c.reference, c.tolerance) for n, c in all_cases().items()}
    sys.path.insert(0, corpus)
    import corpus as given

    return {n: Kernel(n, c.family, c.build, c.make_args, c.ref if c.check else None, c.tol, c.devices, c.ctx) for n, c in given.CASES.items()}


def rows(steps: int) -> Kernel:
    """Eight rows of 128 floats per step: as little work as a TPU's step can have."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    def build(interpret: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8 * steps, 128), jnp.float32), grid=(steps,), in_specs=[block],
                              out_specs=block, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)), interpret=interpret)

    return Kernel(f"rows_{steps}", "tpu", build, lambda: (jnp.arange(steps * 1024, dtype=jnp.float32).reshape(-1, 128),),
                  lambda x: x + 1.0, 0.0)


def worker(corpus: str, name: str, rounds: int) -> None:
    """Prints one line of JSON: seconds per call and their ratio."""
    import jax
    import numpy as np
    import pallasim
    cpu_seconds = compare.cpu_seconds

    k = rows(int(name[5:])) if re.fullmatch(r"rows_\d+", name) and not corpus else kernels(corpus)[name]
    functions = []
    with k.context():
        arguments = jax.block_until_ready(k.arguments())
        want = None if k.reference is None else jax.tree.leaves(jax.jit(k.reference)(*arguments))
        for checked in (False, True):
            with pallasim.emulate(CHIPS[k.machine], detect_races=checked, workers=1, findings="collect"):
                functions.append(jax.jit(k.build(False)).trace(*arguments).lower().compile())
    for f in functions:
        launches = pallasim.launch_count()
        got = jax.tree.leaves(jax.block_until_ready(f(*arguments)))
        assert pallasim.launch_count() > launches, "no kernel ran on the emulator"
        for a, b in zip(got, want or []):
            worst = float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))))
            assert worst <= k.tolerance, f"wrong result: differs by {worst:.3g}"

    def seconds(f: Any, calls: int) -> float:
        begin = cpu_seconds()
        for _ in range(calls):
            jax.block_until_ready(f(*arguments))
        return (cpu_seconds() - begin) / calls

    calls = [calls_of(seconds(f, 2)) for f in functions]
    times = [[seconds(f, n) for f, n in zip(functions, calls)] for _ in range(rounds)]
    print(json.dumps(medians(times, "fast_s", "checked_s")), flush=True)
    os._exit(0)


def measure(o: argparse.Namespace, k: str, devices: int, script: str = __file__) -> dict[str, Any]:
    env = {**os.environ, "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count={devices}"}
    command = [sys.executable, script, "--worker", k, "--rounds", str(o.rounds), "--corpus", o.corpus]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=o.timeout)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(last_words(done.stderr))
    return json.loads(lines[-1])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--corpus", default="", help="a folder with corpus.py; bench/kernels without it")
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--timeout", type=float, default=120, help="seconds per kernel")
    p.add_argument("--steps", action="store_true", help="small blocks of one array, from 32 to 4,096 steps")
    p.add_argument("--out", help="a JSON file for the results")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.worker:
        return worker(o.corpus, o.worker, o.rounds)
    if o.steps:
        cases = {f"rows_{n}": 1 for n in (32, 128, 512, 2048, 4096)}
        o.corpus = ""
    else:
        cases = {n: k.devices for n, k in kernels(o.corpus).items() if re.search(o.cases, n)}

    def line(name: str, r: dict[str, Any]) -> str:
        each = f"  {1e6 * r['checked_s'] / int(name[5:]):.3f} us per step" if o.steps else ""
        return f"{1e3 * r['fast_s']:9.3f} ms {1e3 * r['checked_s']:9.3f} ms  {r['ratio']:6.2f}{each}"

    measure_all(cases, lambda n: measure(o, n, cases[n]), line, o.out)


if __name__ == "__main__":
    main()
