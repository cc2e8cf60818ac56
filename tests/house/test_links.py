"""Rooms of interp link as they include: a room's symbols are its own, or of a room that it may include."""

import os
import pathlib
import re
import subprocess

from test_includes import COMPILE, ROOMS, ROOT

BUILD = pathlib.Path(os.environ["PALLASIM"]).parents[1] if "PALLASIM" in os.environ else ROOT / "build"
ROOM_TARGET = re.compile(r"^pallasim_room\(([^)]*)\)", re.M)


def declared():
    """Room -> rooms that its library links, as interp/CMakeLists.txt says."""
    lines = (m.split() for m in ROOM_TARGET.findall((ROOT / "interp" / "CMakeLists.txt").read_text()) if "$" not in m)
    return {room: set(others) for room, *others in lines}


def symbols(room, inner=""):
    """What the objects of a room, or of a room in it, define, and what they need: name -> an object that does."""
    of_room = BUILD / "interp" / "CMakeFiles" / f"pallasim_interp_{room}.dir"
    together = f"Unity/unity_in_src_{room}_" + (f"{inner}_" if inner else "")  # cmake/together.cmake
    alone = f"src/{room}/" + (f"{inner}/" if inner else "")
    objects = sorted(o for o in of_room.rglob("*.o") if str(o.relative_to(of_room)).startswith((together, alone)))
    assert objects, f"no objects of {room} in {BUILD}: build first"
    defined, needed = {}, {}
    path = ""
    for line in subprocess.run(["nm", "-C", *objects], text=True, capture_output=True, check=True).stdout.splitlines():
        if line.endswith(".o:"):
            path = pathlib.Path(line[:-1]).name
        elif len(line) > 19:
            kind, name = line[17], line[19:]
            if kind == "U":
                needed.setdefault(name, path)
            elif kind in "TDBR":
                defined.setdefault(name, path)
    return defined, needed


def crossings(found, rooms):
    """Needs of a room that a room defines which it may not use."""
    homes = {name: room for room, (defined, _) in found.items() for name in defined}
    return [
        f"{room}/{path} needs {name} of {homes[name]}"
        for room, (_, needed) in found.items()
        for name, path in needed.items()
        if homes.get(name, room) not in rooms[room]
    ]


def test_libraries_link_what_rooms_include():
    assert declared() == {room: others - {room} for room, others in ROOMS.items()}


def test_no_symbol_against_the_arrows():
    broken = crossings({room: symbols(room) for room in ROOMS}, ROOMS)
    assert not broken, "\n".join(broken)


def test_no_symbol_against_the_arrows_of_the_compiler():
    broken = crossings({inner: symbols("compile", inner) for inner in COMPILE}, COMPILE)
    assert not broken, "\n".join(broken)


def test_a_crossing_is_seen():
    found = {"plan": ({"a()": "p.o"}, {"b()": "p.o"}), "ops": ({"b()": "o.o"}, {"a()": "o.o"})}
    assert crossings(found, {"plan": {"plan"}, "ops": {"plan", "ops"}}) == ["plan/p.o needs b() of ops"]


def test_arrows_are_of_the_build():
    # Were the objects not looked at, nothing would be found: launch needs the compiler.
    assert symbols("launch")[1].keys() & symbols("compile")[0].keys()
