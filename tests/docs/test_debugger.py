"""The sessions that docs/debugger.md quotes are parts of those that are tested."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_quoted_sessions():
    page = (ROOT / "docs" / "debugger.md").read_text()
    quoted = re.findall(r"<!-- session: (\w+) -->\n```\n(.*?)```", page, re.S)
    tested = {path.stem: path.read_text() for path in (ROOT / "tests" / "debug").glob("*.golden")}
    assert {name for name, _ in quoted} == set(tested) and len(tested) >= 5
    for name, text in quoted:
        assert text in tested[name], f"docs/debugger.md quotes what {name}.golden does not have:\n{text}"


def test_commands_are_those_of_the_program():
    page = (ROOT / "docs" / "debugger.md").read_text()
    table = page[page.index("| Command | Does |"):page.index("gdb's and pdb's short forms")]
    named = {word.split()[0] for word in re.findall(r"`([^`]+)`", table)}
    source = (ROOT / "cli" / "src" / "debug_session.cc").read_text()
    known = {name for names in re.findall(r'^      \{"([a-z -]+)",', source, re.M) for name in names.split()}
    assert known and named - {"--checked"} <= known
