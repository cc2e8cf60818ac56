"""Holds the rules of TPUs against the TPU's compiler: `agreement.py [FAMILY...] [--chips ...] [--out FILE.jsonl]`, with the package libtpu.

Each case (cases.py) is held against each chip by the rules here and by libtpu; a table says how often they agree. What they differ in is
printed with libtpu's words. Nothing of libtpu is kept in the repository but which operation on which type it refuses.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402

jax.config.update("jax_num_cpu_devices", 8)  # before anything asks for devices

import cases  # noqa: E402
from pallasim import _check, _emulate, _libtpu  # noqa: E402
from pallasim._capture import jaxver  # noqa: E402

CHIPS = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x")


def asked(make: Any, chip: str) -> Iterator[dict[str, Any]]:
    """A row per launch: what the rules say, and what libtpu says."""
    with _emulate.emulate(chip):
        f, args = make()
        closed = jax.make_jaxpr(f)(*args)
        for eqn, axes in _check.launches(jaxver.open_jaxpr(closed)[0]):
            try:
                remarks, _ = _check.legality(_check.captured(eqn, axes, "tpu"), chip)
                ours = [f"{r.code} {r.message}" for r in remarks if r.severity == "error"]
                warned = any(r.code == "PS-TPU-007" for r in remarks)  # what is not proven here
            except NotImplementedError as e:
                ours, warned = [f"PS-UNSUP-001 {e}"], False
            answer = _libtpu.ask(eqn, axes, chip)
            yield {"ours": ours, "warned": warned, "accepted": answer.accepted, "stage": answer.stage, "said": answer.line[:300]}


def verdict(row: dict[str, Any]) -> str:
    if row["accepted"] is None:
        return "not asked"
    if row["accepted"] != bool(row["ours"] or row.get("warned")):
        return "agree"
    return "only we refuse" if row["accepted"] else "only libtpu refuses"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("family", nargs="*", default=list(cases.FAMILIES))
    p.add_argument("--chips", default=",".join(CHIPS))
    p.add_argument("--out", help="every row as JSON; cases that are there already are not asked again")
    p.add_argument("--again", help="only cases that libtpu refused in this file of another run, and their chips")
    p.add_argument("--every", type=int, default=1, help="every n-th case")
    p.add_argument("--quiet", action="store_true", help="the table alone")
    o = p.parse_args()
    rows: list[dict[str, Any]] = []
    known: set[tuple[str, str, str]] = set()
    again = {(r["family"], r["case"], r["chip"]) for r in map(json.loads, open(o.again, encoding="utf-8")) if r["accepted"] is False} if o.again else None
    if o.out and os.path.exists(o.out):
        rows = [json.loads(line) for line in open(o.out, encoding="utf-8")]
        known = {(r["family"], r["case"], r["chip"]) for r in rows}
    out = open(o.out, "a", encoding="utf-8") if o.out else None
    for family in o.family:
        for name, make in list(cases.FAMILIES[family]())[::o.every]:
            for chip in o.chips.split(","):
                if (family, name, chip) in known or (again is not None and (family, name, chip) not in again):
                    continue
                try:
                    got = list(asked(make, chip))
                except Exception as e:  # JAX refuses it while it traces
                    got = [{"ours": [], "accepted": None, "stage": "tracing", "said": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300]}]
                for row in got:
                    rows.append({"family": family, "case": name, "chip": chip, **row})
                    if out:
                        print(json.dumps(rows[-1]), file=out, flush=True)
    report(rows, o.quiet)


def report(rows: list[dict[str, Any]], quiet: bool) -> None:
    counts = collections.Counter((r["chip"], verdict(r)) for r in rows)
    columns = ("agree", "only we refuse", "only libtpu refuses", "not asked")
    print(f"{'chip':10}{''.join(f'{c:>22}' for c in columns)}")
    for chip in sorted({r["chip"] for r in rows}):
        print(f"{chip:10}{''.join(f'{counts[chip, c]:22,}' for c in columns)}")
    if quiet:
        return
    differing: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    for r in rows:
        if verdict(r) in ("only we refuse", "only libtpu refuses"):
            differing[r["family"], verdict(r), (r["ours"] or [f"{r['stage']}: {r['said']}"])[0]].append(f"{r['case']} @{r['chip'][4:]}")
    for (family, kind, words), where in sorted(differing.items()):
        print(f"{family}: {kind}: {words[:160]}\n    {len(where)}: {', '.join(where[:8])}{' ...' if len(where) > 8 else ''}")


if __name__ == "__main__":
    sys.exit(main())
