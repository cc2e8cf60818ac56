#!/usr/bin/env python3
"""tokamax's published measurements of its own Pallas kernels (its data/autotuning), held against predictions.

    python scripts/tokamax_rows.py CHECKOUT [--every N] [--first K] [--chip WORD] [--seconds S] [--dump FILE] [WORD]

CHECKOUT is a clone of openxla/tokamax, whose kernels and rows are read; nothing of it lies here. Of the rows of each kernel and chip every Nth is
predicted, and those whose kernel's name contains WORD. Needs what tokamax imports (pydantic, qwix, jaxtyping, ...), and a JAX that it takes.

Printed by chip and kernel: error, rank of all rows, rank within problems that have several configurations, and beside it the error of a roofline whose
three constants (rate of flops, bandwidth, time of a launch) are fitted to these very rows.
"""
from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import os
import signal
import statistics
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import spearmanr

import pallasim

CHIPS = {"nvidia_b200": "gpu-b200", "nvidia_h100_80gb_hbm3": "gpu-h100", "tpu7x": "tpu-7x", "tpu_v5": "tpu-v5p", "tpu_v5_lite": "tpu-v5e", "tpu_v6_lite": "tpu-v6e"}
# Published, of the memory of a device: what XLA moves around the kernels goes at nine tenths of it.
BANDWIDTH = {"gpu-b200": 7.2e12, "gpu-h100": 3.05e12, "tpu-7x": 3.3e12, "tpu-v5p": 2.5e12, "tpu-v5e": 7.3e11, "tpu-v6e": 1.48e12}
FOLDERS = {"ragged_dot": "ragged_dot", "flash_attention": "attention", "gated_linear_unit": "gated_linear_unit", "normalization": "normalization",
           "linear_softmax_cross_entropy_loss": "linear_softmax_cross_entropy_loss"}


def operation(name: str) -> Any:
    """Of a file of rows: pallas_triton_flash_attention_vjp is attention/pallas_triton_vjp.py's PallasTritonFlashAttentionVjp."""
    vjp = name.endswith("_vjp")
    plain = name.removesuffix("_vjp")
    kernel = next(k for k in FOLDERS if plain.endswith("_" + k))
    module = importlib.import_module(f"tokamax._src.ops.{FOLDERS[kernel]}.{plain.removesuffix('_' + kernel)}{'_vjp' if vjp else ''}")
    return getattr(module, "".join(w.title() for w in name.split("_")))()


def rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Problems and what was measured for each, as their file has them; an empty file has none."""
    text = path.read_text()
    yield from (json.loads(text) if text.strip() else {}).items()


def predicted(op: Any, ba: Any, config: Any, chip: str) -> tuple[Any, float, float]:
    """The prediction, the bytes of arguments and results, and those that XLA moves besides."""
    from tokamax._src import benchmarking

    f, x = benchmarking.standardize_function(op.replace(config=config), *ba.args, kwargs=ba.kwargs, seed=None)
    p = pallasim.predict(lambda *x: f(x), *x, chip=chip, sensitivity=False, sample=True,
                         options={"out_of_bounds": "uninitialized"})  # some load whole blocks behind an array's end, and use none of it: chips go on
    with pallasim.emulate(chip):
        closed, out = jax.make_jaxpr(lambda *x: f(x), return_shape=True)(*x)
    return p, sum(size_of(a) for a in jax.tree.leaves((x, out))), Around(closed, chip.startswith("tpu")).moved


def size_of(a: Any) -> int:
    return math.prod(a.shape) * a.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class Made:
    """Outside of kernels: what a value is made of, and how. order: of an argument's or a kernel's result's dimensions; None: it is computed."""

    roots: frozenset[tuple[int, int]]  # by number, their bytes
    shape: tuple[int, ...]
    order: tuple[int, ...] | None

    def costs_nothing(self, tpu: bool) -> bool:
        """It lies in memory as it is wanted. libtpu 0.0.42 keeps [batch, sequence, heads, d] with d < 128 so that the sequence is along lanes."""
        return not self.roots or self.order == tuple(range(len(self.shape))) or \
            tpu and len(self.shape) == 4 and self.shape[3] < 128 and self.order == (0, 2, 3, 1)


class Around:
    """Bytes that XLA moves around the kernels. All that lies between an argument, a kernel and a result is one loop that reads where it begins, and
    writes where it ends (programs that libtpu makes of these rows are like that)."""

    def __init__(self, closed: Any, tpu: bool) -> None:
        self.tpu, self.moved, self.number = tpu, 0, 0
        jaxpr = closed.jaxpr
        results = self.look(jaxpr, [self.root(v.aval, size_of(v.aval)) for v in jaxpr.invars])
        for v, made in zip(jaxpr.outvars, results):
            self.wanted(made, size_of(v.aval))

    def root(self, aval: Any, size: int) -> Made:
        self.number += 1
        return Made(frozenset([(self.number, size)]), aval.shape, tuple(range(aval.ndim)))

    def wanted(self, made: Made | None, size: int) -> None:
        if made and not made.costs_nothing(self.tpu):
            self.moved += size + sum(n for _, n in made.roots)

    def of_kernel(self, aval: Any) -> int:
        """A kernel's arrays lie in whole rows of lanes on a TPU."""
        last = aval.shape[-1] if aval.shape else 1
        return size_of(aval) * (-(-last // 128) * 128) // last if self.tpu and last else size_of(aval)

    def look(self, jaxpr: Any, inputs: list[Made | None]) -> list[Made | None]:
        made: dict[Any, Made] = {v: m for v, m in zip(jaxpr.invars, inputs) if m}

        def of(v: Any) -> Made | None:
            return None if hasattr(v, "val") else made.get(v)

        for eqn in jaxpr.eqns:
            name, out = eqn.primitive.name, eqn.outvars[0] if eqn.outvars else None
            operands = [of(v) for v in eqn.invars]
            inner = [j for v in eqn.params.values() if hasattr(j := getattr(v, "jaxpr", v), "eqns")]
            if name in ("pallas_call", "mpmd_map"):
                for v in {v for v in eqn.invars if not hasattr(v, "val")}:
                    self.wanted(of(v), self.of_kernel(v.aval))
                made |= {v: self.root(v.aval, self.of_kernel(v.aval)) for v in eqn.outvars}
            elif inner and len(inner[0].invars) == len(eqn.invars):
                made |= {v: m for v, m in zip(eqn.outvars, self.look(inner[0], operands)) if m}
            elif name == "transpose" and operands[0] and operands[0].order:
                m = operands[0]
                made[out] = Made(m.roots, m.shape, tuple(m.order[i] for i in eqn.params["permutation"]))
            elif name in ("reshape", "squeeze", "expand_dims") and operands[0] and operands[0].order == tuple(range(eqn.invars[0].aval.ndim)):
                made[out] = Made(operands[0].roots, out.aval.shape, tuple(range(out.aval.ndim)))
            elif roots := frozenset().union(*(m.roots for m in operands if m)):
                made |= {v: Made(roots, v.aval.shape, None) for v in eqn.outvars}
        return [of(v) for v in jaxpr.outvars]


def stop_after(moment: float, done: threading.Event) -> None:
    """Interrupts what takes more of the processor than it may, however busy the machine is."""
    while not done.wait(0.2):
        if time.process_time() > moment:
            return os.kill(os.getpid(), signal.SIGINT)


def predict_file(path: Path, a: argparse.Namespace, until: float) -> list[dict[str, Any]]:
    from tokamax._src.autotuning import cache

    chip, out, number = CHIPS[path.parent.name], [], -1
    with pallasim.emulate(chip):
        op = operation(path.stem)
        adapter = cache._get_cache_adapter(op)
    for key, measured in rows(path):
        several = len(measured) > 1
        for config in measured:
            number += 1
            if (number % a.every != a.first and not (several and a.several)) or time.process_time() > until:
                continue
            row = {"chip": chip, "kernel": path.stem, "problem": key, "config": config,
                   "seconds": statistics.median(measured[config]["evaluation_times_ms"]) / 1e3}
            start, done = time.process_time(), threading.Event()
            threading.Thread(target=stop_after, args=(start + a.limit, done), daemon=True).start()
            try:
                with pallasim.emulate(chip):
                    (arguments, data), = adapter.validate_json(json.dumps({key: {config: measured[config]}})).items()
                    ba = op.bind(**arguments)
                p, size, around = predicted(op, ba, next(iter(data)), chip)
                row |= {"predicted": p.seconds + around / BANDWIDTH[chip], "kernel_seconds": p.seconds, "flops": sum(k.flops for k in p), "bytes": size, "bound": p[0].bound}
            except Exception as e:
                row |= {"refused": f"{type(e).__name__}: {e}"[:400]}
            except KeyboardInterrupt:
                row |= {"refused": f"not predicted in {a.limit:.0f} s"}
            done.set()
            out.append(row | {"host": time.process_time() - start})
            if a.verbose:
                r = out[-1]
                print(f"{r['kernel']} {key[:150]} {config}: {r['seconds'] * 1e6:.1f} us, {r.get('predicted', 0) * 1e6:.1f} {r.get('bound')} {r.get('refused', '')} "
                      f"host {r['host']:.1f}", flush=True)
    return out


def roofline(found: list[dict[str, Any]]) -> float:
    """The mean absolute error of max(flops / a, bytes / b) + c with the constants that make it least."""
    from scipy.optimize import minimize

    t, flops, size = (np.array([r[k] for r in found]) for k in ("seconds", "flops", "bytes"))

    def error(x: Any) -> float:
        a, b, c = np.exp(x)
        return float(np.mean(np.abs((np.maximum(flops / a, size / b) + c) / t - 1)))

    tries = [minimize(error, np.log([peak, b, c]), method="Nelder-Mead", options={"maxiter": 4000}).fun
             for peak in (5e13, 2e14, 8e14) for b in (3e11, 2e12) for c in (2e-6, 3e-5)]
    return min(tries)


def rank(x: list[float], y: list[float]) -> float:
    """Spearman's; NaN where one side has one value alone."""
    return float(spearmanr(x, y).statistic) if len(set(x)) > 1 and len(set(y)) > 1 else math.nan


def percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def table(all_rows: list[dict[str, Any]]) -> None:
    print("| chip | kernel | rows | refused | mean absolute error | median | signed | rank | within | fitted roofline |\n|---|---|---|---|---|---|---|---|---|---|")
    for chip, kernel in sorted({(r["chip"], r["kernel"]) for r in all_rows}):
        of = [r for r in all_rows if (r["chip"], r["kernel"]) == (chip, kernel)]
        found = [r for r in of if "predicted" in r]
        if not found:
            print(f"| {chip} | {kernel} | 0 | {len(of)} | | | | | | |")
            continue
        errors = [r["predicted"] / r["seconds"] - 1 for r in found]
        problems: dict[str, list[dict[str, Any]]] = {}
        for r in found:
            problems.setdefault(r["problem"], []).append(r)
        pairs = [(x, y) for g in problems.values() for i, x in enumerate(g) for y in g[:i]]
        right = statistics.mean((x["seconds"] < y["seconds"]) == (x["predicted"] < y["predicted"]) for x, y in pairs) if pairs else math.nan
        within = f"{2 * right - 1:.2f} ({len(pairs)})" if pairs else ""
        cells = [chip, kernel, len(found), len(of) - len(found), percent(statistics.mean(map(abs, errors))), percent(statistics.median(map(abs, errors))),
                 f"{100 * statistics.mean(errors):+.1f} %", f"{rank([r['seconds'] for r in found], [r['predicted'] for r in found]):.2f}", within,
                 percent(roofline(found)) if len(found) > 5 else ""]
        print("| " + " | ".join(map(str, cells)) + " |")
    for why in sorted({r["refused"].split("\n")[0][:160] for r in all_rows if "refused" in r}):
        print(f"refused, {sum(r.get('refused', '').startswith(why[:100]) for r in all_rows)}: {why}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--chip", default="", help="of chips whose name contains it")
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--several", action="store_true", help="all rows of problems that have several")
    parser.add_argument("--seconds", type=float, default=600, help="of the processor for each file; what comes later is left out")
    parser.add_argument("--limit", type=float, default=60, help="seconds of the processor for one row")
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--table", nargs="+", type=Path, help="of what --dump wrote, without predicting anything")
    a = parser.parse_args()
    del sys.argv[1:]  # tokamax reads flags of its own from there
    if a.table:
        return table([r for t in a.table for r in json.loads(t.read_text())])
    try:
        importlib.import_module("xprof")
    except ImportError:  # it times what runs on hardware; nothing does here
        for name in ("xprof", "xprof.cli", "xprof.cli.tools", "xprof.cli.tools.get_kernel_stats_tool"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["xprof.cli.tools"].get_kernel_stats_tool = sys.modules["xprof.cli.tools.get_kernel_stats_tool"]  # type: ignore[attr-defined]
    sys.path.insert(0, str(a.checkout))
    found: list[dict[str, Any]] = []
    for path in sorted((a.checkout / "tokamax/data/autotuning").glob("*/pallas_*.json")):
        if a.word in path.stem and a.chip in CHIPS[path.parent.name]:
            found += predict_file(path, a, time.process_time() + a.seconds)
            if a.dump:
                a.dump.write_text(json.dumps(found))
    table(found)


if __name__ == "__main__":
    main()
