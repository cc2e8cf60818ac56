"""The project of docs/embedding.md, built with what an installation has and nothing of the build folder."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["PALLASIM"]).parents[1] if "PALLASIM" in os.environ else ROOT / "build"
PAGE = (ROOT / "docs" / "embedding.md").read_text()


def block(head: str) -> str:
    found = re.findall(rf"^{re.escape(head)}\n(.*?)^```$", PAGE, re.S | re.M)
    assert len(found) == 1, head
    return found[0]


def run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PALLASIM")} | variables
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The installation, as the page says it is made."""
    at = tmp_path_factory.mktemp("embedding") / "prefix"
    lines = re.findall(r"^cmake --install .*$", PAGE, re.M)
    assert len(lines) == 2
    for line in lines:
        run(*line.replace("--install build", f"--install {BUILD}").replace("/opt/pallasim", str(at)).split())
    return at


def project(folder, **files):
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(files.get("cmake", block("```cmake")))
    (folder / "main.cc").write_text(block("```cpp"))
    return folder


def kernels_that_ran(program, *arguments):
    """The shared objects of kernels that the loader opened, as it tells them."""
    told = run(program, *arguments, LD_DEBUG="libs").stderr
    return re.findall(r"calling init: (\S*libpallasim_kernels_\w+\.so)", told)


def faster_isas():
    with open("/proc/cpuinfo") as f:
        return "avx2" in f.read().split()


def test_the_project_of_the_page_builds_and_prints_what_it_shows(prefix, tmp_path):
    source = project(tmp_path / "double")
    run("cmake", "-S", source, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    program = tmp_path / "build" / "double"
    done = run(program)
    assert (done.stdout, done.stderr) == (block("<!-- output: build/double -->\n```"), "")
    used = (tmp_path / "build" / "build.ninja").read_text()
    assert str(prefix / "lib") in used and f"{BUILD}/" not in used.replace(str(tmp_path), "")
    if not faster_isas():
        return
    loaded = kernels_that_ran(program)
    assert loaded and {os.path.dirname(f) for f in loaded} == {str(prefix / "lib")}


def test_a_program_takes_the_kernels_along(prefix, tmp_path):
    """The installed program in bin finds them in ../lib; so does one that was moved, with all of its folder."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(prefix, moved)
    kernel = ROOT / "tests" / "pass" / "ops" / "rev.psir"
    assert run(moved / "bin" / "pallasim", "run", kernel).stdout == run(prefix / "bin" / "pallasim", "run", kernel).stdout
    if faster_isas():
        loaded = kernels_that_ran(moved / "bin" / "pallasim", "run", kernel)
        assert loaded and {os.path.realpath(os.path.dirname(f)) for f in loaded} == {str(moved / "lib")}


@pytest.mark.skipif(not faster_isas(), reason="a CPU that has no use for them")
def test_a_program_without_the_kernels_says_so(prefix, tmp_path):
    program, kernel = prefix / "bin" / "pallasim", ROOT / "tests" / "pass" / "ops" / "rev.psir"
    told, usual = run(program, "run", kernel, PALLASIM_KERNELS_DIR=str(tmp_path)), run(program, "run", kernel)
    assert "libpallasim_kernels_avx2.so was not found: kernels run slower" in told.stderr and not usual.stderr
    assert told.stdout == usual.stdout


def test_another_minor_version_is_refused(prefix, tmp_path):
    source = project(tmp_path / "newer", cmake=block("```cmake").replace("pallasim 0.1 ", "pallasim 0.2 "))
    done = subprocess.run(["cmake", "-S", source, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True)
    assert done.returncode and "version: 0.1.0" in done.stderr


def test_the_project_is_as_short_as_it_is_said_to_be():
    main = block("```cpp").split("int main()")[1]
    assert len(main.splitlines()) <= 20


def test_every_public_header_is_installed(prefix, tmp_path):
    """With what it includes: here the last ones come first."""
    headers = sorted(p.relative_to(prefix / "include") for p in (prefix / "include").rglob("*.h"))
    assert {p.parts[1] for p in headers} == {"ir", "memory", "hw", "interp", "trace"}
    (tmp_path / "all.cc").write_text("".join(f"#include <{p}>\n" for p in reversed(headers)) + "int main() {}\n")
    run("c++", "-std=c++20", "-fsyntax-only", f"-I{prefix / 'include'}", tmp_path / "all.cc")
