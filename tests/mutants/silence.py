#!/usr/bin/env python3
"""Every finding of a checked run on what is right: lessons, kernels of bench, those of kernels/; each with its reason from silence.txt.

    python tests/mutants/silence.py [lessons] [bench] [kernels]

Exit status 1 where one has no reason, or a reason has no finding any more.
"""
from __future__ import annotations

import fnmatch
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REASONS = HERE / "silence.txt"

LESSON = """
import json, runpy, sys
import pallasim
seen = []
runpy.run_path(sys.argv[1], run_name="__main__")
for r in pallasim.runs():
    for f in r.findings:
        print("finding", json.dumps([r.kernel, f.code, f.severity, f.line, f.message]), flush=True)
"""

BENCH = """
import json, sys
sys.path.insert(0, sys.argv[1])
import jax
import pallasim
from kernels import all_cases
import compare
for name, case in all_cases().items():
    chips = compare.CHIPS
    pallasim.findings()
    with pallasim.emulate(chips.get(case.machine, case.machine), detect_races=True, findings="collect", progress=False):
        jax.block_until_ready(jax.jit(case.build(False))(*case.arguments()))
    print("ran", name, flush=True)
    for f in pallasim.findings():
        print("finding", json.dumps([name, f.code, f.severity, f.line, f.message]), flush=True)
"""

RIGHT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from mutation import checked, source
for name, path in source.kernels().items():
    print("ran", name, flush=True)
    for s in checked.check(path):
        print("finding", json.dumps([name, s.code, s.severity, s.line, s.message]), flush=True)
"""


def findings(script: str, *args: str) -> list[list]:
    """What the script prints of findings: kernel, code, severity, line, message; of each once."""
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if "lesson" not in args[0]:
        env |= {"JAX_NUM_CPU_DEVICES": "4"}
    done = subprocess.run([sys.executable, "-c", script, *args], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{args}: {done.stderr[-2000:]}")
    found = [json.loads(line.removeprefix("finding ")) for line in done.stdout.splitlines() if line.startswith("finding ")]
    return [f for i, f in enumerate(found) if f[:4] not in [g[:4] for g in found[:i]]]


def reasons() -> dict[str, str]:
    """Pattern of "where kernel code" -> reason."""
    lines = [line for line in REASONS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {pattern.strip(): reason.strip() for pattern, _, reason in (line.partition("#") for line in lines)}


def main() -> int:
    what, known, used, bad = sys.argv[1:] or ["lessons", "bench", "kernels"], reasons(), set(), 0
    sources = []
    if "lessons" in what:
        sources += [(p.stem.split("_", 2)[0] + "_" + p.stem.split("_")[1], LESSON, (str(p),)) for p in sorted((ROOT / "examples").glob("lesson_*.py"))]
    if "bench" in what:
        sources.append(("bench", BENCH, (str(ROOT / "bench"),)))
    if "kernels" in what:
        sources.append(("kernels", RIGHT, (str(HERE),)))
    for where, script, args in sources:
        for kernel, code, severity, line, message in findings(script, *args):
            key = f"{where} {kernel} {code}"
            pattern = next((p for p in known if fnmatch.fnmatchcase(key, p)), None)
            used.add(pattern)
            bad += pattern is None
            print(f"{key} ({severity}, line {line}): {message[:110]}\n    {known[pattern] if pattern else 'NO REASON'}", flush=True)
    stale = [p for p in known if p not in used and p.split()[0].startswith(tuple(s[0] for s in sources))]
    for p in stale:
        print(f"a reason without a finding: {p}")
    print(f"{bad} findings without a reason, {len(stale)} reasons without a finding")
    return 1 if bad or stale else 0


if __name__ == "__main__":
    sys.exit(main())
