"""Predictions find what guessed figures matter, and what advice says, when somebody asks."""
from __future__ import annotations

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim import _core, _times

X = jax.ShapeDtypeStruct((512, 512), jnp.float32)


def doubled(x):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((64, 512), lambda i: (i, 0))
    return pl.pallas_call(double_kernel, grid=(8,), in_specs=[spec], out_specs=spec, out_shape=x)(x)


@pytest.fixture
def asked(monkeypatch):
    """Of each prediction of the engine, whether it was one with sensitivity."""
    calls = []
    real = _core.predict

    def counting(*args):
        calls.append(args[4])
        return real(*args)

    monkeypatch.setattr(_core, "predict", counting)
    return calls


def test_seconds_ask_for_one_prediction(asked):
    p = pallasim.predict(doubled, X, chip="tpu-v5e")
    assert p.seconds > 0 and p[0].bound and p[0].waits is not None and "s>" in repr(p)
    assert asked == [False]
    assert any(f.change is not None for f in p[0].figures)
    assert asked == [False, True]
    assert "guessed" in str(p) and p[0].advice is not None and p.to_json()
    assert asked == [False, True], "once"


def test_it_is_what_it_would_have_been(asked):
    p = pallasim.predict(doubled, X, chip="tpu-v5e")[0]
    text, _ = _core.predict(*pallasim._predict._traced(doubled, (X,), {}, "tpu-v5e", {})[0], False, True, 3, False, "", 0, False, False)
    assert p == _times.of_json(text) and dataclasses.asdict(p) == dataclasses.asdict(_times.of_json(text))
    without = pallasim.predict(doubled, X, chip="tpu-v5e", sensitivity=False)[0]
    assert p.seconds == without.seconds and all(f.change is None for f in without.figures)


def test_it_is_pickled_whole():
    p = pallasim.predict(doubled, X, chip="tpu-v5e")[0]
    other = pickle.loads(pickle.dumps(p))
    assert type(other) is _times.KernelTime
    assert dataclasses.asdict(other) == dataclasses.asdict(p)


def test_an_interrupted_question_can_be_asked_again(monkeypatch):
    p = pallasim.predict(doubled, X, chip="tpu-v5e")[0]
    real = _core.predict

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_core, "predict", interrupted)
    with pytest.raises(KeyboardInterrupt):
        p.figures
    monkeypatch.setattr(_core, "predict", real)
    assert any(f.change is not None for f in p.figures)


def test_a_trace_and_a_report_have_it_at_once(asked, tmp_path):
    pallasim.predict(doubled, X, chip="tpu-v5e", trace=str(tmp_path / "x.perfetto-trace"))
    pallasim.predict(doubled, X, chip="tpu-v5e", report=True)
    assert asked == [True, True]
