#!/usr/bin/env python3
"""Blocks of code that stand in two places: six lines and more that are equal but for spaces and comments.

Prints each with the reason why it is there twice (REASONS); with --check it exits with 1 where a block has none, or
where there are more than MOST.
"""
import pathlib
import re
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["ir", "memory_model", "hw_models", "interp", "trace", "capsule", "cli", "python/src"]
LINES, MOST = 6, 10
# Files of a pair -> why the block stands in both.
REASONS: dict[frozenset, str] = {}


def code_lines(path):
    """(line number, normalised text) of the lines that say something: no includes, no lone brackets, no `using`."""
    out = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = re.sub(r"\s+", " ", re.sub(r"//.*", "", line)).strip()
        if re.search(r"\w", text) and not re.match(r"#|using |namespace |}? ?// namespace|(private|public):$", text):
            out.append((number, text))
    return out


def blocks(files):
    """Yields (file, first, last, file, first, last) of maximal equal blocks."""
    lines = {f: code_lines(f) for f in files}
    places = defaultdict(list)
    for f, code in lines.items():
        for i in range(len(code) - LINES + 1):
            places[tuple(t for _, t in code[i:i + LINES])].append((f, i))
    seen = set()
    for at in places.values():
        for n, (f, i) in enumerate(at):
            for g, j in at[n + 1:]:
                if (f, i - 1, g, j - 1) in seen:  # inside of a block that is known
                    seen.add((f, i, g, j))
                    continue
                seen.add((f, i, g, j))
                a, b, n_lines = lines[f], lines[g], LINES
                while i + n_lines < len(a) and j + n_lines < len(b) and a[i + n_lines][1] == b[j + n_lines][1]:
                    n_lines += 1
                if f != g or i + n_lines <= j:
                    yield f, a[i][0], a[i + n_lines - 1][0], g, b[j][0], b[j + n_lines - 1][0]


def sources():
    files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in (".cc", ".h")]
    return sorted(files)


def main():
    found, without = 0, 0
    for f, a, b, g, c, d in sorted(blocks(sources())):
        found += 1
        f, g = f.relative_to(ROOT), g.relative_to(ROOT)
        reason = REASONS.get(frozenset({str(f), str(g)}))
        without += reason is None
        print(f"{f}:{a}-{b} and {g}:{c}-{d}: {reason or 'no reason'}")
    print(f"{found} blocks of {LINES} lines and more in two places, {without} without a reason")
    return 1 if "--check" in sys.argv[1:] and (without or found > MOST) else 0


if __name__ == "__main__":
    sys.exit(main())
