"""The sessions that docs/debugger.md quotes are parts of those that are tested."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest

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


def test_short_forms(tmp_path):
    """Of both debuggers."""
    from pallasim import _program

    said = lambda *commands: subprocess.run(
        [_program.path(), "debug", str(ROOT / "tests" / "fail" / "run" / "running_sum.psir"), "--chip", "tpu-v5e"], input="".join(f"{c}\n" for c in commands),
        capture_output=True, text=True, timeout=60, env=_program.environment()).stdout.split("(pallasim) ")[1:]
    words = ("break 8", "continue", "where", "list", "step", "reverse-step", "reverse-continue", "next", "print sum_ref[0, 0]", "reverse-next", "quit")
    short = ("b 8", "c", "bt", "l", "s", "rs", "rc", "n", "p sum_ref[0, 0]", "rn", "q")
    long_said, short_said = said(*words), said(*short)
    assert len(long_said) == len(words) and [a.split("\n")[1:] for a in long_said] == [a.split("\n")[1:] for a in short_said] and "no command" not in "".join(short_said)


def test_the_configuration_launches(monkeypatch):
    """What the page gives VS Code for launch.json, said to the adapter."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "python")
    from dap_client import Client

    page = (ROOT / "docs" / "debugger.md").read_text()
    (text,) = re.findall(r"```json\n(.*?)```", page, re.S)
    assert len(text.splitlines()) == 5
    configuration = json.loads(text)
    extension = json.loads((ROOT / "cli" / "editors" / "vscode" / "package.json").read_text())["contributes"]["debuggers"][0]
    known = extension["configurationAttributes"]["launch"]["properties"]
    assert configuration["type"] == extension["type"] and set(configuration) - {"name", "type", "request"} <= set(known)
    assert extension["initialConfigurations"] == [configuration]
    with Client() as c:
        c.start(ROOT / "tests" / "fail" / "run" / "running_sum.psir", **{k: v for k, v in configuration.items() if k != "program"}, fill="iota", seed=3, chip="tpu-v5e")
        assert c.stop["reason"] == "entry" and c.scope("Refs")["sum_ref"]["value"].endswith("1024 undefined (?)")


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_the_extension_starts_the_adapter(tmp_path):
    """The extension of VS Code, with what it needs of `vscode`."""
    (tmp_path / "node_modules" / "vscode").mkdir(parents=True)
    (tmp_path / "node_modules" / "vscode" / "index.js").write_text("""
exports.made = [];
exports.DebugAdapterExecutable = class { constructor(command, args) { this.command = command; this.args = args; } };
exports.workspace = { getConfiguration: () => ({ get: (_, otherwise) => otherwise }) };
exports.debug = { registerDebugAdapterDescriptorFactory: (type, f) => exports.made.push([type, f.createDebugAdapterDescriptor()]) };
""")
    shutil.copytree(ROOT / "cli" / "editors" / "vscode", tmp_path / "pallasim")
    program = 'require("./pallasim").activate({ subscriptions: [] }); console.log(JSON.stringify(require("vscode").made))'
    done = subprocess.run(["node", "-e", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == [["pallasim", {"command": "pallasim", "args": ["dap"]}]], done.stderr


def test_the_stepper_has_the_methods_of_the_page():
    page = (ROOT / "docs" / "debugger.md").read_text()
    code = page[page.index("s = pallasim.debug("):]
    code = code[:code.index("```")]
    named = set(re.findall(r"(?:^s\.|\)\.|# |, )(\w+)\(", code, re.M))
    from pallasim import Stepper

    assert named >= {"break_at", "go_on", "next", "step", "back", "go_back", "restart", "value", "picture"} and all(hasattr(Stepper, n) for n in named), named
