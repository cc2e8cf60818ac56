"""Dependencies point one way: which folder of the project, and which room of interp, may include which."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)

# Folder -> folders whose public headers (pallasim/…) it may include.
FOLDERS = {
    "ir": {"ir"},
    "memory_model": {"ir", "memory"},
    "hw_models": {"ir", "memory", "hw"},
    "interp": {"ir", "memory", "hw", "interp"},
    "trace": {"ir", "memory", "hw", "interp", "trace"},
    "capsule": {"ir", "memory", "hw", "interp", "capsule"},
    "cli": {"ir", "memory", "hw", "interp", "trace", "capsule"},
    "python": {"ir", "memory", "hw", "interp", "trace", "capsule"},
}
# Room of interp -> rooms that it may include.
ROOMS = {
    "plan": {"plan"},
    "analysis": {"plan", "analysis"},
    "passes": {"plan", "analysis", "passes"},
    "compile": {"plan", "analysis", "passes", "compile"},
    "ops": {"plan", "ops"},
    "engine": {"plan", "ops", "engine"},
    "report": {"plan", "analysis", "ops", "engine", "report"},
    "timing": {"plan", "ops", "engine", "timing"},
    "launch": {"plan", "analysis", "passes", "compile", "ops", "engine", "report", "timing", "launch"},
}
# Room of compile -> rooms of it that it may include.
COMPILE = {
    "values": {"values"},
    "views": {"values", "views"},
    "lower": {"values", "views", "lower"},
    "driver": {"values", "views", "lower", "driver"},
}


def sources(folder):
    return [p for suffix in ("*.h", "*.cc") for p in sorted((ROOT / folder).rglob(suffix))]


def includes(path):
    return INCLUDE.findall(path.read_text())


def crossing(path, target):
    """The room or folder rule that `path` breaks by including `target`, or None."""
    folder = path.relative_to(ROOT).parts[0]
    if target.startswith("pallasim/"):
        tree = target.split("/")[1]
        return None if tree in FOLDERS[folder] else f"{folder} includes pallasim/{tree}"
    found = (path.parent / target).resolve()
    if not found.is_relative_to(ROOT / folder):
        return f"{folder} includes a private header of another folder"
    if not path.is_relative_to(ROOT / "interp" / "src"):
        return None
    (room, inner, *_), (other, other_inner, *_) = (p.relative_to(ROOT / "interp" / "src").parts for p in (path, found))
    if room == other == "compile":
        return None if other_inner in COMPILE[inner] else f"compile/{inner} includes compile/{other_inner}"
    return None if other in ROOMS[room] else f"{room} includes {other}"


def test_folders_and_rooms():
    broken = [f"{p.relative_to(ROOT)}: {why} ({t})" for f in FOLDERS for p in sources(f) for t in includes(p) if (why := crossing(p, t))]
    assert not broken, "\n".join(broken)


def test_every_room_is_known():
    rooms = {p.name for p in (ROOT / "interp" / "src").iterdir() if p.is_dir()}
    assert rooms == set(ROOMS)
    assert not list((ROOT / "interp" / "src").glob("*.*"))
    assert {p.name for p in (ROOT / "interp" / "src" / "compile").iterdir()} == set(COMPILE)


def test_a_crossing_is_seen():
    ops = ROOT / "interp" / "src" / "ops" / "sync.cc"
    assert crossing(ops, "../engine/engine.h") == "ops includes engine"
    assert crossing(ops, "../compile/compiler.h") == "ops includes compile"
    values = ROOT / "interp" / "src" / "compile" / "values" / "emitter.cc"
    assert crossing(values, "../lower/lowering.h") == "compile/values includes compile/lower"
    assert crossing(values, "../../plan/plan.h") is None
    assert crossing(ROOT / "capsule" / "src" / "replay.cc", "pallasim/trace/perfetto.h") == "capsule includes pallasim/trace"
    assert crossing(ROOT / "memory_model" / "src" / "async.cc", "pallasim/interp/launch.h") == "memory_model includes pallasim/interp"
