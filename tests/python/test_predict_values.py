"""Predictions and values: launches that run beside their prediction, what follows from constants, what shapes alone do not tell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

S = jax.ShapeDtypeStruct
TPU = "tpu-v5e"


def doubled(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def test_a_launch_is_predicted_beside_running():
    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    f = jax.jit(pl.pallas_call(doubled, out_shape=S((8, 128), jnp.float32)))
    with pallasim.emulate(TPU, time=True):
        ran = f(x)
    assert (ran == x * 2).all()
    time = pallasim.last_run().time
    assert time.seconds == pallasim.predict(f, x, chip=TPU).seconds and time.bound and time.chip == TPU
    assert pallasim.runs()[-1].time == time and "us on the chip as predicted" in repr(pallasim.runs()[-1])
    assert time.text.splitlines()[0] in pallasim.last_run()._repr_html_()
    with pallasim.emulate(TPU):
        f(x)
    assert pallasim.last_run().time is None


def test_a_launch_is_predicted_with_its_own_values():
    def body(n_ref, x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, n_ref[0], lambda i, v: jnp.tanh(v), x_ref[...])

    f = pl.pallas_call(body, grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec((8, 128), lambda i, n: (0, 0))],
                                                                   out_specs=pl.BlockSpec((8, 128), lambda i, n: (0, 0))), out_shape=S((8, 128), jnp.float32))
    x = jnp.ones((8, 128), jnp.float32)
    seconds = {}
    with pallasim.emulate(TPU, time=True):
        for n in (1, 100, 200):
            f(jnp.array([n], jnp.int32), x)
            seconds[n] = pallasim.last_run().time.seconds
    assert seconds[200] - seconds[100] == pytest.approx((seconds[100] - seconds[1]) * 100 / 99, rel=1e-6)


def test_a_predicted_launch_writes_what_it_would_write_alone():
    """The prediction has outputs of its own, an input that shares its array with an output included."""
    def body(n_ref, x_ref, o_ref):
        o_ref[...] = jax.lax.fori_loop(0, n_ref[0], lambda i, v: v + 1, x_ref[...])

    f = pl.pallas_call(body, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()], out_shape=S((8, 128), jnp.float32), input_output_aliases={1: 0})
    with pallasim.emulate(TPU, time=True):
        out = jax.jit(f, donate_argnums=1)(jnp.array([3], jnp.int32), jnp.zeros((8, 128), jnp.float32))
    assert (out == 3).all() and pallasim.last_run().time.reads_inputs


def test_a_kernel_that_fails_says_why_and_not_how_long_it_would_take():
    def bad(x_ref, i_ref, o_ref):
        o_ref[i_ref[0], 0] = x_ref[0, 0]

    f = pl.pallas_call(bad, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)] * 2, out_specs=pl.BlockSpec(memory_space=pltpu.SMEM), out_shape=S((8, 128), jnp.float32))
    with pallasim.emulate(TPU, time=True), pytest.raises(Exception, match="PS-OOB-001"):
        jax.block_until_ready(f(jnp.ones((8, 128)), jnp.array([99], jnp.int32)))


def test_a_machine_without_figures_is_refused():
    f = pl.pallas_call(doubled, out_shape=S((8, 128), jnp.float32))
    with pallasim.emulate("generic", time=True), pytest.raises(Exception, match="PS-OPT-001"):
        jax.block_until_ready(f(jnp.ones((8, 128))))


def test_what_follows_from_constants_is_known_though_arguments_are_shapes():
    """Bounds of a grid and prefetched scalars that a library makes when it is traced."""
    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def f(x, blocks):
        order = jnp.arange(16, dtype=jnp.int32)[::-1]
        spec = pl.BlockSpec((8, 128), lambda i, order: (order[i], 0))
        grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(jnp.sum(blocks),), in_specs=[spec], out_specs=spec)
        return jax.jit(lambda order, x: pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(order, x))(order, x)

    x = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    few, many = (pallasim.predict(f, x, np.array(b, np.int32), chip="tpu-v5e", sensitivity=False)[0] for b in ([1, 1], [8, 8]))
    assert (few.bytes_read, many.bytes_read) == (64 + 2 * 4096, 64 + 16 * 4096)
    unknown = pallasim.predict(f, x, jax.ShapeDtypeStruct((2,), jnp.int32), chip="tpu-v5e", sensitivity=False)[0]
    assert unknown.bytes_read == 64


def test_numbers_that_index_maps_read_at_two_indices_are_there_without_values():
    def kernel(places_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    rows, steps, block = 4, 3, (256, 256)
    places = np.array([[3, 0, 2], [1, 2, 3], [0, 1, 2], [2, 3, 1]], np.int32)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(rows, steps), in_specs=[pl.BlockSpec(block, lambda i, s, p: (i, p[i, s]))],
                                        out_specs=pl.BlockSpec(block, lambda i, s, p: (i, s)))
    f = pl.pallas_call(kernel, grid_spec=spec, out_shape=S((rows * 256, steps * 256), jnp.float32))
    x = jnp.ones((rows * 256, 1024))
    plain, with_values = (pallasim.predict(f, places, x, chip="tpu-v5e", sensitivity=False, values=v)[0] for v in (False, True))
    assert not plain.with_values and with_values.with_values
    assert plain.bytes_read == with_values.bytes_read >= rows * steps * 256 * 1024 and plain.seconds == pytest.approx(with_values.seconds)
