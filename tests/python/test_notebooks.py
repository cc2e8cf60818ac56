"""In IPython: places are cells and their lines, findings and runs are shown as HTML, and magics run cells on the emulator."""
from __future__ import annotations

import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import jax
import pytest

import pallasim
from pallasim import _cells

IPython = pytest.importorskip("IPython")
from IPython.core.compilerop import CachingCompiler  # noqa: E402
from IPython.core.error import UsageError  # noqa: E402
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]

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
    shell.reset()
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
    return pytest.importorskip("ipykernel.compiler").XCachingCompiler()


BOTH = pytest.mark.parametrize("compiler", ["ipython", "ipykernel"], indirect=True)


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


# --- places ---------------------------------------------------------------------------------------------------------
@BOTH
def test_a_finding_is_at_a_line_of_a_cell(book):
    number, *_ = book.run('with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):\n    race(X).block_until_ready()')
    (f,) = pallasim.findings()
    line = line_of(READ)
    assert (f.file, f.line, f.text) == ("In[1]", line, READ) and str(f.site.source) == f"In[1], line {line}" and number == 2
    assert f"\n  at In[1], line {line} in race_kernel\n      {READ}\n" in tidy(f.report)
    assert f"at In[1], line {line_of('copy.start()')} in race_kernel" in f.report and f.also[0].source.file == "In[1]"
    assert f"PS-RACE-001 at In[1], line {line}: " in repr(f)


def test_an_error_is_at_a_line_of_a_cell_in_its_traceback_too(book):
    number, text, _, result = book.run('y = 1\nwith pallasim.emulate("tpu-v5e"):\n    double(X, 3).block_until_ready()', fails=True)
    error = result.error_in_exec
    line = line_of("rows = pl.BlockSpec")
    assert isinstance(error, pallasim.KernelError) and f"at In[1], line {line} in the BlockSpec of x_ref" in tidy(str(error))
    assert str(error) in text.replace("\r", "") and (error.finding.file, error.finding.line) == ("In[1]", line)


@BOTH
def test_a_deadlock_names_lines_of_cells_in_its_numbers(book):
    *_, result = book.run('with pallasim.emulate("tpu-v5e"):\n    stuck(X).block_until_ready()', fails=True)
    report = tidy(str(result.error_in_exec))
    assert "PS-DEAD" in report and f"In[1], line {line_of('semaphore_wait')}" in report and f"In[1], line {line_of('semaphore_signal')}" in report
    assert any("In[1], line" in n for n in result.error_in_exec.finding.numbers)


@BOTH
def test_refused_kernels_and_launches_are_at_lines_of_cells(book):
    call = 'with pallasim.emulate("tpu-v5e"):\n    pl.pallas_call(sorted_kernel, out_shape=X)(X)'
    *_, result = book.run(call, fails=True)
    assert f"at In[1], line {line_of('jnp.sort')} in sorted_kernel\n      o_ref[...] = jnp.sort(x_ref[...])" in tidy(str(result.error_in_exec))
    number, *_, result = book.run('\nz = 0\nwith pallasim.emulate("tpu-v5e"):\n    pl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)', fails=True)
    report = tidy(str(result.error_in_exec))
    assert "PS-MEM-001" in report and f"at In[{number}], line 4 in <module>\n      pl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)" in report


def test_what_cannot_be_captured_is_at_a_line_of_a_cell(book):
    number, *_, result = book.run('def odd_kernel(x_ref, o_ref):\n    o_ref[...] = jnp.linalg.qr(x_ref[...])[0]\n\n'
                                  'with pallasim.emulate():\n    pl.pallas_call(odd_kernel, out_shape=jnp.eye(8))(jnp.eye(8))', fails=True)
    assert isinstance(result.error_in_exec, pallasim.UnsupportedError)
    assert f"at In[{number}], line 2 in odd_kernel" in tidy(str(result.error_in_exec))


def test_checks_texts_and_capsules_name_cells(book, tmp_path):
    check = book.value('pallasim.check(lambda x: pl.pallas_call(sorted_kernel, out_shape=x)(x), X, chips=["tpu-v5e"])')
    assert f"at In[1], line {line_of('jnp.sort')}\n" in tidy(str(check)) and check.kernels[0].remarks[0].file == "In[1]"
    (text,) = book.value("pallasim.capture_text(double, X)")
    assert f'file = "In[1]", line = {line_of(STORE)}' in text and "ipython" not in text and "ipykernel" not in text
    path = tmp_path / "race.capsule"
    book.run(f'pallasim.capture(race, X, path={str(path)!r}, params=pallasim.Params("tpu-v5e", detect_races=True, findings="collect"))')
    with zipfile.ZipFile(path) as archive:
        (name,) = [n for n in archive.namelist() if n.startswith("sources/")]
        assert f"> {line_of(READ):5} | {' ' * 4}{READ}\n" in archive.read(name).decode()
    assert f"at In[1], line {line_of(READ)}\n" in str(pallasim.replay(path))


@BOTH
def test_the_lines_are_those_that_the_cell_shows(book):
    """IPython compiles neither empty lines at the top nor the line of a magic."""
    kernel = "def kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[pl.ds(8 + pl.program_id(0), 16)]\n"
    run = 'with pallasim.emulate():\n    pl.pallas_call(kernel, grid=(1,), out_shape=X)(X).block_until_ready()'
    for before in ("", "\n\n", "%%capture\n"):
        number, *_ = book.run(before + kernel)
        report = str(book.run(run, fails=True)[-1].error_in_exec)
        assert f"at In[{number}], line {2 + before.count(chr(10))} in kernel\n      o_ref[...] = x_ref[pl.ds(" in tidy(report)


@BOTH
def test_a_cell_that_runs_again_has_its_new_number(book):
    run = 'with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):\n    race(X).block_until_ready()'
    book.run(run)
    again, *_ = book.run(KERNELS)
    book.run(run)
    assert [f.file for f in pallasim.findings()] == ["In[1]", f"In[{again}]"]


def test_files_stay_files(book, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    book.run(f'import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport kernels\nsys.path.pop(0)\n'
             'with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):\n    kernels.race(X).block_until_ready()\ndel sys.modules["kernels"]')
    (f,) = pallasim.findings()
    assert f"at {tmp_path}/kernels.py:{line_of(READ)}:" in f.report and str(f.site.source) == f"{tmp_path}/kernels.py:{line_of(READ)}"


def test_nothing_of_ipython_is_imported():
    program = ("import sys, jax.numpy as jnp, pallasim\nfrom jax.experimental import pallas as pl\n"
               "def kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...] + 1\n"
               "with pallasim.emulate('tpu-v5e', detect_races=True):\n    print(pl.pallas_call(kernel, out_shape=jnp.ones(8))(jnp.ones(8)))\n"
               "pallasim.runs()[-1]._repr_html_(); str(pallasim.runs()[-1].traffic); pallasim.findings()._repr_html_()\n"
               "print([m for m in sys.modules if 'ipython' in m.lower() or 'ipykernel' in m])\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
    assert done.stdout == "[2. 2. 2. 2. 2. 2. 2. 2.]\n[]\n", done.stdout + done.stderr


def test_texts_without_a_cell_are_untouched():
    assert _cells.worded("at In[3]:20:4 in f") == "at In[3], line 20 in f" and _cells.worded("In[12]:7") == "In[12], line 7"
    for text in ("x[3]:20:4", "at kernels.py:3:4", "BIn[3]:4", "In[i]:4"):
        assert _cells.worded(text) == text
    assert _cells.said("kernels.py", 3) == "kernels.py:3" and _cells.said("In[3]", 20) == "In[3], line 20"


# --- display --------------------------------------------------------------------------------------------------------
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


@pytest.fixture
def raced(book):
    """A finding whose source line has what HTML would read as tags."""
    book.run('with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):\n    race(X).block_until_ready()')
    return book


def test_a_finding_is_its_report(raced):
    run = pallasim.runs()[-1]
    found = pallasim.findings()
    f = found[0]
    assert str(f) == f.report == f"{f}" and f.report.startswith("warning[PS-RACE-001]: ") and run.findings == (f,)
    page = shown(f._repr_html_())
    assert page.text.split() == f.report.split() and READ in page.text and page.tags[:2] == ["div", "b"]
    assert shown(found._repr_html_()).text == page.text and isinstance(found, list)
    assert pallasim.findings() == [] and shown(pallasim.findings()._repr_html_()).text == "nothing found"
    assert raced.shell.display_formatter.format(f)[0]["text/plain"] == f.report.rstrip("\n")


def test_runs_and_traffic_are_tables(raced):
    raced.run('with pallasim.emulate("tpu-v5e", detect_races=True):\n    double(X).block_until_ready()')
    run = pallasim.runs()[-1]
    rows = str(run.traffic).splitlines()
    assert rows[0].split() == "ref space reads bytes writes bytes blocks fetched bytes blocks written back bytes".split()
    assert rows[1].split() == "x_ref vmem 2 8,192 0 0 2 8,192 0 0".split() and rows[2].split() == "o_ref vmem 0 0 2 8,192 0 0 2 8,192".split()
    page = shown(run.traffic._repr_html_())
    assert page.tags.count("tr") == 3 and re.sub(r"\s", "", page.text) == re.sub(r"\s", "", str(run.traffic))
    page = shown(run._repr_html_())
    assert page.text.startswith("double_kernel on tpu-v5e: 2 grid points, ") and "checked: nothing found" in page.text and "o_ref" in page.text
    assert shown(pallasim.last_run()._repr_html_()).text == page.text and pallasim.last_run()["kernel"] == "double_kernel"
    page, latest = shown(pallasim.runs()._repr_html_()), pallasim.runs()
    assert page.tags.count("tr") == 1 + len(latest) and page.text.count("PS-RACE-001") == sum(len(r.findings) for r in latest if r.kernel == "race_kernel") > 0
    assert READ in shown(pallasim.runs()[-2]._repr_html_()).text
    raced.run('with pallasim.emulate("tpu-v5e"):\n    double(X).block_until_ready()')
    assert "detect_races=True" in str(pallasim.runs()[-1].traffic) and "detect_races=True" in shown(pallasim.runs()[-1].traffic._repr_html_()).text
    assert raced.value("dict(pallasim.last_run())")["findings"] == []


def test_the_findings_of_the_last_run_say_cells(raced):
    (f,) = pallasim.last_run()["findings"]
    assert f"at In[1], line {line_of(READ)} in race_kernel" in tidy(f["report"])


def test_a_check_is_tables_that_unfold(book):
    check = book.value('pallasim.check(lambda x: pl.pallas_call(sorted_kernel, out_shape=x)(x), X, chips=["tpu-v5e", "generic"])')
    page = shown(check._repr_html_())
    assert page.tags.count("details") == 2 and page.attributes.count(("open", None)) == 1 and "sorted_kernel on tpu-v5e: refused, 1 reason" in page.text
    assert f"at In[1], line {line_of('jnp.sort')}" in page.text and page.tags.count("table") >= 4
    for k in check.kernels:
        assert sorted(re.findall(r"[\w.,\[\]]+", str(k))) == sorted(re.findall(r"[\w.,\[\]]+", re.sub(r"<[^>]*>", " ", html.unescape(k._repr_html_())))), k
    assert book.shell.display_formatter.format(check)[0]["text/plain"] == str(check)


# --- magics ---------------------------------------------------------------------------------------------------------
@BOTH
def test_a_cell_runs_on_the_emulator_and_shows_what_was_found(magic):
    number, printed, (box,), result = magic.run("%%pallasim tpu-v5e\n\ny = race(X)\nprint('ran')\nz = race(X) + 1\ny.shape")
    assert result.result == (16, 128) and (magic.value("y") == 1).all() and (magic.value("z") == 2).all() and "ran\n" in printed
    page = shown(box)
    assert page.text.startswith("tpu-v5e: race_kernel 2 times, checked: 1 warning") and page.text.count("PS-RACE-001") == 1 and "(2 times)" in page.text
    assert f"at In[1], line {line_of(READ)} in race_kernel" in tidy(page.text) and READ in page.text
    assert "launch" not in page.text and jax.default_backend() == "cpu"
    *_, (box,), _ = magic.run("%%pallasim tpu-v5e\ndouble(X)")
    assert shown(box).text == "tpu-v5e: double_kernel, checked: nothing found"  # findings of earlier cells are not its
    *_, (box,), _ = magic.run("%%pallasim tpu-v5e\nrace(X)")
    assert "PS-RACE-001" in shown(box).text  # those that earlier cells showed are


def test_the_last_value_is_the_cells(magic):
    assert magic.run("%%pallasim\n1 + 1")[-1].result == 2
    assert magic.run("%%pallasim\n1 + 1;")[-1].result is None
    assert magic.run("%%pallasim\nv = 3")[-1].result is None and magic.value("v") == 3
    assert magic.run("%%pallasim\nfrom functools import partial\nw = %who_ls\nw")[-1].result[0] == "SMALL"


def test_a_cell_whose_kernels_do_not_run_says_so(magic):
    assert shown(magic.run("%%pallasim tpu-v5e\nX + 1")[2][0]).text == "tpu-v5e: no Pallas kernel ran on the emulator"


def test_options_reach_the_run(magic):
    *_, (box,), _ = magic.run("%%pallasim tpu-v6e detect_races=False random_seed=3\nrace(X)")
    run = pallasim.runs()[-1]
    assert shown(box).text == "tpu-v6e: race_kernel, races and undefined data not looked for: nothing found" and run.chip == "tpu-v6e" and not run.checked and "random:3" in run.token
    magic.run("seed = 5")
    magic.run("%%pallasim tpu-v6e --random-seed {seed}\nrace(X)")
    assert "random:5" in pallasim.runs()[-1].token and pallasim.runs()[-1].checked
    pallasim.findings()
    *_, (box,), _ = magic.run("%%pallasim tpu-v5e findings=collect\nrace(X)")
    assert shown(box).text == "tpu-v5e: race_kernel, checked: 1 kept for pallasim.findings()" and [f.code for f in pallasim.findings()] == ["PS-RACE-001"]


@BOTH
def test_an_error_is_the_cells_and_has_its_lines(magic):
    for body in ("a = race(X)\ndouble(X, 3).block_until_ready()", "a = race(X)\nb = double(X, 3)"):  # the second is waited for when the cell ends
        number, printed, (box,), result = magic.run(f"%%pallasim tpu-v5e\n{body}", fails=True)
        assert isinstance(result.error_in_exec, pallasim.KernelError) and "PS-OOB-002" in tidy(str(result.error_in_exec))
        assert str(result.error_in_exec) in printed and printed.count("error[PS-OOB-002]") == 1 and "_magic.py" not in printed
        assert "PS-RACE-001" in shown(box).text, "what was found before is shown"
    assert "In[" in printed and magic.run("%%pallasim tpu-v5e\ndouble(X)")[-1].success, "arrays that failed are the cell's that made them"
    number, printed, *_ = magic.run("%%pallasim tpu-v5e\nx = 1\n1 / 0", fails=True)
    assert f"In[{number}], line 3" in printed and "----> 3 1 / 0" in printed
    number, printed, *_ = magic.run("%%pallasim tpu-v5e\nx = 1\nx +", fails=True)
    assert "SyntaxError" in printed


def test_launches_of_a_cell_are_at_its_lines(magic):
    number, *_, result = magic.run("%%pallasim tpu-v5e\n\nz = 0\npl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)", fails=True)
    assert f"at In[{number}], line 4 in <module>\n      pl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)" in tidy(str(result.error_in_exec))


BAD = {
    "tpu-v5": "unknown chip 'tpu-v5'; did you mean tpu-v5p or tpu-v5e? There are generic, ",
    "nonsense": "unknown machine 'nonsense'; there are generic, ",
    "tpu-v5e checked": "'checked' is no option: write NAME=VALUE or --NAME VALUE, such as detect_races=True",
    "tpu-v5e detect_race=True": "there is no option 'detect_race'; did you mean detect_races? There are ",
    "tpu-v5e --sedd 3": "there is no option 'sedd'",
    "tpu-v5e out_of_bounds=eror": "out_of_bounds is error, machine or uninitialized, not 'eror'",
    "tpu-v5e --cores many": "cores is ",
    "tpu-v5e findings=loud": "findings is 'warn', 'collect' or 'raise'",
    "tpu-v5e 'replay": "No closing quotation",
}


def test_a_bad_line_is_one_line_of_error(magic):
    launches = pallasim.launch_count()
    for line, wanted in BAD.items():
        for source in (f"%%pallasim {line}\nrace(X)", f"%pallasim {line}"):
            _, printed, boxes, result = magic.run(source, fails=True)
            assert isinstance(result.error_in_exec, UsageError) and printed.startswith("UsageError: " + wanted) and not boxes
            assert printed.count("\n") == 1
    assert pallasim.launch_count() == launches


def test_lines_read_as_the_command_line_does():
    from pallasim._magic import SPELLINGS, parse

    assert parse("tpu-v5e --checked --random-seed 7 --copies=scheduled --pipeline modelled") == pallasim.Params(
        "tpu-v5e", detect_races=True, random_seed=7, dma_execution_mode="scheduled", pipeline="modelled")
    assert parse("") == pallasim.Params(detect_races=True) == parse("--chip generic")
    assert parse("tpu-v5e rules=off fuse=false").rules == "off" and parse("verify_restore=3") == pallasim.Params(verify_restore=3)
    assert parse("tpu-v5e 'grid_order=2,0,1||1,0' replay=ps1:random:7").grid_order == "2,0,1||1,0"
    page = (ROOT / "docs" / "options.md").read_text()
    other = {s.replace("-", "_"): names[0].replace("-", "_") for line in re.findall(r"^(`--.*?):", page, re.M)
             if (names := re.findall(r"`--([\w-]+)`", line)) and names[0] != "machine" for s in names[1:]}
    assert SPELLINGS == other


def test_the_line_magic_is_for_all_further_cells(magic):
    assert "Pallas kernels run where JAX runs them; chips: generic, " in magic.run("%pallasim")[1]
    assert "emulator: Params('tpu-v5p', detect_races=True)" in magic.run("%pallasim tpu-v5p")[1]
    launches = pallasim.launch_count()
    magic.run("double(X).block_until_ready()")
    assert pallasim.launch_count() == launches + 1 and pallasim.runs()[-1].chip == "tpu-v5p"
    number, printed, _, result = magic.run("double(X, 3).block_until_ready()", fails=True)
    assert isinstance(result.error_in_exec, pallasim.KernelError) and f"at In[1], line {line_of('rows = pl.BlockSpec')} in the BlockSpec" in tidy(printed)
    assert "failure " not in printed
    magic.run("%pallasim off")
    assert "Only interpret mode is supported" in magic.run("double(X)", fails=True)[1]


def test_the_extension_comes_and_goes(magic):
    assert "pallasim.emulate(CHIP" in magic.shell.find_cell_magic("pallasim").__doc__
    magic.run("%pallasim tpu-v5e")
    magic.run("%unload_ext pallasim")
    assert "not found" in magic.run("%%pallasim tpu-v5e\n1", fails=True)[1] and "pallas_call" in magic.run("double(X)", fails=True)[1]
    magic.run("%load_ext pallasim")
    assert magic.run("%%pallasim tpu-v5e\n1")[-1].result == 1


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of the call below
def test_chips_and_options_are_completed(magic):
    def offered(line):
        return magic.shell.complete(None, line, len(line))[1]

    assert {"tpu-v5e", "tpu-v5p"} <= set(offered("%%pallasim tpu-v5")) and "gpu-h100" not in offered("%%pallasim tpu-v5")
    assert "tpu-v5e" in offered("%pallasim ") and "off" in offered("%pallasim o")
    assert "detect_races=" in offered("%%pallasim tpu-v5e det") and "--detect-races" in offered("%%pallasim tpu-v5e --det")
    assert offered("%%pallasim tpu-v5e out_of_bounds=m") == ["machine"] and set(offered("%%pallasim tpu-v5e fuse=")) >= {"True", "False"}


def test_a_notebook_of_jupyter():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [KERNELS, "%load_ext pallasim", "%%pallasim tpu-v5e\nrace(X).shape", "pallasim.runs()[-1]", "pallasim.runs()[-1].traffic"]
    done = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(done, timeout=300).execute()
    outputs = [cell["outputs"] for cell in done["cells"]]
    box, value = outputs[2]
    assert f"at In[1], line {line_of(READ)} in race_kernel" in shown(box["data"]["text/html"]).text and value["data"]["text/plain"] == "(16, 128)"
    assert "PS-RACE-001" in box["data"]["text/plain"] and "/ipykernel_" not in json.dumps(outputs)
    for (output,), part in ((outputs[3], "race_kernel on tpu-v5e"), (outputs[4], "x_ref")):
        assert part in shown(output["data"]["text/html"]).text and part.split()[0] in output["data"]["text/plain"]


def test_a_timed_cell_has_the_name_that_ipython_gives_it(book):
    *_, result = book.run('%%time\nz = 0\nwith pallasim.emulate("tpu-v5e"):\n    pl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)', fails=True)
    assert "at <timed exec>:3" in str(result.error_in_exec) and "In[1]" not in str(result.error_in_exec)


def test_the_page_shows_what_its_cells_show(plain):
    page = (ROOT / "docs" / "notebooks.md").read_text()
    cells = re.findall(r"^```python\n(.*?)^```\n(?:\n<!-- shown by the cells above -->\n```\n(.*?)^```\n)?", page, re.M | re.S)
    assert len(cells) == 4
    for cell, wanted in cells:
        with capture_output() as captured:
            plain.shell.run_cell(cell, store_history=True).raise_error()
        texts = [captured.stdout] if captured.stdout else []
        texts = [o.data["text/plain"] for o in captured.outputs if "text/html" in (o.data or {})] + texts
        assert "\n".join(t.rstrip("\n") for t in texts) + "\n" == wanted or not wanted
    assert [bool(wanted) for _, wanted in cells] == [False, False, True, False]
