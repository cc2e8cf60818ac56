"""Asynchronous copies, semaphores and pipelines of a TPU, as kernels write them."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

HBM = pl.BlockSpec(memory_space=pltpu.HBM)
MODES = [dict(), dict(dma_execution_mode="on_wait")] + [dict(dma_execution_mode="scheduled", random_seed=s) for s in range(4)]


def double_buffered(x, *, wait_back=True):
    """2 * x, row by row; row r + 1 is on its way while row r is used."""

    def kernel(x_ref, o_ref, slots, out, in_sems, out_sem):
        def fetch(r):
            return pltpu.make_async_copy(x_ref.at[r], slots.at[r % 2], in_sems.at[r % 2])

        fetch(0).start()

        @pl.loop(0, x.shape[0])
        def _(r):
            @pl.when(r + 1 < x.shape[0])
            def _():
                fetch(r + 1).start()

            fetch(r).wait()
            out[...] = slots[r % 2] * 2
            back = pltpu.make_async_copy(out, o_ref.at[r], out_sem)
            back.start()
            if wait_back:
                back.wait()

    row = x.shape[1:]
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[HBM], out_specs=HBM,
        scratch_shapes=[pltpu.VMEM((2, *row), x.dtype), pltpu.VMEM(row, x.dtype), pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.DMA(())])(x)


@pytest.mark.parametrize("mode", MODES, ids=lambda m: "-".join(map(str, m.values())) or "eager")
def test_double_buffering_gives_the_same_bytes_whenever_copies_move(mode):
    x = jnp.arange(5 * 8 * 128, dtype=jnp.float32).reshape(5, 8, 128) + 1
    before = pallasim.launch_count()
    with pallasim.emulate("tpu-v5e", **mode):
        out = double_buffered(x)
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(out, 2 * np.asarray(x))


def test_a_missing_wait_is_an_error_that_names_the_copy():
    x = jnp.ones((3, 8, 128), jnp.float32)
    with pytest.raises(pallasim.KernelError) as e, pallasim.emulate("tpu-v5e"):
        jax.block_until_ready(double_buffered(x, wait_back=False))
    assert "PS-SEM-002" in str(e.value) and "ends with 12288 bytes that nobody waited for" in str(e.value)
    assert "back.start()" in str(e.value)
    with pallasim.emulate("tpu-v5e"):  # the process stays usable
        np.testing.assert_array_equal(double_buffered(x), 2 * np.asarray(x))


def test_a_wait_that_nobody_signals_is_a_sentence():
    def kernel(o_ref, sem):
        pl.semaphore_wait(sem, 2)
        o_ref[...] = jnp.ones_like(o_ref)

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), scratch_shapes=[pltpu.SemaphoreType.REGULAR])
    with pytest.raises(pallasim.KernelError, match="deadlock: the kernel waits and nobody is left to signal"), pallasim.emulate("tpu-v6e"):
        jax.block_until_ready(call())


@pytest.mark.parametrize("mode", MODES[:3], ids=["eager", "on_wait", "scheduled"])
@pytest.mark.parametrize("rows", [512, 300])
def test_emit_pipeline_matmul(rows, mode):
    k, n, tile = 256, 384, 128
    a = np.random.default_rng(0).standard_normal((rows, k)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal((k, n)).astype(np.float32)

    def kernel(a_ref, b_ref, o_ref):
        def step(a_tile, b_tile, o_tile):
            @pl.when(pl.program_id(2) == 0)
            def _():
                o_tile[...] = jnp.zeros_like(o_tile)

            o_tile[...] += a_tile[...] @ b_tile[...]

        pltpu.emit_pipeline(
            step, grid=(pl.cdiv(rows, tile), n // tile, k // tile),
            in_specs=[pl.BlockSpec((tile, tile), lambda i, j, l: (i, l)), pl.BlockSpec((tile, tile), lambda i, j, l: (l, j))],
            out_specs=[pl.BlockSpec((tile, tile), lambda i, j, l: (i, j))])(a_ref, b_ref, o_ref)

    with pallasim.emulate("tpu-v5e", **mode):
        out = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((rows, n), jnp.float32), in_specs=[HBM, HBM], out_specs=HBM)(a, b)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=2e-4)


def test_a_copy_started_in_one_kernel_is_awaited_in_the_next():
    semaphore = pl.BlockSpec(memory_space=pltpu.SEMAPHORE)

    def start(x_ref, y_ref, sem):
        pltpu.make_async_copy(x_ref, y_ref, sem).start()

    def done(x_ref, y_ref, sem, out_ref):
        pltpu.make_async_copy(x_ref, y_ref, sem).wait()

    @jax.jit
    def f(x):
        y, sem = pl.pallas_call(start, out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())), in_specs=[HBM],
                                out_specs=(HBM, semaphore))(x)
        return pl.pallas_call(done, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[HBM, HBM, semaphore], out_specs=HBM,
                              input_output_aliases={1: 0})(x, y, sem)

    x = jnp.arange(16 * 128, dtype=jnp.float32).reshape(16, 128) + 1
    for mode in MODES[:3]:
        with pallasim.emulate("tpu-v6e", **mode):
            np.testing.assert_array_equal(f(x), x)


def test_prefetched_scalars_may_be_written():
    def kernel(count_ref, x_ref, o_ref):
        count_ref[0] = count_ref[0] + 1
        o_ref[...] = x_ref[...] + count_ref[0]

    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(3,), in_specs=[pl.BlockSpec((8, 128), lambda i, c: (i, 0))],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, c: (i, 0)))
    x, count = jnp.zeros((24, 128), jnp.int32), jnp.array([10], jnp.int32)
    with pallasim.emulate("tpu-v5e"):
        out = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(count, x)
    np.testing.assert_array_equal(out[::8, 0], [11, 12, 13])
    np.testing.assert_array_equal(count, [10])


def copy_of(src, dst, *, buffer=(16, 128)):
    """A call of (start, size), and an array of 16 rows, with one copy between what `src` and `dst` make of refs and numbers."""

    def kernel(s_ref, x_ref, o_ref, buf, sem):
        buf[...] = jnp.full(buf.shape, 7, buf.dtype)
        copy = pltpu.make_async_copy(src(x_ref, s_ref[0], s_ref[1]), dst(buf, s_ref[0], s_ref[1]), sem)
        copy.start()
        copy.wait()
        o_ref[...] = buf[...]

    return lambda numbers, x: pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(buffer, x.dtype), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), HBM],
        scratch_shapes=[pltpu.VMEM(buffer, x.dtype), pltpu.SemaphoreType.DMA(())])(jnp.asarray(numbers, jnp.int32), x)


NOTHING = {
    "of the source": (lambda x, s, n: x.at[pl.ds(s, n)], lambda b, s, n: b.at[pl.ds(0, n)]),
    "of the destination": (lambda x, s, n: x.at[pl.ds(0, n)], lambda b, s, n: b.at[pl.ds(s, n)]),
    "of another dimension": (lambda x, s, n: x.at[pl.ds(0, n), pl.ds(pl.multiple_of(s * 128, 128), 128)], lambda b, s, n: b.at[pl.ds(3, n)]),
    "of the slice before": (lambda x, s, n: x.at[pl.ds(s, 8)].at[pl.ds(0, n)], lambda b, s, n: b.at[pl.ds(0, n)]),
    "written as a number": (lambda x, s, n: x.at[pl.ds(-8, n)], lambda b, s, n: b.at[pl.ds(0, n)]),
}


@pytest.mark.parametrize("outside", ["error", "machine", "uninitialized"])
@pytest.mark.parametrize("options", [dict(), dict(detect_races=True), dict(pipeline="modelled"), dict(fuse=False), *MODES[1:3]], ids=str)
@pytest.mark.parametrize("kind", NOTHING)
def test_a_copy_of_nothing_may_start_anywhere(kind, options, outside):
    x = jnp.arange(16 * 128, dtype=jnp.float32).reshape(16, 128)
    pallasim.findings()
    before = pallasim.launch_count()
    with pallasim.emulate("tpu-v5e", out_of_bounds=outside, **options):
        for start in (-8, 17, 2**30):
            np.testing.assert_array_equal(copy_of(*NOTHING[kind])((start, 0), x), np.full((16, 128), 7))
    assert pallasim.launch_count() == before + 3 and pallasim.findings() == []


@pytest.mark.parametrize("outside", ["error", "machine"])
def test_a_slice_outside_says_how_long_it_is(outside):
    x = jnp.zeros((16, 128), jnp.float32)
    rows = copy_of(*NOTHING["of the source"])
    with pallasim.emulate("tpu-v5e", out_of_bounds=outside):
        for numbers, text in {(-8, 3): "3 elements from -8 on reach outside dimension 0 of x_ref (size 16)\n",
                              (14, 4): "4 elements from 14 on reach outside dimension 0 of x_ref (size 16)\n",
                              (2, -1): "-1 elements from 2 on reach outside dimension 0 of x_ref (size 16)\n",
                              (-8, 1): "index -8 is outside dimension 0 of x_ref (size 16)\n"}.items():
            with pytest.raises(Exception) as e:
                jax.block_until_ready(rows(numbers, x))
            assert f"error[PS-OOB-001]: Out-of-bounds read: {text}" in str(e.value)
            assert ("jnp.maximum(size, 0)" in str(e.value)) == (numbers[1] < 0)


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="this JAX compares the sizes of such slices while it traces, and refuses them")
def test_a_slice_of_a_slice_ends_where_that_ends():
    """The first one has as many rows as are known when it runs: eight rows of its four do not exist."""
    call = copy_of(lambda x, s, n: x.at[pl.ds(s, n)].at[pl.ds(0, 8)], lambda b, s, n: b, buffer=(8, 128))
    with pytest.raises(pallasim.KernelError, match="8 elements from 0 on reach outside dimension 0 of x_ref .size 4."), pallasim.emulate("tpu-v5e"):
        jax.block_until_ready(call((12, 4), jnp.zeros((16, 128), jnp.float32)))
