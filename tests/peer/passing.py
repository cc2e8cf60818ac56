#!/usr/bin/env python3
"""Compares results of JAX's own Pallas suites with the list of cases that pass, and names every case lost.

  passing.py RESULTS... [--jax VERSION] [--list FILE] [--reasons FILE] [--update]

RESULTS are folders that the suites' harness wrote with the executor `pallasim.testing:lower`: files
`TEST_FILE@HARDWARE[+ENVIRONMENT].jsonl`, one JSON object per case and phase (id, outcome, launches, msg). A case passes
if no phase of it failed and a kernel ran on the emulator. A case of the list that ran and did not pass is lost: it is
printed with its reason and the exit status is 1. `--update` adds what passes now; the list only grows.
Lines of the list: `HARDWARE ENVIRONMENT :: NODE_ID`, sorted.

Each version of JAX has its own list and reasons, `passing-VERSION.txt` and `failing-VERSION.txt`; those of 0.10.2 bear no version.

Every case that fails has a reason in `failing.txt`, and one without is named (UNEXPLAINED, exit status 1): a line
`# reason` and below it the cases, in the lines of the list, where `*` stands for any characters.
"""
from __future__ import annotations

import argparse
import fnmatch
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
OLDEST = "0.10.2"
NO_KERNEL = "no kernel ran on the emulator"
_ENVIRONMENT = {"": "", "0": "JAX_PALLAS_USE_MOSAIC_GPU=0", "1": "JAX_PALLAS_USE_MOSAIC_GPU=1"}


def cases(folder: pathlib.Path) -> dict[str, tuple[bool, str]]:
    """Whether each case of a folder passed, and why not. Skipped cases are left out."""
    out: dict[str, tuple[bool, str]] = {}
    for log in sorted(folder.glob("*@*.jsonl")):
        hardware, _, environment = log.stem.rpartition("@")[2].partition("+")
        prefix = f"{hardware.replace('-', ':', 1)} {_ENVIRONMENT[environment]} :: "
        for text in log.read_text().splitlines():
            record = json.loads(text)
            key = prefix + record["id"].rpartition("tests/pallas/")[2]
            if record["outcome"] == "skipped" or not out.get(key, (True, ""))[0]:
                continue
            if record["outcome"] != "passed":
                out[key] = False, str(record.get("msg", record["outcome"])).strip().splitlines()[0][:200]
            elif record.get("launches"):
                out[key] = True, ""
            else:
                out.setdefault(key, (False, NO_KERNEL))
    return out


def expected_to_fail(file: pathlib.Path) -> list[str]:
    """Patterns of the cases that fail for a known reason. Raises ValueError for a case above the first reason."""
    patterns: list[str] = []
    reason = False
    for line in filter(None, map(str.strip, file.read_text().splitlines() if file.exists() else [])):
        reason = reason or line.startswith("#")
        if not reason:
            raise ValueError(f"{file}: {line} has no reason above it")
        if not line.startswith("#"):
            patterns.append(line.replace("[", "[[]"))
    return patterns


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("--jax", default=OLDEST, help="whose suites ran, and with which version")
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("--reasons", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    a = parser.parse_args()
    suffix = "" if a.jax == OLDEST else f"-{a.jax}"
    a.list = a.list or HERE / f"passing{suffix}.txt"
    a.reasons = a.reasons or HERE / f"failing{suffix}.txt"
    known = set(a.list.read_text().splitlines()) if a.list.exists() else set()
    ran: dict[str, tuple[bool, str]] = {}
    for folder in a.results:
        if not folder.is_dir():
            parser.error(f"{folder} is no folder")
        for key, found in cases(folder).items():
            ran[key] = max(found, ran.get(key, found))
    lost = {key: why for key, (passed, why) in ran.items() if not passed and key in known}
    new = {key for key, (passed, _) in ran.items() if passed} - known
    try:
        patterns = expected_to_fail(a.reasons)
    except ValueError as e:
        parser.error(str(e))
    # Cases that pass without a kernel are no failures.
    unexplained = {key for key, (passed, why) in ran.items() if not passed and key not in lost and why != NO_KERNEL
                   and not any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)}
    for key in sorted(unexplained):
        print(f"UNEXPLAINED {key}\n     {ran[key][1]}")
    for key in sorted(lost):
        print(f"LOST {key}\n     {lost[key]}")
    if a.update:
        a.list.write_text("\n".join(sorted(known | new)) + "\n")
    print(f"{sum(key in known for key in ran) - len(lost)} of {len(known)} known cases passed here, {len(lost)} lost, {len(new)} new"
          f"{', added' if a.update and new else ''}")
    return bool(lost or unexplained)


if __name__ == "__main__":
    sys.exit(main())
