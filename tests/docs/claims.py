"""Sentences of the pages, and the tests that show them.

`claims/PAGE.txt` lists phrases of a page, each on a line of its own, and below one or several of them, indented, the tests that show what they say:

    looks at every access
    nobody wrote
      tests/python/test_delivery.py::test_a_script_says_each_place_once
    See the lessons
      says no behaviour: where to read on

A sentence, a row of a table and a block of code are each shown by the phrases that they contain. Rows of generated tables, which all say the same of different
things, are shown by `rows: ` and the head of their table.
"""
from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(__file__).with_name("claims")
PAGES = {"README": ROOT / "README.md"} | {
    name: ROOT / "docs" / f"{name}.md"
    for name in ("install", "first_kernel", "reports", "pytest", "python", "options", "chips", "check", "faq", "ops", "coverage", "notebooks",
                 "sweep", "eval", "suite", "debugger", "torch", "scale")}
# Why a sentence needs no test: it does not say what Pallasim does.
NO_BEHAVIOUR = {"where to read on", "what a reader may do", "what a word means", "what JAX or a chip does", "what nobody knows",
                "what was measured once"}
# Checks that take longer than a test may: people run them before a release.
SCRIPTS = {"scripts/wheel.sh", "scripts/test_aarch64.sh", "scripts/test_newest_jax.sh", "scripts/judge.sh", "demo.sh"}

_FENCE = re.compile(r"^```")
_ITEM = re.compile(r"^\s*(?:[*-]|\d+\.) ")
_TITLE = re.compile(r"\*\*[^*]+(?:\*\*)?")
_END = re.compile(r"(?<=[.?!])(?<!\be\.g\.)(?<!\bi\.e\.)(?:\*\*)?\s+(?=\S)")


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph. A full stop in code ends none."""
    masked = re.sub(r"`[^`]*`", lambda m: "`" + "x" * (len(m.group()) - 2) + "`", text)
    ends = [0, *(m.end() for m in _END.finditer(masked)), len(text)]
    return [part for a, b in zip(ends, ends[1:]) if (part := text[a:b].strip())]


def units(text: str) -> Iterator[tuple[str, str]]:
    """(what is to be shown, head of its table or "") for each sentence, row and block of a page. Headings and questions say nothing; blocks that come from
    golden tests and programs, and those programs, are held elsewhere."""
    lines = text.splitlines()
    paragraph: list[str] = []
    held, head, i = False, "", 0

    def flush() -> Iterator[tuple[str, str]]:
        for sentence in sentences(" ".join(paragraph)):
            if not sentence.rstrip("*").endswith("?") and not _TITLE.fullmatch(sentence):
                yield sentence, ""
        paragraph.clear()

    while i < len(lines):
        line = lines[i].strip()
        if _FENCE.match(line):
            yield from flush()
            end = next(j for j in range(i + 1, len(lines)) if _FENCE.match(lines[j].strip()))
            block, i = "\n".join(lines[i + 1:end]), end
            if not held and not _shown_below(lines[end + 1:]):
                yield " ".join(block.split()), ""
            held = False
        elif line.startswith("<!--"):
            yield from flush()
            held = line.startswith(("<!-- output:", "<!-- report:"))
        elif line.startswith("|"):
            yield from flush()
            if not head:
                head, i = line, i + 1
            else:
                yield line, head
        elif not line or line.startswith("#"):
            yield from flush()
        else:
            if _ITEM.match(lines[i]):
                yield from flush()
                line = _ITEM.sub("", lines[i]).strip()
            paragraph.append(line)
        if not line.startswith("|"):
            head = ""
        i += 1
    yield from flush()


def _shown_below(lines: list[str]) -> bool:
    """Whether the next block shows what the one above it prints."""
    for line in lines:
        if line.startswith("<!-- output:"):
            return True
        if _FENCE.match(line):
            return False
    return False


def entries(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """(phrases, what shows them) of a list of claims."""
    phrases: list[str] = []
    shown: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if line.startswith(" "):
            shown.append(line.strip())
            continue
        if shown:
            yield phrases, shown
            phrases, shown = [], []
        phrases.append(" ".join(line.split()))
    yield phrases, shown


@functools.cache
def _functions(path: pathlib.Path) -> frozenset[str]:
    return frozenset(n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef))


@functools.cache
def _cpp_tests(path: pathlib.Path) -> frozenset[str]:
    return frozenset(f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M))


@functools.cache
def _ctests() -> frozenset[str]:
    return frozenset(name for path in (ROOT / "tests").rglob("CMakeLists.txt") for name in re.findall(r"add_test\(NAME (\S+)", path.read_text()))


def exists(shown: str) -> bool:
    """Whether there is such a test: a function of Python, a test of C++, one of ctest, a golden file, a script; or a reason that no test is needed."""
    if shown.startswith("says no behaviour: "):
        return shown.removeprefix("says no behaviour: ") in NO_BEHAVIOUR
    if shown.startswith("ctest: "):
        return shown.removeprefix("ctest: ") in _ctests()
    name, _, test = shown.partition("::")
    path = ROOT / name
    if not path.is_file():
        return False
    if path.suffix == ".py":
        return test.startswith("test_") and test in _functions(path)
    if path.suffix == ".cc":
        return test in _cpp_tests(path)
    return not test and (path.suffix in (".golden", ".expected", ".psir") or name in SCRIPTS)


def problems(name: str, page: str, claims: str) -> Iterator[str]:
    """What is wrong with the claims of a page: phrases and tests that are gone, sentences without an entry."""
    parts = list(units(page))
    listed = [phrase for phrases, _ in entries(claims) for phrase in phrases]
    for phrases, shown in entries(claims):
        if not shown:
            yield f"{name}: no test is named for '{phrases[-1]}'" if phrases else f"{name}: no claims"
        yield from (f"{name}: there is no test {test}" for test in shown if not exists(test))
    for phrase in listed:
        if not any(_shows(phrase, *part) for part in parts):
            yield f"{name}: the page does not say '{phrase}'"
    for text, head in parts:
        if not any(_shows(phrase, text, head) for phrase in listed):
            yield f"{name}: nothing shows '{text}'"


def _shows(phrase: str, text: str, head: str) -> bool:
    return head.startswith(phrase.removeprefix("rows: ")) if phrase.startswith("rows: ") and head else phrase in " ".join(text.split())
