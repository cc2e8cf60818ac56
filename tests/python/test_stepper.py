"""The stepper of notebooks: what it shows, forward and back, as HTML, and its buttons in a browser."""
from __future__ import annotations

import html.parser
import json
import pathlib
import types

import browser
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepper_page
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from pictures import Picture, marks

import pallasim
from pallasim import _stepper_html, _stepper_widget

X = np.linspace(-1, 4, 32 * 256, dtype=np.float32).reshape(32, 256)
BLOCK = pl.BlockSpec((8, 128), lambda i, j: (i, j))


def log_kernel(x_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(0) + pl.program_id(1) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x = x_ref[...]
    y = jnp.log(x)
    acc_ref[...] += y
    o_ref[...] = acc_ref[...]


FIRST = log_kernel.__code__.co_firstlineno
LAST = FIRST + 8


def logs(x):
    return pl.pallas_call(log_kernel, grid=(4, 2), in_specs=[BLOCK], out_specs=BLOCK, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
                          scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)])(x)


@pytest.fixture(scope="module")
def capsule(tmp_path_factory):
    path = tmp_path_factory.mktemp("stepper") / "logs.capsule"
    pallasim.capture(logs, jnp.asarray(X), path=path, params="tpu-v5e")
    return path


@pytest.fixture
def stepper(capsule):
    made = pallasim.Stepper(capsule, checked=True)
    yield made
    made.close()


class Page(html.parser.HTMLParser):
    """Text and images of a page that has no scripts, handlers or addresses."""

    def __init__(self, source):
        super().__init__()
        self.text, self.images, self.here = "", {}, ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert tag not in ("script", "link", "iframe", "object") and not any(name.startswith("on") or name in ("href", "action") for name in given)
        assert "url(" not in given.get("style", "")
        if tag == "img":
            assert given["src"].startswith("data:image/png;base64,")
            self.images[given["alt"].partition(":")[0]] = Picture.of_url(given["src"], int(given["data-cell"]))

    def handle_data(self, data):
        self.text += data


def test_it_steps_and_goes_back(stepper):
    assert (stepper.line, pathlib.Path(stepper.file)) == (FIRST + 1, pathlib.Path(__file__)) and "at the start" in repr(stepper)
    assert stepper.step().line == FIRST + 3 and stepper.finish().line == FIRST + 5
    assert stepper.next().line == FIRST + 6 and stepper.next().line == FIRST + 7
    names = {v.name: v for v in stepper.view.values}
    assert names["y"].text.startswith("f32[8,128]") and "NaN" in names["y"].text
    assert stepper.back().line == FIRST + 6 and "y" not in {v.name for v in stepper.view.values}
    stepper.break_at(LAST, condition="program_id(0) == 2")
    assert stepper.go_on().line == LAST and "kernel at (2, 0)" in repr(stepper) and "breakpoint" in repr(stepper)
    for i in range(10):
        at = (i * 3 % 8, i * 31 % 128)
        assert float(stepper.value(f"x[{at[0]}, {at[1]}]")) == pytest.approx(X[16 + at[0], at[1]], rel=1e-5)
    assert stepper.go_back().line == FIRST + 1 and stepper.restart().line == FIRST + 1
    stepper.clear(LAST)
    assert "the launch ended" in repr(stepper.go_on())
    with pytest.raises(RuntimeError, match="no operation is of line 100000"):
        stepper.break_at(100000)
    with pytest.raises(RuntimeError, match="there is no z here"):
        stepper.value("z")


def test_the_page_has_lines_values_and_pictures(stepper):
    stepper.break_at(LAST)
    stepper.go_on().go_on()  # grid point (0, 1)
    page = Page(stepper._repr_html_())
    assert "acc_ref[...] += y" in page.text and f"{LAST}" in page.text and "anywidget" in page.text
    assert {"x", "y", "acc_ref", "x_ref", "o_ref", "x_ref.array", "o_ref.array"} <= set(page.images)
    # Blocks are 8 by 128, a cell an element; the array's cells are two elements wide.
    x, whole, acc, out = (page.images[n] for n in ("x_ref", "o_ref.array", "acc_ref", "o_ref"))
    assert (x.rows, x.columns) == (8, 128) and (whole.rows, whole.columns) == (32, 128)
    with np.errstate(invalid="ignore"):
        now = np.log(X[:8, 128:]) + np.log(X[:8, :128])
    assert np.isnan(now).any()
    np.testing.assert_array_equal(marks(acc) == "nan", np.isnan(now))
    assert (marks(out) == "undefined").all() and (marks(whole)[:8, :64] != "undefined").all() and (marks(whole)[8:] == "undefined").all()
    block = stepper._repr_html_().split('title="the block"')[-1]
    assert "left:50.00%;top:0.00%;width:50.00%;height:25.00%" in block
    assert "crossed: NaN" in page.text and "chequered: undefined" in page.text


def test_a_picture_is_a_file_and_a_box(stepper):
    shown = stepper.picture("x_ref[0:4, 0:8] * 2")
    page = Page(shown._repr_html_())
    assert Picture(shown._repr_png_(), shown.cells["cell"]).columns == 8 and list(page.images) == ["x_ref[0"] and "-2" in page.text
    with pytest.raises(RuntimeError, match="one element has no picture"):
        stepper.picture("x_ref[0, 0]")


def test_arrays_of_more_dimensions_are_parts_below_each_other():
    picture = types.SimpleNamespace(cells={"columns": 128, "rows": 35, "down": 1, "across": 1, "plane": 8}, dims=(4, 8, 128))
    part = types.SimpleNamespace(block=(2, 0, 0), dims=(1, 8, 128))
    assert f"top:{100 * 18 / 35:.2f}%;width:100.00%;height:{100 * 8 / 35:.2f}%" in _stepper_html._outline(picture, part)


def test_a_notebook_of_jupyter():
    """Cells as people write them; the debugger of a terminal stays away."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    from notebook_shell import KERNELS, STORE, line_of

    cells = [KERNELS, 'import sys\nsys.modules["anywidget"] = None  # widgets are off\ns = pallasim.debug(double, X, chip="tpu-v5e")\ns', "s.next()",
             'with pallasim.emulate("tpu-v5e", post_mortem=True):\n    double(X, 3).block_until_ready()']
    done = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(done, timeout=300, allow_errors=True).execute()
    outputs = [cell["outputs"] for cell in done["cells"]]
    first, second = (Page(outputs[i][0]["data"]["text/html"]) for i in (1, 2))
    assert f"double_kernel, In[1], line {line_of(STORE)}" in first.text and "def double_kernel(x_ref, o_ref):" in first.text and "x_ref.array" in first.images
    assert first.text != second.text and set(outputs[1][0]["data"]) == {"text/plain", "text/html"}
    mortem = [o for o in outputs[3] if o["output_type"] == "display_data"]
    assert mortem and "double_kernel" in mortem[0]["data"]["text/plain"] and any(o["output_type"] == "error" for o in outputs[3])


@pytest.mark.skipif(browser.program() is None, reason="no Chromium here")
def test_its_buttons(stepper, tmp_path):
    """The script of the widget in a browser, its model between that and Python."""
    widget = stepper_page.widget_of(stepper)
    page = stepper_page.written(widget, tmp_path / "page.html")
    with browser.Browser() as b:
        b.open(page)

        def said():
            """What the page sent, done by Python and shown."""
            messages = b.ask("sent.splice(0)")
            for m in messages:
                assert b.ask("[...document.querySelectorAll('button')].every((b) => b.disabled)")
                _stepper_widget.answer(stepper, widget, m)
                b.ask(f"model.set({json.dumps(vars(widget))})")
            assert b.ask("[...document.querySelectorAll('button')].every((b) => !b.disabled)")
            return [m["do"] for m in messages]

        line = lambda: b.ask("[...document.querySelectorAll('[data-line]')].find((e) => e.parentElement.style.fontWeight === 'bold').dataset.line")
        assert line() == str(FIRST + 1)
        b.click('[data-do="step"]')
        assert said() == ["step"] and line() == str(stepper.line) == str(FIRST + 3)
        b.click('[data-do="next"]')
        b.click('[data-do="next"]')  # waits for the first one
        assert said() == ["next"] and line() == str(FIRST + 5)
        b.key("n")
        assert said() == ["next"] and line() == str(FIRST + 6)
        b.key("b")
        assert said() == ["back"] and line() == str(FIRST + 5)
        b.click(f'[data-line="{LAST}"]')
        assert said() == ["toggle"] and "\u25cf" in b.ask(f"document.querySelector('[data-line=\"{LAST}\"]').textContent")
        b.click('[data-do="continue"]')
        assert said() == ["continue"] and line() == str(LAST)
        b.ask("document.querySelector('details').open = true")
        b.click("input")
        for key in "acc_ref * n":
            b.key(key)
        b.key("Enter")
        assert said() == ["watch"] and "there is no n here" in b.ask("document.body.textContent")
        assert b.ask("document.querySelectorAll('img').length") >= 5 and b.ask("[...document.images].every((i) => i.complete && i.naturalWidth > 0)")
        b.ask("model.send({do: 'toggle', file: '', line: 100000})")
        _stepper_widget.answer(stepper, widget, b.ask("sent.splice(0)")[0])
        b.ask(f"model.set({json.dumps(vars(widget))})")
        assert "no operation is of line 100000" in b.ask("document.querySelector('[role=alert]').textContent")
        b.click('[data-do="reverse-continue"]')
        assert said() == ["reverse-continue"] and line() == str(FIRST + 1)
        assert b.problems == []


def test_a_widget_where_there_are_widgets(stepper):
    pytest.importorskip("anywidget")
    bundle = stepper._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    widget = stepper._widget
    widget._handle_custom_msg({"do": "step"}, [])
    assert (widget.answered, widget.problem) == (1, "") and widget.html == _stepper_html.page(stepper.view) and stepper.line == FIRST + 3
    widget._handle_custom_msg({"do": "nonsense"}, [])
    assert (widget.answered, widget.problem) == (2, "there is no command nonsense")
