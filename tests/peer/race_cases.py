#!/usr/bin/env python3
"""JAX's own tests of what its GPU interpreter says of races, with the emulator in its place: expected and found, case by case.

  PEER_TESTS=... PEER_OVERLAY=... race_cases.py OUTDIR --harness DIR [--only REGEX] [-k EXPRESSION] [--chip CHIP] [--jobs N]

DIR is the folder of the harness (peer_base.py, peer_hw.py); the tests are those of the newest JAX, and so is the JAX of this Python. Each
file's kernels run on its chip in checked runs; copies narrower than the chip's are warned of (the tests are for an interpreter that has no
such rules). A case asks whether races were found: what it expects is read off its assertion. A case that asserts nothing expects none, one
that expects an exception with JAX's own words, or takes one, expects a hazard. One line per test function and, of the cases that are not as
expected, one per case, with the codes of the findings; OUTDIR keeps FILE@HARDWARE.jsonl (which passing.py reads) and FILE@HARDWARE.races,
an object per case. The exit status is 1 if a hazard was missed or said falsely.
"""
from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

FILES = {"gpu_pallas_interpret_tcgen05_race_detection_test.py": "gpu:sm_100a", "gpu_pallas_interpret_cluster_barrier_test.py": "gpu:sm_90a",
         "gpu_pallas_interpret_race_detection_test.py": "gpu:sm_90a"}
HARDWARE = {"gpu-b200": "gpu:sm_100a", "gpu-h100": "gpu:sm_90a"}


# --- inside of pytest -----------------------------------------------------------------------------------------------
class Verdict(int):
    """An answer to "were races found?" that is known again in an assertion."""


_case: dict[str, Any] = {}


def lower(ctx: Any, *in_nodes: Any, primitive: str, **params: Any) -> Any:
    """The emulator on the test's chip; rules of the chip as RACE_RULES says."""
    from pallasim import _interpret, _lowering, testing

    options = dataclasses.replace(testing._options(), findings="collect", **({"rules": r} if (r := os.environ.get("RACE_RULES")) else {}))
    return _lowering.lower(ctx, *in_nodes, primitive=primitive, options=_interpret.merge(options, params.get("interpret")), **params)


def launch_count() -> int:
    from pallasim import testing

    return testing.launch_count()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: Any) -> None:
    if "PEER_RACES" not in os.environ:
        return
    import unittest

    from jax._src import test_util
    from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call

    from pallasim import _interpret

    test_util.device_under_test = lambda: "cpu"  # the tests are skipped elsewhere

    class Found:
        @property
        def races_found(self) -> Verdict:
            return Verdict(_interpret.Races().races_found)

    interpret_pallas_call.get_races = Found

    def wrap(name: str, expected: Any) -> None:
        original = getattr(unittest.TestCase, name)

        def asserts(self: Any, first: Any, *rest: Any, **kwargs: Any) -> Any:
            if isinstance(first, Verdict):
                _case["expected"] = bool(expected(*rest))
                first = bool(first)
            return original(self, first, *rest, **kwargs)

        setattr(unittest.TestCase, name, asserts)

    wrap("assertTrue", lambda *_: True)
    wrap("assertFalse", lambda *_: False)
    wrap("assertEqual", lambda second, *_: second)
    raises = unittest.TestCase.assertRaisesRegex

    def assert_raises_regex(self: Any, *args: Any, **kwargs: Any) -> Any:
        _case["expected"] = _case["words"] = True
        return raises(self, *args, **kwargs)

    unittest.TestCase.assertRaisesRegex = assert_raises_regex


def pytest_runtest_setup(item: Any) -> None:
    _case.clear()
    _case["first"] = launch_count()


def pytest_runtest_makereport(item: Any, call: Any) -> None:
    if call.when != "call" or "PEER_RACES" not in os.environ:
        return
    import pallasim

    runs = pallasim.runs()[-(launch_count() - _case["first"]):] if launch_count() > _case["first"] else ()
    codes = collections.Counter(f.code for r in runs for f in r.findings)
    skipped = call.excinfo is not None and call.excinfo.typename in ("SkipTest", "Skipped")
    stopped = any(f.severity == "error" for r in runs for f in r.findings)
    record = {"id": item.nodeid.rpartition("/")[2], "expected": _case.get("expected", stopped), "codes": dict(sorted(codes.items())),
              "stopped": stopped, "failed": "" if call.excinfo is None or skipped or "words" in _case else str(call.excinfo.value).strip()[:300],
              "skipped": skipped, "launches": len(runs), "reports": [str(f) for r in runs for f in r.findings]}
    with open(os.environ["PEER_RACES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


# --- outside --------------------------------------------------------------------------------------------------------
def verdict(record: dict[str, Any]) -> str:
    """found, missed, false, quiet, skipped."""
    raced = record["stopped"] or any(re.match("PS-(RACE|PAR)-", code) for code in record["codes"])
    if record["skipped"]:
        return "skipped"
    return ("found" if raced else "missed") if record["expected"] else ("false" if raced else "quiet")


def run(file: str, hardware: str, a: argparse.Namespace) -> list[dict[str, Any]]:
    base = a.outdir / f"{file}@{hardware.replace(':', '-')}"
    for suffix in (".jsonl", ".races"):
        base.with_name(base.name + suffix).unlink(missing_ok=True)
    env = dict(os.environ, JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES="1", TF_CPP_MIN_LOG_LEVEL="3", PEER_RACES=f"{base}.races", RACE_RULES=a.rules)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [a.harness, str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.path.join(a.harness, "pytest.ini"), "--rootdir", a.tests, "--tb=short", "--timeout=120",
               "-p", "peer_base", "-p", "peer_hw", "-p", "race_cases", f"--hw={hardware}", "--executor=race_cases:lower", f"--peer-log={base}.jsonl"]
    command += ["-n", a.jobs] if a.jobs != "0" else []
    command += ["-k", a.k] if a.k else []
    with open(f"{base}.out", "w", encoding="utf-8") as out:
        subprocess.run([*command, os.path.join(a.tests, file)], env=env, stdout=out, stderr=subprocess.STDOUT, cwd=a.outdir)
    log = pathlib.Path(f"{base}.races")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def codes_of(records: list[dict[str, Any]]) -> str:
    counts = collections.Counter(code for r in records for code in r["codes"])
    return ", ".join(f"{code} {n}" for code, n in sorted(counts.items()))


def show(file: str, hardware: str, records: list[dict[str, Any]]) -> collections.Counter[str]:
    """Prints the table of one file; returns how many cases there are of each verdict."""
    total: collections.Counter[str] = collections.Counter()
    print(f"\n{file} @ {hardware}\n{'':78} {'found':>6} {'missed':>6} {'quiet':>6} {'false':>6} {'skip':>5} {'failed':>6}  findings")
    tests: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for r in records:
        tests[re.sub(r"(?<=\w)(\d+|_\(.*|\[.*)$", "", r["id"].rpartition("::")[2])].append(r)
    for name, cases in tests.items():
        n = collections.Counter(map(verdict, cases))
        failed = sum(bool(r["failed"]) for r in cases)
        total += n
        total["failed"] += failed
        print(f"{name:78.78} {n['found']:6} {n['missed']:6} {n['quiet']:6} {n['false']:6} {n['skipped']:5} {failed:6}  {codes_of(cases)}")
    for r in records:
        if verdict(r) in ("missed", "false") or r["failed"]:
            print(f"  {verdict(r).upper()} {r['id'].rpartition('::')[2]}: {codes_of([r]) or 'nothing'}{'; ' + r['failed'].splitlines()[0] if r['failed'] else ''}")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--harness", default=os.environ.get("PEER_HARNESS", ""), required="PEER_HARNESS" not in os.environ)
    parser.add_argument("--tests", default=os.environ.get("PEER_TESTS", ""))
    parser.add_argument("--only", default=".")
    parser.add_argument("-k", default="", help="pytest's")
    parser.add_argument("--chip", choices=HARDWARE, help="instead of the file's")
    parser.add_argument("--rules", default="warn", help="of the chip; error: what it refuses does not run")
    parser.add_argument("--jobs", default="0")
    a = parser.parse_args()
    a.outdir, a.harness = a.outdir.absolute(), os.path.abspath(a.harness)
    a.outdir.mkdir(parents=True, exist_ok=True)
    total: collections.Counter[str] = collections.Counter()
    for file, hardware in FILES.items():
        if re.search(a.only, file):
            hardware = HARDWARE.get(a.chip, hardware)
            total += show(file, hardware, run(file, hardware, a))
    cases = sum(n for name, n in total.items() if name not in ("failed", "skipped"))
    print(f"\n{cases} cases: {total['found']} of {total['found'] + total['missed']} hazards found, {total['missed']} missed, {total['false']} said falsely "
          f"of {total['quiet'] + total['false']}; {total['failed']} fail, {total['skipped']} skipped")
    return int(total["missed"] + total["false"] + total["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
