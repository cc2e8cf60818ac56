"""No file of sources has more than 500 lines, and no function of C++ more than 100, tables aside."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "memory_model", "hw_models", "interp", "trace", "capsule", "cli", "python", "tests", "bench", "examples", "scripts")
SUFFIXES = {".cc", ".h", ".py", ".sh", ".ts"}
FILE, FUNCTION = 500, 100
# A table is a function whose lines are mostly rows of one form: a case, an entry in braces, a call of one name.
ROW = re.compile(r"^\s*(case .*|default:.*|\{.*\},?|[A-Z][A-Z_0-9]+\(.*|\w+\(\".*)$")


def sources():
    for folder in FOLDERS:
        for p in sorted((ROOT / folder).rglob("*")):
            if p.suffix in SUFFIXES and "node_modules" not in p.parts:
                yield p


def functions(text):
    """(first line, its lines) of each function: a body in braces behind a parameter list, at the margin or in a class."""
    lines = text.splitlines()
    found, at, start = [], 0, 0
    while at < len(lines):
        if re.match(r"^\s*($|//|template\b.*>$|#)", lines[at]) or lines[at].endswith((";", "}", ":")):
            start = at + 1
        opens = re.match(r"^(\s*)\S", lines[start]) if start <= at else None
        is_body = lines[at].endswith("{") and opens and len(opens[1]) <= 2 and "(" in " ".join(lines[start : at + 1])
        if not is_body or re.match(r"^\s*(if|for|while|switch|else|do|return|namespace|struct|class|enum|union)\b", lines[start]):
            if lines[at].endswith("{"):
                start = at + 1
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(opens[1] + "}")), at)
        found.append((start + 1, lines[start : end + 1]))
        at = start = end + 1
    return found


def name_of(body):
    return next((m[1] for line in body if (m := re.search(r"([\w:~]+)\(", line))), body[0].strip())


def is_table(body):
    inner = [line for line in body[1:-1] if line.strip()]
    return sum(bool(ROW.match(line)) for line in inner) * 2 >= len(inner)


def test_files():
    long = {str(p.relative_to(ROOT)): n for p in sources() if (n := len(p.read_text().splitlines())) > FILE}
    assert not long, long


def test_functions():
    long = [
        f"{p.relative_to(ROOT)}:{line}: {name_of(body)} has {len(body)} lines"
        for p in sources()
        if p.suffix in (".cc", ".h")
        for line, body in functions(p.read_text())
        if len(body) > FUNCTION and not is_table(body)
    ]
    assert not long, "\n".join(long)


def test_a_long_function_is_seen():
    text = "struct S {\n  int k;\n};\nint f(int x,\n      int y) {\n" + "  ++x;\n" * 120 + "  return x;\n}\n\nint g(int x) {\n  switch (x) {\n"
    (line, f), (_, g) = functions(text + "    case 1: return 2;\n" * 120 + "  }\n}\n")
    assert (line, name_of(f), len(f), is_table(f)) == (4, "f", 124, False)
    assert name_of(g) == "g" and len(g) == 124 and is_table(g)
