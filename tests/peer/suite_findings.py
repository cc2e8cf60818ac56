#!/usr/bin/env python3
"""What checked runs find in JAX's own Pallas suites: every finding of every case, and whether its reason is known.

  PEER_TESTS=... PEER_OVERLAY=... suite_findings.py OUTDIR --harness DIR [--only REGEX] [--every K:OFFSET] [-k EXPRESSION] [--jobs N]

DIR is the folder of the harness (peer_base.py, peer_hw.py, matrix.csv). Each row of its matrix runs with checked runs that collect what they
find; OUTDIR keeps FILE@HARDWARE.findings, an object per case (id, launches, outcome, findings), and rows that are there already are read, not
run again (--again runs them). The tests are right on their hardware, so each finding is a rule that the test breaks without harm, or false:
`findings.txt` has the reasons, a line `# reason` and below it lines `CODE HARDWARE ENVIRONMENT :: NODE_ID`, where `*` stands for any
characters; one of `CODE(note) …` holds for notes alone. Printed: cases and those with findings, by row and by code; each finding without a reason. The exit status is 1 if there is one.
Notes are counted and printed apart: they do not say that a kernel is wrong.
"""
from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

from passing import expected_to_fail

HERE = pathlib.Path(__file__).parent
NOTE = "(note)"
_case: dict[str, int] = {}


# --- inside of pytest -----------------------------------------------------------------------------------------------
def lower(ctx: Any, *in_nodes: Any, primitive: str, **params: Any) -> Any:
    """The emulator on the test's chip, checked."""
    from pallasim import _interpret, _lowering, testing

    options = dataclasses.replace(testing._options(), findings="collect", detect_races=True)
    return _lowering.lower(ctx, *in_nodes, primitive=primitive, options=_interpret.merge(options, params.get("interpret")), **params)


def launch_count() -> int:
    from pallasim import testing

    return testing.launch_count()


def pytest_runtest_setup(item: Any) -> None:
    if "PEER_FINDINGS" in os.environ:
        import pallasim

        pallasim.findings()  # what was found before the case is none of its own
        _case["first"] = launch_count()


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    if call.when != "call" or "PEER_FINDINGS" not in os.environ:
        return
    import jax
    import pallasim

    jax.effects_barrier()
    count = launch_count() - _case["first"]
    found = [{"code": f.code, "severity": f.severity, "text": str(f)} for f in pallasim.findings()]
    outcome = "passed" if call.excinfo is None else "skipped" if call.excinfo.typename in ("SkipTest", "Skipped") else str(call.excinfo.value)[:200]
    with open(os.environ["PEER_FINDINGS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"id": item.nodeid.rpartition("tests/pallas/")[2], "launches": count, "outcome": outcome, "findings": found}) + "\n")


# --- outside --------------------------------------------------------------------------------------------------------
def run(row: dict[str, str], a: argparse.Namespace) -> list[dict[str, Any]]:
    """The cases of one row of the matrix."""
    environment = "+" + row["env"].rpartition("=")[2] if row["env"] else ""
    base = a.outdir / f"{row['file'].replace('/', '__')}@{row['hw'].replace(':', '-')}{environment}"
    log = base.with_name(base.name + ".findings")
    if a.again or not log.exists():
        log.unlink(missing_ok=True)
        env = dict(os.environ, JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=row["devices"], TF_CPP_MIN_LOG_LEVEL="3", PEER_FINDINGS=str(log))
        env.update([row["env"].split("=")] if row["env"] else [])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [a.harness, str(HERE), os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.path.join(a.harness, "pytest.ini"), "--rootdir", a.tests, "--tb=short", "--timeout=120",
                   "-p", "no:pallasim.pytest_plugin", "-p", "peer_base", "-p", "peer_hw", "-p", "suite_findings", f"--hw={row['hw']}",
                   "--executor=suite_findings:lower", f"--peer-log={base}.jsonl", f"--peer-deselect={a.harness}/exclude_inherent.txt",
                   "--max-worker-restart=1000"]
        command += [f"--peer-every={a.every}"] if a.every != "1" else []
        command += ["-n", a.jobs] if a.jobs != "0" else []
        command += ["-k", a.k] if a.k else []
        with open(f"{base}.out", "w", encoding="utf-8") as out:
            subprocess.run([*command, os.path.join(a.tests, row["file"])], env=env, stdout=out, stderr=subprocess.STDOUT, cwd=a.outdir)
        log.touch()
    return [json.loads(line) for line in log.read_text().splitlines()]


def reasons(file: pathlib.Path) -> list[tuple[str, str]]:
    """(code, pattern of the case) of each finding whose reason is known. Raises ValueError for a line above the first reason."""
    lines = (line.partition(" ") for line in expected_to_fail(file))
    return [(code, case) for code, _, case in lines]


@dataclasses.dataclass
class Row:
    """What one row's cases found. `cases` are those in which a kernel ran, or was refused."""

    name: str
    cases: int = 0
    with_findings: int = 0
    codes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unexplained: list[str] = dataclasses.field(default_factory=list)


def summary(name: str, prefix: str, records: list[dict[str, Any]], known: list[tuple[str, str]]) -> Row:
    """Counts cases by the codes they found, and names what has no reason in `known`."""
    row = Row(name)
    for r in records:
        if not r["launches"] and not r["findings"]:
            continue
        row.cases += 1
        texts = {f["code"] + NOTE * (f["severity"] == "note"): f["text"] for f in reversed(r["findings"])}
        row.codes.update(texts.keys())
        row.with_findings += any(f["severity"] != "note" for f in r["findings"])
        for code, text in sorted(texts.items()):
            case = f"{prefix} :: {r['id']}"
            if not any(code in (c, c + NOTE) and fnmatch.fnmatch(case, pattern) for c, pattern in known):
                row.unexplained.append(f"{code} {case}\n    " + "\n    ".join(text.strip().splitlines()[:6]))
    return row


def show(rows: list[Row]) -> int:
    """Prints the table; how many findings have no reason."""
    print(f"{'':70} {'cases':>6} {'found':>6}  by code")
    total = Row("total")
    for r in [*rows, total]:
        if r is not total:
            total.cases += r.cases
            total.with_findings += r.with_findings
            total.codes += r.codes
            total.unexplained += r.unexplained
        print(f"{r.name:70.70} {r.cases:6} {r.with_findings:6}  {', '.join(f'{c} {n}' for c, n in sorted(r.codes.items()))}")
    print(f"\n{total.with_findings} of {total.cases} cases have a finding ({100 * total.with_findings / max(1, total.cases):.2f} %); "
          f"{len(total.unexplained)} without a reason")
    for text in total.unexplained:
        print("UNEXPLAINED", text)
    return len(total.unexplained)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--harness", default=os.environ.get("PEER_HARNESS", ""), required="PEER_HARNESS" not in os.environ)
    parser.add_argument("--tests", default=os.environ.get("PEER_TESTS", ""))
    parser.add_argument("--only", default=".", help="matches file@hardware")
    parser.add_argument("--every", default="1", help="K:OFFSET: each K-th case")
    parser.add_argument("-k", default="", help="pytest's")
    parser.add_argument("--jobs", default="0")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--reasons", type=pathlib.Path, default=HERE / "findings.txt")
    a = parser.parse_args()
    a.outdir, a.harness = a.outdir.absolute(), os.path.abspath(a.harness)
    a.outdir.mkdir(parents=True, exist_ok=True)
    known = reasons(a.reasons)
    rows = []
    with open(os.path.join(a.harness, "matrix.csv"), encoding="utf-8") as matrix:
        for row in csv.DictReader(matrix):
            name = f"{row['file']}@{row['hw']}"
            if re.search(a.only, name) and os.path.exists(os.path.join(a.tests, row["file"])):
                records = run(row, a)
                rows.append(summary(name + ("+" + row["env"].rpartition("=")[2] if row["env"] else ""), f"{row['hw']} {row['env']}", records, known))
                print(rows[-1].name, rows[-1].cases, rows[-1].with_findings, dict(rows[-1].codes), flush=True, file=sys.stderr)
    return int(show(rows) > 0)


if __name__ == "__main__":
    sys.exit(main())
