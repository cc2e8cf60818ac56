"""What the TPU's compiler makes of an operation: instructions by unit, and the bundles that it schedules them in. With the package libtpu.

    bundles.py table                 # hw_models/timing/tpu_instructions.csv: instructions per register, by operation and type
    bundles.py latencies             # of the same file: cycles from an operation's operands to its result
    bundles.py rows --out FILE.json  # kernels (schedules.py): their bundles and cycles on each chip; --of products, attention, blocks: others
    bundles.py against FILE.json     # those against what is predicted; needs no libtpu (tests/truth/tpu_bundles.json, …_products, …_attention, …_blocks)

A kernel here is one block in VMEM, so that its schedule is straight and as long as it takes; what waits for copies around it is taken off. Of an
operation two sizes are compiled: what the larger one takes more is its cost, without what is paid once. Nothing of libtpu is kept but these numbers.

"Bundles" are those of the program; "cycles" are those of its schedule before bundles that do nothing are left out, where the chip waits for a result.
"""
from __future__ import annotations

import argparse
import collections
import csv
import functools
import glob
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasim  # noqa: E402
import schedules  # noqa: E402
from pallasim import _check, _emulate, _libtpu  # noqa: E402
from pallasim._capture import jaxver  # noqa: E402
from schedules import F32  # noqa: E402

CHIPS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")
UNITS = {"VALU": "valu", "EUP": "eup", "XLU": "xlu"}
_SHORT = {"bfloat16": "bf16", "int32": "i32", "int16": "i16", "int8": "i8", "float32": "", "float8_e4m3fn": "f8"}


def call(f: Callable[..., Any], args: list[Any], out: Any) -> Callable[..., Any]:
    """One launch that computes f of whole arrays."""
    def probe_kernel(*refs: Any) -> None:
        refs[-1][...] = f(*[r[...] for r in refs[:-1]]).astype(refs[-1].dtype)

    return lambda *a: pl.pallas_call(probe_kernel, out_shape=out, compiler_params=pltpu.CompilerParams(vmem_limit_bytes=32 << 20))(*a)


@functools.cache
def dumps() -> tempfile.TemporaryDirectory[str]:
    """Where the compiler, which begins behind this, writes what it makes. Who only predicts leaves the environment as it is."""
    folder = tempfile.TemporaryDirectory()
    os.environ["LIBTPU_INIT_ARGS"] = f"--xla_jf_dump_to={folder.name} --xla_jf_dump_llo_text=true"
    return folder


def schedule(f: Callable[..., Any], args: list[Any], chip: str) -> dict[str, int] | str:
    """Bundles, and instructions by unit; a string: why it is refused."""
    folder = dumps().name
    for path in glob.glob(f"{folder}/*"):
        os.remove(path)
    with _emulate.emulate(chip):
        closed = jax.make_jaxpr(f)(*args)
        (eqn, axes), = _check.launches(jaxver.open_jaxpr(closed)[0])
        answer = _libtpu.ask(eqn, axes, chip)
    if not answer.accepted:
        return answer.line
    lines = utilization("final_hlo-static-per-bundle-utilization")
    names = [name.strip() for name in lines[1].split(",")]
    rows = [[int(x) for x in line.split()] for line in lines[4:]]
    return {"bundles": len(rows), "cycles": len(utilization("pre-delay_hlo-static-per-bundle-utilization")) - 4,
            **{name: sum(row[i] for row in rows) for i, name in enumerate(names)}}


def utilization(of: str) -> list[str]:
    """The lines of a table of units by bundle. Beside the kernel there is what begins and ends a program, and lays out its arrays."""
    path, = (p for p in glob.glob(f"{dumps().name}/*{of}.txt") if "-launch" in os.path.basename(p))
    return [line for line in pathlib.Path(path).read_text().splitlines() if line.strip()]


# --- a table of operations --------------------------------------------------------------------------------------------
_COLUMNS, _ROWS = 256, (64, 192)


def registers(rows: int, dtypes: list[Any]) -> float:
    """Of 8 x 128 words, of the widest of the types."""
    return rows * _COLUMNS / 1024 * max(jnp.dtype(t).itemsize for t in dtypes) / 4


def cost(f: Callable[..., Any], types: list[Any], chip: str) -> dict[str, float] | None:
    """Instructions and bundles per register; None: it is refused."""
    found = []
    for rows in _ROWS:
        args = [jax.ShapeDtypeStruct((rows, _COLUMNS), t) for t in types]
        with _emulate.emulate(chip):
            try:
                out = jax.eval_shape(f, *args)
            except Exception:
                return None
        try:
            found.append((schedule(call(f, args, out), args, chip), registers(rows, [*types, out.dtype])))
        except Exception:  # JAX refuses it
            return None
    (small, few), (large, many) = found
    if isinstance(small, str) or isinstance(large, str):
        return None
    return {unit: (large[unit] - small[unit]) / (many - few) for unit in small}


def effective(c: dict[str, float], of: str) -> dict[str, float]:
    """What is charged to each unit. `of`: a kind of operation. What passes between lanes is waited for, and the unit of special functions takes one
    register in several cycles on some chips: there the bundles count."""
    r = {"valu": c["VALU"]}
    memory = max(c["VLOAD"] / 3, c["VSTORE"])
    if c["EUP"]:
        r["eup"] = max(c["EUP"], c["bundles"] if c["bundles"] > 1.15 * max(c["VALU"] / 4, memory, c["EUP"]) and c["VALU"] <= 7 else 0)
    if of == "lanes":
        r["xlu"] = 2 * c["bundles"]  # of two units (scaling-book)
    return r


Counts = dict[tuple[str, str, str], dict[str, float]]  # by operation, type and unit; by chip


def read(path: pathlib.Path) -> Counts:
    counted: Counts = collections.defaultdict(dict)
    for r in csv.DictReader(path.open(encoding="utf-8")):
        counted[r["operation"], r["type"], r["unit"]] = {c: float(r[c]) for c in CHIPS if r[c]}
    return counted


def write(path: pathlib.Path, counted: Counts) -> None:
    with open(path, "w", encoding="utf-8") as out:
        print("operation,type,unit," + ",".join(CHIPS), file=out)
        for (name, suffix, unit), by_chip in sorted(counted.items()):
            if unit == "valu" or any(by_chip.values()):
                print(f"{name},{suffix},{unit}," + ",".join(f"{by_chip[c]:g}" if c in by_chip else "" for c in CHIPS), file=out)


def table(path: pathlib.Path, only: str) -> None:
    """only: a regular expression of names; what the file says of the others stays, and latencies."""
    counted = collections.defaultdict(dict, {k: v for k, v in read(path).items() if only or k[2] == "latency"})
    for chip in CHIPS:
        for p in schedules.operations():
            if not re.search(only, p.name):
                continue
            c = cost(p.f, p.types, chip)
            if c is None:
                continue
            of = {u: v - p.without.get(u, 0) - sum(counted[(o, t, u)].get(chip, 0) for o, t in p.minus) for u, v in effective(c, p.kind).items()}
            for unit, n in of.items():
                if n > 0.01 or unit == "valu":
                    counted[(p.name, p.suffix, unit)][chip] = round(max(n, 0) * p.scale, 2)
        print(chip, flush=True)
    write(path, counted)


def latency(f: Callable[..., Any], types: list[Any], chip: str, copies: dict[tuple[Any, ...], int]) -> int | None:
    """Cycles that a register is under way; None: it is refused. copies: what bringing operands of these types takes, where known."""
    args = [jax.ShapeDtypeStruct((8 * 4 // min(jnp.dtype(t).itemsize for t in types), 128), t) for t in types]
    try:
        with _emulate.emulate(chip):
            out = jax.eval_shape(f, *args)
        s = schedule(call(f, args, out), args, chip)
        if isinstance(s, dict) and (key := (chip, *types)) not in copies:
            copy = schedule(call(lambda *x: x[0], args, args[0]), args, chip)
            assert isinstance(copy, dict), copy
            copies[key] = copy["cycles"]
    except Exception:  # JAX refuses it
        return None
    return None if isinstance(s, str) else s["cycles"] - copies[(chip, *types)]


def latencies(path: pathlib.Path, only: str) -> None:
    counted, copies = read(path), dict[tuple[Any, ...], int]()
    for chip in CHIPS:
        for p in schedules.operations():
            if re.search(only, p.name) and (n := latency(p.f, p.types, chip, copies)) is not None:
                counted[p.name, p.suffix, "latency"][chip] = max(n, 0)
        print(chip, flush=True)
        write(path, counted)


# --- whole kernels ----------------------------------------------------------------------------------------------------
_OF = {"kernels": schedules.kernels, "products": schedules.products, "attention": schedules.attention, "blocks": schedules.blocks}


def kernels(of: Iterable[str] = tuple(_OF)) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    for name, f, args in (k for which in of for k in _OF[which]()):
        try:
            yield name, call(f, args, jax.eval_shape(f, *args)), args
        except Exception as e:
            print(name, type(e).__name__, str(e)[:100])


def around(args: list[Any], chip: str) -> tuple[int, int]:
    """Bundles and cycles of a launch with so many operands that does nothing: it waits for its copies, and for the one back."""
    def nothing_kernel(*refs: Any) -> None:
        pass

    one = jax.ShapeDtypeStruct((8, 128), F32)
    s = schedule(lambda *a: pl.pallas_call(nothing_kernel, out_shape=one)(*a), [one] * len(args), chip)
    assert isinstance(s, dict), s
    return s["bundles"], s["cycles"]


def rows(path: str, of: str) -> None:
    found = []
    for chip in CHIPS:
        empty: dict[int, tuple[int, int]] = {}
        for name, f, args in kernels([of]):
            try:
                s = schedule(f, args, chip)
            except Exception as e:
                s = f"{type(e).__name__}: {str(e).splitlines()[0][:100]}"
            if isinstance(s, str):
                print(chip, name, s[:140], flush=True)
                continue
            if len(args) not in empty:
                empty[len(args)] = around(args, chip)
            bundles, cycles = empty[len(args)]
            found.append({"kernel": name, "chip": chip, "around": bundles, "cycles_around": cycles, **{k.lower(): v for k, v in s.items() if v}})
        print(chip, len(found), flush=True)
    pathlib.Path(path).write_text("[\n" + ",\n".join(json.dumps(r) for r in found) + "\n]\n", encoding="utf-8")


_UNITS = ("VPU", "EUP", "XLU", "MXU", "VMEM loads", "VMEM stores", "scalar core")


def predicted(f: Callable[..., Any], args: list[Any], chip: str) -> tuple[float, dict[str, float]]:
    """Cycles of one core as they are predicted, and by unit."""
    with _emulate.emulate(chip):
        launch, = pallasim.predict(f, *args, chip=chip, sensitivity=False)
    clock = next(x.value for x in launch.figures if x.name == "clock")
    return sum(c.seconds for c in launch.critical if c.name in _UNITS) * clock, {b.name: b.seconds * clock for b in launch.bounds if b.name in _UNITS}


def errors(path: str, every: int = 1, chips: Iterable[str] = CHIPS) -> dict[str, list[tuple[float, str, float, dict[str, float], dict[str, Any]]]]:
    """By chip, of every n-th kernel: how far the prediction is off, which kernel, its cycles, those predicted by unit, the row of the file."""
    measured = {(r["kernel"], r["chip"]): r for r in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))}
    found: dict[str, list[Any]] = collections.defaultdict(list)
    names = {name for name, _ in measured}
    for name, f, args in [k for k in kernels() if k[0] in names][::every]:
        for chip in chips:
            row = measured.get((name, chip))
            if row is None:
                continue
            cycles, by_unit = predicted(f, args, chip)
            took = row["cycles"] - row["cycles_around"]
            found[chip].append((cycles / took - 1, name, took, by_unit, row))
    return found


def against(path: str, verbose: bool) -> None:
    for chip, rows_ in errors(path).items():
        for error, name, took, by_unit, row in rows_ if verbose else ():
            units = " ".join(f"{u} {n:.0f}" for u, n in sorted(by_unit.items(), key=lambda x: -x[1]) if n > 1)
            print(f"{chip:8} {name:34} {took:7} cycles, predicted {100 * error:+6.1f} %  ({units}; {row.get('valu', 0)} VALU)")
        e = [r[0] for r in rows_]
        worst = max(rows_, key=lambda r: abs(r[0]))
        print(f"| {chip} | {len(e)} | {100 * statistics.mean(map(abs, e)):.1f} % | {100 * statistics.median(map(abs, e)):.1f} % | "
              f"{100 * statistics.mean(e):+.1f} % | {worst[1]} {100 * worst[0]:+.0f} % |")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("table", "latencies", "rows", "against"))
    p.add_argument("file", nargs="?")
    p.add_argument("--out", default="")
    p.add_argument("--of", default="kernels", choices=_OF, help="which kernels' rows")
    p.add_argument("--only", default="", help="operations whose names have this regular expression")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    counts = pathlib.Path(o.out) if o.out else ROOT / "hw_models" / "timing" / "tpu_instructions.csv"
    if o.what == "table":
        table(counts, o.only)
    elif o.what == "latencies":
        latencies(counts, o.only)
    elif o.what == "rows":
        rows(o.out, o.of)
    else:
        against(o.file, o.verbose)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
