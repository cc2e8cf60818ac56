"""Virtual time: small kernels whose times a hand can compute from the figures, and what must hold of every prediction."""

import functools
import json
import struct

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt
from time_lines import fields, packets, slices_of

import pallasim

S = jax.ShapeDtypeStruct
TPU = "tpu-v5e"
GPU = "gpu-h100"


def figures(p):
    return {f.name: f.value for f in p[0].figures}


def copies(sizes, together):
    """Copies from HBM to VMEM, of rows of 128 f32 each, awaited one by one or after all were started."""

    def body(x_ref, o_ref, *scratch):
        *places, sem = scratch
        started = [pltpu.make_async_copy(x_ref.at[pl.ds(0, n)], v, sem.at[i]) for i, (n, v) in enumerate(zip(sizes, places))]
        for c in started:
            c.start()
            if not together:
                c.wait()
        for c in started:
            if together:
                c.wait()
        o_ref[0, 0] = jnp.float32(1)

    return pl.pallas_call(body, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pltpu.SMEM), out_shape=S((1, 1), jnp.float32),
                          scratch_shapes=[*(pltpu.VMEM((n, 128), jnp.float32) for n in sizes), pltpu.SemaphoreType.DMA((len(sizes),))])


def predicted(f, *args, chip=TPU, **kwargs):
    kwargs.setdefault("sensitivity", False)
    return pallasim.predict(f, *args, chip=chip, **kwargs)


X = S((8192, 128), jnp.float32)


def test_a_copy_takes_latency_and_bytes_over_bandwidth():
    small, large = (predicted(copies([n], True), X) for n in (1024, 8192))
    f = figures(small)
    per_row = 128 * 4 / f["hbm_bandwidth"]
    assert large.seconds - small.seconds == pytest.approx((8192 - 1024) * per_row, rel=1e-6)
    rest = small.seconds - 1024 * per_row - f["dma_latency"] - f["launch_time"]
    assert 0 <= rest <= f["step_time"] + f["dma_latency"] + 1e-7  # the result goes back, too
    assert large[0].bound == "HBM"
    assert large[0].bytes_read == 8192 * 512


def test_copies_under_way_together_share_the_bandwidth_and_hide_the_latency():
    together, apart = predicted(copies([2048, 2048], True), X), predicted(copies([2048, 2048], False), X)
    f = figures(together)
    assert apart.seconds - together.seconds == pytest.approx(f["dma_latency"], rel=0.05)


def pipeline(n, rows=512):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(n,), in_specs=[spec], out_specs=spec, out_shape=S((n * rows, 128), jnp.float32)), S((n * rows, 128), jnp.float32)


def test_a_pipeline_takes_as_long_as_its_slowest_stage():
    times = {n: predicted(*pipeline(n, 1024)) for n in (8, 16, 64)}  # blocks that take longer than two slots wait for the latency
    f = figures(times[8])
    moved = 2 * 1024 * 512 / f["hbm_bandwidth"]  # of a step, in and out
    step = (times[64].seconds - times[16].seconds) / 48
    assert step == pytest.approx(max(moved, f["step_time"]), rel=0.1)
    assert step == pytest.approx((times[16].seconds - times[8].seconds) / 8, rel=0.05)
    assert times[64][0].bytes_read == times[64][0].bytes_written == 64 * 1024 * 512


def test_a_block_that_stays_is_not_copied_again():
    def body(x_ref, w_ref, o_ref):
        o_ref[...] = x_ref[...] + w_ref[...]

    spec = pl.BlockSpec((512, 128), lambda i: (i, 0))
    f = pl.pallas_call(body, grid=(16,), in_specs=[spec, pl.BlockSpec((512, 128), lambda i: (0, 0))], out_specs=spec, out_shape=S((8192, 128), jnp.float32))
    assert predicted(f, X, S((512, 128), jnp.float32))[0].bytes_read == (16 + 1) * 512 * 512


def work(n, block=1024, warps=4, kind=jnp.exp2):
    def body(x_ref, o_ref):
        x = x_ref[...]
        for _ in range(64):
            x = kind(x)
        o_ref[...] = x

    spec = pl.BlockSpec((block,), lambda i: (i,))
    return pl.pallas_call(body, grid=(n // block,), in_specs=[spec], out_specs=spec, out_shape=S((n,), jnp.float32),
                          compiler_params=plt.CompilerParams(num_warps=warps)), S((n,), jnp.float32)


def test_a_wave_and_its_tail():
    one = predicted(*work(132 * 1024), chip=GPU)[0]
    assert one.programs == 132
    per_sm = predicted(*work(64 * 132 * 1024), chip=GPU)[0].resident // 132
    full = predicted(*work(132 * 1024), chip=GPU).seconds
    half = predicted(*work(66 * 1024), chip=GPU).seconds
    stored = 66 * 1024 * 4 / figures(predicted(*work(132 * 1024), chip=GPU))["l2_write_bandwidth"]
    assert full - stored == pytest.approx(half, rel=0.02), "SMs that have nothing to do change nothing but what the cache has to take"
    many = predicted(*work(8 * 132 * 1024), chip=GPU)
    f = figures(many)
    special = 8 * 64 * 1024 / f["mufu_rate"] / f["clock"]  # of eight programs on each SM, one behind the other
    assert per_sm >= 8 and many.seconds == pytest.approx(special + 3e-6, rel=0.15)
    assert full < predicted(*work(2 * 132 * 1024), chip=GPU).seconds < many.seconds


def test_waves_that_are_not_run_are_said_and_right():
    f, x = work(132 * 1024 * 64)
    some, all_ = predicted(f, x, chip=GPU)[0], predicted(f, x, chip=GPU, waves=0)[0]
    assert some.programs_run < some.programs == all_.programs_run
    assert any("programs were run" in n for n in some.notes)
    assert some.seconds == pytest.approx(all_.seconds, rel=0.1)


@pytest.mark.parametrize("chip, make", [(TPU, lambda: pipeline(16)), (GPU, lambda: work(132 * 1024))])
def test_it_is_the_same_whatever_the_host_does(chip, make):
    f, x = make()
    first = predicted(f, x, chip=chip)
    for options in ({"fuse": False}, {"workers": 1}, {"workers": 8}, {"random_seed": 7}, {"detect_races": True}):
        assert predicted(f, x, chip=chip, options=options).seconds == first.seconds, options


def test_more_work_never_takes_less():
    for chip, make, sizes in ((TPU, pipeline, (1, 2, 4, 8, 32)), (GPU, work, (1024, 1 << 17, 1 << 18, 1 << 20))):
        times = [predicted(*make(n), chip=chip).seconds for n in sizes]
        assert times == sorted(times)
    heavy = predicted(*work(1 << 18, kind=jnp.tanh), chip=GPU).seconds
    assert heavy > predicted(*work(1 << 18, kind=jnp.abs), chip=GPU).seconds


def ragged():
    """As many trips as the array says."""

    def body(n_ref, x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, n_ref[0], lambda i, a: a * x_ref[...], x_ref[...])

    return pl.pallas_call(body, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)], out_shape=S((512, 128), jnp.float32))


def test_control_that_depends_on_data_is_followed():
    x = jnp.ones((512, 128), jnp.float32)
    few, many = (predicted(ragged(), jnp.array([n], jnp.int32), x).seconds for n in (1, 1000))
    assert many > few + 900 * 512 / 8 / 4 / 1.5e9


def test_what_it_says():
    p = pallasim.predict(*pipeline(16), chip=TPU)
    text = str(p)
    assert "predicted, bound by" in text and "critical path" in text
    assert "guessed" in text
    d = json.loads(p.to_json())
    assert d["seconds"] == pytest.approx(p.seconds)
    assert sum(s["seconds"] for s in d["launches"][0]["critical"]) == pytest.approx(p.seconds, rel=1e-6)
    assert any("x_ref[...] * 2" in line["text"] for line in d["launches"][0]["lines"])
    assert "<details" in p._repr_html_()
    with pytest.raises(RuntimeError, match="nothing to predict"):
        predicted(lambda x: x + 1, jnp.ones(3))
    with pytest.raises(ValueError):
        predicted(*pipeline(2), chip="tpu-v99")


def test_what_the_chip_refuses_raises_with_its_rule():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(body, out_shape=S((1 << 19, 128), jnp.float32))
    with pytest.raises(pallasim.KernelError) as e:
        predicted(f, S((1 << 19, 128), jnp.float32))
    assert e.value.finding.code == "PS-MEM-001"


# --- the time line ----------------------------------------------------------------------------------------------------
def test_the_time_line_is_perfettos(tmp_path):
    path = tmp_path / "run.perfetto-trace"
    p = predicted(*pipeline(8), trace=str(path))
    tracks, parents, counted, open_, slices, leaves, arrives, arguments = {}, {}, {}, {}, [], set(), set(), set()
    for d in packets(path.read_bytes()):
        if 60 in d:
            t = dict(fields(d[60]))
            tracks[t[1]] = t[2].decode()
            parents[t[1]] = t.get(5)
        else:
            e = dict(d[11])
            if e[9] == 1:
                open_.setdefault(e[11], []).append((e[10], d[8]))
                arguments |= d[4]
                leaves |= {e[47]} if 47 in e else set()
                arrives |= {e[48]} if 48 in e else set()
            elif e[9] == 2:
                name, begin = open_[e[11]].pop()
                slices.append((tracks[e[11]], name, begin, d[8]))
            else:
                counted.setdefault(tracks[e[11]], []).append(struct.unpack("<d", struct.pack("<Q", e[44]))[0])
    assert not any(open_.values())
    core, = (t for t, name in tracks.items() if name == "core 0")
    moved = [s for s in slices if s[1] == "block"]
    assert len(moved) == 16, "8 blocks in, 8 out"
    assert max(end for *_, end in slices) <= p.seconds * 1e9 + 1
    assert leaves and leaves == arrives
    assert {name for track, name, *_ in slices if track in ("MXU", "VPU", "VMEM loads", "VMEM stores")}, "units have tracks"
    assert all(parents.get(t) in tracks for t in tracks if t != core), "each lies below its core"
    assert max(counted["bytes in flight"]) == 4 * 512 * 512 and counted["bytes in flight"][-1] == 0, "two blocks come while two go"
    assert counted["VMEM bytes"][-1] == 4 * 512 * 512, "two slots of each"
    assert counted["the pipeline of x_ref[0]"][-1] == 0
    assert any(name == "line" and "test_predict.py" in text for name, text in arguments)
    assert ("grid point", "(3)") in arguments


def test_a_time_line_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("kept")
    for path in tmp_path / "file" / "t", tmp_path:
        with pytest.raises(pallasim.KernelError) as e:
            predicted(*pipeline(8), trace=str(path))
        assert e.value.finding.code == "PS-IO-002"
    assert [p.name for p in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_named_scopes_are_slices_around_theirs(tmp_path):
    def body(x_ref, o_ref):
        with jax.named_scope("outer"):
            with jax.named_scope("inner"):
                x = jnp.exp(x_ref[...])
            o_ref[...] = x * 2

    path = tmp_path / "t"
    predicted(pl.pallas_call(body, out_shape=S((512, 128), jnp.float32)), S((512, 128), jnp.float32), trace=str(path))
    found = {name: (begin, end, depth) for _, name, begin, end, depth in slices_of(path.read_bytes())}
    outer, inner = found["outer"], found["inner"]
    assert (outer[2], inner[2]) == (0, 1)
    assert outer[0] <= inner[0] < inner[1] <= outer[1]


# --- a Hopper kernel ----------------------------------------------------------------------------------------------------
def hopper(n, tile=128, steps=4):
    mm = pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    config = mm.TuningConfig(tile_m=64, tile_n=tile, tile_k=64, max_concurrent_steps=steps, wg_dimension=mm.MatmulDimension.M)
    return functools.partial(mm.matmul, config=config, c=None), S((n, n), jnp.float16), S((n, n), jnp.float16)


def test_a_hopper_matmul_is_bound_by_what_bounds_it():
    few, many = predicted(*hopper(1024, steps=2), chip=GPU), predicted(*hopper(1024), chip=GPU)
    assert many.seconds < few.seconds, "two slots do not cover the latency"
    assert 2e-6 < many.seconds < 5e-5
    assert many[0].flops == pytest.approx(2 * 1024**3, rel=1e-3)
    large = predicted(*hopper(2048), chip=GPU)[0]
    assert large.flops == pytest.approx(2 * 2048**3, rel=1e-3)
    assert large.seconds > 2 * 2048**3 / 989e12


# --- long loops ---------------------------------------------------------------------------------------------------------
def test_a_prediction_that_runs_too_long_says_how_far_it_went():
    from pallasim import _core, _predict

    def kernel(o_ref):
        o_ref[0] = jax.lax.while_loop(lambda i: i >= 0, lambda i: i + 1 - 1, jnp.int32(0))

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), jnp.int32), out_specs=pl.BlockSpec(memory_space=pltpu.SMEM))
    with pallasim.emulate("tpu-v5e"):
        (text, options, contents), = _predict._traced(f, (), {}, "tpu-v5e", {})
    with pytest.raises(_core.DiagnosticError, match="the limit of 1000 steps is reached") as e:
        _core.predict(text, options, contents, False, False, 3, False, "", 1000)
    assert "predict a smaller grid" in str(e.value) and "max_steps" not in str(e.value)
