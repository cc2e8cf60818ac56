"""The page of `pallasim report` for everybody: by keys alone, on paper, without colours, in a notebook, with long grids and several devices."""
import html
import pathlib
import re
import shutil
import subprocess
import sys

import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import browser
import pallasim
from test_report import S, TPU, data_of, page, product

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(browser.program() is None, reason="no Chromium here (apt-get install chromium)")

# What has the keys: what it is, what it is called, whether one sees that it has them.
FOCUSED = """(() => { const e = document.activeElement; if (!e || e === document.body) return null;
  const style = getComputedStyle(e), r = e.getBoundingClientRect();
  return { what: e.id || e.closest('section')?.id + ' ' + e.tagName.toLowerCase(), name: e.getAttribute('aria-label') || e.title || e.textContent.trim(),
           seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 && r.width > 0 && r.height > 0 }; })()"""


def walked(b):
    """What the tabulator key goes through, until it is through."""
    out = []
    for _ in range(200):
        b.key("Tab")
        now = b.ask(FOCUSED)
        if now is None:
            break
        out.append(now)
    return out


def go_to(b, what):
    for _ in range(200):
        b.key("Tab")
        now = b.ask(FOCUSED)
        if now and now["what"] == what:
            return
    raise AssertionError(f"no key goes to {what}")


def test_every_control_is_reached_and_named(tmp_path):
    _, path = page(tmp_path, *product())
    with browser.Browser() as b:
        b.open(path)
        found = walked(b)
        assert {"play", "scrub", "source div", "timeline button", "timeline canvas", "grid canvas", "occupancy summary"} <= {f["what"] for f in found}
        assert all(f["name"] and f["seen"] for f in found), [f for f in found if not (f["name"] and f["seen"])]
        controls = b.ask("[...document.querySelectorAll('button, input, select, summary, [tabindex]')].filter(e => e.checkVisibility()).length")
        assert len(found) == controls
        # No picture is without words.
        assert b.ask("[...document.querySelectorAll('svg, canvas:not([aria-hidden])')].every(e => e.getAttribute('role') && e.getAttribute('aria-label'))")
        assert not b.problems


def test_a_page_by_keys_alone(tmp_path):
    _, path = page(tmp_path, *product())
    with browser.Browser() as b:
        b.open(path)
        state = "pallasim.state."
        go_to(b, "play")
        b.key(" ")
        assert b.ask("new Promise(r => setTimeout(() => r(pallasim.state.time), 300))") > 0
        b.key(" ")
        go_to(b, "scrub")
        before = b.ask(state + "time")
        b.key("ArrowRight")
        assert b.ask(state + "time") > before
        assert "µs" in b.ask("document.querySelector('#scrub').getAttribute('aria-valuetext')")
        go_to(b, "source div")
        for _ in range(20):
            b.key("ArrowDown")
        line = b.ask(state + "line")
        assert line >= 0 and b.ask("document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).getAttribute('aria-selected')") == "true"
        b.key("n")
        b.key("Escape")
        assert b.ask(state + "line") == -1
        go_to(b, "timeline canvas")
        rows = []
        for _ in range(12):
            rows.append(b.ask("document.getElementById('row').textContent"))
            b.key("ArrowDown")
        assert any(r.startswith("MXU: ") for r in rows) and any(re.match(r"VMEM bytes: .*KiB", r) for r in rows), rows
        while not b.ask("document.getElementById('row').textContent").startswith("MXU: "):
            b.key("ArrowUp")
        for _ in range(50):
            if "jnp.dot" in b.ask("document.getElementById('row').textContent"):
                break
            b.key("ArrowRight")
        b.key("Enter")
        assert "jnp.dot" in b.ask("document.querySelector('#source .line.selected').textContent"), "the slice that the row has at the moment"
        b.key("+")
        assert b.ask(f"{state}to - {state}from < {state}launch.end")
        b.key("-")
        go_to(b, "occupancy summary")
        b.key("Enter")
        assert b.ask("document.activeElement.closest('details').open")
        assert not b.problems


def test_kinds_differ_without_colours(tmp_path):
    _, path = page(tmp_path, *product())
    with browser.Browser() as b:
        b.open(path)
        swatches = b.ask("""[...document.querySelectorAll('#timeline .swatch')].map(e => { const s = getComputedStyle(e);
          return [s.backgroundImage.replace(/rgba?\\([^)]*\\)|color\\([^)]*\\)/g, ''), s.height, s.borderStyle, e.parentElement.textContent].join('|'); })""")
        assert len(swatches) == 6 and len({s.rsplit("|", 1)[0] for s in swatches}) == 6, swatches
        assert all(s.rsplit("|", 1)[1] for s in swatches), "and each says what it is"
        # A slice that brings data has stripes, one that computes none: changes along its middle.
        b.ask("pallasim.state.setView(pallasim.state.launch.end * 0.7, pallasim.state.launch.end * 0.8)")
        runs = b.ask("""(() => { const c = document.querySelector('#timeline canvas'), w = c.width, d = c.getContext('2d').getImageData(0, 0, w, c.height).data, out = {};
          for (const n of ['compute', 'in', 'out']) {
            const v = parseInt(getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim().slice(1), 16), rgb = [v >> 16, (v >> 8) & 255, v & 255], runs = [];
            for (let y = 0; y < c.height; ++y) for (let x = 0, run = 0; x <= w; ++x) {
              const k = 4 * (y * w + x), is = x < w && rgb.every((p, i) => d[k + i] === p);
              if (is) ++run; else { if (run) runs.push(run); run = 0; }
            }
            out[n] = [Math.max(...runs, 0), runs.length];
          }
          return out; })()""")
        assert b.ask("pallasim.state.launch.lanes.flatMap(l => l.away ?? []).filter(Boolean).length") == 8, "blocks of the output"
        assert runs["compute"][0] > 40, "plain"
        for kind in ("in", "out"):
            assert runs[kind][1] > 300, "striped: short runs, but behind a name"
        assert not b.problems


SLICED = """[...document.querySelectorAll('.panel, .panel .code, .panel .draw, .panel .lanes, .panel table')].filter(e => e.checkVisibility())
  .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'table' || e.getBoundingClientRect().right > innerWidth + 1
            || e.classList.contains('code') && e.scrollHeight > e.clientHeight + 1).map(e => (e.closest('section')?.id ?? '') + ' ' + e.className)"""


def test_a_page_on_paper(tmp_path):
    _, path = page(tmp_path, *product())
    with browser.Browser(718, 1000) as b:  # what A4 has between its margins
        b.scheme("dark")
        b.open(path)
        b.media("print")
        b.ask("dispatchEvent(new Event('beforeprint')); pallasim.state.setTime(pallasim.state.launch.end / 2)")
        assert b.ask(SLICED) == [] and b.ask("document.documentElement.scrollWidth") <= 718
        colours = b.ask("['body', '.panel'].map(e => getComputedStyle(document.querySelector(e)).backgroundColor).concat(getComputedStyle(document.body).color)")
        assert colours[:2] == ["rgb(255, 255, 255)"] * 2 and sum(map(int, re.findall(r"\d+", colours[2]))) < 200, "dark on white"
        assert not b.ask("document.querySelector('#scrubber').checkVisibility()") and b.ask("[...document.querySelectorAll('details')].every(d => d.open)")
        assert b.ask("document.querySelector('#memory .moment').checkVisibility()"), "paper says which moment it shows"
        b.ask("dispatchEvent(new Event('afterprint'))")
        assert not b.ask("document.documentElement.classList.contains('printing')") and not b.problems


def test_a_page_as_pdf(tmp_path):
    _, path = page(tmp_path, *product())
    with browser.Browser() as b:
        b.scheme("dark")
        b.open(path)
        b.pdf(tmp_path / "x.pdf")
        assert not b.problems
    data = (tmp_path / "x.pdf").read_bytes()
    assert data.startswith(b"%PDF") and 1 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 4
    if not shutil.which("pdftotext"):
        return
    text = subprocess.run(["pdftotext", "-layout", tmp_path / "x.pdf", "-"], capture_output=True, text=True, check=True).stdout
    for words in ("Kernel", "jnp.dot(x, w_ref[...])", "Memories at this moment", "Time line", "MXU", "Where the time goes", "Roofline", "Grid", "What memories hold", "How well it is known"):
        assert words in text, words


def test_a_notebook_shows_the_same_figure(tmp_path):
    """In an output of a notebook, which is a frame without an origin: pixel by pixel what the file shows, without a network."""
    f, x, w = product()
    with pallasim.emulate(TPU):
        f(jnp.ones(x.shape, x.dtype), jnp.ones(w.shape, w.dtype))
    shown = pallasim.last_run().report(str(tmp_path / "file.html"))._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1]) == (tmp_path / "file.html").read_text()
    assert set(re.findall(r"https?://[\w./]+", shown)) <= {"http://www.w3.org/2000/svg"}, "nothing is fetched"
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body style='margin:0'>{shown}")
    pictures = []
    for name in ("file", "notebook"):
        with browser.Browser(1000, 720) as b:
            b.offline()
            b.open(tmp_path / f"{name}.html")
            b.ask("new Promise(r => setTimeout(r, 500))")
            b.picture(str(tmp_path / f"{name}.png"), whole=False)
            assert not b.problems
        pictures.append((tmp_path / f"{name}.png").read_bytes())
    assert pictures[0] == pictures[1] and len(pictures[0]) > 20_000


@pytest.mark.parametrize("grid", [(3, 40, 7), (5000,), (64, 4, 4, 4), (300, 300)])
def test_grids_fit(tmp_path, grid):
    """Every point has its cell, in a picture of bounded size."""
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pl.BlockSpec((8, 128), lambda *i: (0, 0))
    f = pl.pallas_call(body, grid=grid, in_specs=[spec], out_specs=spec, out_shape=S((8, 128), jnp.float32))
    _, path = page(tmp_path, f, S((8, 128), jnp.float32))
    with browser.Browser() as b:
        b.open(path)
        wide, tall = b.ask("(() => { const r = document.querySelector('#grid canvas').getBoundingClientRect(); return [r.width, r.height]; })()")
        assert 20 < wide <= 420 and 1 < tall <= 500, (wide, tall)
        b.ask("pallasim.state.setTime(pallasim.state.launch.end)")
        words = b.ask("document.querySelector('#grid p').textContent")
        assert " × ".join(map(str, grid)) in words and ("left out" in words) == (b.ask("pallasim.state.launch.raw.points_dropped") > 0), words
        assert b.ask("document.documentElement.scrollHeight") < 4000 and not b.problems


def test_what_is_left_out_is_not_made_up(tmp_path):
    """Behind the last movement and grid point that a page keeps it says so, and shows nothing as done or lying somewhere."""
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    f = pl.pallas_call(body, grid=(32768,), in_specs=[spec], out_specs=spec, out_shape=S((32768 * 8, 128), jnp.float32))
    _, path = page(tmp_path, f, S((32768 * 8, 128), jnp.float32))
    with browser.Browser() as b:
        b.open(path)
        for part, late in ((0.05, False), (0.9, True)):
            b.ask(f"pallasim.state.setTime(pallasim.state.launch.end * {part})")
            assert ("left out" in b.ask("document.querySelector('#memory .moment').textContent")) == late
            assert ("left out" in b.ask("document.querySelector('#grid p').textContent")) == late
            assert bool(b.ask("document.querySelectorAll('#memory .slot.full').length")) != late
        assert not b.problems


def test_semaphores_are_shown_where_they_lie(tmp_path):
    """Of a ring, whose devices signal each other's: below the device that has them, whoever signals first."""
    n = 8
    made = subprocess.run([sys.executable, ROOT / "bench" / "report.py", "ring", "--runs", "0", "--keep", tmp_path], capture_output=True, text=True, timeout=300)
    path = tmp_path / "ring_of_8.html"
    assert path.exists(), made.stderr
    launch, = data_of(path)["launches"]
    tracks = launch["tracks"]

    def above(track):
        return [] if track < 0 else [*above(tracks[track]["parent"]), tracks[track]["name"]]

    of = [above(c["track"]) for c in launch["counters"] if tracks[c["track"]]["name"].startswith(("semaphore came", "semaphore barrier"))]
    assert len(of) == n * n and all(names[-1].endswith(f" of {names[0]}") for names in of), of
    with browser.Browser() as b:
        b.open(path)
        b.ask("pallasim.state.setTime(pallasim.state.launch.end * 0.6)")
        ways = b.ask("[...document.querySelectorAll('#memory .way')].map(e => e.getAttribute('d'))")
        assert len(ways) == n, "every device's copy is under way"
        assert all("C" in d for d in ways), "beside the memories, not through them"
        assert b.ask("document.querySelector('#memory').getBoundingClientRect().height") < 700
        assert not b.problems
