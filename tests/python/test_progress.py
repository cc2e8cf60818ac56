"""A launch of more than two seconds says on a terminal, or in a notebook, how far it is, and wipes that; others say nothing."""

import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

pytestmark = pytest.mark.one_jax

PROGRAM = os.environ.get("PALLASIM", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "cli" / "pallasim"))
KERNEL = """
import time
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
import pallasim

def slow(o_ref):
    o_ref[...] = jax.lax.fori_loop(0, 20000, lambda j, v: v * 0.5 + 1.0, jnp.zeros_like(o_ref))

def run(points):
    return pl.pallas_call(slow, grid=(points,), out_specs=pl.BlockSpec((8,), lambda i: (i,)),
                          out_shape=jax.ShapeDtypeStruct((8 * points,), jnp.float32))()

def points_for(seconds):
    jax.block_until_ready(run(1000))
    begin = time.monotonic()
    jax.block_until_ready(run(1000))
    return int(1000 * seconds / (time.monotonic() - begin)) + 16

def run_for(seconds):
    # The machine may become faster than it was when the points were counted: again, with more of them.
    points, begin = points_for(seconds), time.monotonic()
    jax.block_until_ready(run(points))
    while (took := time.monotonic() - begin) < 0.8 * seconds:
        points, begin = int(points * seconds / took) + 1, time.monotonic()
        jax.block_until_ready(run(points))
"""
TERMINAL = KERNEL + """
with pallasim.emulate(workers=1, {options}):
    run_for({seconds})
print("done", flush=True)
"""
LINE = re.compile(r"\rslow: (\d+) of (\d+) grid points \(\d+ %\), \d+ per second, about [^\r\x1b]+ left\x1b\[K")


def on_terminal(command: list[str], interrupt_after: float = 120, exit_code: int = 0) -> str:
    """All that a program writes to a terminal of 100 columns, at which somebody presses Ctrl-C after so many seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    said, end = b"", time.monotonic() + interrupt_after
    while True:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            os.write(terminal, b"\x03")
            end = time.monotonic() + 60
            continue
        try:
            more = os.read(terminal, 65536)
        except OSError:  # the program ended
            break
        said += more
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == exit_code, said.decode()
    return said.decode()


def script(seconds: float, options: str = "") -> list[str]:
    return [sys.executable, "-c", TERMINAL.format(seconds=seconds, options=options)]


def test_a_long_launch_says_how_far_it_is():
    said = on_terminal(script(5))
    counts = [(int(done), int(total)) for done, total in LINE.findall(said)]
    counts = [(done, total) for done, total in counts if total == counts[-1][1]]  # of the launch that was long enough
    assert len(counts) >= 2, said
    assert all(0 < done <= total for done, total in counts) and counts == sorted(counts)
    # Wiped: after the last line there is nothing but the program's own words.
    rest = said[LINE.search(said, said.rindex("\rslow: ")).end():]
    assert rest.startswith("\r\x1b[K") and rest.replace("\r\x1b[K", "").strip() == "done", repr(said)


@pytest.mark.parametrize("seconds, options", [(0.3, ""), (3.5, "progress=False")])
def test_short_launches_and_those_that_shall_not_say_nothing(seconds, options):
    assert on_terminal(script(seconds, options)).strip() == "done"


def test_no_terminal_no_progress():
    command = script(3)
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "done" and said.stderr == ""


@pytest.fixture(scope="module")
def text():
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    import pallasim

    def slow(o_ref):
        o_ref[...] = jax.lax.fori_loop(0, 20000, lambda j, v: v * 0.5 + 1.0, jnp.zeros_like(o_ref))

    def run():
        return pl.pallas_call(slow, grid=(100000,), out_specs=pl.BlockSpec((8,), lambda i: (i,)),
                              out_shape=jax.ShapeDtypeStruct((800000,), jnp.float32))()

    (module,) = pallasim.capture_text(run)
    return module


@pytest.mark.parametrize("option", ["", "--no-progress"])
def test_the_command_line_does_as_well(tmp_path, text, option):
    file = tmp_path / "slow.psir"
    file.write_text(text)
    command = [PROGRAM, "run", str(file), "--workers", "1", *filter(None, [option])]
    said = on_terminal(command, interrupt_after=4, exit_code=130)
    assert bool(LINE.search(said)) == (option == ""), said
    # The report of the stop begins on a line of its own.
    assert re.search(r"(^|\n|\x1b\[K)(\^C)?(\x1b\[1;31m)?error\[PS-INT-001\]", said), repr(said)


def test_a_notebook_shows_and_wipes_it():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    run = "with pallasim.emulate(workers=1):\n    run_for(5)\ntime.sleep(1.5)"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (KERNEL, run)])
    shown = []

    class Watched(nbclient.NotebookClient):
        def process_message(self, message, cell, cell_index):
            if message["msg_type"] in ("display_data", "update_display_data"):
                shown.append(message["content"]["data"]["text/plain"])
            return super().process_message(message, cell, cell_index)

    Watched(book, timeout=120, kernel_name="python3").execute()
    assert shown and shown[-1] == ""
    lines = [line for line in shown if line]  # one that is empty ends a launch: there may be several that take long
    assert lines and all(re.fullmatch(r"slow: \d+ of \d+ grid points \(\d+ %\), \d+ per second, about .* left", s) for s in lines), shown
    assert all("slow:" not in str(output) for output in book.cells[1].outputs)
