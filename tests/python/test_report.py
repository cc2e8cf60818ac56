"""The page of `pallasim report`: its data, and the page itself in a browser."""
import functools
import json
import re

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import browser
import pallasim
from test_capsule import replay
from test_predict import slices_of

S = jax.ShapeDtypeStruct
TPU = "tpu-v5e"
NASTY = "</script><script>document.title = 'taken'</script><!--"


def scaled(x_ref, w_ref, o_ref):
    with jax.named_scope("scale"):
        x = x_ref[...] * 2
    with jax.named_scope("multiply"):
        o_ref[...] = jnp.dot(x, w_ref[...])


def product(n=8, kernel=scaled, name=None):
    spec = pl.BlockSpec((256, 128), lambda i: (i, 0))
    f = pl.pallas_call(kernel, grid=(n,), in_specs=[spec, pl.BlockSpec((128, 128), lambda i: (0, 0))], out_specs=spec, out_shape=S((n * 256, 128), jnp.float32), name=name)
    return f, S((n * 256, 128), jnp.float32), S((128, 128), jnp.float32)


def data_of(path):
    text = path.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def page(tmp_path, *args, **kwargs):
    path = tmp_path / "x.html"
    p = pallasim.predict(*args, chip=kwargs.pop("chip", TPU), sensitivity=False, report=str(path), **kwargs)
    return p, path


def sums(d):
    at, r = 0, []
    for x in d:
        at += x
        r.append(at)
    return r


def test_the_data_is_the_launch(tmp_path):
    p, path = page(tmp_path, *product())
    launch, = data_of(path)["launches"]
    assert launch["kernel"] == "scaled" and launch["chip"] == TPU
    assert launch["prediction"]["seconds"] == p.seconds
    rooms = {(r["name"], r["space"]): r for r in launch["rooms"]}
    assert rooms["x_ref", "hbm"]["bytes"] == 8 * 256 * 128 * 4 and rooms["x_ref", "hbm"]["dims"] == [2048, 128]
    assert rooms["x_ref", "vmem"]["slots"] == 2 and rooms["x_ref", "vmem"]["bytes"] == 2 * 256 * 128 * 4
    m, names = launch["moves"], launch["names"]
    boxes = [names[b] for b, f in zip(m["from_box"], m["from"]) if launch["rooms"][f]["name"] == "x_ref"]
    assert boxes == [f"[{256 * i}:{256 * i + 256}, 0:128]" for i in range(8)]
    assert sum(b for b, f in zip(m["bytes"], m["from"]) if launch["rooms"][f]["space"] == "hbm") == p[0].bytes_read
    assert sum(b for b, t in zip(m["bytes"], m["to"]) if launch["rooms"][t]["space"] == "hbm") == p[0].bytes_written
    slots = [s for s, t in zip(m["to_slot"], m["to"]) if launch["rooms"][t]["name"] == "x_ref"]
    assert slots == [0, 1] * 4, "blocks take turns"
    assert [names[n] for n in launch["grid"]["name"]] == [f"({i})" for i in range(8)]
    end = max(b + n for lane in launch["lanes"] for b, n in zip(sums(lane["begin"]), lane["length"]))
    assert end * launch["tick"] == pytest.approx(p.seconds, rel=0.01)
    dot = next(x for x in launch["lines"] if "jnp.dot" in x["text"])
    assert dot["scope"] == "multiply" and dot["seconds"] == pytest.approx(next(x.seconds for x in p[0].lines if x.line == dot["line"]))
    assert launch["left_out"] == ""


def test_what_a_kernel_says_is_text(tmp_path):
    p, path = page(tmp_path, *product(name=NASTY))
    text = path.read_text()
    assert text.count("</script>") == 2 and NASTY not in text
    assert data_of(path)["launches"][0]["kernel"] == p[0].kernel


def test_a_page_without_a_launch_is_small():
    from pallasim import _core

    assert len(_core.report_page("", [])) < 200_000


def test_the_last_run_has_a_page(tmp_path):
    f, x, w = product()
    with pallasim.emulate(TPU):
        f(jnp.ones(x.shape, x.dtype), jnp.ones(w.shape, w.dtype))
    path = tmp_path / "run.html"
    shown = pallasim.last_run().report(str(path))
    assert data_of(path)["launches"][0]["kernel"] == "scaled"
    assert "<iframe" in shown._repr_html_() and "srcdoc" in shown._repr_html_()
    with pallasim.emulate("generic"):
        f(jnp.ones(x.shape, x.dtype), jnp.ones(w.shape, w.dtype))
    with pytest.raises(Exception, match="PS-OPT-001"):
        pallasim.last_run().report()


def test_long_launches_are_folded(tmp_path):
    """More steps than a page holds: what is left out is said, the whole time is there."""

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    f = pl.pallas_call(body, grid=(16384,), in_specs=[spec], out_specs=spec, out_shape=S((16384 * 8, 128), jnp.float32))
    p, path = page(tmp_path, f, S((16384 * 8, 128), jnp.float32))
    launch, = data_of(path)["launches"]
    assert "slices are part of others" in launch["left_out"] and "movements are left out" in launch["left_out"]
    assert sum(len(lane["begin"]) for lane in launch["lanes"]) <= 60_000
    end = max(b + n for lane in launch["lanes"] for b, n in zip(sums(lane["begin"]), lane["length"]))
    assert end * launch["tick"] == pytest.approx(p.seconds, rel=0.01)
    assert path.stat().st_size < 6e6


def recorded(tmp_path):
    """A capsule of two launches."""
    f, x, w = product()
    path = tmp_path / "two.capsule"

    def twice(x, w):
        return f(f(x, w), w)

    with pallasim.emulate(TPU):
        pallasim.capture(twice, jnp.ones(x.shape, x.dtype), jnp.ones(w.shape, w.dtype), path=path)
    return path


@pytest.mark.parametrize("options", [[], ["--predict"]])
def test_every_launch_of_a_capsule_has_its_time(tmp_path, options):
    path = tmp_path / "t"
    code, said = replay(recorded(tmp_path), "-o", str(path), *options, verb="trace")
    assert code == 0 and [x["launch"] for x in said["launches"]] == [1, 2]
    scopes = [(begin, end) for _, name, begin, end, _ in slices_of(path.read_bytes()) if name == "multiply"]
    assert len(scopes) == 16, "a scope per grid point"
    assert scopes == sorted(scopes) and all(a[1] <= b[0] for a, b in zip(scopes, scopes[1:])), "one behind the other"


def test_a_capsule_has_a_page(tmp_path):
    path = tmp_path / "x.html"
    code, said = replay(recorded(tmp_path), "-o", str(path), verb="report")
    first, second = data_of(path)["launches"]
    assert code == 0 and first["unit"] == second["unit"] == "s" and first["traffic"]
    replay(recorded(tmp_path), "-o", str(path), "--steps", "--launch", "2", verb="report")
    only, = data_of(path)["launches"]
    assert only["unit"] == "steps" and only["prediction"] is None and only["moves"]["bytes"]


# --- in a browser -------------------------------------------------------------------------------------------------------
needs_browser = pytest.mark.skipif(browser.program() is None, reason="no Chromium here (apt-get install chromium)")
FRAMES = """new Promise(done => { const s = pallasim.state, end = s.launch.end; let n = 0; const began = performance.now();
  const go = () => { s.setTime(end * ++n / 60); if (n < 60) requestAnimationFrame(go); else done(60000 / (performance.now() - began)); }; requestAnimationFrame(go); })"""


@needs_browser
def test_a_page_in_a_browser(tmp_path):
    _, path = page(tmp_path, *product(name=NASTY))
    with browser.Browser() as b:
        b.open(path)
        assert b.ask("document.title").startswith("</script>"), "the name is text"
        assert b.ask("document.querySelectorAll('script').length") == 2
        assert b.ask("document.querySelector('#head h1').textContent") == NASTY
        # The scrubber: everything shows that moment.
        b.click("#scrub", 0.5)
        time, end = b.ask("pallasim.state.time"), b.ask("pallasim.state.launch.end")
        assert 0.4 < time / end < 0.6
        assert "under way" in b.ask("document.querySelector('#grid p').textContent")
        assert b.ask("document.querySelectorAll('#memory .slot.full').length") >= 2
        b.ask("{ const s = pallasim.state, l = s.launch.lanes.find(l => l.line[3] >= 0); s.setTime((l.begin[3] + l.end[3]) / 2); }")
        assert b.ask("[...document.querySelectorAll('#source .line.now')].some(e => e.textContent.includes('jnp.dot'))")
        time = b.ask("pallasim.state.time")
        b.ask("document.activeElement.blur()")
        b.key("ArrowRight")
        assert b.ask("pallasim.state.time") > time
        b.key("ArrowLeft")
        b.key("ArrowLeft")
        assert b.ask("pallasim.state.time") <= time
        # A line: its slices light up; n goes to where it runs next.
        b.click("#source .line code")
        line = b.ask("pallasim.state.line")
        assert line >= 0 and b.ask("document.querySelectorAll('#source .line.selected').length") == 1
        b.key("Escape")
        assert b.ask("pallasim.state.line") == -1
        # The time line: a click goes there; a grid point, too.
        b.click("#timeline canvas", 0.8, 0.3)
        assert b.ask("pallasim.state.time") > 0.5 * end
        b.click("#grid canvas", 0.02, 0.02)
        assert b.ask("pallasim.state.time") == b.ask("pallasim.state.launch.pointBegin[0]")
        b.key("+")
        assert b.ask("pallasim.state.to - pallasim.state.from") < end
        b.key("Home")
        b.key(" ")
        assert b.ask("new Promise(r => setTimeout(() => r(pallasim.state.time), 300))") > 0
        b.key(" ")
        assert not b.problems


@needs_browser
@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits(tmp_path, width, scheme):
    _, path = page(tmp_path, *product())
    with browser.Browser(width, 900) as b:
        b.scheme(scheme)
        b.open(path)
        assert b.ask("document.documentElement.scrollWidth") <= width
        ground = b.ask("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 384) == (scheme == "dark")
        assert not b.problems


@needs_browser
def test_a_large_page_opens_and_moves(tmp_path):
    mm = pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    config = mm.TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=4, wg_dimension=mm.MatmulDimension.M)
    x = S((2048, 2048), jnp.float16)
    _, path = page(tmp_path, functools.partial(mm.matmul, config=config, c=None), x, x, chip="gpu-h100")
    with browser.Browser() as b:
        for _ in range(5):  # others may have the machine for a moment
            b.open(path)
            opened, frames = b.ask("pallasim.opened"), b.ask(FRAMES)
            if opened < 2000 and frames > 15:
                break
        assert opened < 2000, "a second, and as much for a busy machine"
        assert frames > 15, "30 frames a second, on a busy machine half of it"
        assert not b.problems
