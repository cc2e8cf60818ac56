"""`%load_ext pallasim`: magics run cells on the emulator and show what was found."""
from __future__ import annotations

import json
import pathlib
import re

import jax
import pytest

import pallasim

pytestmark = pytest.mark.one_jax

pytest.importorskip("IPython")
from IPython.core.error import UsageError  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402
pytest.register_assert_rewrite("notebook_shell")
from notebook_shell import BOTH, KERNELS, READ, line_of, shown, tidy  # noqa: E402

pytest_plugins = ["notebook_shell"]
ROOT = pathlib.Path(__file__).resolve().parents[2]

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


def test_more_launches_than_are_kept_are_counted(magic):
    *_, (box,), _ = magic.run("%%pallasim tpu-v5e\nf = jax.jit(double)\nfor _ in range(300):\n    f(X)")
    assert shown(box).text == "tpu-v5e: double_kernel 256 times and 44 launches before, checked: nothing found"


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
        assert "double_kernel, checked: 1 error, 1 warning" in shown(box).text and "nothing found" not in shown(box).text
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
    "tpu-v5e out_of_bounds=eror": "out_of_bounds is chip, error, machine or uninitialized, not 'eror'",
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
    assert parse("tpu-v5e rules=off fuse=false").rules == "off" and parse("verify_restore=3") == pallasim.Params(verify_restore=3, detect_races=True)
    assert parse("tpu-v5e 'grid_order=2,0,1||1,0' replay=ps2:random:7").grid_order == "2,0,1||1,0"
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
