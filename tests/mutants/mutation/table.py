"""Answers of workers as a table: per operator and machine, and the lists of what was missed."""
from __future__ import annotations

import collections
import pathlib
from typing import Any

from .lines import expected
from .source import Mutant, all_mutants

EXCEPTIONS = pathlib.Path(__file__).resolve().parents[1] / "exceptions.txt"
SERIOUS = ("error", "warning")
MACHINES = ("tpu", "ring", "megacore", "core", "mpmd", "sc", "triton", "hopper", "cluster", "blackwell", "gpus")


def exceptions() -> dict[str, str]:
    """Mutant -> kind, by hand: each line is a name, a kind, and behind # the reason."""
    lines = [line.partition("#") for line in EXCEPTIONS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert all(reason.strip() for _, _, reason in lines), "an exception has a reason"
    return {name.split()[0]: name.split()[1] for name, _, _ in lines}


def family(mutant: Mutant) -> str:
    return mutant.kernel.partition("_")[0]


def rated(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each answer with its mutant, its kind after exceptions, and `result`: exact, line (found at another line), silent.

    A hidden one of which something is said is `ruled`: no schedule of the emulator shows it, and a rule of the machine is quoted.
    """
    mutants, by_hand = {m.name: m for m in all_mutants()}, exceptions()
    rows = []
    for a in answers:
        m = mutants[a["name"]]
        serious = [s for s in a["said"] if s["severity"] in SERIOUS]
        result = "silent"
        if serious:
            wanted = expected(m, tuple(a["verdict"]["lines"]), serious[0]["code"])
            result = "exact" if serious[0]["line"] in wanted else "line"
        kind = by_hand.get(m.name, a["verdict"]["kind"])
        if kind in ("hidden", "equal"):  # as the operators of today see it
            kind = "hidden" if m.synchronises else "equal"
        if kind == "hidden" and result != "silent":
            kind = "ruled"
        rows.append(a | {"mutant": m, "kind": kind, "result": result, "first": serious[0] if serious else None})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Per operator, then per machine: mutants by kind, and of the faulty ones how many were found, and where."""
    kinds = ("faulty", "ruled", "other", "equal", "hidden", "refused", "stillborn", "slow", "crash", "error")
    heads = ["", "all", *kinds, "found", "exact", "line", "silent"]
    text = [" ".join(f"{h:>9}" if i else f"{h:17}" for i, h in enumerate(heads))]

    def line(name: str, chosen: list[dict[str, Any]]) -> None:
        count = collections.Counter(r["kind"] for r in chosen)
        faulty = collections.Counter(r["result"] for r in chosen if r["kind"] == "faulty")
        cells = [len(chosen), *(count[k] for k in kinds), faulty["exact"] + faulty["line"], faulty["exact"], faulty["line"], faulty["silent"]]
        text.append(f"{name:17} " + " ".join(f"{c:9}" for c in cells))

    for title, of in (("operator", lambda r: r["mutant"].operator), ("machine", lambda r: family(r["mutant"]))):
        text.append(f"-- by {title}")
        for name in sorted({of(r) for r in rows}):
            line(name, [r for r in rows if of(r) == name])
    line("all", rows)
    n = sum(r["kind"] == "faulty" for r in rows) or 1
    found, exact = (sum(r["kind"] == "faulty" and r["result"] in x for r in rows) for x in (("exact", "line"), ("exact",)))
    text.append(f"of {n} faulty mutants {100 * found / n:.1f} % are found, {100 * exact / n:.1f} % at the line")
    return "\n".join(text)


def shown(row: dict[str, Any], source: bool = True) -> str:
    m, first = row["mutant"], row["first"]
    text = [f"{m.name} [{row['kind']}: {row['verdict']['why'][:160]}]", f"  line {m.line}: {_one(m.before)}  ->  {_one(m.after)}"]
    if row["verdict"]["lines"]:
        text.append(f"  seen at lines {row['verdict']['lines']}")
    text += [f"  {s['severity']} {s['code']} at {s['line']} (names {s['lines']}): {s['message'][:150]}" for s in row["said"][:3]]
    if source:
        lines = m.source.splitlines()
        text += [f"    {n}: {lines[n - 1]}" for n in sorted({*m.lines, *([first["line"]] if first and first["line"] else [])}) if n <= len(lines)][:8]
    return "\n".join(text)


def _one(text: str) -> str:
    return " | ".join(text.splitlines())[:150]


def lists(rows: list[dict[str, Any]]) -> str:
    """What is to be looked at, by what is wrong."""
    parts = []
    for title, chosen in (
        ("faulty and silent", [r for r in rows if r["kind"] == "faulty" and r["result"] == "silent"]),
        ("faulty, found at another line", [r for r in rows if r["kind"] == "faulty" and r["result"] == "line"]),
        ("ruled: a rule is quoted, no schedule shows it", [r for r in rows if r["kind"] == "ruled"]),
        ("hidden and silent: not needed, or no schedule shows it", [r for r in rows if r["kind"] == "hidden"]),
        ("equal, and something is said", [r for r in rows if r["kind"] == "equal" and r["result"] != "silent"]),
        ("other program, and something is said", [r for r in rows if r["kind"] == "other" and r["result"] != "silent"]),
        ("slow, crashed, errors", [r for r in rows if r["kind"] in ("slow", "crash", "error")]),
    ):
        parts.append(f"==== {title}: {len(chosen)}\n" + "\n".join(map(shown, chosen)))
    return "\n\n".join(parts)


def sample(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few that are as they should be, quick, and of all operators and machines: the faulty first."""
    quick = sorted(rows, key=lambda r: (round(r["seconds"][1], 1), r["name"]))
    chosen, covered = [], set()
    for r in quick:
        new = {r["mutant"].operator, family(r["mutant"])} - covered
        if r["kind"] == "faulty" and r["result"] == "exact" and not r["said"][0]["seed"] and new:
            covered |= new
            chosen.append(r)
    for kind in ("other", "equal"):
        chosen += [r for r in quick if r["kind"] == kind and not r["said"]][:4]
    return chosen
