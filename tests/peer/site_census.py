#!/usr/bin/env python3
"""Counts the kernels of JAX's Pallas suites that become IR text.

  PEER_TESTS=... PEER_OVERLAY=... site_census.py OUTDIR --harness DIR [--only REGEX] [--every K] [--timeout S] [--jobs N]

DIR is the folder of the harness (peer_base.py, peer_hw.py, matrix.csv). Every test file runs with the executor
`pallasim.testing:lower_only`, which captures each pallas_call and mpmd_map that is reached, and requires that the text
parses, verifies and prints back byte for byte. Tests fail (nothing runs); only the sites count. A table of sites per
file and of failures by reason is printed; OUTDIR keeps one JSON line per site.
"""
from __future__ import annotations

import argparse
import collections
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time


def rows(harness: str, tests: str) -> list[dict[str, str]]:
    """The matrix of (file, hardware, devices, environment), completed by the files that it leaves out."""
    with open(os.path.join(harness, "matrix.csv"), newline="") as f:
        out = list(csv.DictReader(f))
    have = {r["file"] for r in out}
    for folder, _, names in os.walk(tests):
        for n in sorted(names):
            file = os.path.relpath(os.path.join(folder, n), tests)
            if n.endswith("_test.py") and file not in have:
                hw = "gpu:sm_90a" if n.startswith(("gpu", "mgpu", "mosaic")) else "tpu:v6e" if n.startswith("tpu") else "none"
                out.append({"file": file, "hw": hw, "devices": "4" if "distributed" in n else "1", "env": ""})
    return out


def run(row: dict[str, str], a: argparse.Namespace, log: str) -> tuple[float, bool]:
    """Runs one file; returns wall time and whether it was cut."""
    env = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", JAX_NUM_CPU_DEVICES=row["devices"], PALLASIM_SITES=log)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [a.harness, os.environ.get("PYTHONPATH", "")]))
    for pair in filter(None, row["env"].split(";")):
        k, _, v = pair.partition("=")
        env[k] = v
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.path.join(a.harness, "pytest.ini"), "--rootdir", a.tests, "-p", "peer_base",
               "-p", "peer_hw", f"--hw={row['hw']}", "--executor=pallasim.testing:lower_only", "--tb=no", "--timeout=60",
               "--timeout-method=signal", os.path.join(a.tests, row["file"])]
    if a.every > 1:
        command.append(f"--peer-every={a.every}")
    begin, cut = time.time(), False
    with open(log + ".out", "w") as out:
        p = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, cwd=a.outdir, start_new_session=True)
        try:
            p.wait(timeout=a.timeout)
        except subprocess.TimeoutExpired:
            cut = True
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
    return time.time() - begin, cut


def reason(record: dict[str, object]) -> str:
    """The failure without its particulars."""
    text = str(record.get("error", "")).strip().splitlines()
    line = text[0] if text else "unknown"
    return f"{record.get('stage')}: {re.sub(r'%?[0-9]+', 'N', line)[:150]}"


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("outdir")
    p.add_argument("--harness", default=os.environ.get("PEER_HARNESS", ""), required="PEER_HARNESS" not in os.environ)
    p.add_argument("--tests", default=os.environ.get("PEER_TESTS", ""))
    p.add_argument("--only", default=".")
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--timeout", type=int, default=600)
    a = p.parse_args()
    a.harness, a.outdir = os.path.abspath(a.harness), os.path.abspath(a.outdir)
    os.makedirs(a.outdir, exist_ok=True)
    total, good = collections.Counter(), collections.Counter()
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    externs: collections.Counter[str] = collections.Counter()
    texts: set[str] = set()
    spent = operations = 0
    print(f"{'file @ hardware':64} {'sites':>6} {'ok':>6}  seconds")
    for row in rows(a.harness, a.tests):
        key = f"{row['file']}@{row['hw']}"
        if not re.search(a.only, key):
            continue
        log = os.path.join(a.outdir, re.sub(r"[^\w.]+", "-", key + row["env"]) + ".jsonl")
        if os.path.exists(log):
            os.remove(log)
        wall, cut = run(row, a, log)
        records = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
        for r in records:
            total[key] += 1
            good[key] += bool(r["ok"])
            spent, operations = spent + r.get("us", 0), operations + r.get("ops", 0)
            texts.add(r.get("hash", ""))
            externs.update(r.get("externs", ()))
            if not r["ok"]:
                reasons[reason(r)].append(f"{key} {r['test']}")
        print(f"{key:64} {total[key]:6} {good[key]:6}  {wall:.0f}{' CUT' if cut else ''}", flush=True)
    n, ok = sum(total.values()), sum(good.values())
    print(f"{'total':64} {n:6} {ok:6}  {100 * ok / max(n, 1):.2f} %, {len(texts)} different texts, {1e-3 * spent / max(operations, 1) * 100:.2f} ms per 100 lines")
    for text, where in sorted(reasons.items(), key=lambda kv: -len(kv[1])):
        print(f"{len(where):6}  {text}\n        {where[0]}")
    print("extern:", dict(externs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
