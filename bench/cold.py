"""Prints how long the first result of each kernel takes in a fresh process, once it is traced: lowering, compilation and
first run. Beside it plain XLA, and a jitted call of a handler that does nothing, which nobody can do without.

    .venv/bin/python bench/cold.py [--cases REGEX] [--runs N]
"""
from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import fresh

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE.parent / "build" / "bench" / "nothing.so"


def make_library() -> None:
    import jax

    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["c++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", f"-I{jax.ffi.include_dir()}", str(HERE / "nothing.cc"), "-o", str(LIBRARY)]
    subprocess.run(command, check=True)


def measure(what: str, name: str) -> float:
    """Seconds in this process, which must be fresh. what: "nothing", or an executor of compare.py."""
    import jax

    import compare
    from kernels import all_cases

    if what == "nothing":
        jax.ffi.register_ffi_target("nothing", jax.ffi.pycapsule(ctypes.cdll.LoadLibrary(str(LIBRARY)).nothing), platform="cpu")
        arguments = (jax.block_until_ready(jax.numpy.ones(8)),)
        traced = jax.jit(lambda x: jax.ffi.ffi_call("nothing", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)).trace(*arguments)
        start = time.perf_counter()
        jax.block_until_ready(traced.lower().compile()(*arguments))
        return time.perf_counter() - start
    case = all_cases()[name]
    arguments = jax.block_until_ready(case.arguments())
    function, seconds = compare.compiled(what, case, arguments)
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return seconds["lower_s"] + seconds["compile_s"] + time.perf_counter() - start


def in_process(what: str, name: str = "") -> float:
    """Milliseconds."""
    command = [sys.executable, __file__, "--measure", what, name]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=fresh.environment())
    return 1e3 * float(out.stdout.split()[-1])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.measure:
        print(measure(*options.measure), flush=True)
        os._exit(0)
    from kernels import all_cases

    make_library()
    names = [n for n, c in all_cases().items() if re.search(options.cases, n) and not c.only]
    for what in ("nothing", "xla", "pallasim"):
        in_process(what, names[0])  # whose bytecode is not there yet
    medians: dict[str, list[float]] = {"nothing": [], "xla": [], "pallasim": []}
    for name in names:
        times: dict[str, list[float]] = {what: [] for what in medians}
        for _ in range(options.runs):
            for what in times:
                times[what].append(in_process(what, name))
        for what in medians:
            medians[what].append(statistics.median(times[what]))
        print(f"{name:36} Pallasim {medians['pallasim'][-1]:6.1f} ms, plain XLA {medians['xla'][-1]:6.1f} ms", flush=True)
    nothing, xla, ours = (statistics.median(medians[k]) for k in medians)
    print(f"median: Pallasim {ours:.1f} ms, plain XLA {xla:.1f} ms, a handler that does nothing {nothing:.1f} ms; Pallasim beyond that one: {ours - nothing:.1f} ms")


if __name__ == "__main__":
    main()
