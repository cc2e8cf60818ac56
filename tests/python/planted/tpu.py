"""Tests of TPU kernels as a project has them, each kernel once with a mistake and once without (its twin). They know nothing of the emulator, and compare
the twins alone: a mistake has to be found, not seen in the numbers. test_pytest_planted.py runs them."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

both = pytest.mark.parametrize("wrong", [True, False], ids=["planted", "twin"])
X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
ANY = pl.BlockSpec(memory_space=pl.ANY)
VMEM = pltpu.VMEM((8, 128), jnp.float32)


def judge(wrong, result, expected):
    jax.block_until_ready(result)
    if not wrong:
        np.testing.assert_array_equal(result, expected)


@both
def test_accumulator_is_cleared(wrong):
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == (-1 if wrong else 0))
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == 3)
        def _():
            o_ref[...] = acc_ref[...]

    total = pl.pallas_call(kernel, out_shape=X[:8], grid=(4,), in_specs=[ROWS], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), scratch_shapes=[VMEM])(X)
    judge(wrong, total, X.reshape(4, 8, 128).sum(0))


@both
def test_axis_that_carries_a_sum_is_arbitrary(wrong):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    total = pl.pallas_call(kernel, out_shape=X[:16], grid=(2, 2), in_specs=[pl.BlockSpec((8, 128), lambda i, k: (2 * i + k, 0))],
                           out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
                           compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel" if wrong else "arbitrary")))(X)
    judge(wrong, total, X.reshape(2, 2, 8, 128).sum(1).reshape(16, 128))


@both
def test_copy_is_awaited(wrong):
    def kernel(x_ref, o_ref, row, sem):
        copy = pltpu.make_async_copy(x_ref, row, sem)
        copy.start()
        if not wrong:
            copy.wait()
        o_ref[...] = row[...] * 2
        if wrong:
            copy.wait()

    judge(wrong, pl.pallas_call(kernel, out_shape=X[:8], in_specs=[ANY], scratch_shapes=[VMEM, pltpu.SemaphoreType.DMA])(X[:8]), X[:8] * 2)


@both
def test_every_block_is_stored(wrong):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) < (3 if wrong else 4))
        def _():
            o_ref[...] = x_ref[...] + 1

    judge(wrong, pl.pallas_call(kernel, out_shape=X, grid=(4,), in_specs=[ROWS], out_specs=ROWS)(X), X + 1)


@both
def test_cores_exchange_rows(wrong):
    def kernel(x_hbm, o_hbm, row, sem):
        core = lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[pl.ds(8 * core, 8)], row)
        pltpu.sync_copy(row, o_hbm.at[pl.ds(8 * core, 8)])
        if not wrong:
            pltpu.core_barrier(sem, core_axis_name="core")
        pltpu.sync_copy(o_hbm.at[pl.ds(8 - 8 * core, 8)], row)
        pltpu.sync_copy(row, o_hbm.at[pl.ds(16 + 8 * core, 8)])

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    out = pl.kernel(kernel, X, mesh=mesh, scratch_types=[VMEM, pltpu.SemaphoreType.REGULAR])(X)
    judge(wrong, out, jnp.concatenate([X[:8], X[8:16], X[8:16], X[:8]]))


@both
def test_devices_send_to_the_right(wrong):
    n = jax.device_count()
    assert n > 1, "a ring of devices takes several"

    def kernel(x_ref, o_ref, ready, send, recv):
        me = lax.axis_index("x")
        o_ref[...] = jnp.zeros_like(o_ref)  # what the left neighbour sends comes after that, where it knows
        if not wrong:
            pl.semaphore_signal(ready, 1, device_id=lax.rem(me + n - 1, n), device_id_type=pl.DeviceIdType.LOGICAL)
            pl.semaphore_wait(ready, 1)
        pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id=lax.rem(me + 1, n), device_id_type=pl.DeviceIdType.LOGICAL).wait()

    ring = pl.pallas_call(kernel, out_shape=X[:8], scratch_shapes=[pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA])
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.sharding.PartitionSpec("x")
    x = jnp.concatenate([X[:8] + d for d in range(n)])
    judge(wrong, jax.jit(jax.shard_map(ring, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(x), jnp.roll(x, 8, 0))


@both
def test_slices_lie_inside(wrong):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(8 * pl.program_id(0) + (8 if wrong else 0), 8)]

    judge(wrong, pl.pallas_call(kernel, out_shape=X, grid=(4,), out_specs=ROWS)(X), X)


@both
def test_what_is_awaited_is_signalled(wrong):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1 if wrong else 2)
        pl.semaphore_wait(sem, 2)
        o_ref[...] = x_ref[...] - 1

    judge(wrong, pl.pallas_call(kernel, out_shape=X, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(X), X - 1)
