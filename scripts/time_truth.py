#!/usr/bin/env python3
"""Kernels whose times are known: measured on a GPU, or predicted, as rows that can be held against each other.

    python scripts/time_truth.py --write tests/truth/time_h100.json     on a machine with a GPU: records seconds, and the card
    python scripts/time_truth.py --against tests/truth/time_h100.json --chip gpu-h100
                                                                        predicts each row; prints the error per family
    ...  WORD                                                           rows whose family contains WORD
    ...  --more --seed N                                                 the families of scripts/time_families.py, as seed N makes them up
    ...  --parts                                                         kernels of one mechanism each (scripts/time_parts.py)

A row is a family, a problem and a configuration. Times are those of the device (CUPTI), the median of several launches.
"""
from __future__ import annotations

import argparse
import functools
import inspect
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from scipy.stats import spearmanr

S = jax.ShapeDtypeStruct
Row = tuple[str, dict[str, int], dict[str, Any], Callable[..., Any], tuple[Any, ...]]


def triton(body: Any, out: Any, grid: Any, ins: Any, outs: Any, warps: int, stages: int = 3) -> Any:
    return pl.pallas_call(body, grid=grid, in_specs=ins, out_specs=outs, out_shape=out,
                          compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages))


def elementwise(n: int, block: int, warps: int, kind: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    f = {"add": lambda x, y: x + y, "exp": lambda x, y: jnp.exp(x) * y, "tanh": lambda x, y: jnp.tanh(x) * y + x}[kind]

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = f(x_ref[...], y_ref[...])

    spec = pl.BlockSpec((block,), lambda i: (i,))
    return triton(body, S((n,), jnp.float32), (n // block,), [spec, spec], spec, warps), (S((n,), jnp.float32),) * 2


def softmax(rows: int, cols: int, warps: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def body(x_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(jnp.float32)
        e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
        o_ref[...] = (e / jnp.sum(e, axis=-1, keepdims=True)).astype(o_ref.dtype)

    spec = pl.BlockSpec((1, cols), lambda i: (i, 0))
    return triton(body, S((rows, cols), jnp.float16), (rows,), [spec], spec, warps), (S((rows, cols), jnp.float16),)


def row_sum(rows: int, cols: int, per: int, warps: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.sum(x_ref[...], axis=-1)

    return (triton(body, S((rows,), jnp.float32), (rows // per,), [pl.BlockSpec((per, cols), lambda i: (i, 0))], pl.BlockSpec((per,), lambda i: (i,)), warps),
            (S((rows, cols), jnp.float32),))


def matmul(m: int, n: int, k: int, bm: int, bn: int, bk: int, warps: int, stages: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        def step(i: Any, acc: Any) -> Any:
            a = a_ref[:, pl.ds(i * bk, bk)]
            b = b_ref[pl.ds(i * bk, bk), :]
            return acc + jnp.dot(a, b, preferred_element_type=jnp.float32)

        acc = jax.lax.fori_loop(0, k // bk, step, jnp.zeros((bm, bn), jnp.float32))
        o_ref[...] = acc.astype(o_ref.dtype)

    return (triton(body, S((m, n), jnp.float16), (m // bm, n // bn), [pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j))],
                   pl.BlockSpec((bm, bn), lambda i, j: (i, j)), warps, stages), (S((m, k), jnp.float16), S((k, n), jnp.float16)))


def attention(heads: int, seq: int, dim: int, bq: int, bk: int, warps: int, stages: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        q = q_ref[...]

        def step(i: Any, carry: Any) -> Any:
            acc, top, total = carry
            s = jax.lax.dot_general(q, k_ref[pl.ds(i * bk, bk), :], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
            s = s * (1.4426950408889634 / math.sqrt(dim))
            new = jnp.maximum(top, jnp.max(s, axis=1))
            scale, p = jnp.exp2(top - new), jnp.exp2(s - new[:, None])
            v = v_ref[pl.ds(i * bk, bk), :]
            return acc * scale[:, None] + jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32), new, total * scale + jnp.sum(p, axis=1)

        first = jnp.zeros((bq, dim), jnp.float32), jnp.full((bq,), -jnp.inf, jnp.float32), jnp.zeros((bq,), jnp.float32)
        acc, _, total = jax.lax.fori_loop(0, seq // bk, step, first)
        o_ref[...] = (acc / total[:, None]).astype(o_ref.dtype)

    whole = pl.BlockSpec((None, seq, dim), lambda h, i: (h, 0, 0))
    part = pl.BlockSpec((None, bq, dim), lambda h, i: (h, i, 0))
    x = S((heads, seq, dim), jnp.float16)
    return triton(body, x, (heads, seq // bq), [part, whole, whole], part, warps, stages), (x, x, x)


def mosaic_matmul(m: int, n: int, k: int, **config: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as mm

    config = {k: getattr(mm.MatmulDimension, v) if v in ("M", "N") else v or None for k, v in config.items()}
    sum_to = {"c": None} if "c" in inspect.signature(mm.matmul).parameters else {}
    return functools.partial(mm.matmul, config=mm.TuningConfig(**config), **sum_to), (S((m, k), jnp.float16), S((k, n), jnp.float16))


def mosaic_attention(batch: int, seq: int, heads: int, dim: int, **config: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    from jax.experimental.pallas.ops.gpu import attention_mgpu as at

    x = S((batch, seq, heads, dim), jnp.float16)
    return functools.partial(at.attention, config=at.TuningConfig(**config)), (x, x, x)


def rows(seed: int | None = None, more: bool = False, parts: bool = False) -> Iterator[Row]:
    """Those that were chosen; with a seed others that it makes up, with `more` of further families; `parts`: of one mechanism each."""
    def one(family: str, make: Any, problem: dict[str, Any], config: dict[str, Any]) -> Iterator[Row]:
        try:
            f, shapes = make(**problem, **config)
        except Exception as e:
            print(f"{family} {problem} {config}: {type(e).__name__} {e}", file=sys.stderr)
            return
        yield family, problem, config, f, shapes

    if parts:
        import time_parts

        yield from time_parts.parts(one)
        return
    if more:
        import time_families

        yield from time_families.more(one, seed or 0)
        return
    if seed is not None:
        yield from fresh(one, seed)
        return
    for kind, n in itertools.product(("add", "exp", "tanh"), (1 << 20, 1 << 24, 1 << 26)):
        for block, warps in ((1024, 4), (4096, 4), (4096, 8)):
            yield from one(f"triton elementwise {kind}", functools.partial(elementwise, kind=kind), {"n": n}, {"block": block, "warps": warps})
    for r, c in ((133, 4096), (4096, 512), (4096, 4096), (32768, 1024), (8192, 8192)):
        for warps in (1, 4, 8):
            yield from one("triton softmax", softmax, {"rows": r, "cols": c}, {"warps": warps})
    for r, c in ((4096, 512), (16384, 2048), (32768, 1024)):
        for per, warps in ((1, 1), (1, 4), (4, 4), (8, 8)):
            yield from one("triton row sum", row_sum, {"rows": r, "cols": c}, {"per": per, "warps": warps})
    for m, n, k in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (4096, 1024, 512), (1408, 1536, 4096)):
        for (bm, bn, bk), warps, stages in itertools.product(((64, 64, 32), (64, 128, 64), (128, 128, 32), (128, 128, 64)), (4, 8), (2, 3, 4)):
            if m % bm == 0 and n % bn == 0 and (warps == 4 or bm == 128):
                yield from one("triton matmul", matmul, {"m": m, "n": n, "k": k}, {"bm": bm, "bn": bn, "bk": bk, "warps": warps, "stages": stages})
    for heads, seq in ((8, 1024), (16, 2048), (16, 4096)):
        for bq, bk, warps, stages in ((64, 64, 4, 2), (128, 64, 4, 2), (128, 64, 8, 2), (64, 32, 4, 3), (128, 128, 8, 2)):
            yield from one("triton attention", attention, {"heads": heads, "seq": seq, "dim": 64}, {"bq": bq, "bk": bk, "warps": warps, "stages": stages})
    for m, n, k in ((1024, 1024, 1024), (2048, 2048, 4096), (4096, 4096, 4096), (8192, 8192, 8192), (1152, 4096, 4096)):
        for (tm, tn, tk), steps, wg in itertools.product(((64, 64, 64), (64, 128, 64), (128, 128, 64), (64, 256, 64)), (2, 4, 6), ("M", "N")):
            fits = m % (2 * tm if wg == "M" else tm) == 0 and n % (tn if wg == "M" else 2 * tn) == 0
            if fits and steps * 2 * ((2 * tm if wg == "M" else tm) + (tn if wg == "M" else 2 * tn)) * tk < 190_000:
                yield from one("mosaic matmul", mosaic_matmul, {"m": m, "n": n, "k": k},
                               {"tile_m": tm, "tile_n": tn, "tile_k": tk, "max_concurrent_steps": steps, "epi_tile_n": 64, "epi_tile_m": 64,
                                "wg_dimension": wg})
    for seq, heads, dim in ((1024, 8, 64), (4096, 8, 128), (4096, 16, 64)):
        for bq, bkv, steps in ((64, 64, 2), (64, 128, 2), (64, 128, 4), (128, 128, 2)):
            yield from one("mosaic attention", mosaic_attention, {"batch": 1, "seq": seq, "heads": heads, "dim": dim},
                           {"block_q": bq, "block_kv": bkv, "max_concurrent_steps": steps})
    yield from swept(one, 4096, 4096, 4096, 400)
    yield from swept(one, 1024, 1024, 1024, 400)
    yield from later(one)


def later(one: Any) -> Iterator[Row]:
    """Problems that were measured when the constants were there."""
    yield from swept(one, 3072, 5120, 2048, 100)
    yield from swept(one, 1024, 2048, 1024, 60)
    for n, (block, warps) in itertools.product((1 << 22, 3 << 24), ((2048, 4), (8192, 8), (1024, 8))):
        yield from one("triton elementwise add", functools.partial(elementwise, kind="add"), {"n": n}, {"block": block, "warps": warps})
    for (r, c), warps in itertools.product(((2048, 2048), (20000, 256), (1056, 16384)), (2, 4, 16)):
        yield from one("triton softmax", softmax, {"rows": r, "cols": c}, {"warps": warps})
    for (r, c), (per, warps) in itertools.product(((8192, 4096), (65536, 256)), ((1, 2), (2, 4), (8, 4))):
        yield from one("triton row sum", row_sum, {"rows": r, "cols": c}, {"per": per, "warps": warps})
    for (m, n, k), (bm, bn, bk), (warps, stages) in itertools.product(
            ((3072, 3072, 1536), (768, 2048, 3072), (2560, 640, 2048)), ((64, 64, 64), (128, 64, 32), (128, 128, 64), (128, 256, 64), (64, 128, 32)),
            ((4, 3), (8, 3), (8, 4))):
        if m % bm == 0 and n % bn == 0 and (warps == 4 or bm == 128):
            yield from one("triton matmul", matmul, {"m": m, "n": n, "k": k}, {"bm": bm, "bn": bn, "bk": bk, "warps": warps, "stages": stages})
    for (heads, seq, dim), (bq, bk, warps, stages) in itertools.product(((32, 1024, 64), (8, 4096, 128)), ((64, 64, 4, 3), (128, 64, 8, 3), (128, 32, 4, 2), (64, 128, 8, 2))):
        yield from one("triton attention", attention, {"heads": heads, "seq": seq, "dim": dim}, {"bq": bq, "bk": bk, "warps": warps, "stages": stages})
    for (batch, seq, heads, dim), (bq, bkv, steps) in itertools.product(((2, 2048, 8, 64), (1, 2048, 16, 128), (4, 1024, 16, 64)),
                                                                       ((64, 64, 2), (64, 64, 4), (64, 128, 3), (128, 64, 2), (128, 128, 2), (128, 128, 4))):
        yield from one("mosaic attention", mosaic_attention, {"batch": batch, "seq": seq, "heads": heads, "dim": dim},
                       {"block_q": bq, "block_kv": bkv, "max_concurrent_steps": steps})


def fresh(one: Any, seed: int) -> Iterator[Row]:
    """Problems and configurations that nobody has chosen."""
    rng = np.random.default_rng(seed)

    def any_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    for _ in range(3):
        yield from swept(one, *(256 * int(rng.integers(4, 21)) for _ in range(3)), 16, seed)
    for _ in range(16):
        m, n, k = (128 * int(rng.integers(4, 33)) for _ in range(3))
        tm, tn = any_of(64, 128), any_of(64, 128, 256)
        yield from one("mosaic matmul", mosaic_matmul, {"m": m // (2 * tm) * 2 * tm, "n": n // (2 * tn) * 2 * tn or 2 * tn, "k": k},
                       {"tile_m": tm, "tile_n": tn, "tile_k": 64, "max_concurrent_steps": any_of(2, 3, 4), "epi_tile_n": 64, "epi_tile_m": 64,
                        "wg_dimension": any_of("M", "N")})
    for _ in range(2):
        problem = {"batch": any_of(1, 2, 4), "seq": 512 * int(rng.integers(2, 9)), "heads": any_of(4, 8, 16), "dim": any_of(64, 128)}
        for bq, bkv, steps in itertools.product((64, 128), (64, 128), (2, 3)):
            yield from one("mosaic attention", mosaic_attention, problem, {"block_q": bq, "block_kv": bkv, "max_concurrent_steps": steps})
    for _ in range(4):
        m, n, k = (256 * int(rng.integers(2, 15)) for _ in range(3))
        for _ in range(10):
            bm = any_of(64, 128)
            config = {"bm": bm, "bn": any_of(64, 128, 256), "bk": any_of(32, 64), "warps": 4 if bm == 64 else any_of(4, 8), "stages": any_of(2, 3, 4)}
            yield from one("triton matmul", matmul, {"m": m, "n": n, "k": k}, config)
    for _ in range(2):
        problem = {"heads": any_of(8, 16, 32), "seq": 512 * int(rng.integers(2, 9)), "dim": any_of(64, 128)}
        for bq, bk in itertools.product((64, 128), (32, 64, 128)):
            config = {"bq": bq, "bk": bk, "warps": 4 if bq == 64 else any_of(4, 8), "stages": any_of(2, 3)}
            yield from one("triton attention", attention, problem, config)
    for _ in range(8):
        problem = {"rows": 128 * int(rng.integers(8, 200)), "cols": any_of(256, 512, 1024, 2048, 4096, 8192)}
        yield from one("triton softmax", softmax, problem, {"warps": any_of(2, 4, 8)})
        yield from one("triton row sum", row_sum, problem, {"per": any_of(1, 2, 4, 8), "warps": any_of(2, 4, 8)})
        kind = any_of("add", "exp", "tanh")
        yield from one(f"triton elementwise {kind}", functools.partial(elementwise, kind=kind), {"n": 8192 * int(rng.integers(50, 8000))},
                       {"block": any_of(1024, 2048, 4096, 8192), "warps": any_of(4, 8)})


def swept(one: Any, m: int, n: int, k: int, count: int, seed: int = 0) -> Iterator[Row]:
    """So many of the 400 configurations of JAX's Hopper matmul that bench/sweep.py predicts, in an order that a run cut short sees some of each kind."""
    configs = list(itertools.product((64, 128), (64, 128), (64, 32), (2, 3, 4, 5, 6), ("", "M", "N"), "MN", (1, 4, 8, 16)))[::2][:400]
    for i in np.random.default_rng(seed).permutation(len(configs))[:count]:
        tm, tn, tk, steps, cluster, minor, width = configs[i]
        yield from one("mosaic sweep", mosaic_matmul, {"m": m, "n": n, "k": k},
                       {"tile_m": tm, "tile_n": tn, "tile_k": tk, "max_concurrent_steps": steps, "cluster_dimension": cluster,
                        "grid_minor_dim": minor, "grid_tile_width": width})


# --- measuring ------------------------------------------------------------------------------------------------------
def measured(f: Callable[..., Any], args: Any, times: int = 9) -> float:
    """Seconds of the kernels of one call, on the device."""
    from jax.experimental.mosaic.gpu import profiler

    jitted = jax.jit(f)
    jax.block_until_ready(jitted(*args))
    _, found = profiler.measure(jitted, aggregate=True, iterations=times)(*args)
    return statistics.median(ms * 1e-3 for ms in found)


def key_of(family: str, problem: dict[str, Any], config: dict[str, Any]) -> str:
    return json.dumps([family, problem, config], sort_keys=True)


def read(paths: list[str]) -> dict[str, dict[str, Any]]:
    """Rows of files, by key_of."""
    out = {}
    for path in paths:
        with open(path) as file:
            out |= {key_of(r["family"], r["problem"], r["config"]): r for r in json.load(file)["rows"]}
    return out


def write(path: str, word: str, seconds: float, known: dict[str, Any], wanted: Iterator[Row]) -> None:
    start: float = time.time()
    out: list[dict[str, Any]] = []
    arrays: dict[Any, Any] = {}
    for family, problem, config, f, shapes in wanted:
        if word not in family or time.time() - start > seconds or key_of(family, problem, config) in known:
            continue
        args = []
        for i, s in enumerate(shapes):
            if isinstance(s, np.ndarray):  # numbers that decide where the kernel goes
                args.append(jnp.asarray(s))
                continue
            key = i, s.shape, str(s.dtype)
            if key not in arrays:
                arrays[key] = jnp.asarray(np.random.default_rng(i).standard_normal(s.shape, np.float32)).astype(s.dtype)
            args.append(arrays[key])
        row: dict[str, Any] = {"family": family, "problem": problem, "config": config}
        try:
            row["seconds"] = measured(f, args)
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {e}"[:200]
        out.append(row)
    with open(path, "w") as file:
        lines = ",\n".join(map(json.dumps, out))
        file.write(f'{{"card": "{jax.devices()[0].device_kind}", "jax": "{jax.__version__}", "rows": [\n{lines}\n]}}\n')
    print(len(out), "rows,", sum("error" in r for r in out), "with errors", f"{time.time() - start:.0f} s")


# --- comparing ------------------------------------------------------------------------------------------------------
def rank(a: list[float], b: list[float]) -> float:
    """Spearman's, of three or more."""
    return float(spearmanr(a, b).statistic) if len(a) > 2 else float("nan")


def against(path: str, chip: str, word: str, dump: str, every: int, first: int, wanted: Iterator[Row]) -> None:
    import pallasim

    known = {key: r for i, (key, r) in enumerate(read([path]).items()) if i % every == first}
    by_family: dict[str, list[tuple[float, float, str]]] = {}
    out = []
    for family, problem, config, f, shapes in wanted:
        r = known.get(key_of(family, problem, config))
        if word not in family or r is None:
            continue
        start = time.process_time()
        try:
            p = pallasim.predict(f, *shapes, chip=chip, sensitivity=False)
        except Exception as e:
            out.append(r | {"refused": f"{type(e).__name__}: {e}"[:300]})
            continue
        out.append(r | {"predicted": p.seconds, "bound": p[0].bound, "host": time.process_time() - start})
        if dump:
            print(family, list(problem.values()), list(config.values()),
                  f"{r.get('seconds', 0) * 1e6:.1f} us, predicted {p.seconds * 1e6:.1f}, {p[0].bound}", flush=True)
        if "seconds" in r:
            by_family.setdefault(family, []).append((r["seconds"], p.seconds, json.dumps(problem)))
    for family, found in by_family.items():
        errors = [abs(p / m - 1) for m, p, _ in found]
        groups = [[(m, p) for m, p, x in found if x == y] for y in sorted({x for *_, x in found})]
        within = [rank([m for m, _ in g], [p for _, p in g]) for g in groups if len(g) > 2]
        print(f"{family:28} {len(found):4} rows, error {100 * statistics.mean(errors):5.1f} %, "
              f"signed {100 * statistics.mean(p / m - 1 for m, p, _ in found):+6.1f} %, "
              f"rank {rank([m for m, *_ in found], [p for _, p, _ in found]):.2f}, within a problem {np.nanmean(within) if within else math.nan:.2f}")
    if dump:
        with open(dump, "w") as file:
            json.dump(out, file, indent=0)


def table(dumps: list[str]) -> None:
    """The table of docs/time.md from what --dump wrote. Of one problem, where it has four configurations or more."""
    groups: dict[str, dict[str, list[tuple[float, float]]]] = {}
    told = known = 0
    for path in dumps:
        with open(path) as file:
            for r in json.load(file):
                known += 1
                told += ("error" in r) == ("refused" in r)
                if "seconds" in r and "predicted" in r:
                    family = "triton elementwise" if "elementwise" in r["family"] else r["family"]
                    groups.setdefault(family, {}).setdefault(path + json.dumps(r["problem"]), []).append((r["seconds"], r["predicted"]))
    every: list[float] = []
    print("| family | rows | mean absolute error | signed | rank | within | choice |\n|---|---|---|---|---|---|---|")
    for family, problems in sorted(groups.items()):
        rows = [x for of_one in problems.values() for x in of_one]
        errors = [p / m - 1 for m, p in rows]
        every += errors
        many = [list(zip(*x)) for x in problems.values() if len(x) > 3]
        within = f"{statistics.mean(rank(list(m), list(p)) for m, p in many):.2f}" if many else ""
        choice = f"{statistics.mean(m[p.index(min(p))] / min(m) for m, p in many):.2f}" if many else ""
        print(f"| {family} | {len(rows)} | {100 * statistics.mean(map(abs, errors)):.1f} % | {100 * statistics.mean(errors):+.1f} % | "
              f"{rank([m for m, _ in rows], [p for _, p in rows]):.2f} | {within} | {choice} |")
    print(f"| all of these | {len(every)} | {100 * statistics.mean(map(abs, every)):.1f} % | {100 * statistics.mean(every):+.1f} % | | | |")
    print(f"legal or not: {told} of {known}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write")
    parser.add_argument("--but", action="append", default=[], help="a file whose rows are not measured again")
    parser.add_argument("--seed", type=int, help="rows that it makes up, in place of those that were chosen")
    parser.add_argument("--more", action="store_true", help="further families")
    parser.add_argument("--parts", action="store_true", help="kernels of one mechanism each")
    parser.add_argument("--against")
    parser.add_argument("--chip", default="gpu-h100")
    parser.add_argument("--dump", default="")
    parser.add_argument("--every", type=int, default=1, help="of so many rows one")
    parser.add_argument("--first", type=int, default=0, help="from this one on; constants come from even rows, --every 2 --first 1 are the others")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--table", nargs="+", default=[], metavar="DUMP", help="of what --dump wrote, the table of docs/time.md")
    a = parser.parse_args()
    if a.write:
        write(a.write, a.word, a.seconds, read(a.but), rows(a.seed, a.more, a.parts))
    if a.table:
        table(a.table)
    if a.against:
        against(a.against, a.chip, a.word, a.dump, a.every, a.first, rows(a.seed, a.more, a.parts))


if __name__ == "__main__":
    main()
