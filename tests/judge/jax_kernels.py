#!/usr/bin/env python3
"""Random Pallas kernels, by JAX's own interpreter and by the emulator.

  jax_kernels.py [--kernels N] [--seed S] [--jobs J] [--only SEED] [--keep DIR] [--no-shrink] [--seconds T]

Seed S, S+1, ... each make one kernel (kernel_build.py), whose text goes to JAX as a user's would. Integers, booleans and
floats that the generator keeps exact must agree bit for bit (zeros of either sign are equal), the others to 1e-3 of the
largest expected value. A difference, an error, a finding of a checked run, a crash or a hang is shrunk and printed.
The last line counts; the status is 1 unless every kernel agreed.
"""
from __future__ import annotations

import argparse
import json
import linecache
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
LIMIT = 60  # seconds for one run of one kernel

NUMPY = {"f32": "float32", "i32": "int32", "u32": "uint32", "i16": "int16", "i8": "int8", "bool": "bool"}
# Ways to run: machine, options. The first is always taken, one of the others too.
CONFIGURATIONS: list[tuple[str, dict[str, Any]]] = [
    ("generic", {}), ("generic", {"detect_races": True}), ("generic", {"numerics": "reference"}), ("generic", {"workers": 2}),
    ("generic", {"workers": 1}), ("generic", {"uninitialized_memory": "most"}),
    ("tpu-v5e", {"rules": False}), ("tpu-v5e", {"rules": False, "detect_races": True}), ("tpu-v5e", {"rules": False, "pipeline": "modelled"}),
    ("tpu-v5e", {"rules": False, "workers": 2}), ("tpu-v5e", {"rules": False, "random_seed": 1}),
    ("generic", {"verify_split": True}), ("tpu-v5e", {"rules": False, "verify_split": True}),
]


class Refused(Exception):
    """A kernel that proves nothing: JAX refuses it, or everything that it computes is zero."""


def arrays(kernel: Any) -> list[Any]:
    """The data of a kernel, with a leading axis of two where it runs under vmap."""
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(kernel.seed)
    out = []
    for o in kernel.inputs:
        dtype = ml_dtypes.bfloat16 if o.dtype == "bf16" else np.dtype(NUMPY[o.dtype])
        batch = []
        for _ in range(2 if kernel.vmap else 1):
            if o.kind == "permutation":
                a = rng.permutation(o.shape[0])
            elif o.kind == "flags":
                a = rng.integers(0, 2, o.shape)
                a[0] = 0
            elif o.dtype == "bool":
                a = rng.integers(0, 2, o.shape)
            else:
                low, scale = (0 if o.dtype == "u32" else o.low), (2 ** o.q if o.dtype in ("f32", "bf16") else 1)
                a = rng.integers(low * scale, o.high * scale + 1, o.shape) / scale
            batch.append(a.astype(dtype))
        out.append(np.stack(batch) if kernel.vmap else batch[0])
    return out


def load(text: str, seed: int) -> Any:
    """`call` of a kernel's text; its lines are there for messages."""
    name = f"<kernel {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(text, name, "exec"), space)  # noqa: S102
    return space["call"]


def expected(kernel: Any, call: Any, data: list[Any]) -> list[Any]:
    """What JAX's interpreter, which discharges refs to values and compiles that with XLA, makes of it."""
    import jax
    import numpy as np

    f = lambda *a: call(*a, interpret=True)  # noqa: E731
    try:
        out = [np.asarray(x) for x in jax.jit(jax.vmap(f) if kernel.vmap else f)(*data)]
    except Exception as e:
        raise Refused(f"{type(e).__name__}: {str(e)[:300]}") from e
    if not any(np.any(np.nan_to_num(x.astype(np.float64))) for x in out):
        raise Refused("every output is zero")
    return out


def actual(kernel: Any, call: Any, data: list[Any], machine: str, options: dict[str, Any], jit: bool) -> tuple[list[Any], str]:
    """Outputs of the emulator and its findings. Proves that the emulator ran."""
    import jax
    import numpy as np
    import pallasim

    f = jax.vmap(call) if kernel.vmap else call
    before = pallasim.launch_count()
    pallasim.findings()
    with pallasim.emulate(machine, **options):
        out = [np.asarray(x) for x in (jax.jit(f) if jit else f)(*data)]
    if pallasim.launch_count() <= before:
        raise AssertionError("the emulator did not run")
    return out, "; ".join(f"{f.code}: {f.message}"[:200] for f in pallasim.findings())


def difference(kernel: Any, want: list[Any], got: list[Any]) -> str:
    """The first difference of two lists of outputs, "" where there is none."""
    import numpy as np

    for i, ((_, _, exact), w, g) in enumerate(zip(kernel.outputs, want, got, strict=True)):
        if w.shape != g.shape or w.dtype != g.dtype:
            return f"output {i}: {g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
        a, b = w.astype(np.float64), g.astype(np.float64)
        if exact:
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        else:
            wrong = ~((np.abs(a - b) <= 1e-3 * max(1e-30, np.nanmax(np.abs(a), initial=0))) | (np.isnan(a) & np.isnan(b)) | (a == b))
        if wrong.any():
            at = tuple(int(x) for x in np.argwhere(wrong)[0])
            return f"output {i}: {int(wrong.sum())} of {wrong.size} elements, first at {at}: expected {w[at]}, got {g[at]}"
    return ""


def configurations(seed: int) -> list[tuple[str, dict[str, Any], bool]]:
    rng = random.Random(seed ^ 0x5EED)
    return [(*CONFIGURATIONS[0], rng.random() < 0.5), (*rng.choice(CONFIGURATIONS[1:]), rng.random() < 0.5)]


def judge(kernel: Any, only: list[Any] | None = None) -> tuple[str, str, Any]:
    """(verdict, detail, configuration): "same", "refused", "differs", "error" or "finding"."""
    try:
        call, data = load(kernel.text(), kernel.seed), arrays(kernel)
        want = expected(kernel, call, data)
    except Refused as e:
        return "refused", str(e), None
    except Exception as e:
        return "refused", f"{type(e).__name__}: {e}", None
    for machine, options, jit in only or configurations(kernel.seed):
        configuration = (machine, options, jit)
        try:
            got, findings = actual(kernel, call, data, machine, options, jit)
        except TimeoutError:
            raise
        except Exception as e:
            return "error", f"{type(e).__name__}: {str(e)[:600]}", configuration
        if found := difference(kernel, want, got):
            return "differs", found, configuration
        if findings:
            return "finding", findings, configuration
    return "same", "", None


def shrunk(kernel: Any, verdict: str, configuration: Any, seconds: float = 120) -> Any:
    """The smallest kernel found with the same verdict in the same configuration."""
    import dataclasses

    from kernel_tree import smaller, without_unused

    end = time.time() + seconds
    lean = dataclasses.replace(kernel, body=without_unused(kernel.body))
    kernel = lean if judge(lean, [configuration])[0] == verdict else kernel
    at, removed = 0, True
    while time.time() < end:
        candidates = smaller(kernel.body)
        if at >= len(candidates):
            if not removed:
                break
            at, removed = 0, False
            continue
        candidate = dataclasses.replace(kernel, body=candidates[at])
        if judge(candidate, [configuration])[0] == verdict:
            kernel, removed = candidate, True
        else:
            at += 1
    return kernel


def alarm(*_: Any) -> None:
    raise TimeoutError("the kernel did not end")


def work(seeds: list[int], shrink: bool) -> None:
    """A worker: one line of JSON per kernel on standard output, one before each."""
    import jax

    from kernel_build import kernel_of

    signal.signal(signal.SIGALRM, alarm)
    for n, seed in enumerate(seeds):
        print(json.dumps({"begin": seed}), flush=True)
        begin = time.time()
        kernel, text = kernel_of(seed), ""
        signal.alarm(LIMIT)
        try:
            verdict, detail, configuration = judge(kernel)
        except TimeoutError:
            verdict, detail, configuration = "hangs", f"more than {LIMIT} s", None
        signal.alarm(0)
        if verdict not in ("same", "refused", "hangs") and shrink:
            signal.alarm(4 * LIMIT)
            try:
                kernel = shrunk(kernel, verdict, configuration)
                _, detail, _ = judge(kernel, [configuration])
            except TimeoutError:
                detail += " (shrinking did not end)"
            signal.alarm(0)
        if verdict != "same":
            text = kernel.text() + "".join(f"# {o.name}: {o.kind} {o.dtype}{list(o.shape)}\n" for o in kernel.inputs)
        print(json.dumps({"seed": seed, "verdict": verdict, "detail": detail, "configuration": repr(configuration), "vmap": kernel.vmap, "text": text,
                          "seconds": round(time.time() - begin, 2)}), flush=True)
        if n % 16 == 15:
            jax.clear_caches()  # every kernel is another program


def watch(p: subprocess.Popen[str], results: list[dict[str, Any]], begun: dict[int, int | None]) -> bool:
    """Takes a line of a worker; False at its end."""
    line = p.stdout.readline() if p.stdout else ""
    if not line:
        return False
    try:
        record = json.loads(line)
    except ValueError:
        return True
    if "begin" in record:
        begun[p.pid] = record["begin"]
    else:
        begun[p.pid] = None
        results.append(record)
        if record["verdict"] not in ("same", "refused"):
            print(f"--- seed {record['seed']}: {record['verdict']}: {record['detail']}\n    {record['configuration']}, vmap {record['vmap']}\n{record['text']}",
                  flush=True)
    return True


def run(seeds: list[int], jobs: int, shrink: bool = True, seconds: float = 0) -> list[dict[str, Any]]:
    """Verdicts of all seeds; a worker that dies is a crash of the kernel it had begun. `seconds`: begin no kernel later."""
    results: list[dict[str, Any]] = []
    waiting = [seeds[i::jobs] for i in range(jobs)]
    begun: dict[int, int | None] = {}
    select = selectors.DefaultSelector()
    end = time.time() + seconds if seconds else float("inf")

    def start(part: list[int]) -> None:
        command = [sys.executable, os.path.abspath(__file__), "--worker", ",".join(map(str, part))] + ([] if shrink else ["--no-shrink"])
        p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begun[p.pid] = None
        select.register(p.stdout, selectors.EVENT_READ, (p, part))

    for part in waiting:
        if part:
            start(part)
    while select.get_map():
        for key, _ in select.select(timeout=1):
            p, part = key.data
            if watch(p, results, begun) and time.time() < end:
                continue
            if time.time() >= end:
                p.terminate()
            select.unregister(p.stdout)
            p.wait()
            lost = begun[p.pid]
            if lost is not None and time.time() < end:
                results.append({"seed": lost, "verdict": "crash", "detail": f"the process ended with {p.returncode}", "text": ""})
                print(f"--- seed {lost}: crash: the process ended with {p.returncode}", flush=True)
                if rest := part[part.index(lost) + 1 :]:
                    start(rest)
    return results


def summary(results: list[dict[str, Any]]) -> tuple[str, bool]:
    counts = {v: sum(r["verdict"] == v for r in results) for v in ("same", "differs", "error", "finding", "crash", "hangs", "refused")}
    good = bool(counts["same"]) and not any(counts[v] for v in ("differs", "error", "finding", "crash", "hangs")) and counts["refused"] * 10 <= len(results)
    return f"{len(results)} kernels: " + ", ".join(f"{n} {v}" for v, n in counts.items()), good


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernels", type=int, default=100)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("--only", type=int)
    p.add_argument("--seconds", type=float, default=0)
    p.add_argument("--no-shrink", action="store_true")
    p.add_argument("--keep", help="a folder for the kernels that do not agree")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.worker:
        work([int(s) for s in a.worker.split(",")], not a.no_shrink)
        return 0
    if a.only is not None:
        from kernel_build import kernel_of

        print(kernel_of(a.only).text(), flush=True)
    results = run([a.only] if a.only is not None else list(range(a.seed, a.seed + a.kernels)), a.jobs, not a.no_shrink, a.seconds)
    for r in results:
        if a.keep and r["verdict"] != "same":
            os.makedirs(a.keep, exist_ok=True)
            with open(os.path.join(a.keep, f"{r['verdict']}_{r['seed']}.py"), "w", encoding="utf-8") as f:
                f.write(f"# {r['detail']}\n# {r.get('configuration')}, vmap {r.get('vmap')}\n{r['text']}".replace("\n\n\n\n", "\n\n\n"))
    for r in [r for r in results if r["verdict"] == "refused"][:5]:
        print(f"refused {r['seed']}: {r['detail'][:300]}")
    text, good = summary(results)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
