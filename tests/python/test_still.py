"""Still pictures hold what the page holds: rows of a core, slices at their moments."""
from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim import _still

S = jax.ShapeDtypeStruct
SVG = "{http://www.w3.org/2000/svg}"


def kernel(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...])


def f(x):
    spec = pl.BlockSpec((256, 512), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=(x.shape[0] // 256,), in_specs=[spec], out_specs=spec, out_shape=x)(x)


@pytest.fixture(scope="module")
def prediction():
    return pallasim.predict(f, S((2048, 512), jnp.float32), chip="tpu-v5e", sensitivity=False, report=True)


def bars(svg, row):
    """(begin, width) of the slices of a row, in pixels."""
    root = ET.fromstring(svg)
    names = {t.text: float(t.get("y")) for t in root.iter(f"{SVG}text") if t.get("x") == "10"}
    y = names[row]
    return [(float(r.get("x")), float(r.get("width"))) for r in root.iter(f"{SVG}rect") if r.get("x") and abs(float(r.get("y")) - (y - 14)) < 15 and float(r.get("x")) >= 190
            and y - 14 <= float(r.get("y")) < y + 4]


def test_slices_lie_at_their_moments(prediction):
    svg = prediction.page.picture()
    core = bars(svg, "VPU")
    assert len(core) == 8, "one computation per block"
    computed = sum(w for _, w in core) / 760 * prediction.seconds
    busy = next(b for b in prediction[0].bounds if b.name == "VPU")
    assert computed == pytest.approx(busy.seconds, rel=0.15), "pixels are seconds"
    begins = [x for x, _ in core]
    assert begins == sorted(begins) and begins[0] > 190 + 760 * 2e-6 / prediction.seconds, "the launch comes first"
    assert "<title>kernel on tpu-v5e</title>" in svg and "computes</text>" in svg


def test_a_part_of_it(prediction):
    whole, part = prediction.page.picture(), prediction.page.picture(begin=prediction.seconds / 2)
    assert 0 < len(bars(part, "VPU")) < len(bars(whole, "VPU"))
    assert bars(part, "VPU")[-1][1] == pytest.approx(2 * bars(whole, "VPU")[-1][1], rel=0.05), "half the time is twice as wide"
    assert "0 ns" in whole and "0 ns" not in re.findall(r'middle" fill="#4a5663">([^<]*)', part)


def test_the_order_of_steps_is_one_too():
    with pallasim.emulate("tpu-v5e"):
        f(jnp.ones((1024, 512)))
    svg = pallasim.last_run().report().picture()
    assert len(ET.fromstring(svg).findall(f"{SVG}rect")) > 8


@pytest.mark.parametrize("how, words", [({"launch": 2}, "launches are 1 to 1"), ({"core": 1}, "1 cores, and no core 1"), ({"begin": 1.0}, "nothing lies between")])
def test_what_there_is_not(prediction, how, words):
    with pytest.raises(ValueError, match=words):
        prediction.page.picture(**how)


def test_cores_of_several_devices_are_counted():
    """A device that holds cores is none itself."""
    tracks = [{"name": "device 0", "parent": -1, "kind": 0}, {"name": "core 0 of device 0", "parent": 0, "kind": 0}, {"name": "thread 0", "parent": 1, "kind": 1},
              {"name": "device 1", "parent": -1, "kind": 0}, {"name": "core 0 of device 1", "parent": 3, "kind": 0}, {"name": "thread 1", "parent": 4, "kind": 1}]
    lanes = [{"track": 2, "begin": [0], "length": [5], "name": [0]}, {"track": 5, "begin": [0], "length": [5], "name": [0]}]
    launch = {"tick": 1e-9, "unit": "s", "end": 5, "tracks": tracks, "lanes": lanes, "names": ["dot"], "kernel": "k", "chip": "tpu-v5e"}
    assert "thread 0" in _still.picture(launch, 0) and "thread 1" in _still.picture(launch, 1)
    with pytest.raises(ValueError, match="2 cores, and no core 2"):
        _still.picture(launch, 2)
