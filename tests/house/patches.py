"""How many source files the changes of tests/house/changes touch, and whether they work.

    tests/house/patches.py                       count, and check that every patch applies to HEAD
    tests/house/patches.py --prove [NAME...]     build each in a copy of HEAD under build/house, and run its proof
    tests/house/patches.py --prove --together    all of them in one copy: one build

A proof (changes/NAME.py) is a program that gets PALLASIM, the command line, and a Python that finds the built package.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGES = ROOT / "tests" / "house" / "changes"
WORK = ROOT / "build" / "house"
# Not counted: tests, pages, and what a tool of ours writes.
NOT_SOURCE = re.compile(r"^(tests|docs|examples|bench)/|\.md$")
WRITTEN = re.compile(r"^Written by pallasim_\w+", re.M)


def git(*arguments: str, tree: pathlib.Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(tree), *arguments], text=True, capture_output=True)


def header(patch: pathlib.Path) -> tuple[str, int]:
    """What the change is, and how many files it may touch."""
    text = patch.read_text()
    change, most = re.search(r"^Change: (.*)$", text, re.M), re.search(r"^At most: (\d+)$", text, re.M)
    if change is None or most is None:
        raise ValueError(f"{patch.name} does not begin with 'Change:' and 'At most:'")
    return change[1], int(most[1])


def written(path: pathlib.Path) -> bool:
    """Does a tool write the file?"""
    return path.exists() and bool(WRITTEN.search(path.read_text()[:500]))


def touched(patch: pathlib.Path) -> list[str]:
    """The source files that it touches."""
    files = re.findall(r"^\+\+\+ b/(.*)$", patch.read_text(), re.M)
    return [f for f in files if not NOT_SOURCE.search(f) and not written(ROOT / f)]


def applies(patch: pathlib.Path, tree: pathlib.Path = ROOT) -> str:
    """"", or why git refuses it."""
    return git("apply", "--check", str(patch), tree=tree).stderr.strip()


def copy_of_head() -> pathlib.Path:
    tree = WORK / "copy"
    if not tree.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(tree)], check=True)
    head = git("rev-parse", "HEAD").stdout.strip()
    for arguments in (["fetch", "-q", "origin", head], ["checkout", "-q", "-f", "--detach", head]):
        done = git(*arguments, tree=tree)
        if done.returncode:
            raise RuntimeError(done.stderr)
    return tree


def build(tree: pathlib.Path, jobs: int) -> str:
    """"", or the end of what the build said."""
    out = tree / "build"
    commands = [["cmake", "--build", str(out), "-j", str(jobs), "--target", "pallasim", "pallasim_python",
                 "pallasim_option_reference"]]
    if not (out / "build.ninja").exists():
        commands.insert(0, ["cmake", "-S", str(tree), "-B", str(out), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            f"-DPython_EXECUTABLE={sys.executable}"])
    for command in commands:
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            return done.stdout[-3000:]
    # The one file of Python's that a tool writes.
    options = subprocess.run([str(out / "interp" / "pallasim_option_reference"), "python"], text=True, capture_output=True, check=True)
    (tree / "python" / "pallasim" / "_options.py").write_text(options.stdout)
    return ""


def prove(name: str, out: pathlib.Path) -> str:
    """"", or what the proof says in the build folder `out`."""
    env = {**os.environ, "PALLASIM": str(out / "cli" / "pallasim"), "PYTHONPATH": str(out / "python"), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, str(CHANGES / f"{name}.py")], env=env, text=True, capture_output=True, timeout=300)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()[-1500:] or f"exit code {done.returncode}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--prove", action="store_true")
    p.add_argument("--together", action="store_true", help="all patches in one copy")
    p.add_argument("--built", type=pathlib.Path, help="prove in this build folder, which has the patches already")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    patches = {f.stem: f for f in sorted(CHANGES.glob("*.patch")) if not o.names or f.stem in o.names}
    wrong = [n for n in o.names if n not in patches]
    if wrong:
        p.error(f"no such change: {', '.join(wrong)}")
    failed = False

    def proved(name: str, why: str) -> None:
        nonlocal failed
        failed = failed or bool(why)
        print(f"{name:12} {'does not work: ' + why if why else 'works'}", flush=True)

    for name, patch in patches.items():
        change, most = header(patch)
        files, why = touched(patch), applies(patch)
        failed = failed or bool(why) or len(files) > most
        print(f"{name:12} {len(files)} of at most {most} files: {change}{'; DOES NOT APPLY: ' + why if why else ''}")
    if o.built:
        for name in patches:
            proved(name, prove(name, o.built))
    elif o.prove:
        tree = copy_of_head()
        groups = [list(patches)] if o.together else [[n] for n in patches]
        for group in groups:
            git("checkout", "-q", "-f", "--", ".", tree=tree)
            why = "".join(git("apply", str(patches[n]), tree=tree).stderr for n in group) or build(tree, o.jobs)
            for name in group:
                proved(name, why or prove(name, tree / "build"))
        git("checkout", "-q", "-f", "--", ".", tree=tree)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
