"""Writes hw_models/tpu_types.csv from what libtpu said: `type_table.py OLD.jsonl... --newer NEW.jsonl...`, files that `agreement.py --out` wrote.

OLD: with the libtpu that belongs to JAX 0.10.2, NEW: with that of a later JAX; what the later one takes is refused until then. Kept is which
operation on which types, for which generations; the words are the compiler's own and stay out.
"""
from __future__ import annotations

import argparse
import collections
import json
import pathlib
import re
from typing import Any

GENERATION = {"tpu-v4": 4, "tpu-v5e": 5, "tpu-v5p": 5, "tpu-v6e": 6, "tpu-7x": 7}
LATER = 11  # the minor version of JAX from which the newer compiler holds
# Cases of several operations, of which the table could not tell which one is refused.
SEVERAL = {"clamp", "select_n", "copysign", "polygamma", "convert", "tan", "igamma", "igammac", "zeta", "regularized_incomplete_beta", "reciprocal"}
TABLE = pathlib.Path(__file__).resolve().parents[2] / "hw_models" / "tpu_types.csv"


def name(dtype: str) -> str:
    """As the IR spells it."""
    if dtype == "bool":
        return "bool"
    if dtype == "bfloat16":
        return "bf16"
    return re.sub(r"^uint", "u", re.sub(r"^int", "i", re.sub(r"^float", "f", dtype))).replace("_", "")


def key(row: dict[str, Any]) -> tuple[str, str, str] | None:
    """Operation, form and types of a case; None: it tells nothing of one operation."""
    words = row["case"].split(" ")
    if row["family"] in ("elementwise", "scalar"):
        return None if words[0] in SEVERAL else (words[0], "vector" if row["family"] == "elementwise" else "scalar", name(words[1]))
    if row["family"] == "convert":
        return None if words[0] == words[2] else ("convert", "vector", f"{name(words[0])}>{name(words[2])}")
    if row["family"] == "dot" and words[1:2] == ["by"]:
        return "dot_general", "vector", f"{name(words[0])}*{name(words[2])}>{name(words[4])}"
    return None


def refused(paths: list[str]) -> tuple[set[Any], set[Any], set[Any]]:
    """(operation, form, types, generation) that are refused, those that are taken, and those that JAX's own lowering refuses."""
    no: set[Any] = set()
    yes: set[Any] = set()
    lowering: set[Any] = set()
    for path in paths:
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            k = key(row)
            if k is not None and row["accepted"] is not None:
                (yes if row["accepted"] else no).add((*k, GENERATION[row["chip"]]))
                if row["stage"] == "lowering":
                    lowering.add((*k, GENERATION[row["chip"]]))
    return no, yes, lowering


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("old", nargs="+")
    p.add_argument("--newer", nargs="*", default=[])
    o = p.parse_args()
    no, yes, lowering = refused(o.old)
    # Where a copy of the values is refused, the type is the reason, not the operation.
    memory = {(form, types, g) for op, form, types, g in no if op == "stop_gradient"}
    later = refused(o.newer)[1] | lowering  # what a later JAX lowers was not asked: nothing is refused there
    rows = collections.defaultdict(lambda: collections.defaultdict(set))
    for op, form, types, g in no - yes:
        if op == "stop_gradient" or (form, types, g) not in memory:
            rows["load" if op == "stop_gradient" else op, form, LATER if (op, form, types, g) in later else ""][types].add(g)
    with open(TABLE, "w", encoding="utf-8") as out:
        print("operation,form,types,generations,until", file=out)
        for (op, form, until), types in sorted(rows.items(), key=lambda kv: tuple(map(str, kv[0]))):
            by = collections.defaultdict(list)
            for t, generations in types.items():
                by[tuple(sorted(generations))].append(t)
            for generations, ts in sorted(by.items()):
                print(f"{op},{form},{' '.join(sorted(ts))},{' '.join(map(str, generations))},{until}", file=out)


if __name__ == "__main__":
    main()
