#!/usr/bin/env python3
"""Keeps the generated parts of the documentation true: reports quoted from golden tests, what programs of the pages print (doc_programs.py), the index and the
titles of codes, the coverage.

Without arguments it rewrites them, and what programs of the build write (TOOLS); with --check it says what is out of date, which codes lack a page or a golden test,
and exits with 1.
"""

import csv
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import doc_programs  # noqa: E402
import op_coverage  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "diagnostics"
TABLE = ROOT / "ir" / "include" / "pallasim" / "ir" / "diagnostics.def"
SOURCES = ["ir", "memory_model", "hw_models", "interp", "trace", "capsule", "cli", "python"]
# Codes that no kernel of a file can show: an internal error has no known example, and a file has one device.
NO_EXAMPLE = {"PS-BUG-001", "PS-BUG-002", "PS-BUG-003", "PS-BUG-004", "PS-DEV-001", "PS-RACE-004", "PS-SEM-003"}

# What becomes of a rule of JAX's compilers (hw_models/rules.csv).
RULE_STATUS = {"diagnosed", "raised by JAX", "not visible", "asked"}

REPORT = re.compile(r"(<!-- report: (\S+) -->\n)```\n.*?```\n", re.S)
INDEX = re.compile(r"(<!-- index -->\n).*?(<!-- /index -->)", re.S)
FIGURES = re.compile(r"(<!-- timing (\S+) -->\n).*?(<!-- /timing -->)", re.S)
CODE = re.compile(r"\bPS-[A-Z]+-\d{3}\b")


# Page -> the program that writes it, below the folder of the build, and its arguments; ctest holds that it is current.
TOOLS = {"ops.md": ["ir/pallasim_op_reference"], "operations.csv": ["interp/pallasim_op_support"], "options.md": ["interp/pallasim_option_reference", "markdown"],
         "steps.md": ["interp/pallasim_step_reference"]}


def from_tools():
    """Yields the pages of TOOLS that were out of date; those whose program is not built stay as they are."""
    for name, (tool, *arguments) in TOOLS.items():
        page, program = ROOT / "docs" / name, ROOT / "build" / tool
        if program.exists():
            text = subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
            if not page.exists() or text != page.read_text():
                page.write_text(text)
                yield page


def with_reports(text):
    def quote(match):
        path = ROOT / match.group(2)
        body = path.read_text() if path.exists() else ""
        return f"{match.group(1)}```\n{body}```\n"

    return REPORT.sub(quote, text)


def with_figures(text):
    """Tables of hw_models/timing."""
    def table(match):
        rows = csv.DictReader((ROOT / "hw_models" / "timing" / f"{match.group(2)}.csv").open())
        lines = [f"| {r['name']} | {r['value']} | {r['unit']} | {r['status']} | {r['source']}{'; ' + r['note'] if r['note'] else ''} |" for r in rows]
        head = ["| figure | value | unit | status | source |", "|---|---|---|---|---|"]
        return match.group(1) + "".join(x + "\n" for x in head + lines) + match.group(3)

    return FIGURES.sub(table, text)


def codes():
    """Code -> title, of the table of diagnostics."""
    rows = re.findall(r'^PALLASIM_DIAGNOSTIC\((\w+), (\d{3}), \w+, "(.*)"\)$', TABLE.read_text(), re.M)
    return {f"PS-{family}-{number}": title for family, number, title in rows}


def with_title(path, text):
    """A code's page begins with its title."""
    title = codes().get(path.stem)
    return re.sub(r"\A# .*", f"# {path.stem}: {title}", text) if title and path.parent == PAGES else text


def index():
    return "".join(f"* [{code}]({code}.md): {title}\n" for code, title in sorted(codes().items()))


def generated():
    """Yields (path, text as it should be)."""
    for path in [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p != op_coverage.PAGE)]:
        text = with_title(path, with_figures(with_reports(path.read_text())))
        if path == PAGES / "README.md":
            text = INDEX.sub(lambda m: m.group(1) + index() + m.group(2), text)
        yield path, text
    yield op_coverage.PAGE, op_coverage.page()


def codes_in(paths):
    found = {}
    for path in paths:
        for code in CODE.findall(path.read_text(errors="replace")):
            found.setdefault(code, path.relative_to(ROOT))
    return found


def problems():
    for path, text in generated():
        if not path.exists() or text != path.read_text():
            yield f"{path.relative_to(ROOT)} is out of date: run scripts/docs.py"
        for _, report in REPORT.findall(text):
            if not (ROOT / report).exists():
                yield f"{path.relative_to(ROOT)} quotes {report}, which does not exist"
    yield from op_coverage.problems()
    sources = [p for d in SOURCES for p in (ROOT / d).rglob("*") if p.suffix in {".cc", ".h", ".py", ".inc", ".def"}]
    golden = [p for p in (ROOT / "tests").rglob("*") if p.suffix in {".expected", ".golden"}]
    shown = codes_in(golden)
    for row in csv.DictReader((ROOT / "hw_models" / "rules.csv").open()):
        if row["status"] not in RULE_STATUS or (row["status"] == "diagnosed") != bool(row["code"]):
            yield f"hw_models/rules.csv: {row['where']} is {row['status']} {row['code']}"
        if row["code"] and not (PAGES / f"{row['code']}.md").exists():
            yield f"hw_models/rules.csv names {row['code']}, which has no page"
    raised = codes_in(p for p in sources if p != TABLE)
    pages = {p.stem for p in PAGES.glob("PS-*.md")}
    for code in sorted(codes().keys() | pages | raised.keys()):
        if code not in codes():
            yield f"{code} ({raised.get(code, 'a page')}) is not in {TABLE.relative_to(ROOT)}"
        if code not in pages:
            yield f"{code} has no page in docs/diagnostics"
        if code not in raised:
            yield f"{code} is raised nowhere"
        elif code not in shown and code not in NO_EXAMPLE:
            yield f"{code} ({raised[code]}) has no golden test"


def main():
    if "--check" in sys.argv[1:]:
        found = [*problems(), *doc_programs.problems()]
        print("\n".join(found) or "documentation is up to date")
        return 1 if found else 0
    for page in from_tools():
        print(page.relative_to(ROOT))
    for path, text in generated():
        text = doc_programs.with_outputs(text)
        if not path.exists() or text != path.read_text():
            path.write_text(text)
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
