"""In IPython: places are cells and their lines, and findings, runs, traffic and checks are shown as HTML."""
from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import zipfile

import pytest

import pallasim
from pallasim import _cells

pytest.importorskip("IPython")
pytest.register_assert_rewrite("notebook_shell")
from notebook_shell import BOTH, KERNELS, OLDER, READ, STORE, line_of, shown, tidy  # noqa: E402

pytest_plugins = ["notebook_shell"]


# --- places ---------------------------------------------------------------------------------------------------------
@OLDER
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


def test_an_error_that_leaves_no_block_is_shown_as_its_report(book):
    book.run('pallasim.install("tpu-v5e")')
    _, printed, _, result = book.run("double(X, 3).block_until_ready()", fails=True)
    assert isinstance(result.error_in_exec, pallasim.KernelError) and str(result.error_in_exec) in printed and "failure " not in printed
    assert f"at In[1], line {line_of('rows = pl.BlockSpec')} in the BlockSpec of x_ref" in tidy(printed)


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
    assert f"at In[1], line {line_of(READ)} in race_kernel\n" in str(pallasim.replay(path))


@OLDER
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
    # The name is this test's own: pytester's modules of other tests stay in sys.modules of the worker.
    (tmp_path / "notebook_kernels.py").write_text(KERNELS)
    book.run(f'import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport notebook_kernels\nsys.path.pop(0)\n'
             'with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):\n    notebook_kernels.race(X).block_until_ready()\ndel sys.modules["notebook_kernels"]')
    (f,) = pallasim.findings()
    assert f"at {tmp_path}/notebook_kernels.py:{line_of(READ)}:" in f.report and str(f.site.source) == f"{tmp_path}/notebook_kernels.py:{line_of(READ)}"


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


def test_a_timed_cell_has_the_name_that_ipython_gives_it(book):
    book.run("%%time\ntry:\n    with pallasim.emulate('tpu-v5e'):\n        pl.pallas_call(double_kernel, out_shape=X, compiler_params=SMALL)(X)\n"
             "except pallasim.KernelError as error:\n    caught = error")
    assert "at <timed exec>:3" in str(book.value("caught")) and "In[" not in str(book.value("caught"))


# --- display --------------------------------------------------------------------------------------------------------
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
    assert page.tags.count("tr") == 1 + len(latest) and page.text.count("PS-RACE-001") == sum(f.code == "PS-RACE-001" for r in latest for f in r.findings) > 0
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
