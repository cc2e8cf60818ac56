"""Prints as Python's format() writes them, and calls of the host."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = np.arange(1, 9, dtype=np.float32).reshape(2, 4) / 3
OUT = jax.ShapeDtypeStruct((2, 4), jnp.float32)
ROW = pl.BlockSpec((1, 4), lambda i: (i, 0))


def printed(capfd, template, value):
    """What a kernel prints of a scalar: the lines."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        jax.debug.print(template, *([] if "name" in template else [x_ref[0]]), **({"name": x_ref[0]} if "name" in template else {}))

    before = pallasim.launch_count()
    with pallasim.emulate():
        jax.block_until_ready(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1,), value.dtype))(value.reshape(1)))
    assert pallasim.launch_count() > before
    return capfd.readouterr().out.splitlines()


def test_a_tpus_log(capfd):
    """Chips print to stderr, values as XLA writes literals; index maps may print."""
    def row(i):
        pl.debug_print("map of {}", i)
        return i, 0

    def kernel(x_ref, n_ref, o_ref):
        o_ref[...] = x_ref[...]
        pl.debug_print("plain")
        pl.debug_print("n {} of {}", n_ref[0], n_ref[1])
        pl.debug_print("n is ", n_ref[1])
        pl.debug_print("{}", x_ref[:2, :3])

    f = pl.pallas_call(kernel, grid=(1,), in_specs=[pl.BlockSpec((8, 128), row), pl.BlockSpec(memory_space=pltpu.SMEM)], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                       out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128) / 2
    with pallasim.emulate("tpu-v5e"):
        jax.block_until_ready(jax.jit(f, compiler_options={"xla_tpu_enable_log_recorder": "true"})(x, jnp.array([3, 7])))
    seen = capfd.readouterr()
    assert seen.out == "" and seen.err.splitlines() == [
        "map of 0", "plain", "n 3 of 7", "n is s32[] 7", "f32[2,3] {", "  {0, 0.5, 1},", "  {64, 64.5, 65}", "}"]


FLOATS = ["{:.3f}", "{:10.2f}|", "{:<10.2f}|", "{:^11.1e}|", "{:+.0f}", "{:08.3f}", "{name:.4g}", "{:12,.1f}", "{: .2f}", "{:*>9.2f}", "{:%}", "{:E}", "{0:.1f} {0:.2f}",
          "{:.5}", "{{{:.1f}}}"]
INTEGERS = ["{:d}", "{:6d}|", "{:06d}", "{:x}", "{:#X}", "{:#b}", "{:,}", "{:_}", "{:+d}", "{:<8}|", "{:é^9}|", "{:.2f}", "{:o}", "{name:3d}"]


@pytest.mark.parametrize("template,value", [(t, np.float32(v)) for t in FLOATS for v in (1234.5678, -0.0625)] +
                         [(t, np.int32(v)) for t in INTEGERS for v in (1234567, -42)])
def test_format_specifications(capfd, template, value):
    assert printed(capfd, template, value) == [template.format(value, name=value)]


def test_formats_that_python_refuses(capfd):
    for template, value in (("{:d}", np.float32(1)), ("{:.3d}", np.int32(1)), ("{:q}", np.float32(1))):
        with pytest.raises(pallasim.UnsupportedError, match="format"):
            printed(capfd, template, value)


def test_callbacks_are_called_in_grid_order(emulated, same):
    calls = []

    def kernel(x_ref, o_ref):
        x = x_ref[...]

        @pl.when(pl.program_id(0) >= 0)
        def _():
            jax.debug.callback(lambda i, block, total: calls.append((int(i), np.array(block), float(total))), pl.program_id(0), x, total=x.sum())

        o_ref[...] = x * 2

    f = jax.jit(pl.pallas_call(kernel, grid=(2,), in_specs=[ROW], out_specs=ROW, out_shape=OUT))
    for scale in (1, 3):  # each launch makes its own calls
        calls.clear()
        same(emulated(f, X * scale), X * scale * 2)
        jax.effects_barrier()
        assert [i for i, _, _ in calls] == [0, 1]
        np.testing.assert_array_equal(np.concatenate([b for _, b, _ in calls]), X * scale)
        np.testing.assert_allclose([t for _, _, t in calls], (X * scale).sum(1), rtol=1e-6)


def test_callbacks_get_narrow_types(emulated):
    got = []

    def kernel(x_ref, o_ref):
        jax.debug.callback(lambda *v: got.extend(v), x_ref[...].astype(jnp.bfloat16), x_ref[0, 0] > 0, (x_ref[...] * 3).astype(jnp.int4))
        o_ref[...] = x_ref[...]

    emulated(jax.jit(pl.pallas_call(kernel, out_shape=OUT)), X)
    jax.effects_barrier()
    assert [np.asarray(g).dtype.name for g in got] == ["bfloat16", "bool", "int4"]
    np.testing.assert_array_equal(np.asarray(got[0], np.float32), np.asarray(X.astype(jnp.bfloat16), np.float32))
    assert got[1].item() is True
    np.testing.assert_array_equal(np.asarray(got[2], np.int32), np.minimum(X * 3, 7).astype(np.int32))
