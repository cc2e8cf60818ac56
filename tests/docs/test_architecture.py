"""The page on the architecture names files and folders that are there, and all rooms of the house."""
from __future__ import annotations

import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "house"))
import test_includes  # noqa: E402

PAGE = (ROOT / "docs" / "architecture.md").read_text()
# What it says by itself, without what it quotes.
TEXT = re.sub(r"<!-- report.*?-->\n```\n.*?```\n", "", PAGE, flags=re.S)
FOLDERS = ("ir", "memory_model", "hw_models", "interp", "trace", "capsule", "cli", "python", "tests", "docs", "scripts")


def house() -> list[str]:
    files = [p.relative_to(ROOT).as_posix() for f in FOLDERS for p in (ROOT / f).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return files + sorted({"/".join(f.split("/")[:i]) + "/" for f in files for i in range(1, f.count("/") + 1)})


def named(text: str) -> set[str]:
    words = {w for code in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)) for w in code.split()}
    return {w for w in words if re.fullmatch(r"[\w*.-]+(/[\w*.-]*)*", w) and ("/" in w or w.endswith((".cc", ".h", ".def", ".py", ".csv", ".md"))) and not w.startswith("build/")}


def missing(text: str) -> list[str]:
    there = house()
    return sorted(w for w in named(text) if not any(fnmatch.fnmatch(f"/{f}", f"*/{w}") or f"/{f}".endswith(f"/{w}/") for f in there))


def test_what_it_names_is_there():
    assert len(named(TEXT)) > 30 and missing(TEXT) == []


def test_what_is_not_there_is_found():
    assert missing("`interp/src/compile/compiler.cc` and `ops/` and `compiler.cc`") == ["compiler.cc", "interp/src/compile/compiler.cc"]


def test_it_shows_every_room_and_folder():
    drawing = TEXT.split("```")[1]
    rooms = {f"{room}/" for room in test_includes.ROOMS} | {f"{folder}/" for folder in test_includes.FOLDERS}
    assert [r for r in sorted(rooms) if not re.search(rf"(?<!\w){re.escape(r)}", drawing)] == []
