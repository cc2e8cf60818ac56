"""Arrays as pictures: in a terminal, in files, and what editors are not made to wait for."""
from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import subprocess

import numpy as np
import pytest
from dap_client import Client
from pictures import Picture, marks

from pallasim import _program

KERNEL = pathlib.Path(__file__).resolve().parents[1] / "debug" / "picture.psir"
ROWS, COLUMNS = np.mgrid[:8, :24]
T = ROWS - COLUMNS  # of the kernel, where it stands in line 6


def at_terminal(commands, columns=100, **environment):
    """What a terminal gets of a session."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    surroundings = {k: v for k, v in _program.environment().items() if k not in ("NO_COLOR", "COLORTERM")} | {"TERM": "xterm", "HOME": "/nowhere"} | environment
    subprocess.run(["stty", "cols", str(columns), "rows", "40"], stdin=theirs, check=True)
    program = subprocess.Popen([_program.path(), "debug", str(KERNEL), "--checked", "--batch", "-x", "/dev/stdin"], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
                               env=surroundings)
    os.close(theirs)
    program.stdin.write("".join(f"{c}\n" for c in ["break scores.py:6", "continue", *commands]).encode())
    program.stdin.close()
    said = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # nobody holds the other end any more
            break
        said += part
    os.close(ours)
    assert program.wait(60) == 0
    return said.decode().replace("\r\n", "\n")


def test_colours_of_a_terminal():
    said = at_terminal(["picture t[0:2]", "picture acc_ref"], COLORTERM="truecolor")
    rows = [line for line in said.splitlines() if line.startswith("\x1b[48;2;")]
    colours = [[tuple(map(int, c)) for c in re.findall(r"\x1b\[48;2;(\d+);(\d+);(\d+)m  \x1b\[0m", row)] for row in rows]  # a cell is two characters wide
    assert [len(c) for c in colours[:2]] == [24, 24]
    zero = colours[0][0]
    assert min(zero) > 240 and colours[1][1] == zero and colours[1][0][0] > colours[1][0][2] and colours[0][-1][2] > colours[0][-1][0]  # orange, blue
    assert "\x1b[1;97;40mNN\x1b[0m" in said and "\x1b[1;30;107m??\x1b[0m" in said and "\x1b[1;30;107m!!\x1b[0m" in said
    assert re.search(r"\x1b\[48;5;\d+m  \x1b\[0m", at_terminal(["picture t[0:2]"], TERM="xterm-256color"))


@pytest.mark.parametrize("environment", [{}, {"COLORTERM": "truecolor", "NO_COLOR": "1"}])
def test_digits_without_colours(environment):
    said = at_terminal(["picture t[0:4]"], **environment)
    assert "\x1b[48" not in said
    digits = np.array([[int(d) for d in line] for line in said.splitlines() if re.fullmatch(r"\d{24}", line)])
    np.testing.assert_array_equal(digits, np.floor((T[:4] / 46 + 0.5) * 9 + 0.5))


def test_cells_are_means_where_there_is_no_room():
    said = at_terminal(["picture t[0:4]"], columns=17, COLORTERM="")
    assert "a cell is the mean of 1 x 2 elements" in said
    digits = np.array([[int(d) for d in line] for line in said.splitlines() if re.fullmatch(r"\d{12}", line)])
    means = T[:4].reshape(4, 12, 2).mean(-1)
    np.testing.assert_array_equal(digits, np.floor((means / (2 * abs(means).max()) + 0.5) * 9 + 0.5))


@pytest.mark.parametrize("colours", [True, False])
def test_the_console_of_an_editor(colours, tmp_path):
    with Client() as c:
        c.ask("initialize", adapterID="pallasim", linesStartAt1=True, supportsANSIStyling=colours)
        c.ask("launch", program=str(KERNEL), options={"checked": True})
        c.ask("setBreakpoints", source={"path": "scores.py"}, breakpoints=[{"line": 6}])
        c.ask("configurationDone")
        c.event("stopped")
        c.go("continue", threadId=1)
        typed = lambda text, context="repl": c.ask("evaluate", expression=text, frameId=c.frame()["id"], context=context)["result"]
        head, _, *rows = typed("picture acc_ref").splitlines()
        assert head == "acc_ref: f32[8,24] in vmem  min 0  max 1.38629  105 NaN  5 infinite  72 undefined (?)" and len(rows) == 8
        assert all("\x1b[" in row for row in rows) if colours else rows[-1] == "?" * 24
        assert "wrote" in typed(f"picture {tmp_path}/t.png t") and Picture((tmp_path / "t.png").read_bytes(), 16).rows == 8
        assert "not understood" in c.refused("evaluate", expression="picture t", frameId=c.frame()["id"], context="hover")


def luminance(colour):
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def test_files(tmp_path):
    said = at_terminal([f"picture {tmp_path}/t.png t", f"picture {tmp_path}/i.png t[:, 0]", f"picture {tmp_path}/acc.png acc_ref", "picture none/x.png t"])
    assert f"wrote {tmp_path}/t.png\n" in said and f"wrote {tmp_path}/acc.png: crossed: NaN; chequered: undefined; barred: infinite" in said and "error[PS-IO-002]" in said
    t, i, acc = (Picture((tmp_path / f"{n}.png").read_bytes(), 16) for n in ("t", "i", "acc"))
    assert (t.rows, t.columns, i.rows, i.columns) == (8, 24, 1, 8)
    with np.errstate(all="ignore"):
        values = np.log(T[:5].astype(np.float32))
    wanted = np.where(np.isnan(values), "nan", np.where(np.isinf(values), "infinite", ""))
    np.testing.assert_array_equal(marks(acc), np.concatenate([wanted, np.full((3, 24), "undefined")]))
    # Dark to light for values of one sign; else light in the middle, and blue and orange apart.
    one_sign = [luminance(i.colour(0, k)) for k in range(8)]
    assert one_sign == sorted(one_sign) and one_sign[-1] - one_sign[0] > 150
    for row in range(8):
        for column in range(24):
            red, _, blue = t.colour(row, column)
            assert np.sign(red - blue) == np.sign(T[row, column])


def test_editors_need_not_wait_for_large_refs(tmp_path):
    path = tmp_path / "large.psir"
    path.write_text("""pallasim-ir 1
module "large" {machine = generic}
input "x_ref" : f32[2048,2049] {space = any}
output "o_ref" : f32[] {space = any}
body (%0 "x_ref": ref<f32[2048,2049], any>, %1 "o_ref": ref<f32[], any>) {
  %2 = get %0 {view = [index(0, 0)]} : f32[] @0
  store %1, %2 @0
  yield
}
loc 0 {file = "large.py", line = 2, column = 4, function = "kernel", text = "o_ref[...] = x_ref[0, 0]"}
""")
    with Client() as c:
        c.start(path, fill="iota")
        x = c.scope("Refs")["x_ref"]
        assert x["value"] == "f32[2048,2049] in any" and x["indexedVariables"] == 2048
        (row,) = c.ask("variables", variablesReference=x["variablesReference"], start=7, count=1)["variables"]
        assert row["value"] == f"f32[2049] in any  min {7 * 2049}  max {8 * 2049 - 1}"
        assert "max 4.19635e+06" in c.value("x_ref")
