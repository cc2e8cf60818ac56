"""What the tensor pipe does in the order in which it is told, and what it does not: PTX ISA, pipelined tcgen05 instructions."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxlib.mlir.dialects import nvvm

import pallasim
from test_blackwell import CHIP, F16, F32, done, kernel, load, numbers, product, smem

LEFT = plgpu.TMEM((128, 128), F16, packed=True)
SUMS = plgpu.TMEM((128, 128), F32)


def ends(done):
    plgpu.tcgen05_commit_arrive(done)
    plgpu.barrier_wait(done)


def races(body, scratch, *args, **options):
    """The result of a kernel that is given `x` in shared memory, and which codes of races it has."""
    def loaded(x_gmem, o_gmem, x, bar, *refs):
        @pl.when(lax.axis_index("t") == 0)
        def _():
            load([(x_gmem, x)], bar)

        body(o_gmem, x, *refs)

    f = kernel(loaded, ((128, 128), F32), [smem((128, 128), F16), plgpu.Barrier(), *scratch], thread_name="t", **{"num_threads": 1, **options})
    pallasim.findings()
    with pallasim.emulate(CHIP, detect_races=True, findings="collect"):
        out = np.asarray(f(*args))
    return out, [f.code for f in pallasim.findings() if f.code.startswith("PS-RACE")]


def stores(between, o_gmem, x, end, t):
    plgpu.async_store_tmem(t, jnp.ones((128, 128), F32))
    between(end)
    plgpu.async_store_tmem(t, jnp.zeros((128, 128), F32))
    plgpu.commit_tmem()
    o_gmem[...] = plgpu.async_load_tmem(t)


def copies(between, o_gmem, x, end, t):
    plgpu.async_copy_smem_to_tmem(x, t)
    between(end)
    plgpu.async_copy_smem_to_tmem(x, t)
    ends(end)
    o_gmem[...] = plgpu.async_load_tmem(t).astype(F32)


def copy_over_a_result(between, o_gmem, x, end, t, left):
    plgpu.async_copy_smem_to_tmem(x, left)
    plgpu.tcgen05_mma(t, left, x, accumulate=False)
    between(end)
    plgpu.async_copy_smem_to_tmem(x, left)
    plgpu.tcgen05_mma(t, left, x)
    ends(end)
    o_gmem[...] = plgpu.async_load_tmem(t)


def half_of_the_sums(between, o_gmem, x, end, t):
    plgpu.tcgen05_mma(t, x, x, accumulate=False)
    between(end)
    plgpu.tcgen05_mma(t.at[:, pl.ds(0, 64)], x, x.at[:, pl.ds(0, 64)])
    ends(end)
    o_gmem[...] = plgpu.async_load_tmem(t)


def commits(_):
    plgpu.commit_tmem()


@pytest.mark.parametrize("body, remedy, scratch", [
    (stores, commits, [SUMS]), (copies, ends, [LEFT]), (copy_over_a_result, ends, [SUMS, LEFT]), (half_of_the_sums, ends, [SUMS])])
def test_a_wait_is_needed(body, remedy, scratch):
    x = numbers((128, 128), F16)
    _, found = races(lambda *refs: body(lambda _: None, *refs), [done(), *scratch], x)
    assert found == ["PS-RACE-002"]
    out, found = races(lambda *refs: body(remedy, *refs), [done(), *scratch], x)
    assert not found
    full = product(x, x)
    want = {stores: 0 * full, copies: np.asarray(x, np.float32), copy_over_a_result: 2 * full,
            half_of_the_sums: np.concatenate([2 * full[:, :64], full[:, 64:]], 1)}
    np.testing.assert_array_equal(out, want[body])


@pytest.mark.parametrize("orders", [True, False])
@pytest.mark.parametrize("first", ["copy", "product"])
def test_a_product_of_another_thread_comes_behind(first, orders):
    """What the one told the tensor pipe is before what the other tells it, if the two meet at a barrier that is for this. Who awaits the second
    may then change what the first reads."""
    def body(o_gmem, x, met, end, t, left, other):
        thread = lax.axis_index("t")

        @pl.when(thread == 0)
        def _():
            other[...] = jnp.ones((128, 128), F16)
            plgpu.commit_smem()
            if first == "copy":
                plgpu.async_copy_smem_to_tmem(other, left)
            else:
                plgpu.tcgen05_mma(t, other, x, accumulate=False)
            plgpu.barrier_arrive(met)

        @pl.when(thread == 1)
        def _():
            plgpu.barrier_wait(met)
            plgpu.tcgen05_mma(t, left if first == "copy" else x, x, end, accumulate=first == "product")
            plgpu.barrier_wait(end)
            other[...] = jnp.zeros((128, 128), F16)
            o_gmem[...] = plgpu.async_load_tmem(t)

    x = numbers((128, 128), F16)
    scratch = [plgpu.Barrier(orders_tensor_core=orders), done(), SUMS, LEFT, smem((128, 128), F16)]
    out, found = races(body, scratch, x, num_threads=2)
    assert set(found) == (set() if orders else {"PS-RACE-002"})
    if orders:
        np.testing.assert_array_equal(out, product(np.ones((128, 128)), x) + (0 if first == "copy" else product(x, x)))


@pytest.mark.parametrize("waits", [True, False])
def test_waits_of_inline_bodies(waits):
    """tcgen05.wait is commit_tmem and wait_load_tmem; a fence between threads is no wait."""
    def inline(emit):
        @plgpu.inline_mgpu()
        def emitted(_):
            emit()

        emitted()

    def body(o_gmem, x, t):
        plgpu.async_store_tmem(t, jnp.ones((128, 128), F32))
        inline((lambda: nvvm.tcgen05_wait(nvvm.Tcgen05WaitKind.STORE)) if waits else lambda: nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC))
        o_gmem[...] = plgpu.async_load_tmem(t)
        if waits:
            inline(lambda: nvvm.tcgen05_wait(nvvm.Tcgen05WaitKind.LOAD))
        plgpu.async_store_tmem(t, jnp.zeros((128, 128), F32))
        plgpu.commit_tmem()

    out, found = races(body, [SUMS], numbers((128, 128), F16))
    assert (out == 1).all() and set(found) == (set() if waits else {"PS-RACE-002"})


def test_blackwell_ultra_has_no_products_of_i8():
    """PTX ISA, tcgen05.mma: .kind::i8 is of sm_100a and sm_110a, not of sm_103a."""
    def body(a_gmem, o_gmem, a, bar, end, t):
        load([(a_gmem, a)], bar)
        plgpu.tcgen05_mma(t, a, a, end, accumulate=False)
        plgpu.barrier_wait(end)
        o_gmem[...] = plgpu.async_load_tmem(t)

    scratch = [smem((128, 128), jnp.int8), plgpu.Barrier(), done(), plgpu.TMEM((128, 128), jnp.int32)]
    f, x = kernel(body, ((128, 128), jnp.int32), scratch), numbers((128, 128), jnp.int8)
    with pallasim.emulate("gpu-b200"):
        np.testing.assert_array_equal(f(x), np.asarray(x, np.int32) @ np.asarray(x, np.int32))
    with pallasim.emulate("gpu-gb300"), pytest.raises(pallasim.RefusedError, match="tcgen05_mma of i8 on gpu-gb300"):
        f(x)
