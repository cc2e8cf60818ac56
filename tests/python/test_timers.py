"""Tuners that time callables get predicted seconds where `time=True` is in force, through the timers that they ask on a chip."""
from __future__ import annotations

import dataclasses
import importlib.util
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

S = jax.ShapeDtypeStruct
GPU = "gpu-h100"


def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def double(x):
    return pl.pallas_call(kernel, out_shape=S(x.shape, x.dtype))(x)


def profiler():
    return pytest.importorskip("jax.experimental.mosaic.gpu.profiler")


def test_jaxs_profiler_tells_predicted_milliseconds():
    x = jnp.ones((64, 128))
    want = 1e3 * pallasim.predict(double, x, chip=GPU).seconds
    before = pallasim.launch_count()
    with pallasim.emulate(GPU, time=True):
        y, ms = profiler().measure(double)(x)
        _, often = profiler().measure(double, iterations=3)(x)
        _, each = profiler().measure(lambda x: double(double(x)), aggregate=False)(x)
        _, none = profiler().measure(lambda x: x + 1)(x)
    assert pallasim.launch_count() == before + 4
    np.testing.assert_array_equal(np.asarray(y), 2 * np.asarray(x))
    assert 0 < ms == pytest.approx(want) and often == [ms] * 3 and none is None
    assert [name for name, _ in each] == ["kernel"] * 2 and [t for _, t in each] == [ms] * 2


def test_without_predicted_times_the_profiler_asks_for_hardware(monkeypatch):
    asked = []
    ext = types.SimpleNamespace(_cupti_init=lambda: asked.append("begin"), _cupti_get_timings=lambda finalize: asked.append("end") or [("k", 7.0)])
    monkeypatch.setattr(profiler(), "mosaic_gpu_lib", types.SimpleNamespace(_mosaic_gpu_ext=ext))
    with pallasim.emulate(GPU, time=True):
        pass
    with pallasim.emulate(GPU):
        assert profiler().measure(double)(jnp.ones((8, 128)))[1] == 7.0
    assert asked == ["begin", "end"]


@dataclasses.dataclass(frozen=True)
class Data:
    """The fields of tokamax's BenchmarkData that are set here."""

    lower_time_ms: float
    compile_time_ms: float
    evaluation_times_ms: tuple[float, ...]
    metadata: dict[str, Any]


@pytest.fixture
def benchmarking(monkeypatch):
    """A module in tokamax's place, and who holds its function by name."""
    made = types.ModuleType("tokamax._src.benchmarking")
    made.BenchmarkData = Data
    made.compile_benchmark = lambda f, x: lambda x, **how: "as on a chip"
    public = types.ModuleType("tokamax.benchmarking")
    public.compile_benchmark = made.compile_benchmark
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setitem(sys.modules, public.__name__, public)
    from pallasim import _timers

    monkeypatch.setattr(_timers, "_wrapped", _timers._wrapped - {made.__name__})
    return public


def counted(x):
    """Takes as many steps as its first element says."""

    def body(n_ref, x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, n_ref[0], lambda i, v: v * 2 + 1, x_ref[...])

    n, values = x
    return pl.pallas_call(body, out_shape=S(values.shape, values.dtype),
                          in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(values.shape, lambda: (0, 0))])(n, values)


def test_tokamax_times_what_is_predicted(benchmarking):
    with pallasim.emulate("tpu-v5e", time=True):
        before = pallasim.launch_count()
        data = benchmarking.compile_benchmark(double, S((64, 128), jnp.float32))(jnp.ones((64, 128)), iterations=4)
        assert pallasim.launch_count() == before, "nothing is run that time does not depend on"
        values, times = S((256, 128), jnp.float32), []
        run = benchmarking.compile_benchmark(counted, [S((1,), jnp.int32), values])
        for n in (1, 10_000):
            (once, *_), = {run([jnp.array([n], jnp.int32), jnp.ones((256, 128))]).evaluation_times_ms}
            times.append(once)
    want = 1e3 * pallasim.predict(double, S((64, 128), jnp.float32), chip="tpu-v5e").seconds
    assert data.evaluation_times_ms == (pytest.approx(want),) * 4 and data.metadata == {"predicted": "tpu-v5e"}
    assert 0 < 10 * times[0] < times[1], "time goes by what arrays hold"
    with pallasim.emulate("tpu-v5e"):
        assert benchmarking.compile_benchmark(double, None)(None) == "as on a chip"


def test_a_configuration_that_the_chip_refuses_has_no_time(benchmarking):
    with pallasim.emulate("tpu-v5e", time=True), pytest.raises(pallasim.KernelError, match="PS-MEM-001"):
        benchmarking.compile_benchmark(double, S((16384, 16384), jnp.float32))


@pytest.mark.skipif(importlib.util.find_spec("tokamax") is None, reason="tokamax is not installed")
def test_tokamaxs_own_tuner(monkeypatch):
    from tokamax._src.ops.attention import api

    monkeypatch.setattr(sys, "argv", sys.argv[:1])  # it reads flags from there
    q = S((1, 256, 2, 64), jnp.bfloat16)
    pallasim.install(GPU, time=True)
    try:
        found = api.IMPLEMENTATIONS["triton"].bind(q, q, q).autotune()
    finally:
        pallasim.uninstall()
    times = {config: data.median_evaluation_time_ms for config, data in found.items() if hasattr(data, "evaluation_times_ms")}
    assert len(times) >= 20 and len(set(times.values())) >= 10
    assert times[found.fastest_config] == min(times.values()) > 0
