"""`pallasim eval`: the command line of docs/eval.md."""
from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from . import _eval

_SIZES = {"k": 10, "m": 20, "g": 30}


def size(text: str) -> int:
    """Bytes: a number, or with K, M or G."""
    unit = _SIZES.get(text[-1:].lower())
    try:
        return int(float(text[:-1]) * (1 << unit)) if unit else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: 500M, 8G") from None


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("pallasim eval", description="Judges a kernel's file: legal, right, findings, predicted seconds, what to change first. "
                                "Exit code 0: nothing is against it; 1: something is; 2: it was not asked.")
    p.add_argument("kernel", nargs="?", metavar="KERNEL.py", help="has the function `kernel`, which launches Pallas kernels")
    p.add_argument("--reference", metavar="REF.py", help="has `inputs()`, and `reference` of the same arguments; without it `inputs()` is in KERNEL.py")
    p.add_argument("--chip", "--machine", action="append", default=[], metavar="NAME", help="of `pallasim chips`; may be repeated")
    p.add_argument("--entry", default="kernel", metavar="NAME", help="the kernel's function (%(default)s)")
    p.add_argument("--reference-entry", default="reference", metavar="NAME", help="the reference's function (%(default)s)")
    p.add_argument("--json", action="store_true", help="the verdict as one JSON object")
    p.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS", help="of the reference, and of each chip (%(default)g)")
    p.add_argument("--memory-limit", type=size, default=8 << 30, metavar="SIZE", help="of the process (8G)")
    p.add_argument("--tolerance", type=float, metavar="PART", help="the largest difference, as a part of the reference's largest element")
    p.add_argument("--unchecked", action="store_true", help="do not look at every access of the run")
    p.add_argument("--predict-only", action="store_true", help="do not run it")
    p.add_argument("--trust", action="store_true", help="run it also where this system cannot hold what it may do")
    p.add_argument("--serve", type=int, metavar="PORT", help="answer requests on this port of 127.0.0.1 instead; 0: any port")
    p.add_argument("--jobs", type=int, default=1, metavar="N", help="of --serve: so many at a time (%(default)s)")
    p.add_argument("--queue", type=int, default=100, metavar="N", help="of --serve: so many may wait (%(default)s)")
    return p


def main(words: list[str]) -> int:
    parser = _parser()
    o = parser.parse_args(words)
    limits = _eval.Limits(o.time_limit, o.memory_limit, not o.unchecked, not o.predict_only, o.tolerance, o.trust)
    if o.serve is not None:
        from . import _eval_server

        return _eval_server.serve(o.serve, limits, o.jobs, o.queue)
    if o.kernel is None or not o.chip:
        parser.error("KERNEL.py and --chip are needed")
    try:
        kernel = _source(o.kernel, o.entry)
        reference = _source(o.reference, o.reference_entry) if o.reference else None
        verdict = _eval.evaluate(kernel, reference, o.chip, limits)
    except (OSError, ValueError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    print(json.dumps(verdict, indent=2) if o.json else text(verdict))
    return 0 if verdict["ok"] else 2 if verdict["status"] == "unconfined" else 1


def _source(path: str, entry: str) -> _eval.Source:
    with open(path, encoding="utf-8") as file:
        return _eval.Source(file.read(), os.path.abspath(path), entry)


def text(verdict: dict[str, Any]) -> str:
    from ._sweep_text import seconds

    lines = []
    for c in verdict["chips"]:
        lines.append(f"{c['chip']}: {c['status']}{': ' + c['reason'] if c['reason'] else ''}")
        if c["file"]:
            lines += [f"  at {c['file']}:{c['line']}", f"      {c['text'].strip()}"]
        if c["seconds"] is not None:
            lines.append(f"  predicted {seconds(c['seconds'])}, bound by {c['bound']}, next {c['next']}")
        if c["right"] is not None:
            off = "" if c["error"] is None else f": differs by at most {c['error']:.3g} of the largest element"
            lines.append(f"  {'right' if c['right'] else 'wrong'}{off}")
        lines += [f"  found: {f['severity']} {f['code']}: {f['message']}" for f in c["findings"]]
        if c["change"]:
            lines.append(f"  change first: {c['change']}")
    return "\n".join(lines)
