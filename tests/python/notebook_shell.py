"""A shell of IPython for tests: its cells, what they print, and what they show."""
from __future__ import annotations

import html.parser
import re
import sys

import pytest

import pallasim

pytest.importorskip("IPython")
from IPython.core.compilerop import CachingCompiler  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402

KERNELS = """
import jax, jax.numpy as jnp, numpy as np, pallasim
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

X = jnp.ones((16, 128), jnp.float32)
SMALL = pltpu.CompilerParams(vmem_limit_bytes=1024)

def race_kernel(x_ref, o_ref, row, sem):
    copy = pltpu.make_async_copy(x_ref, row, sem)
    copy.start()
    o_ref[...] = row[...]  # <b>not</b> yet & "there"
    copy.wait()

def race(x):
    return pl.pallas_call(race_kernel, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                          scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])(x)

def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]

def double(x, blocks=2):
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(double_kernel, grid=(blocks,), out_shape=x, in_specs=[rows], out_specs=rows)(x)

def sorted_kernel(x_ref, o_ref):
    o_ref[...] = jnp.sort(x_ref[...])

def stuck_kernel(x_ref, o_ref, sem):
    pl.semaphore_signal(sem, 1)
    pl.semaphore_wait(sem, 2)
    o_ref[...] = x_ref[...]

def stuck(x):
    return pl.pallas_call(stuck_kernel, out_shape=x, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)
""".lstrip()
READ, STORE = "o_ref[...] = row[...]  # <b>not</b> yet & \"there\"", "o_ref[...] = 2 * x_ref[...]"


def line_of(text, cell=KERNELS):
    return next(n for n, line in enumerate(cell.splitlines(), 1) if text in line)


class Book:
    """A shell of IPython: cells with their numbers, and what they showed."""

    def __init__(self, shell):
        self.shell = shell

    def run(self, cell, fails=False):
        """(number of the cell, what it printed, HTML of what it showed, its result)."""
        number = self.shell.execution_count
        with capture_output() as shown:
            result = self.shell.run_cell(cell, store_history=True)
        assert result.success != fails, shown.stdout + shown.stderr
        boxes = [o.data["text/html"] for o in shown.outputs if "text/html" in (o.data or {})]
        return number, shown.stdout + shown.stderr, boxes, result

    def value(self, expression):
        return eval(expression, self.shell.user_ns)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """The only shell of this process, until these tests are over."""
    from traitlets.config import Config

    displayhook, excepthook = sys.displayhook, sys.excepthook
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        yield InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}}))
    InteractiveShell.clear_instance()
    sys.displayhook, sys.excepthook = displayhook, excepthook


@pytest.fixture
def plain(shell):
    """A shell as it is when it starts."""
    for name in set(shell.user_ns) - set(shell.user_ns_hidden):
        del shell.user_ns[name]
    shell.execution_count = 1
    shell.history_manager.reset()
    pallasim.findings()
    yield Book(shell)
    shell.extension_manager.unload_extension("pallasim")
    shell.set_custom_exc((), None)
    pallasim.uninstall()
    pallasim.findings()


@pytest.fixture
def compiler(request):
    """How cells are compiled: in a terminal, or with the marker BOTH also as Jupyter does."""
    if getattr(request, "param", "ipython") == "ipython":
        return CachingCompiler()
    found = pytest.importorskip("ipykernel.compiler").XCachingCompiler()
    if request.param == "older":  # IPython 7, which cannot say whose code a file is
        found.format_code_name = None
    return found


BOTH = pytest.mark.parametrize("compiler", ["ipython", "ipykernel"], indirect=True)
OLDER = pytest.mark.parametrize("compiler", ["ipython", "ipykernel", "older"], indirect=True)


@pytest.fixture
def book(plain, compiler):
    plain.shell.compile = compiler
    plain.run(KERNELS)
    return plain


@pytest.fixture
def magic(book):
    book.run("%load_ext pallasim")
    return book


def tidy(text):
    """No report names a file of IPython's."""
    assert "/ipykernel_" not in text and "<ipython-input" not in text and not re.search(r"In\[\d+\]:\d", text), text
    return text


class Shown(html.parser.HTMLParser):
    """Text, tags and attributes of HTML, of which each tag that begins has to end."""

    def __init__(self, source):
        super().__init__()
        self.text, self.tags, self.attributes, self._open = "", [], [], []
        self.feed(source)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(source):
    """What is shown; nothing in it comes from elsewhere, runs, or sets colours that a dark theme hides."""
    page = Shown(source)
    assert set(page.tags) <= {"div", "b", "i", "pre", "p", "ul", "li", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    assert {name for name, _ in page.attributes} <= {"style", "title", "open"}
    for name, value in page.attributes:
        if name == "style":
            assert "url(" not in value and not re.search(r"(?<![-\w])color:(?!inherit)|background:(?!transparent)", value), value
    return page
