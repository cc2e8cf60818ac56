"""strict=True: undefined data in an output, and more memory than the compiler gives by default, stop a launch instead of warning."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = jnp.ones((32, 128), jnp.float32)
ROWS = pltpu.VMEM((32, 128), jnp.float32)


def call(kernel, *scratch):
    return pl.pallas_call(kernel, out_shape=X, scratch_shapes=scratch)(X)


def half(x_ref, o_ref):
    o_ref[pl.ds(0, 16)] = x_ref[pl.ds(0, 16)]


def through_half_a_row(x_ref, o_ref, rows):
    rows[pl.ds(0, 16)] = x_ref[pl.ds(0, 16)]
    o_ref[...] = rows[...]


def through_nothing(x_ref, o_ref, rows):
    o_ref[...] = x_ref[...] + rows[...]


def thrown_away(x_ref, o_ref, rows):
    rows[pl.ds(0, 16)] = x_ref[pl.ds(0, 16)]
    at = jax.lax.broadcasted_iota(jnp.int32, (32, 128), 0)
    o_ref[...] = jnp.where(at < 16, rows[...], x_ref[...])


def copy(x_ref, o_ref, big):
    o_ref[...] = x_ref[...]


WRONG = {"PS-OUT-001": lambda: call(half), "PS-UNINIT-003": lambda: call(through_half_a_row, ROWS), "PS-UNINIT-001": lambda: call(through_nothing, ROWS)}


@pytest.mark.parametrize("code", WRONG)
def test_undefined_data_in_an_output(code):
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        jax.block_until_ready(WRONG[code]())
    assert [(f.code, f.severity) for f in pallasim.findings()] == [(code, "warning")]
    with pytest.raises(pallasim.KernelError, match=code) as e, pallasim.emulate("tpu-v5e", detect_races=True, strict=True, findings="collect"):
        jax.block_until_ready(WRONG[code]())
    assert e.value.finding.severity == "error" and e.value.finding.file == __file__
    with pallasim.emulate("tpu-v5e", strict=True, findings="raise"):  # nobody looks
        jax.block_until_ready(WRONG[code]())


def test_memory_beyond_what_the_compiler_gives():
    def big():
        return call(copy, pltpu.VMEM((8192, 1024), jnp.float32))

    pallasim.findings()
    with pallasim.emulate("tpu-v5e", findings="collect"):
        np.testing.assert_array_equal(big(), X)
    assert [(f.code, f.severity) for f in pallasim.findings()] == [("PS-MEM-002", "warning")]
    with pallasim.emulate("tpu-v5e", strict=True), pytest.raises(pallasim.KernelError, match="PS-MEM-002"):
        big()
    with pallasim.emulate("tpu-v5e", strict=True, rules=False, findings="raise"):
        np.testing.assert_array_equal(big(), X)


def test_what_is_right_runs():
    with pallasim.emulate("tpu-v5e", detect_races=True, strict=True, findings="raise"):
        np.testing.assert_array_equal(call(thrown_away, ROWS), X)
        np.testing.assert_array_equal(call(copy, ROWS), X)
