"""A breakpoint on every line of the lessons' kernels: `python bench/debugger_lines.py [lesson_04 ...]`.

Each launch of each lesson is recorded; every line that has operations gets a breakpoint, which has to be at that line and, where the run comes there, to stop.
"""
from __future__ import annotations

import contextlib
import io
import json
import linecache
import pathlib
import re
import runpy
import subprocess
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


def check(path: pathlib.Path) -> tuple[int, int, list[str], list[str]]:
    with zipfile.ZipFile(path) as archive:
        launches = json.loads(archive.read("manifest.json"))["launches"]
        texts = {m: archive.read(m).decode() for m in {launch["module"] for launch in launches}}
    lines = stopped = 0
    wrong, missed, seen = [], [], set()
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
                else:
                    why = "an error comes first" if launch.get("error") else "no thread runs it"
                    missed.append(f"not come to, {why}: {pathlib.Path(file).name}:{line}: {linecache.getline(file, line).strip()}")
                c.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    return lines, stopped, wrong, missed


def lesson(path: pathlib.Path) -> tuple[int, int]:
    recording = pallasim.Recording()
    sys.argv[1:], arguments = [], sys.argv[1:]
    try:
        with recording, contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv[1:] = arguments
    with tempfile.TemporaryDirectory() as folder:
        capsule = pathlib.Path(folder) / "lesson.capsule"
        recording.save(capsule)
        lines, stopped, wrong, missed = check(capsule)
    print(f"{path.stem}: {lines} lines, {stopped} stopped, {lines - stopped - len(wrong)} not come to", *wrong, *missed, sep="\n  ", flush=True)
    return lines, stopped


def main() -> None:
    wanted = [path for path in sorted((ROOT / "examples").glob("lesson_*.py")) if not sys.argv[1:] or any(path.name.startswith(a) for a in sys.argv[1:])]
    all_lines = all_stopped = 0
    for path in wanted:
        if len(wanted) > 1 and "jax_num_cpu_devices" in path.read_text():  # which has to be said before JAX is used
            done = subprocess.run([sys.executable, __file__, path.stem], check=True, stdout=subprocess.PIPE, text=True)
            said, _, last = done.stdout.rstrip().rpartition("\n")
            print(said, flush=True)
            lines, stopped = (int(word) for word in last.split() if word.isdigit())
        else:
            lines, stopped = lesson(path)
        all_lines += lines
        all_stopped += stopped
    print(f"{all_lines} lines, {all_stopped} stopped")


if __name__ == "__main__":
    main()
