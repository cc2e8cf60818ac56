"""Pallasim beside JAX's interpreters and plain XLA: every kernel of bench/kernels, in one run.

    .venv/bin/python bench/compare.py [--cases REGEX] [--executors xla,hlo,tpu,pallasim] [--out build/bench/compare.json]

Cold: a fresh process per kernel and executor, in which XLA compiled another program before: trace, lowering, compilation,
first run, memory. Warm: one process per kernel, executors in turn (A B C A B C), so that whatever else the machine does
meets all of them; medians of wall time and of the process' CPU time per call, and ratios as medians of the ratios of
rounds. A kernel that an executor cannot run, or computes wrongly, is in the table as such. Absolute times of a shared
machine say little: read the ratios.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fresh  # noqa: E402

CHIPS = {"generic": "generic", "tpu": "tpu-v5e", "triton": "gpu-h100", "mosaic_gpu": "gpu-h100", "sparsecore": "tpu-7x"}
# Which machines' kernels an executor takes.
EXECUTORS = {
    "xla": ("generic", "tpu", "triton", "mosaic_gpu", "sparsecore"),  # the reference, without Pallas
    "hlo": ("generic", "tpu", "triton"),                # interpret=True
    "tpu": ("generic", "tpu"),                          # pltpu.InterpretParams()
    "gpu": ("mosaic_gpu",),                             # JAX's interpreter of Mosaic GPU
    "pallasim": ("generic", "tpu", "triton", "mosaic_gpu", "sparsecore"),
}


@contextlib.contextmanager
def prepared(executor: str, case: Any) -> Iterator[Callable[..., Any]]:
    """The function to be jitted, in the context in which it must be traced and compiled."""
    if executor == "xla":
        yield case.reference
    elif executor == "pallasim":
        import pallasim

        with pallasim.emulate(CHIPS[case.machine]):
            yield case.build(False)
    elif case.machine == "tpu":
        import jax

        # Parts of JAX ask for the device's kind even where they interpret.
        device = jax.sharding.AbstractDevice("TPU v5 lite", 1, "tpu")
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=device)):
            yield case.build(_interpret(executor))
    else:
        yield case.build(_interpret(executor))


def _interpret(executor: str) -> Any:
    if executor == "hlo":
        return True
    if executor == "tpu":
        from jax.experimental.pallas import tpu as pltpu

        return pltpu.InterpretParams()
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

    return InterpretGPUParams()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compiled(executor: str, case: Any, arguments: tuple[Any, ...]) -> tuple[Any, dict[str, float]]:
    """The compiled function, and seconds of trace, lowering and compilation."""
    import jax

    with prepared(executor, case) as f:
        marks = [time.perf_counter()]
        traced = jax.jit(f).trace(*arguments)
        marks.append(time.perf_counter())
        lowered = traced.lower()
        marks.append(time.perf_counter())
        function = lowered.compile()
        marks.append(time.perf_counter())
    return function, dict(zip(("trace_s", "lower_s", "compile_s"), (b - a for a, b in zip(marks, marks[1:]))))


def checked(executor: str, case: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Runs once and compares with the reference. Raises AssertionError for a wrong result, or where no emulator ran."""
    import jax
    import numpy as np

    launches = _launches() if executor == "pallasim" else 0
    out = jax.block_until_ready(function(*arguments))
    if executor == "pallasim":
        assert _launches() > launches, "no kernel ran on the emulator"
    if executor != "xla":
        want = np.asarray(jax.jit(case.reference)(*arguments)).astype(np.float64)
        assert np.any(want), "a reference of zeros proves nothing"
        worst = float(np.max(np.abs(np.asarray(out).astype(np.float64) - want)))
        assert worst <= case.tolerance, f"wrong result: differs by {worst:.3g}"
    return out


def _launches() -> int:
    import pallasim

    return pallasim.launch_count()


def cold(executor: str, case: Any) -> dict[str, Any]:
    import jax

    arguments = jax.block_until_ready(case.arguments())
    jax.block_until_ready(jax.jit(lambda x: x + 1)(0.0))  # what JAX and XLA need for any program is not the kernel's
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function, times = compiled(executor, case, arguments)
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    times["first_run_s"] = time.perf_counter() - start
    times["total_s"] = sum(times.values())
    times["rss_mib"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    results = sum(x.nbytes for x in jax.tree.leaves(checked(executor, case, function, arguments)))
    times["beyond_mib"] = times["rss_mib"] - results / 2**20
    return times


def warm(executors: list[str], case: Any, rounds: int, budget: float) -> dict[str, Any]:
    import jax

    arguments = jax.block_until_ready(case.arguments())
    functions, errors = {}, {}
    for executor in executors:
        try:
            functions[executor] = compiled(executor, case, arguments)[0]
            checked(executor, case, functions[executor], arguments)
        except Exception as e:
            functions.pop(executor, None)
            errors[executor] = f"{type(e).__name__}: {e}".partition("\n")[0][:400]
    wall: dict[str, list[float]] = {k: [] for k in functions}
    cpu: dict[str, list[float]] = {k: [] for k in functions}
    calls = dict.fromkeys(functions, 1)
    start = time.perf_counter()
    done = 0
    while functions and done < rounds and (done < 3 or time.perf_counter() - start < budget):
        for executor, function in functions.items():
            used, begin = cpu_seconds(), time.perf_counter()
            for _ in range(calls[executor]):
                jax.block_until_ready(function(*arguments))
            elapsed = (time.perf_counter() - begin) / calls[executor]
            wall[executor].append(elapsed)
            cpu[executor].append((cpu_seconds() - used) / calls[executor])
            if done == 0:  # short calls in batches of about 20 ms
                calls[executor] = int(max(1, min(200, 0.02 / elapsed)))
        done += 1
    # The first round warms up.
    kept = {k: v[1:] or v for k, v in wall.items()}
    return {"rounds": done, "errors": errors, "wall_s": {k: statistics.median(v) for k, v in kept.items()},
            "cpu_s": {k: statistics.median(v[1:] or v) for k, v in cpu.items()},
            "to_pallasim": {k: statistics.median(a / b for a, b in zip(v, kept["pallasim"])) for k, v in kept.items() if "pallasim" in kept}}


def in_process(arguments: list[str], timeout: float) -> dict[str, Any]:
    """What a process of this script prints as its last line; its error text where it fails."""
    try:
        done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, timeout=timeout,
                              env=fresh.environment())
    except subprocess.TimeoutExpired:
        return {"error": f"more than {timeout:.0f} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    # The refusal of a kernel in one line, else the last line of the traceback.
    lines = done.stderr.strip().splitlines() or ["no output"]
    named = [line for line in lines if "error[PS-" in line or line.startswith(("AssertionError", "NotImplementedError"))]
    return {"error": (named or lines)[-1][:400]}


def environment() -> dict[str, Any]:
    import jax

    import pallasim

    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": model.group(1) if model else "unknown", "cpus": os.cpu_count(), "load": os.getloadavg()[0], "jax": jax.__version__,
            "pallasim": pallasim.__version__}


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def table(results: dict[str, Any], executors: list[str]) -> str:
    """The results in Markdown: warm wall time with its ratio to Pallasim's, CPU time, and the cold start."""
    rows = ["Wall time per call in ms, in brackets how many times Pallasim's (medians of interleaved rounds):", "",
            "| kernel | " + " | ".join(executors) + " |", "|---" * (len(executors) + 1) + "|"]
    for name, r in results["cases"].items():
        cells = []
        for e in executors:
            if e in r["warm"].get("wall_s", {}):
                ratio = r["warm"]["to_pallasim"].get(e)
                cells.append(milliseconds(r["warm"]["wall_s"][e]) + (f" ({ratio:.2g})" if ratio and e != "pallasim" else ""))
            else:
                cells.append("fails" if e in r["executors"] else "")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    means = []
    for e in executors:
        ratios = [r["warm"]["to_pallasim"][e] for r in results["cases"].values() if e in r["warm"].get("to_pallasim", {})]
        means.append(f"({statistics.geometric_mean(ratios):.2g})" if ratios and e != "pallasim" else "")
    rows.append("| geometric mean | " + " | ".join(means) + " |")
    for title, key, get in (("CPU time per call in ms:", "warm", lambda w, e: w.get("cpu_s", {}).get(e)),
                            ("Cold start in ms, trace to first result in a fresh process:", "cold", lambda c, e: c.get(e, {}).get("total_s")),
                            ("Peak memory of that process beyond operands and results, in MiB:", "cold", lambda c, e: c.get(e, {}).get("beyond_mib"))):
        if not any(r.get(key) for r in results["cases"].values()):
            continue
        rows += ["", title, "", "| kernel | " + " | ".join(executors) + " |", "|---" * (len(executors) + 1) + "|"]
        for name, r in results["cases"].items():
            values = [get(r.get(key, {}), e) for e in executors]
            rows.append(f"| {name} | " + " | ".join("" if v is None else f"{v:.0f}" if "MiB" in title else milliseconds(v) for v in values) + " |")
    failures = [f"* {name}, {e}: {text}" for name, r in results["cases"].items() for e, text in r["warm"].get("errors", {"all": r["warm"].get("error")}).items() if text]
    return "\n".join(rows + (["", "What fails:", "", *failures] if failures else [])) + "\n"


def compare(options: argparse.Namespace) -> None:
    from kernels import all_cases

    executors = options.executors.split(",")
    warmed: set[str] = set()
    results: dict[str, Any] = {"environment": environment(), "cases": {}}
    for name, case in all_cases().items():
        if not re.search(options.cases, name):
            continue
        takes = [e for e in executors if case.machine in EXECUTORS[e] and (not case.only or e in case.only)]
        result: dict[str, Any] = {"steps": case.steps, "flops": case.flops, "bytes": case.bytes, "executors": takes, "cold": {}}
        for executor in takes if options.cold else []:
            if executor not in warmed:  # its bytecode and its files
                in_process(["--measure", "cold", name, executor], options.timeout)
                warmed.add(executor)
            result["cold"][executor] = in_process(["--measure", "cold", name, executor], options.timeout)
        # An executor that took too long once is not asked again.
        able = [e for e in takes if "more than" not in result["cold"].get(e, {}).get("error", "")]
        result["warm"] = in_process(["--measure", "warm", name, ",".join(able), "--rounds", str(options.rounds), "--budget", str(options.budget)],
                                    options.timeout * len(able))
        results["cases"][name] = result
        shown = {k: milliseconds(v) for k, v in result["warm"].get("wall_s", {}).items()}
        print(f"{name}: {shown or result['warm']}", file=sys.stderr, flush=True)
    if options.out:
        out = pathlib.Path(options.out)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=1) + "\n")
    text = table(results, executors)
    print(text)
    if options.page:
        put_into(pathlib.Path(options.page), results["environment"], text)


def put_into(page: pathlib.Path, machine: dict[str, Any], text: str) -> None:
    """Between the two marks of a page in Markdown: the machine's line and the tables."""
    before, mark, rest = page.read_text().partition("<!-- bench -->\n")
    _, end, after = rest.partition("<!-- end of bench -->\n")
    if not mark or not end:
        raise ValueError(f"{page} has no place for tables: <!-- bench --> and <!-- end of bench -->")
    line = f"{machine['cpu']}, {machine['cpus']} CPUs, load {machine['load']:.1f} before the run; JAX {machine['jax']}, Pallasim {machine['pallasim']}."
    page.write_text(f"{before}{mark}{line}\n\n{text}{end}{after}")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="", help="a regular expression")
    p.add_argument("--executors", default=",".join(EXECUTORS))
    p.add_argument("--out", help="a JSON file for the results")
    p.add_argument("--page", help="a page in Markdown that keeps the tables, between its marks")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--budget", type=float, default=5, help="seconds of warm rounds per kernel, three at least")
    p.add_argument("--timeout", type=float, default=120, help="seconds per kernel and executor")
    p.add_argument("--no-cold", dest="cold", action="store_false")
    p.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = p.parse_args()
    if not options.measure:
        return compare(options)
    from kernels import all_cases

    how, name, executors = options.measure
    case = all_cases()[name]
    result = cold(executors, case) if how == "cold" else warm(executors.split(","), case, options.rounds, options.budget)
    print(json.dumps(result), flush=True)
    os._exit(0)  # interpreters of JAX leave threads behind


if __name__ == "__main__":
    main()
