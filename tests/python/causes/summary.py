#!/usr/bin/env python3
"""Reports per planted bug, and how often the first one is the cause.

    python tests/python/causes/summary.py [--family tpu|triton|mosaic] [--show NAME] [--show-failing]
"""
from __future__ import annotations

import argparse
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4")  # before JAX is loaded
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from causes import FAMILIES, all_bugs  # noqa: E402
from causes.bugs import Bug, Outcome, missing  # noqa: E402


def row(bug: Bug, outcome: Outcome) -> tuple[bool, str]:
    """Whether the first report is the cause, and the line of the table."""
    first = outcome.reports[0] if outcome.reports else None
    lacks = ["a report"] if first is None else missing(bug, first)
    said = "nothing" if first is None else f"{first.code} {first.message}"
    return not lacks, f"{bug.name:44} {len(outcome.reports):3}  {'yes' if not lacks else 'NO '}  {said[:110]}"


def count(n: int) -> str:
    return f"{n} report" + ("" if n == 1 else "s")


def show(bug: Bug, outcome: Outcome) -> str:
    """All that was said, and what the first report lacks."""
    first = outcome.reports[0] if outcome.reports else None
    lacks = ["a report"] if first is None else missing(bug, first)
    reports = "\n".join(f.report.rstrip() for f in outcome.reports)
    return f"--- {bug.name} on {bug.machine}: {count(len(outcome.reports))}; the first lacks: {', '.join(lacks) or 'nothing'}\n{reports}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--show", metavar="NAME", help="this bug's reports in full")
    parser.add_argument("--show-failing", action="store_true", help="those of all bugs with too many reports, or another cause first")
    args = parser.parse_args()
    if args.show:
        bug = all_bugs()[args.show]
        print(show(bug, bug.run(False)))
        return 0
    failing = []
    for family in [args.family] if args.family else FAMILIES:
        bugs, reports, first = [b for b in all_bugs().values() if b.family == family], 0, 0
        print(f"{family:44}   n  1st", flush=True)
        for bug in bugs:
            outcome = bug.run(False)
            right, line = row(bug, outcome)
            print(line, flush=True)
            reports, first = reports + len(outcome.reports), first + right
            if not right or len(outcome.reports) != 1:
                failing.append(show(bug, outcome))
        print(f"{family}: {len(bugs)} bugs, {reports / len(bugs):.2f} reports per cause, the first one is the cause in {100 * first / len(bugs):.0f} %\n")
    if args.show_failing:
        print("\n".join(failing))
    return 0


if __name__ == "__main__":
    sys.exit(main())
