"""Copies of refs that are seen through other element widths: whole, by chosen rows, with extents known when they run."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from test_devices import devices  # noqa: F401

import pallasim

CHIP = "tpu-7x"
RNG = np.random.default_rng(11)
MODES = [dict(), dict(dma_execution_mode="on_wait"), dict(dma_execution_mode="scheduled", random_seed=5, detect_races=True)]
mode = pytest.mark.parametrize("mode", MODES, ids=["eager", "on_wait", "scheduled"])
NARROW = [jnp.int16, jnp.bfloat16, jnp.int8, jnp.int4]
ROWS = np.array([3, 0, 1, 2, 7, 7, 5, 6], np.int32)


def bits(dtype):
    return jnp.iinfo(dtype).bits if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype).bits


def table(dtype, rows, columns=128):
    x = jnp.asarray(RNG.integers(-8, 8, (rows, columns)), jnp.int32)
    return x.astype(dtype)


def words(x):
    """NumPy's reference of x.bitcast(int32): rows of narrow elements in one word, the first one lowest."""
    width = bits(x.dtype)
    n = 32 // width
    if width >= 8:
        raw = np.asarray(x).view({8: np.uint8, 16: np.uint16}[width]).astype(np.uint32)
    else:
        raw = np.asarray(x).astype(np.int32).astype(np.uint32) & ((1 << width) - 1)
    raw = raw.reshape(x.shape[0] // n, n, *x.shape[1:])
    return sum(raw[:, k] << np.uint32(k * width) for k in range(n)).view(np.int32)


def on_subcore(body, out, *args, scratch, **options):
    before = pallasim.launch_count()
    with pallasim.emulate(CHIP, **options):
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
        result = jax.block_until_ready(pl.kernel(body, out_type=jax.ShapeDtypeStruct(out.shape, out.dtype), mesh=mesh, scratch_types=scratch)(*args))
    assert pallasim.launch_count() == before + 1
    return result


@mode
@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.__name__)
def test_rows_of_words_are_gathered_from_a_narrower_table(dtype, mode):
    x = table(dtype, 8 * 32 // bits(dtype), 256)

    def body(x, rows, o, index, buffer):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(x.bitcast(jnp.int32).at[index, pl.ds(128, 128)], buffer)
        pltpu.sync_copy(buffer, o)

    want = words(x)[ROWS, 128:]
    scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)]
    np.testing.assert_array_equal(on_subcore(body, want, x, ROWS, scratch=scratch, **mode), want)


@mode
@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.__name__)
def test_words_are_scattered_to_rows_of_a_narrower_output(dtype, mode):
    n = 32 // bits(dtype)
    x = table(dtype, 8 * n)

    def body(x, rows, o, index, buffer):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(x.bitcast(jnp.int32), buffer)
        pltpu.sync_copy(buffer, o.bitcast(jnp.int32).at[index])

    rows = np.array([5, 1, 0, 2, 7, 6, 3, 4], np.int32)
    got = on_subcore(body, x, x, rows, scratch=[pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)], **mode)
    want = np.zeros((8, 128), np.int32)
    want[rows] = words(x)
    np.testing.assert_array_equal(words(got), want)


@mode
def test_narrow_rows_are_gathered_from_words(mode):
    x = table(jnp.int16, 16)
    rows = np.array([3, 4, 5, 0, 15, 8, 9, 1], np.int32)  # neighbours within a word, and across two

    def body(x, rows, o, index, buffer):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(x.bitcast(jnp.int16).at[index], buffer)
        pltpu.sync_copy(buffer, o)

    want = np.asarray(x)[rows]
    scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int16)]
    np.testing.assert_array_equal(on_subcore(body, want, words(x), rows, scratch=scratch, **mode), want)


@mode
@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: d.__name__)
def test_as_many_rows_as_are_known_when_it_runs(dtype, mode):
    x = table(dtype, 8 * 32 // bits(dtype))

    def body(x, start, o, count, buffer):
        pltpu.sync_copy(start, count.at[pl.ds(0, 8)])
        i, n = count[...][0], count[...][1]
        pltpu.sync_copy(x.bitcast(jnp.int32).at[pl.ds(i, n)], buffer.at[pl.ds(0, n)])
        pltpu.sync_copy(buffer.at[pl.ds(0, n)], o.at[pl.ds(1, n)])

    start = np.array([2, 5, 0, 0, 0, 0, 0, 0], np.int32)
    got = on_subcore(body, words(x), x, start, scratch=[pltpu.VMEM((16,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)], **mode)
    np.testing.assert_array_equal(np.asarray(got)[1:6], words(x)[2:7])


def test_a_row_of_words_that_does_not_exist_is_named():
    def body(x, rows, o, index, buffer):
        pltpu.sync_copy(rows, index)
        pltpu.sync_copy(x.bitcast(jnp.int32).at[index], buffer)
        pltpu.sync_copy(buffer, o)

    rows = np.array([0, 1, 2, 8, 4, 5, 6, 7], np.int32)
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001") as e:
        on_subcore(body, np.zeros((8, 128), np.int32), table(jnp.int16, 16), rows, scratch=[pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32)])
    assert "index 8" in str(e.value)


def test_an_early_read_of_words_in_flight_is_a_race():
    def body(x, rows, o, index, buffer, sem):
        pltpu.sync_copy(rows, index)
        copy = pltpu.make_async_copy(x.bitcast(jnp.int32).at[index], buffer, sem)
        copy.start()
        buffer[0, pl.ds(0, 16)] = buffer[1, pl.ds(0, 16)]
        copy.wait()
        pltpu.sync_copy(buffer, o)

    scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32), pltpu.SemaphoreType.DMA]
    with pytest.raises(pallasim.KernelError, match="PS-RACE"):
        on_subcore(body, np.zeros((8, 128), np.int32), table(jnp.int16, 16), ROWS, scratch=scratch, detect_races=True, findings="raise")


def test_words_go_to_the_other_device(devices):
    def body():
        import functools

        from jax.experimental.pallas import tpu_sc as plsc

        rows = np.array([3, 0, 1, 2, 7, 7, 5, 6], np.int32)

        def body(x, rows, o, index, buffer, ready, sent, received, *, chosen):
            pltpu.sync_copy(rows, index)
            there = {"x": 1 - lax.axis_index("x")}
            pl.semaphore_signal(ready, 1, device_id=there)
            pl.semaphore_wait(ready, 1)
            source = x.bitcast(jnp.int32)
            pltpu.make_async_remote_copy(source.at[index] if chosen else source, buffer, sent, received, device_id=there).start()
            for sem in (sent, received):
                pltpu.make_async_copy(buffer, buffer, sem).wait()
            pltpu.sync_copy(buffer, o)

        def one(x, rows, chosen):
            vector = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=1)
            scratch = [pltpu.VMEM((8,), jnp.int32), pltpu.VMEM((8, 128), jnp.int32), pltpu.SemaphoreType.REGULAR,
                       pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
            return pl.kernel(functools.partial(body, chosen=chosen), out_type=jax.ShapeDtypeStruct((8, 128), jnp.int32), mesh=vector,
                             scratch_types=scratch)(x, rows)

        for dtype, n, bits in ((jnp.int16, 2, 16), (jnp.int4, 8, 4)):
            x = jnp.asarray(np.random.default_rng(1).integers(-8, 8, (16 * n, 128)), dtype)
            raw = (np.asarray(x.astype(jnp.int32)).astype(np.uint32) & ((1 << bits) - 1)).reshape(16, n, 128)
            words = sum(raw[:, k] << np.uint32(k * bits) for k in range(n)).view(np.int32)
            for chosen in (False, True):
                want = np.concatenate([half[rows] if chosen else half for half in (words[8:], words[:8])])
                for options in ({}, dict(dma_execution_mode="on_wait"), dict(dma_execution_mode="scheduled", random_seed=5, detect_races=True)):
                    before = pallasim.launch_count()
                    with pallasim.emulate("tpu-7x", rules="off" if chosen else "error", **options):  # no TPU sends chosen rows away
                        m = Mesh(np.array(jax.devices()[:2]), ("x",))
                        f = jax.shard_map(functools.partial(one, chosen=chosen), mesh=m, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)
                        got = np.asarray(jax.jit(f)(x, rows))
                    assert pallasim.launch_count() > before
                    np.testing.assert_array_equal(got, want)

    devices(body)
