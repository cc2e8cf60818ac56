#!/usr/bin/env python3
"""Writes the table of largest errors into docs/numerics.md, from a build with -DPALLASIM_BENCH=ON: numerics.py [BUILD].

The test `Accuracy.NoWorseThanTheTableSays` measures a part of the same arguments and fails where a figure is exceeded or a
function is missing.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "numerics.md"
TABLE = re.compile(r"\| function \|.*\n(?:\|.*\n)+")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    table = subprocess.run([build / "bench" / "arithmetic" / "kernels_ulp_table"], check=True, capture_output=True, text=True).stdout
    text = PAGE.read_text()
    assert TABLE.search(text), f"{PAGE} has no table"
    PAGE.write_text(TABLE.sub(lambda _: table, text))


if __name__ == "__main__":
    main()
