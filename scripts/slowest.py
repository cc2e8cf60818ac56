#!/usr/bin/env python3
"""The slowest tests of a run of test.sh, from the times that it keeps in build/logs: scripts/slowest.py [N] [FOLDER...] prints the N (50) slowest of ctest and of
pytest. A shard of a test program stands there with its cases, not as a whole."""

import pathlib
import sys
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "build" / "logs", ROOT / "build-newest-jax" / "logs"]


def times(path):
    """(seconds, name) of each case of a JUnit file."""
    for case in xml.parse(path).iter("testcase"):
        kind, name = case.get("classname", ""), case.get("name", "")
        yield float(case.get("time") or 0), name if kind in ("", name) else f"{kind}.{name}"


def runs(folder):
    """What a folder of logs holds: title -> the times of its cases."""
    shards = {path.stem: list(times(path)) for path in folder.glob("cases/*.xml")}
    for path in sorted(folder.glob("*.xml")):
        yield path, [(seconds, f"{name}: {case}") for t, name in times(path) for seconds, case in shards.get(name, [(t, "")])]


def main(arguments):
    count = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 50
    for folder in map(pathlib.Path, arguments or FOLDERS):
        for path, found in runs(folder):
            print(f"{path}: {len(found)} cases, {sum(t for t, _ in found):.1f} s")
            for seconds, name in sorted(found, reverse=True)[:count]:
                print(f"{seconds:9.2f} s  {name.removesuffix(': ')}")


if __name__ == "__main__":
    main(sys.argv[1:])
