"""Kernels of TPUs with one mistake in the order of two events, and the same ones mended: small, so that all their schedules can be run."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.sharding import Mesh, PartitionSpec as P

F32, I32 = jnp.float32, jnp.int32
LOGICAL = pl.DeviceIdType.LOGICAL
HBM = pl.BlockSpec(memory_space=pltpu.HBM)


@dataclasses.dataclass(frozen=True)
class Bug:
    """What is planted in a kernel.

    run(mended): launches it. want: its outputs, from NumPy. depth: how many orders of two events must come together for it to show.
    hangs: it shows as a deadlock, and else as wrong outputs. devices: how many it needs. usual: what the ordinary run shows of it.
    seeds, schedules: fewer where there are many threads.
    """

    name: str
    chip: str
    depth: int
    run: Callable[[bool], Any]
    want: tuple[np.ndarray, ...]
    hangs: bool = False
    devices: int = 1
    usual: str = "right"
    seeds: int = 3
    schedules: int = 1000


BUGS: dict[str, Bug] = {}


def bug(chip: str, want: Any, depth: int = 1, **more: Any) -> Callable[[Any], Any]:
    def keep(run: Any) -> Any:
        outputs = want if isinstance(want, tuple) else (want,)
        BUGS[run.__name__] = Bug(run.__name__, chip, depth, run, tuple(map(np.asarray, outputs)), **more)
        return run

    return keep


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(BUGS)).integers(1, 99, shape).astype(np.float32)


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


# TPU: cores and copies -------------------------------------------------------------------------------------------------------------------

TILE = pltpu.VMEM((8, 128), F32)
X1 = numbers(8, 128)


@bug("tpu-v5p", X1 * 2, hangs=True)
def lost_signal(mended):
    """Core 1 lets core 0 go on if it is there already, and does not come back to it."""
    def kernel(x_hbm, o_hbm, row, here, go):
        @pl.when(lax.axis_index("core") == 0)
        def _():
            pl.semaphore_signal(here, 1, core_index=1)
            pl.semaphore_wait(go, 1)
            pltpu.sync_copy(x_hbm, row)
            row[...] = row[...] * 2
            pltpu.sync_copy(row, o_hbm)

        @pl.when(lax.axis_index("core") == 1)
        def _():
            if mended:
                pl.semaphore_wait(here, 1)
                pl.semaphore_signal(go, 1, core_index=0)
            else:
                @pl.when(pl.semaphore_read(here) == 1)
                def _():
                    pl.semaphore_wait(here, 1)
                    pl.semaphore_signal(go, 1, core_index=0)

    regular = pltpu.SemaphoreType.REGULAR
    return pl.kernel(kernel, like(X1), mesh=pltpu.create_tensorcore_mesh("core", num_cores=2), scratch_types=[TILE, regular, regular])(X1)


X2 = numbers(3, 8, 128)


@bug("tpu-v5e", X2)
def slot_reused_too_early(mended):
    """Rows go through two slots; a slot is filled again while its row may still be leaving."""
    def kernel(x_hbm, o_hbm, slots, came, left):
        fetch = [pltpu.make_async_copy(x_hbm.at[i], slots.at[i % 2], came.at[i % 2]) for i in range(3)]
        leave = [pltpu.make_async_copy(slots.at[i % 2], o_hbm.at[i], left.at[i % 2]) for i in range(3)]
        fetch[0].start()
        fetch[1].start()
        fetch[0].wait()
        leave[0].start()
        if mended:
            leave[0].wait()
        fetch[2].start()
        if not mended:
            leave[0].wait()
        for i in 1, 2:
            fetch[i].wait()
            leave[i].start()
        for i in 1, 2:
            leave[i].wait()

    dma = pltpu.SemaphoreType.DMA((2,))
    return pl.pallas_call(kernel, out_shape=X2, in_specs=[HBM], out_specs=HBM, scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), dma, dma])(X2)


# TPU: devices ----------------------------------------------------------------------------------------------------------------------------

def on_devices(kernel: Any, x: np.ndarray, n: int, scratch: Any) -> Any:
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), F32), scratch_shapes=scratch)
    mesh = Mesh(np.array(jax.devices()[:n]), "x")
    return jax.jit(jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))(x)


X3 = numbers(3 * 8, 128)
ROWS3 = X3.reshape(3, 8, 128)


@bug("tpu-v5e", np.concatenate([ROWS3[0], ROWS3[1] + 3 * ROWS3[0], ROWS3[2] + 3 * ROWS3[0]]), devices=3)
def neighbour_counted_twice(mended):
    """Device 0 sends its row twice, by two slots, to both neighbours, which tell it of each slot that is free: two words of one are not one of each."""
    def kernel(x_ref, o_ref, twice, slots, sent, came, free):
        me = lax.axis_index("x")

        @pl.when(me > 0)
        def _():
            for slot in range(2):
                slots[slot] = x_ref[...]  # until then it is the neighbour's own
                o_ref[...] = slots[slot]
                pl.semaphore_signal(free.at[(me - 1) if mended else 0], 1, device_id=0, device_id_type=LOGICAL)

        @pl.when(me == 0)
        def _():
            o_ref[...] = x_ref[...]
            twice[0] = x_ref[...]
            twice[1] = x_ref[...] * 2

        for slot in range(2):
            copies = [pltpu.make_async_remote_copy(twice.at[slot], slots.at[slot], sent, came.at[slot], device_id=to, device_id_type=LOGICAL)
                      for to in (1, 2)]

            @pl.when(me == 0)
            def _():
                if mended:
                    for which in range(2):
                        pl.semaphore_wait(free.at[which], 1)
                else:
                    pl.semaphore_wait(free.at[0], 2)
                for copy in copies:
                    copy.start()
                for copy in copies:
                    copy.wait_send()

            @pl.when(me > 0)
            def _():
                copies[0].wait_recv()
                o_ref[...] += slots[slot]

    two = pltpu.VMEM((2, 8, 128), F32)
    return on_devices(kernel, X3, 3, [two, two, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.REGULAR((2,))])


X4 = numbers(2 * 8, 128)


@bug("tpu-v5e", np.concatenate([2 * X4[:8] + X4[8:], X4[8:]]), devices=2)
def remote_copy_before_readiness(mended):
    """Device 1 writes into a buffer that device 0 may still be using."""
    def kernel(x_ref, o_ref, inbox, sent, came, ready):
        me = lax.axis_index("x")
        copy = pltpu.make_async_remote_copy(x_ref, inbox, sent, came, device_id=0, device_id_type=LOGICAL)

        @pl.when(me == 0)
        def _():
            inbox[...] = x_ref[...] * 2
            o_ref[...] = inbox[...]
            if mended:
                pl.semaphore_signal(ready, 1, device_id=1, device_id_type=LOGICAL)
            copy.wait_recv()
            o_ref[...] += inbox[...]

        @pl.when(me == 1)
        def _():
            if mended:
                pl.semaphore_wait(ready, 1)
            copy.start()
            copy.wait_send()
            o_ref[...] = x_ref[...]

    return on_devices(kernel, X4, 2, [TILE, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR])


# SparseCores -----------------------------------------------------------------------------------------------------------------------------

X5 = numbers(2, 1, 16)


def subcores(n: int) -> Any:
    return plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=n)


@bug("tpu-7x", X5.sum(0), depth=2)
def word_of_two_subcores(mended):
    """Two subcores add to what both share: each reads, adds and writes back, where the copy itself should add."""
    def kernel(x_hbm, first_hbm, o_hbm, mine, sums, first, total):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(first_hbm, first)
        pltpu.sync_copy(x_hbm.at[me], mine)

        @pl.when(me == 0)
        def _():
            sums[0, :] = jnp.zeros(16, F32)
            pltpu.sync_copy(sums, total)

        plsc.subcore_barrier()
        if mended:
            pltpu.sync_copy(mine, total.at[first], add=True)
        else:
            pltpu.sync_copy(total, sums)
            sums[0, :] = sums[0, :] + mine[0, :]
            pltpu.sync_copy(sums, total)
        plsc.subcore_barrier()

        @pl.when(me == 0)
        def _():
            pltpu.sync_copy(total, o_hbm)

    row = pltpu.VMEM((1, 16), F32)
    scratch = [row, row, pltpu.VMEM((1,), I32), pltpu.VMEM_SHARED((1, 16), F32)]
    return pl.kernel(kernel, like(X5[0]), mesh=subcores(2), scratch_types=scratch)(X5, np.zeros(1, np.int32))


X6 = numbers(2, 16)


@bug("tpu-7x", X6[::-1] + X6, usual="wrong")
def subcore_that_does_not_wait(mended):
    """Subcores read each other's rows of the memory that they share; what they wrote a step before may still be there."""
    def kernel(x_hbm, o_hbm, mine, other, shared):
        me = lax.axis_index("subcore")
        pltpu.sync_copy(x_hbm.at[me], mine)
        pltpu.sync_copy(mine, shared.at[me])
        plsc.subcore_barrier()
        pltpu.sync_copy(shared.at[1 - me], other)
        if mended:
            plsc.subcore_barrier()
        mine[...] = mine[...] + other[...]
        pltpu.sync_copy(mine, shared.at[me])
        pltpu.sync_copy(shared.at[me], o_hbm.at[me])

    row = pltpu.VMEM((16,), F32)
    return pl.kernel(kernel, like(X6), mesh=subcores(2), scratch_types=[row, row, pltpu.VMEM_SHARED((2, 16), F32)])(X6)


X7 = numbers(8, 128)


@bug("tpu-7x", (X7, X7 * 2))
def handshake_of_two_kinds_of_cores(mended):
    """A subcore brings rows for the TensorCore, and tells it before they are there."""
    def feed(x_hbm, y_hbm, o_hbm, buffer, fed, y):
        pltpu.sync_copy(x_hbm, buffer)
        if not mended:
            pl.semaphore_signal(fed, 1, device_id={"tc": 0})
        pltpu.sync_copy(buffer, y_hbm)
        if mended:
            pl.semaphore_signal(fed, 1, device_id={"tc": 0})

    def double(x_hbm, y_hbm, o_hbm, buffer, fed, y):
        pl.semaphore_wait(fed, 1)
        pltpu.sync_copy(y_hbm, y)
        y[...] = y[...] * 2
        pltpu.sync_copy(y, o_hbm)

    sparse, dense = subcores(1), pltpu.create_tensorcore_mesh("tc", num_cores=1)

    @jax.jit
    def launch(x):
        scratch = [TILE @ sparse, pltpu.SemaphoreType.REGULAR @ dense, TILE @ dense]
        out = [pltpu.HBM(X7.shape, F32)] * 2
        return pl.kernel(body=[feed, double], mesh=[sparse, dense], out_type=out, scratch_types=scratch)(pltpu.with_memory_space_constraint(x, pltpu.HBM))

    return launch(X7)
