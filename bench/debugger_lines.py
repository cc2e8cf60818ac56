"""A breakpoint on every line of the lessons' kernels: `python bench/debugger_lines.py [lesson_04 ...]`.

Each launch of each lesson is recorded; every line that has operations gets a breakpoint, which has to be at that line and, where the run comes there, to stop.
"""
from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import runpy
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from dap_client import Client  # noqa: E402

import pallasim  # noqa: E402


def lines_of(text: str) -> set[tuple[str, int]]:
    """Places of the body's operations but constants, in every function around them."""
    locs = {int(n): (file, int(line), int(caller) if caller else -1)
            for n, file, line, caller in re.findall(r'^loc (\d+) \{file = "((?:[^"\\]|\\.)*)", line = (\d+).*?(?:caller = (\d+)[,}].*)?$', text, re.M)}
    found = set()
    for body in re.findall(r"^body .*?^\}", text, re.M | re.S):
        for line in body.splitlines():
            if " = constant " in line or not (at := re.search(r"@(\d+)(?: \{)?$", line)):
                continue
            n = int(at[1])
            while n >= 0 and n in locs:
                found.add(locs[n][:2])
                n = locs[n][2]
    return found


def check(path: pathlib.Path) -> tuple[int, int, list[str]]:
    with zipfile.ZipFile(path) as archive:
        launches = json.loads(archive.read("manifest.json"))["launches"]
        texts = {m: archive.read(m).decode() for m in {launch["module"] for launch in launches}}
    lines = stopped = 0
    wrong, seen = [], set()
    for number, launch in enumerate(launches, 1):
        if launch["module"] in seen:
            continue
        seen.add(launch["module"])
        wanted = lines_of(texts[launch["module"]])
        with Client() as c:
            try:
                c.start(path, launch=number)
            except AssertionError as e:
                wrong.append(f"launch {number}: {str(e)[:200]}")
                continue
            for file, line in sorted(wanted):
                lines += 1
                (b,) = c.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": line}])["breakpoints"]
                if not b["verified"] or b["line"] != line:
                    wrong.append(f"{file}:{line}: {b}")
                    continue
                c.ask("restart")
                stop = c.event("stopped")
                frame = c.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0]
                if frame.get("line") != line:
                    stop = c.go("continue", threadId=1)
                    frame = c.ask("stackTrace", threadId=stop["threadId"])["stackFrames"][0] if stop["reason"] == "breakpoint" else {}
                if stop["reason"] in ("breakpoint", "entry") and frame.get("line") == line:
                    stopped += 1
                elif stop["reason"] != ("exception" if launch.get("error") else "end"):
                    wrong.append(f"{file}:{line}: {stop['reason']} at {frame.get('line')}")
                c.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    return lines, stopped, wrong


def main() -> None:
    all_lines = all_stopped = 0
    for lesson in sorted((ROOT / "examples").glob("lesson_*.py")):
        if len(sys.argv) > 1 and not any(lesson.name.startswith(a) for a in sys.argv[1:]):
            continue
        recording = pallasim.Recording()
        sys.argv[1:], arguments = [], sys.argv[1:]
        try:
            with recording, contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(lesson), run_name="__main__")
        except Exception as e:  # lessons of several devices need a process of their own
            print(f"{lesson.stem}: {type(e).__name__}")
        finally:
            sys.argv[1:] = arguments
        if not recording.launches:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lesson.capsule"
            recording.save(path)
            lines, stopped, wrong = check(path)
        all_lines += lines
        all_stopped += stopped
        print(f"{lesson.stem}: {lines} lines, {stopped} stopped, {lines - stopped - len(wrong)} not come to", *wrong, sep="\n  ", flush=True)
    print(f"{all_lines} lines, {all_stopped} stopped")


if __name__ == "__main__":
    main()
