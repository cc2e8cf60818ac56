"""C++ is what clang-format 14 makes of it and at most 120 columns wide, no function is long, and ruff has nothing to say about Python.

Formatters are looked for beside the running Python (scripts/requirements.txt has them), then on the path."""

import difflib
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 120


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).exists()]


def program(name, version):
    """The formatter, where one of the version is installed."""
    for found in (shutil.which(name, path=str(pathlib.Path(sys.executable).parent)), shutil.which(name)):
        if found and version in subprocess.run([found, "--version"], capture_output=True, text=True).stdout:
            return found
    pytest.skip(f"no {name} {version}")


def too_long(text):
    return [n for n, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS]


# Lists of macros' uses, and a default behind them, of which clang-format 14 makes something else each time.
MACROS = re.compile(r"^\s*#\s*define\b|\b[A-Z][A-Z0-9_]*\([^()]*\)|\bdefault :|^\s*: return\b")


def misformatted(clang_format, path):
    """Lines that the formatter would change."""
    text = path.read_text()
    wanted = subprocess.run([clang_format, f"--assume-filename={path}"], input=text, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    changes = difflib.ndiff(text.splitlines(), wanted.splitlines())
    return [line for line in changes if line[:2] in ("- ", "+ ") and not MACROS.search(line[2:])]


def test_lines_of_cpp():
    files = tracked("*.cc", "*.h", "*.def", "*.inc", "*.h.in")
    assert len(files) > 200
    found = [f"{path.relative_to(ROOT)}:{n}" for path in files for n in too_long(path.read_text())]
    assert not found, "\n".join(found)


def test_a_long_line_is_seen():
    assert too_long("x" * 120 + "\n" + "x" * 121 + "\n" + "…" * 120) == [2]


@pytest.mark.slow_first
def test_clang_format():
    clang_format = program("clang-format", "version 14.")
    files = tracked("*.cc", "*.h")
    found = subprocess.run([clang_format, "--dry-run", "-Werror", *map(str, files)], cwd=ROOT, capture_output=True, text=True)
    suspects = sorted({ROOT / line.split(":")[0] for line in found.stderr.splitlines() if ": error: " in line})
    assert found.returncode == 0 or suspects, found.stderr[:4000]
    wrong = [str(path.relative_to(ROOT)) for path in suspects if misformatted(clang_format, path)]
    assert not wrong, "clang-format -i " + " ".join(wrong)


def test_ruff():
    ruff = program("ruff", "ruff ")
    found = subprocess.run([ruff, "check", "--no-cache", "--output-format", "json", "."], cwd=ROOT, capture_output=True, text=True)
    problems = [f"{pathlib.Path(p['filename']).relative_to(ROOT)}:{p['location']['row']}: {p['message']}" for p in json.loads(found.stdout)]
    assert found.returncode == 0 and not problems, "\n".join(problems)


# A definition at the start of a line; its body ends with a brace there. Tables of bindings are no functions.
FUNCTION = re.compile(r"^(?!(?:NB_MODULE|namespace|class|struct|enum|union|using|extern|#|//|constexpr|static constexpr)\b)[^\s#/}].*\)[^;=]*\{$", re.M)
LONGEST = 100


def functions(text):
    """(first line, number of lines) of each function that begins at the start of a line."""
    lines = text.splitlines()
    for match in FUNCTION.finditer(text):
        first = text.count("\n", 0, match.end())
        last = next((n for n in range(first + 1, len(lines)) if lines[n].startswith("}")), first)
        yield first + 1, last - first + 1


def test_functions_are_short():
    found = []
    for path in tracked("ir/*.cc", "memory_model/*.cc", "hw_models/*.cc", "interp/*.cc", "trace/*.cc", "capsule/*.cc", "cli/*.cc", "python/*.cc"):
        found += [f"{path.relative_to(ROOT)}:{first}: {n} lines" for first, n in functions(path.read_text()) if n > LONGEST]
    assert not found, "\n".join(found)


def test_a_long_function_is_seen():
    assert list(functions("int f(int x) {\n" + "  ++x;\n" * 99 + "}\nint y = 0;\n")) == [(1, 101)]
