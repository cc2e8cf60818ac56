#!/usr/bin/env python3
"""Mutants of the kernels in `kernels/`: what they are, and whether a checked run finds them.

    python tests/mutants/run.py [--kernel NAME] [--operator NAME] [--sample N] [--json FILE] [--text FILE] [--again FILE]

`--draw FILE` writes a sample for test_mutants.py; `--again FILE` takes what mutants are from an earlier `--json` and runs only the checks anew; `--show NAME` prints one mutant's source.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from mutation import pool, table  # noqa: E402
from mutation.source import all_mutants  # noqa: E402


def executor(address: str | None) -> Any:
    if not address:
        return None
    import distributed

    return distributed.Client(address).get_executor()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", action="append", help="only of this kernel, or of those whose names begin so")
    parser.add_argument("--operator", action="append")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth mutant")
    parser.add_argument("--name", action="append", help="this mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=180, help="per mutant")
    parser.add_argument("--dask", metavar="ADDRESS", help="by the workers of this scheduler, in place of processes of this machine")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--known", type=pathlib.Path, help="answers of an earlier --json, which are not asked for again")
    parser.add_argument("--draw", type=pathlib.Path)
    parser.add_argument("--show", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="only the names")
    args = parser.parse_args()
    mutants = [m for m in all_mutants() if (not args.kernel or any(m.kernel.startswith(k) for k in args.kernel))
               and (not args.operator or m.operator in args.operator) and (not args.name or m.name in args.name)][::args.sample]
    if args.show:
        print(next(m for m in mutants if m.name == args.show).source)
        return 0
    if args.list:
        print("\n".join(m.name for m in mutants))
        return 0
    answers, begin = json.loads(args.known.read_text()) if args.known else [], time.monotonic()
    asked = {a["name"] for a in answers}
    mutants = [m for m in mutants if m.name not in asked]
    known = {a["name"]: a for a in json.loads(args.again.read_text())} if args.again else {}
    if known:
        mutants = [m for m in mutants if m.name in known]
    names = [m.name for m in mutants if not known or known[m.name]["verdict"]["kind"] not in ("stillborn", "refused")]
    answers += [known[m.name] for m in mutants if m.name not in set(names)]
    for a in pool.run(names, "checked" if known else "", args.jobs, args.seconds, executor(args.dask)):
        if known and a["verdict"]["kind"] == "unknown":
            a["verdict"] = known[a["name"]]["verdict"]
        answers.append(a)
        if len(answers) % 25 == 0:
            print(f"{len(answers)} of {len(mutants) + len(asked)}, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps(sorted(answers, key=lambda a: a["name"])))
    answers.sort(key=lambda a: a["name"])
    if args.json:
        args.json.write_text(json.dumps(answers))
    rows = table.rated(answers)
    text = table.table(rows) + "\n\n" + table.lists(rows) + "\n"
    if args.draw:
        args.draw.write_text("".join(f"{r['name']} {r['kind']}\n" for r in table.sample(rows)))
    if args.text:
        args.text.write_text(text)
        print(table.table(rows))
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
