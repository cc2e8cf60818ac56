"""Where the emulator acts, where it does not, and that buffers are not copied."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim._capture import jaxver


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def double(x, **kw):
    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **kw)(x)


X = jnp.arange(1, 9, dtype=jnp.float32)


def test_outside_the_block_jax_is_untouched(emulated, same):
    same(emulated(double, X), 2 * np.asarray(X))
    before = pallasim.launch_count()
    with pytest.raises(ValueError, match="interpret mode"):
        double(X)
    with pytest.raises(ValueError, match="interpret mode"):
        jax.jit(double)(X)
    same(double(X, interpret=True), 2 * np.asarray(X))
    assert pallasim.launch_count() == before


def test_a_jitted_function_is_compiled_per_switch_state(same):
    f = jax.jit(lambda x: double(x, interpret=True))
    before = pallasim.launch_count()
    same(f(X), 2 * np.asarray(X))
    assert pallasim.launch_count() == before
    with pallasim.emulate():
        same(f(X), 2 * np.asarray(X))
    assert pallasim.launch_count() == before + 1
    same(f(X), 2 * np.asarray(X))
    assert pallasim.launch_count() == before + 1


def test_params_as_interpret(same):
    before = pallasim.launch_count()
    same(double(X, interpret=pallasim.Params()), 2 * np.asarray(X))
    assert pallasim.launch_count() == before + 1


def test_function_built_outside_runs_inside(emulated, same):
    f = pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))
    same(emulated(f, X), 2 * np.asarray(X))


def test_blocks_nest_and_unwind(same):
    with pallasim.emulate():
        with pallasim.emulate("tpu-v5e"):
            same(double(X), 2 * np.asarray(X))
        same(double(X), 2 * np.asarray(X))
    with pytest.raises(ValueError, match="interpret mode"):
        double(X)


def test_install_for_the_process(same):
    pallasim.install()
    try:
        same(double(X), 2 * np.asarray(X))
    finally:
        pallasim.uninstall()
    with pytest.raises(ValueError, match="interpret mode"):
        double(X)


def address(x):
    return x.unsafe_buffer_pointer()


def increment(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})(x)


def test_aliased_and_donated_runs_in_place(same):
    with pallasim.emulate():
        f = jax.jit(increment, donate_argnums=0)
        x = jnp.arange(1024, dtype=jnp.float32) + 0
        x.block_until_ready()
        where = address(x)
        y = f(x)
        y.block_until_ready()
    assert address(y) == where
    same(y, np.arange(1024, dtype=np.float32) + 1)


def test_aliased_without_donation_keeps_the_input(same):
    x = jnp.arange(1024, dtype=jnp.float32)
    with pallasim.emulate():
        y = jax.jit(increment)(x)
    same(y, np.asarray(x) + 1)
    same(x, np.arange(1024, dtype=np.float32))


def test_aliased_in_a_loop(emulated, same):
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, v: increment(v), x))
    same(emulated(f, jnp.zeros(16, jnp.float32)), np.full(16, 10, np.float32))


def test_large_operands_keep_their_bytes(emulated, same):
    x = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
    same(emulated(jax.jit(double), x), 2 * x)
    same(emulated(jax.jit(lambda v: double(v.T)), x), 2 * x.T)


@pytest.mark.skipif(jaxver.JAX_VERSION >= (0, 12), reason="this JAX drops an unused kernel before it is lowered")
def test_prints_keep_the_call_alive(emulated, capfd):
    def kernel(x_ref, o_ref):
        pl.debug_print("first element {}", x_ref[0])
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    emulated(jax.jit(lambda x: (f(x), x + 1)[1]), X)
    assert "first element 1" in capfd.readouterr().out


def test_dynamic_grid(emulated, same):
    def kernel(o_ref):
        o_ref[pl.program_id(0)] = pl.program_id(0) + 1

    @jax.jit
    def f(n):
        return pl.pallas_call(kernel, grid=(n,), out_shape=jax.ShapeDtypeStruct((8,), jnp.int32))()

    same(emulated(f, jnp.int32(8)), np.arange(1, 9, dtype=np.int32))


def test_scalar_prefetch(emulated, same):
    from jax.experimental.pallas import tpu as pltpu

    def kernel(idx_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + idx_ref[pl.program_id(0)].astype(jnp.float32)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(3,), in_specs=[pl.BlockSpec((1, 8, 128), lambda i, idx: (idx[i], 0, 0))],
        out_specs=pl.BlockSpec((1, 8, 128), lambda i, idx: (i, 0, 0)))
    f = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((3, 8, 128), jnp.float32))
    idx = jnp.asarray([4, 0, 2], jnp.int32)
    x = jax.random.normal(jax.random.key(0), (5, 8, 128))
    want = np.asarray(x)[np.asarray(idx)] + np.asarray(idx, np.float32)[:, None, None]
    same(emulated(f, idx, x, machine="tpu-v5e"), want)


def test_emulated_tpu_answers_libraries():
    from jax.experimental.pallas import tpu as pltpu

    with pallasim.emulate("tpu-v5p"):
        assert pltpu.get_tpu_info().num_cores == 2
    with pallasim.emulate("tpu-v5e"):
        assert pltpu.get_tpu_info().num_cores == 1


def test_shard_map_over_one_device(emulated, same):
    from jax.sharding import PartitionSpec as P

    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:1]), ("x",))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 3 + jax.lax.axis_index("x")

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))
    sharded = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    same(emulated(jax.jit(sharded), X), 3 * np.asarray(X))
