"""Any JAX program around a kernel: transformations, control flow, refs, export, caches, key arrays, wide types."""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim


def affine_kernel(x_ref, o_ref, *, factor):
    o_ref[...] = x_ref[...] * factor + 1


def affine(x, factor=2):
    return pl.pallas_call(functools.partial(affine_kernel, factor=factor), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def ids_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10 * pl.program_id(0) + 100 * pl.num_programs(0)


def with_ids(x):
    spec = pl.BlockSpec((4,), lambda i: (i,))
    return pl.pallas_call(ids_kernel, grid=(2,), in_specs=[spec], out_specs=spec, out_shape=jax.ShapeDtypeStruct((8,), x.dtype))(x)


X = jnp.arange(1, 9, dtype=jnp.float32)
N = np.arange(1, 9, dtype=np.float32)
IDS = 200 + np.repeat(10 * np.arange(2), 4)


# --- transformations ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_vmap_of_vmap_keeps_program_ids(emulated, same, depth, jit):
    shape = (3, 2, 4)[:depth] + (8,)
    x = np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    f = with_ids
    for _ in range(depth):
        f = jax.vmap(f)
    same(emulated(jax.jit(f) if jit else f, jnp.asarray(x)), (x + IDS).astype(np.int32))


def test_vmap_axes_other_than_the_first(emulated, same):
    x = np.arange(1, 25, dtype=np.int32).reshape(8, 3)
    same(emulated(jax.vmap(with_ids, in_axes=1, out_axes=1), jnp.asarray(x)), (x + IDS[:, None]).astype(np.int32))


def test_vmap_over_scalar_prefetch_and_dynamic_grid(emulated, same):
    """What JAX turns into a loop of calls."""
    def kernel(idx_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + idx_ref[0]

    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec((8, 128), lambda i, s: (s[0], 0))],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, s: (0, 0)))
    f = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32))
    x = np.arange(24 * 128, dtype=np.int32).reshape(24, 128)
    idx = np.asarray([[2], [0], [1]], np.int32)
    want = np.stack([x[8 * i[0] : 8 * i[0] + 8] + i[0] for i in idx])
    same(emulated(jax.vmap(f, in_axes=(0, None)), jnp.asarray(idx), jnp.asarray(x)), want, rtol=0)

    def count_kernel(o_ref):
        o_ref[pl.program_id(0)] = 1 + pl.program_id(0)

    def counted(n):
        return pl.pallas_call(count_kernel, grid=(n,), out_shape=jax.ShapeDtypeStruct((4,), jnp.int32))()

    got = emulated(jax.jit(jax.vmap(lambda n: counted(n)[0])), jnp.asarray([1, 2, 4], jnp.int32))
    same(got, np.ones(3, np.int32))


def test_jvp_vjp_and_linearize(emulated, same):
    same(emulated(lambda x: jax.jvp(affine, (x,), (3 * x,))[1], X), 6 * N)

    @jax.custom_vjp
    def f(x):
        return affine(x)

    f.defvjp(lambda x: (affine(x), None), lambda _, g: (affine(g) - 1,))
    same(emulated(jax.jit(jax.grad(lambda x: (f(x) * x).sum())), X), 2 * N + (2 * N + 1))
    out, pull = None, None
    with pallasim.emulate():
        out, pull = jax.vjp(f, X)
        same(pull(X)[0], 2 * N)
    same(out, 2 * N + 1)


def test_custom_vjp_under_vmap_and_checkpoint(emulated, same):
    @jax.custom_vjp
    def f(x):
        return affine(x, 3)

    f.defvjp(lambda x: (affine(x, 3), None), lambda _, g: (3 * g,))
    x = np.arange(1, 25, dtype=np.float32).reshape(3, 8)
    loss = jax.checkpoint(lambda v: (f(v) ** 2).sum() / 2)
    same(emulated(jax.jit(jax.vmap(jax.grad(loss))), jnp.asarray(x)), 3 * (3 * x + 1))


# --- control flow ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("jit", [False, True])
def test_scan_fori_while_cond_switch(emulated, same, jit):
    def f(x, k):
        x, ys = lax.scan(lambda c, s: (affine(c), c + s), x, jnp.arange(3, dtype=jnp.float32))
        x = lax.fori_loop(0, 2, lambda i, c: affine(c, 3), x)
        x = lax.while_loop(lambda c: c[0] < 1000, affine, x)
        x = lax.cond(k > 0, affine, lambda c: c, x)
        return lax.switch(k, [lambda c: c, affine, lambda c: affine(affine(c))], x), ys

    def want(x, k):
        ys = []
        for s in range(3):
            ys.append(x + s)
            x = 2 * x + 1
        for _ in range(2):
            x = 3 * x + 1
        while x[0] < 1000:
            x = 2 * x + 1
        for _ in range((k > 0) + k):
            x = 2 * x + 1
        return x.astype(np.float32), np.stack(ys).astype(np.float32)

    for k in range(3):
        out, ys = emulated(jax.jit(f) if jit else f, X, jnp.int32(k))
        same(out, want(N, k)[0])
        same(ys, want(N, k)[1])


def test_vmap_of_a_loop_and_loop_of_a_vmap(emulated, same):
    x = np.arange(1, 17, dtype=np.float32).reshape(2, 8)
    want = 8 * x + 7
    loop = lambda v: lax.fori_loop(0, 3, lambda _, c: affine(c), v)  # noqa: E731
    same(emulated(jax.jit(jax.vmap(loop)), jnp.asarray(x)), want)
    same(emulated(jax.jit(lambda v: lax.fori_loop(0, 3, lambda _, c: jax.vmap(affine)(c), v)), jnp.asarray(x)), want)


def test_platform_dependent_takes_the_branch_of_the_cpu(emulated, same):
    def f(x):
        return lax.platform_dependent(x, cpu=affine, tpu=lambda v: affine(v, 5), default=lambda v: v)

    same(emulated(jax.jit(f), X), 2 * N + 1)


def test_several_kernels_and_jax_operations_in_one_program(emulated, same):
    def f(x):
        y = affine(jnp.cumsum(x))
        return affine(y[::-1]) @ affine(x)

    c = 2 * np.cumsum(N) + 1
    same(emulated(jax.jit(f), X), np.float32((2 * c[::-1] + 1) @ (2 * N + 1)), rtol=1e-6)


# --- refs -----------------------------------------------------------------------------------------------------------
MESH = lambda: pltpu.create_tensorcore_mesh("core", num_cores=1)  # noqa: E731


def increment_call(ref):
    """Updates a ref through a pallas_call."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    ref[...] = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(ref.shape, ref.dtype), input_output_aliases={0: 0})(ref[...])


def increment_smem(ref):
    @pl.core_map(MESH())
    def _():
        for i in range(ref.shape[0]):
            ref[i] = ref[i] + 1


@pytest.mark.parametrize("jit", [False, True])
def test_refs_closed_over(emulated, same, jit):
    def f(x):
        ref = jax.new_ref(x)
        increment_call(ref)
        increment_call(ref)
        return jax.freeze(ref)

    same(emulated(jax.jit(f) if jit else f, X), N + 2)


def test_refs_in_a_core_map(emulated, same):
    def f(x):
        ref = jax.new_ref(x, memory_space=pltpu.SMEM)
        increment_smem(ref)
        return jax.freeze(ref)

    same(emulated(jax.jit(f), X, machine="tpu-v5e"), N + 1)


def test_refs_passed_to_jit_keep_their_buffer(same):
    with pallasim.emulate():
        ref = jax.new_ref(jnp.arange(1024, dtype=jnp.float32))
        f = jax.jit(increment_call)
        f(ref)
        before, where = pallasim.launch_count(), ref.unsafe_buffer_pointer()
        f(ref)
        same(ref[...], np.arange(1024, dtype=np.float32) + 2)
        assert pallasim.launch_count() == before + 1 and ref.unsafe_buffer_pointer() == where


def test_refs_updated_in_a_fori_loop(emulated, same):
    def f(x):
        ref = jax.new_ref(x)
        lax.fori_loop(0, 5, lambda i, _: increment_call(ref), None)
        return ref[...]

    same(emulated(jax.jit(f), X), N + 5)


def test_empty_ref_and_run_state(emulated, same):
    def f(x):
        @pl.run_state
        def states(refs):
            x_ref, y_ref = refs
            y_ref[...] = affine(x_ref[...])
            increment_call(x_ref)

        return states((x, jnp.zeros_like(x)))

    x, y = emulated(jax.jit(f), X)
    same(x, N + 1)
    same(y, 2 * N + 1)

    def g(x):
        ref = jax.empty_ref(jax.ShapeDtypeStruct(x.shape, x.dtype))
        ref[...] = affine(x)
        return jax.freeze(ref)

    same(emulated(jax.jit(g), X), 2 * N + 1)


# --- forms of kernels -----------------------------------------------------------------------------------------------
def test_pl_kernel_in_all_forms(emulated, same):
    out = jax.ShapeDtypeStruct((8,), jnp.float32)

    def body(x_ref, o_ref):
        for i in range(8):
            o_ref[i] = x_ref[i] + 3

    spaces = dict(machine="tpu-v5e")
    put = lambda x: pltpu.with_memory_space_constraint(x, pltpu.SMEM)  # noqa: E731
    called = pl.kernel(body, out_type=pltpu.SMEM((8,), jnp.float32), mesh=MESH())
    same(emulated(jax.jit(lambda x: called(put(x))), X, **spaces), N + 3)
    decorated = pl.kernel(out_type=pltpu.SMEM((8,), jnp.float32), mesh=MESH())(body)
    same(emulated(jax.jit(lambda x: decorated(put(x))), X, **spaces), N + 3)
    several = pl.kernel([body], out_type=pltpu.SMEM((8,), jnp.float32), mesh=[MESH()])
    same(emulated(jax.jit(lambda x: several(put(x))), X, **spaces), N + 3)
    assert out.shape == (8,)


def test_grid_spec_and_named_scratch(emulated, same):
    def kernel(x_ref, o_ref, *, total, tmp):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        tmp[...] = x_ref[...] * 2
        total[...] += tmp[...]
        o_ref[...] = total[...]

    specs = dict(in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)))
    scratch = dict(total=pltpu.VMEM((8, 128), jnp.float32), tmp=pltpu.VMEM((8, 128), jnp.float32))
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    x = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
    want = 2 * x.reshape(4, 8, 128).sum(0)
    same(emulated(pl.pallas_call(kernel, grid=(4,), out_shape=out, scratch_shapes=scratch, **specs), jnp.asarray(x)), want)
    spec = pl.GridSpec(grid=(4,), scratch_shapes=list(scratch.values()), **specs)
    by_position = lambda x, o, total, tmp: kernel(x, o, total=total, tmp=tmp)  # noqa: E731
    same(emulated(pl.pallas_call(by_position, grid_spec=spec, out_shape=out), jnp.asarray(x)), want)


def test_constants_too_large_for_the_text_are_operands(emulated, same):
    big = np.random.default_rng(0).standard_normal((160, 128)).astype(np.float32)
    other = np.arange(160 * 128, dtype=np.int32).reshape(160, 128)

    def kernel(x_ref, y_ref, o_ref, n_ref, *, tmp):
        tmp[...] = jax.jit(lambda v: v + big)(x_ref[...])
        o_ref[...] = lax.fori_loop(0, 2, lambda i, c: jax.jit(lambda v: v * big)(c), tmp[...]) + y_ref[...]
        n_ref[...] = jax.jit(lambda v: v + other)(jnp.zeros_like(n_ref))

    x = np.ones_like(big)
    f = pl.pallas_call(kernel, out_shape=(jax.ShapeDtypeStruct(big.shape, big.dtype), jax.ShapeDtypeStruct(other.shape, other.dtype)),
                       scratch_shapes=dict(tmp=pltpu.VMEM(big.shape, big.dtype)), input_output_aliases={1: 0})
    y = 2 * x
    got, n = emulated(jax.jit(f), x, y)
    same(got, (x + big) * big * big + y)
    same(n, other)
    stacked = np.stack([x, y, 3 * x])
    same(emulated(jax.jit(jax.vmap(f)), stacked, stacked)[0], (stacked + big) * big * big + stacked)


# --- types ----------------------------------------------------------------------------------------------------------
def test_x64(emulated, same):
    with jax.enable_x64(True):
        x = jnp.arange(1, 9, dtype=jnp.float64) / 3
        n = jnp.arange(1, 9, dtype=jnp.int64) * 2**40
        same(emulated(jax.jit(affine), x), 2 * np.asarray(x) + 1)
        same(emulated(jax.jit(with_ids), n), np.asarray(n) + IDS)
        same(emulated(jax.jit(jax.vmap(with_ids)), n[None] + jnp.zeros((3, 1), jnp.int64)), np.tile(np.asarray(n) + IDS, (3, 1)))

        def kernel(x_ref, o_ref):
            i = pl.program_id(0)
            o_ref[i] = x_ref[7 - i] + lax.fori_loop(0, 3, lambda k, c: c + k, jnp.int64(0))

        f = pl.pallas_call(kernel, grid=(8,), out_shape=jax.ShapeDtypeStruct((8,), jnp.int64))
        same(emulated(f, n), np.asarray(n)[::-1] + 3)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_key_arrays_as_operands(emulated, same, impl):
    def kernel(k_ref, o_ref):
        o_ref[...] = k_ref[...]

    keys = jax.random.split(jax.random.key(3, impl=impl), 4)
    whole = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(keys.shape, keys.dtype))
    blocks = pl.pallas_call(kernel, grid=(4,), in_specs=[pl.BlockSpec((1,), lambda i: (3 - i,))],
                            out_specs=pl.BlockSpec((1,), lambda i: (i,)), out_shape=jax.ShapeDtypeStruct(keys.shape, keys.dtype))
    want = np.asarray(jax.random.key_data(keys))
    same(emulated(jax.jit(lambda k: jax.random.key_data(whole(k))), keys), want)
    same(emulated(lambda k: jax.random.key_data(blocks(k)), keys), want[::-1])


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn", "float8_e4m3fn"])
def test_narrow_types_in_place_and_under_vmap(emulated, same, dtype):
    import ml_dtypes

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...][::-1]

    t = np.dtype(getattr(ml_dtypes, dtype))
    x = np.asarray([[0, 1, 1, 0, 1, 0, 0]] * 3).astype(t)
    f = lambda v: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((7,), t), input_output_aliases={0: 0})(v)  # noqa: E731
    got = emulated(jax.jit(jax.vmap(f)), jnp.asarray(x))
    same(got.astype(np.float32), x[:, ::-1].astype(np.float32))
