"""TPU kernels with one mistake in their copies and semaphores, or between cores, devices and subcores."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

from .bugs import bug
from .tpu import F32, X

ANY = pl.BlockSpec(memory_space=pl.ANY)
ROW = pltpu.VMEM((8, 128), F32)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
LOGICAL = pl.DeviceIdType.LOGICAL


@bug("tpu-v5e", "PS-RACE-001", words=("row", "x_ref", "4096 bytes"))
def copy_is_read_before_its_wait(fixed):
    def kernel(x_ref, o_ref, row, sem):
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(8, 8)], row, sem)
        copy.start()  # ALSO
        if fixed:
            copy.wait()
        o_ref[...] = row[...] * 2  # CAUSE
        if not fixed:
            copy.wait()

    call = pl.pallas_call(kernel, out_shape=X[:8], in_specs=[ANY], scratch_shapes=[ROW, DMA])
    return lambda: call(X), X[8:16] * 2


@bug("tpu-v5e", "PS-RACE-001", words=("slots", "slots[1] | slot 1 | (1, 0, 0)", "trip"))
def slot_that_is_being_filled_is_read(fixed):
    def kernel(x_ref, o_ref, slots, sems):
        def fetch(i, slot):
            return pltpu.make_async_copy(x_ref.at[pl.ds(8 * i, 8)], slots.at[slot], sems.at[slot])

        fetch(0, 0).start()

        @pl.loop(0, 8)
        def _(i):
            @pl.when(i < 7)
            def _():
                fetch(i + 1, (i + 1) % 2).start()  # ALSO

            fetch(i, i % 2).wait()
            o_ref[pl.ds(8 * i, 8)] = slots[i % 2 if fixed else (i + 1) % 2] + 1  # CAUSE

    call = pl.pallas_call(kernel, out_shape=X, in_specs=[ANY], scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), DMA((2,))])
    return lambda: call(X), X + 1


@bug("tpu-v5e", "PS-RACE-001", words=("slots", "o_ref"))
def slot_is_filled_while_it_is_stored(fixed):
    """Rows go out of the slot that the next trip but one fills."""
    def kernel(x_ref, o_ref, slots, came, went):
        def fetch(i):
            return pltpu.make_async_copy(x_ref.at[pl.ds(8 * i, 8)], slots.at[i % 2], came.at[i % 2])

        def store(i):
            return pltpu.make_async_copy(slots.at[i % 2], o_ref.at[pl.ds(8 * i, 8)], went.at[i % 2])

        fetch(0).start()
        for i in range(8):
            if i + 1 < 8:
                if fixed and i > 0:
                    store(i - 1).wait()
                fetch(i + 1).start()  # CAUSE
            fetch(i).wait()
            slots[i % 2] = slots[i % 2] * 2  # CAUSE
            store(i).start()  # ALSO
        for i in range(6 if fixed else 0, 8):
            store(i).wait()

    call = pl.pallas_call(kernel, out_shape=X, in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), DMA((2,)), DMA((2,))])
    return lambda: call(X), X * 2


@bug("tpu-v5e", "PS-DEAD-001", words=("sems[1]", "8192 | sems[0]", "4096"))
def both_waits_take_the_second_semaphore(fixed):
    def kernel(x_ref, w_ref, o_ref, x_row, w_row, sems):
        pltpu.make_async_copy(x_ref, x_row, sems.at[0]).start()
        pltpu.make_async_copy(w_ref, w_row, sems.at[1]).start()  # ALSO
        pltpu.make_async_copy(x_ref, x_row, sems.at[0 if fixed else 1]).wait()
        pltpu.make_async_copy(w_ref, w_row, sems.at[1]).wait()  # CAUSE
        o_ref[...] = x_row[...] * w_row[...]

    call = pl.pallas_call(kernel, out_shape=X[:8], in_specs=[ANY] * 2, scratch_shapes=[ROW, ROW, DMA((2,))])
    return lambda: call(X[:8], X[8:16]), X[:8] * X[8:16]


@bug("tpu-v5e", "PS-RACE-001", words=("x_row", "sems", "[0]"))
def wait_takes_another_copys_semaphore(fixed):
    """Weights are awaited at the top; the wait for x names their semaphore, and theirs that of x."""
    def kernel(x_ref, w_ref, o_ref, x_row, w_row, sems):
        pltpu.make_async_copy(w_ref, w_row, sems.at[1]).start()
        pltpu.make_async_copy(x_ref, x_row, sems.at[0]).start()  # ALSO
        pltpu.make_async_copy(x_ref, x_row, sems.at[0 if fixed else 1]).wait()
        o_ref[0:8] = x_row[...] + 1  # CAUSE
        pltpu.make_async_copy(w_ref, w_row, sems.at[1 if fixed else 0]).wait()
        o_ref[8:16] = w_row[...] + 2

    call = pl.pallas_call(kernel, out_shape=X[:16], in_specs=[ANY] * 2, scratch_shapes=[ROW, ROW, DMA((2,))])
    return lambda: call(X[:8], X[8:16]), jnp.concatenate([X[:8] + 1, X[8:16] + 2])


@bug("tpu-v5e", "PS-SEM-002", "PS-RACE-001", words=("4096 bytes", "o_ref"))
def last_store_is_not_awaited(fixed):
    def kernel(x_ref, o_ref, row, sem):
        pltpu.sync_copy(x_ref, row)
        row[...] = row[...] * 3
        out = pltpu.make_async_copy(row, o_ref, sem)
        out.start()  # CAUSE
        if fixed:
            out.wait()

    call = pl.pallas_call(kernel, out_shape=X[:8], in_specs=[ANY], out_specs=ANY, scratch_shapes=[ROW, DMA])
    return lambda: call(X[:8]), X[:8] * 3


def on_cores(kernel, out, scratch):
    call = pl.kernel(kernel, jax.ShapeDtypeStruct(out, F32), mesh=pltpu.create_tensorcore_mesh("core", num_cores=2), scratch_types=scratch)  # the launch
    return lambda: call(X)


def exchanged():
    return jnp.concatenate([X[:16], X[8:16], X[:8]])


@bug("tpu-v5p", "PS-RACE-002", words=("o_hbm", "core 0 | thread 0", "core 1 | thread 1", "rows 8 | (8, 0) | 8 to 15 | 8:16"))
def cores_do_not_meet(fixed):
    def kernel(x_hbm, o_hbm, row, sem):
        core = lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[pl.ds(8 * core, 8)], row)
        pltpu.sync_copy(row, o_hbm.at[pl.ds(8 * core, 8)])  # CAUSE, ALSO
        if fixed:
            pltpu.core_barrier(sem, core_axis_name="core")
        pltpu.sync_copy(o_hbm.at[pl.ds(8 - 8 * core, 8)], row)  # CAUSE, ALSO
        pltpu.sync_copy(row, o_hbm.at[pl.ds(16 + 8 * core, 8)])

    return on_cores(kernel, (32, 128), [ROW, REGULAR]), exchanged()


@bug("tpu-v5p", "PS-RACE-002", words=("o_hbm", "core 0 | thread 0", "core 1 | thread 1", "rows 16 | (16, 0) | 16 to 23 | 16:24"))
def core_takes_a_block_of_the_other(fixed):
    def kernel(x_hbm, o_hbm, row):
        core = lax.axis_index("core")

        @pl.loop(0, 2 if fixed else 3)
        def _(i):
            block = pl.ds(8 * jnp.minimum(2 * core + i, 3), 8)
            pltpu.sync_copy(x_hbm.at[block], row)
            row[...] = row[...] + 1 + core
            pltpu.sync_copy(row, o_hbm.at[block])  # CAUSE

    return on_cores(kernel, (32, 128), [ROW]), X[:32] + 1 + (jnp.arange(32)[:, None] >= 16)


@bug("tpu-v5p", "PS-DEAD-001", words=("ready", "1 in all | signalled 1 | signalled once | 1 signal", "to reach 2 | wants 2 | waits for 2", "core 1 | thread 1"))
def core_signals_once_and_is_awaited_twice(fixed):
    def kernel(x_hbm, o_hbm, row, ready):
        core = lax.axis_index("core")

        @pl.when(core == 0)
        def _():
            for i in range(2):
                pltpu.sync_copy(x_hbm.at[pl.ds(8 * i, 8)], row)
                pltpu.sync_copy(row, o_hbm.at[pl.ds(8 * i, 8)])
                if fixed or i == 1:
                    pl.semaphore_signal(ready, 1, core_index=1)  # ALSO

        @pl.when(core == 1)
        def _():
            pl.semaphore_wait(ready, 2)  # CAUSE
            pltpu.sync_copy(o_hbm.at[pl.ds(8, 8)], row)
            pltpu.sync_copy(row, o_hbm.at[pl.ds(16, 8)])

    return on_cores(kernel, (24, 128), [ROW, REGULAR]), jnp.concatenate([X[:16], X[8:16]])


@bug("tpu-v5p", "PS-SEM-002", words=("ready", "core 1 | thread 1"))
def core_is_signalled_once_too_often(fixed):
    def kernel(x_hbm, o_hbm, row, ready):
        core = lax.axis_index("core")

        @pl.when(core == 0)
        def _():
            for i in range(2):
                pltpu.sync_copy(x_hbm.at[pl.ds(8 * i, 8)], row)
                pltpu.sync_copy(row, o_hbm.at[pl.ds(8 * i, 8)])
                if i == 1 or not fixed:
                    pl.semaphore_signal(ready, 1, core_index=1)  # CAUSE, ALSO

        @pl.when(core == 1)
        def _():
            pl.semaphore_wait(ready, 1)  # CAUSE, ALSO
            pltpu.sync_copy(x_hbm.at[pl.ds(16, 8)], row)
            pltpu.sync_copy(row, o_hbm.at[pl.ds(16, 8)])

    return on_cores(kernel, (24, 128), [ROW, REGULAR]), X[:24]


def on_ring(kernel, want, *scratch, collective_id=0):
    """The kernel on four devices in a ring; each has eight rows of X."""
    call = pl.pallas_call(kernel, out_shape=X[:8], in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(collective_id=collective_id))
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",)), jax.sharding.PartitionSpec("x")
    program = jax.jit(jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    return lambda: program(X[:32]), want


def neighbour(by):
    return lax.rem(lax.axis_index("x") + 4 + by, 4)


@bug("tpu-v5e", "PS-DEAD-001", words=("barrier semaphore", "1 in all | signalled 1 | signalled once | 1 signal", "to reach 2 | wants 2 | waits for 2", "device 0"), devices=4)
def only_one_neighbour_signals_the_barrier(fixed):
    def kernel(x_ref, o_ref, send, recv):
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=neighbour(1), device_id_type=LOGICAL)  # ALSO
        if fixed:
            pl.semaphore_signal(ready, 1, device_id=neighbour(-1), device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)  # CAUSE
        pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id=neighbour(1), device_id_type=LOGICAL).wait()

    return on_ring(kernel, jnp.roll(X[:32], 8, 0), DMA, DMA)


@bug("tpu-v5e", "PS-RACE-002", words=("inbox of device 0", "device 3"), devices=4)
def neighbour_may_still_clear_its_inbox(fixed):
    def kernel(x_ref, o_ref, inbox, ready, send, recv):
        if fixed:
            inbox[...] = jnp.zeros_like(inbox)
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=neighbour(-1), device_id_type=LOGICAL)
        pl.semaphore_wait(barrier, 1)
        if not fixed:
            inbox[...] = jnp.zeros_like(inbox)  # CAUSE, ALSO
        copy = pltpu.async_remote_copy(x_ref, inbox, send, recv, device_id=neighbour(1), device_id_type=LOGICAL)  # CAUSE, ALSO
        copy.wait()
        inbox[...] = inbox[...] + 1
        pltpu.sync_copy(inbox, o_ref)

    return on_ring(kernel, jnp.roll(X[:32], 8, 0) + 1, ROW, REGULAR, DMA, DMA)


@bug("tpu-v5e", "PS-RACE-002", words=("o_ref", "device 0", "device 1", "get_barrier_semaphore"), devices=4)
def copy_goes_to_a_device_that_may_not_have_begun(fixed):
    def kernel(x_ref, o_ref, send, recv):
        if fixed:
            ready = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(ready, 1, device_id=neighbour(-1), device_id_type=LOGICAL)
            pl.semaphore_wait(ready, 1)
        pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id=neighbour(1), device_id_type=LOGICAL).wait()  # CAUSE

    return on_ring(kernel, jnp.roll(X[:32], 8, 0), DMA, DMA, collective_id=0 if fixed else None)


@bug("tpu-v5e", "PS-DEAD-001", words=("recv", "4 of 4"), devices=4)
def every_device_waits_before_it_sends(fixed):
    def kernel(x_ref, o_ref, send, recv):
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=neighbour(-1), device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 1)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, recv, device_id=neighbour(1), device_id_type=LOGICAL)
        if not fixed:
            copy.wait_recv()  # CAUSE
        copy.start()
        if fixed:
            copy.wait_recv()
        copy.wait_send()

    return on_ring(kernel, jnp.roll(X[:32], 8, 0), DMA, DMA)


@bug("tpu-v5e", "PS-RACE-001", words=("slots of device 0 | slots", "device 3"), devices=4)
def received_rows_are_read_before_the_wait(fixed):
    def kernel(x_ref, o_ref, slots, send, recv):
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=neighbour(-1), device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 1)
        copy = pltpu.make_async_remote_copy(x_ref, slots.at[1], send, recv, device_id=neighbour(1), device_id_type=LOGICAL)
        copy.start()  # ALSO
        copy.wait_send()
        if fixed:
            copy.wait_recv()
        slots[0] = slots[1] * 2  # CAUSE
        if not fixed:
            copy.wait_recv()
        pltpu.sync_copy(slots.at[0], o_ref)

    return on_ring(kernel, jnp.roll(X[:32], 8, 0) * 2, pltpu.VMEM((2, 8, 128), F32), DMA, DMA)


def on_subcores(kernel, scratch):
    x = X[:16, :16]

    def program():  # a mesh asks for the chip
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=16)
        return pl.kernel(kernel, jax.ShapeDtypeStruct(x.shape, F32), mesh=mesh, scratch_types=scratch)(x)

    return program, jnp.roll(x, -1, 0)


@bug("tpu-7x", "PS-RACE-002", words=("shared", "subcore 0", "subcore 1"))
def subcores_do_not_meet(fixed):
    def kernel(x_hbm, o_hbm, row, shared):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x_hbm.at[me], row)
        pltpu.sync_copy(row, shared.at[me])  # CAUSE, ALSO
        if fixed:
            plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[(me + 1) % 16], row)  # CAUSE, ALSO
        pltpu.sync_copy(row, o_hbm.at[me])

    return on_subcores(kernel, [pltpu.VMEM((16,), F32), pltpu.VMEM_SHARED((16, 16), F32)])


@bug("tpu-7x", "PS-OOB-001", words=("x_hbm", "index 16", "16 = rows[15]"))
def list_of_rows_is_not_wrapped(fixed):
    def kernel(x_hbm, o_hbm, rows, buffer):
        me = lax.axis_index("subcore")
        at = lax.iota(jnp.int32, 16) + 1
        rows[...] = at % 16 if fixed else at

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(x_hbm.at[rows], buffer)  # CAUSE
            pltpu.sync_copy(buffer, o_hbm)

    return on_subcores(kernel, [pltpu.VMEM((16,), jnp.int32), pltpu.VMEM((16, 16), F32)])
