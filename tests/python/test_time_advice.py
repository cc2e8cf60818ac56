"""Advice of predictions: it follows from the numbers, and what it promises comes true where it is done."""
import functools
import json

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import pallasim

S = jax.ShapeDtypeStruct
TPU, GPU = "tpu-v5e", "gpu-h100"


def predicted(f, *args, chip, **kwargs):
    return pallasim.predict(f, *args, chip=chip, **kwargs)[0]


def about(time, words):
    return [a for a in time.advice if words in a.text]


def ring(slots, rows, steps=64):
    """Tiles that the kernel itself copies, `slots` of them under way."""

    def body(x_ref, o_ref, tiles, sems):
        def copy(i):
            return pltpu.make_async_copy(x_ref.at[pl.ds(i * rows, rows)], tiles.at[i % slots], sems.at[i % slots])

        for i in range(slots - 1):
            copy(i).start()

        def step(i, total):
            @pl.when(i + slots - 1 < steps)
            def _():
                copy(i + slots - 1).start()

            copy(i).wait()
            return total + jnp.sum(tiles[i % slots], axis=0, keepdims=True)

        o_ref[...] = jax.lax.fori_loop(0, steps, step, jnp.zeros((1, 128), jnp.float32))

    f = pl.pallas_call(body, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_shape=S((1, 128), jnp.float32),
                       scratch_shapes=[pltpu.VMEM((slots, rows, 128), jnp.float32), pltpu.SemaphoreType.DMA((slots,))])
    return f, S((steps * rows, 128), jnp.float32)


def test_slots_of_a_ring_that_copies_outrun():
    two = predicted(*ring(2, 64), chip=TPU)
    advice, = about(two, "2 slots of tiles")
    n = advice.numbers
    wait = max((w for w in two.waits if "HBM" in w.what or "latency" in w.what), key=lambda w: w.seconds)
    assert n["late_seconds"] == pytest.approx(wait.seconds / wait.count) and n["slots"] == 2 and n["slot_bytes"] == 64 * 512
    assert advice.line == wait.line and "late at each step" in advice.text and "would cover it and fit in VMEM" in advice.text
    wanted = int(n["slots_wanted"])
    assert 3 <= wanted <= n["slots_that_fit"]
    more = predicted(*ring(wanted, 64), chip=TPU)
    assert more.seconds < two.seconds and two.seconds - more.seconds <= advice.seconds * 1.01
    assert predicted(*ring(wanted + 4, 64), chip=TPU).seconds > 0.9 * more.seconds, "no more than that is wanted"


def test_slots_do_not_help_where_the_memory_is_busy():
    advice, = about(predicted(*ring(3, 4096), chip=TPU), "3 slots of tiles")
    assert "further slots do not help" in advice.text and advice.numbers["busy"] > 0.85
    assert predicted(*ring(6, 4096), chip=TPU).seconds > 0.95 * predicted(*ring(3, 4096), chip=TPU).seconds


def matmul(n, stages, warps=4, tile=64, k=32):
    def body(x_ref, y_ref, o_ref):
        def step(i, total):
            return total + jnp.dot(x_ref[:, pl.ds(i * k, k)], y_ref[pl.ds(i * k, k), :])

        o_ref[...] = jax.lax.fori_loop(0, n // k, step, jnp.zeros((tile, tile), jnp.float32)).astype(jnp.float16)

    f = pl.pallas_call(body, grid=(n // tile, n // tile), in_specs=[pl.BlockSpec((tile, n), lambda i, j: (i, 0)), pl.BlockSpec((n, tile), lambda i, j: (0, j))],
                       out_specs=pl.BlockSpec((tile, tile), lambda i, j: (i, j)), out_shape=S((n, n), jnp.float16),
                       compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages))
    return f, S((n, n), jnp.float16), S((n, n), jnp.float16)


def test_a_change_that_is_advised_was_predicted():
    one = predicted(*matmul(512, 1), chip=GPU)
    advice, = about(one, "num_stages=2 instead of 1")
    two = predicted(*matmul(512, 2), chip=GPU)
    assert advice.predicted == pytest.approx(two.seconds) and two.seconds < one.seconds
    assert advice.seconds == pytest.approx(one.seconds - two.seconds, rel=1e-6)
    quick = predicted(*matmul(512, 1), chip=GPU, sensitivity=False)
    assert not about(quick, "num_stages"), "nothing is predicted again where nobody asks for it"


def waves(programs):
    def body(x_ref, o_ref):
        x = x_ref[...]
        for _ in range(64):
            x = jnp.exp(x)
        o_ref[...] = x

    spec = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(body, grid=(programs,), in_specs=[spec], out_specs=spec, out_shape=S((programs * 1024,), jnp.float32)), S((programs * 1024,), jnp.float32)


def test_a_last_wave_that_is_nearly_empty():
    places = predicted(*waves(132 * 64), chip=GPU, sensitivity=False).resident
    whole, more = (predicted(*waves(n), chip=GPU, sensitivity=False) for n in (2 * places, 2 * places + 1))
    assert not about(whole, "last wave")
    advice, = about(more, "last wave")
    assert f"{2 * places + 1} programs are 2.00 waves of {places}" in advice.text and advice.numbers["idle"] == pytest.approx((3 - more.waves) / 3)


def steps(rows):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(8192 // rows,), in_specs=[spec], out_specs=spec, out_shape=S((8192, 128), jnp.float32)), S((8192, 128), jnp.float32)


def test_steps_that_cost_more_than_their_work():
    small = predicted(*steps(8), chip=TPU, sensitivity=False)
    advice, = about(small, "steps of the grid cost")
    twice = predicted(*steps(16), chip=TPU, sensitivity=False)
    assert small.seconds - twice.seconds == pytest.approx(advice.seconds, rel=0.2)
    assert not about(predicted(*steps(4096), chip=TPU, sensitivity=False), "steps of the grid")


def test_at_the_roof_nothing_else_is_advised():
    large = predicted(*steps(2048), chip=TPU)
    f = functools.partial(pl.pallas_call, grid=(64,), out_shape=S((64 * 2048, 128), jnp.float32))
    spec = pl.BlockSpec((2048, 128), lambda i: (i, 0))

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    larger = predicted(f(body, in_specs=[spec], out_specs=spec), S((64 * 2048, 128), jnp.float32), chip=TPU)
    assert about(larger, "moving fewer bytes makes it faster") and len(larger.advice) == 1
    assert not about(large, "moving fewer bytes") or large.peak_seconds > 0.85 * large.seconds


def test_advice_is_text_and_data():
    time = predicted(*steps(8), chip=TPU, sensitivity=False)
    assert "what the numbers advise" in time.text and time.advice[0].text in time.text
    p = pallasim.predict(*steps(8), chip=TPU, sensitivity=False)
    assert json.loads(p.to_json())["launches"][0]["advice"][0]["numbers"]["steps"] == 1024
