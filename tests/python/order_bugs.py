"""Kernels of all machines with one mistake in the order of two events, and the same ones mended: small, so that all their schedules can be run."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas import triton as plt
from jax.sharding import Mesh, PartitionSpec as P

F32, F16, I32 = jnp.float32, jnp.float16, jnp.int32
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


# Triton ----------------------------------------------------------------------------------------------------------------------------------

X8 = numbers(2, 16)


def stream_k(mended: bool, await_flag: Callable[[Any], None]) -> Any:
    """Program 0 stores its part of a sum and raises a flag, program 1 awaits the flag and adds its own part."""
    def kernel(x_ref, part_in, flag_in, part_ref, flag_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            if not mended:
                plt.atomic_xchg(flag_ref, (), 1)
            part_ref[...] = x_ref[0, :]
            if mended:
                plt.atomic_xchg(flag_ref, (), 1)

        @pl.when(pl.program_id(0) == 1)
        def _():
            await_flag(flag_ref)
            o_ref[...] = part_ref[...] + x_ref[1, :]

    row, flag = jax.ShapeDtypeStruct((16,), F32), jax.ShapeDtypeStruct((), I32)
    return pl.pallas_call(kernel, out_shape=(row, flag, row), grid=(2,), input_output_aliases={1: 0, 2: 1},
                          compiler_params=plt.CompilerParams(num_warps=1))(X8, np.zeros(16, np.float32), np.int32(0))


@bug("gpu-h100", (X8[0], np.int32(0), X8.sum(0)), depth=2)
def flag_before_its_sum(mended):
    """Whoever awaits the flag takes it down."""
    return stream_k(mended, lambda flag: lax.while_loop(lambda up: up == 0, lambda _: plt.atomic_cas(flag, 1, 0), jnp.int32(0)))


@bug("gpu-h100", (X8[0], np.int32(1), X8.sum(0)), depth=2)
def flag_before_its_sum_looked_at(mended):
    """Whoever awaits the flag looks at it and leaves it up."""
    return stream_k(mended, lambda flag: lax.while_loop(lambda up: up == 0, lambda _: plt.atomic_add(flag, (), 0), jnp.int32(0)))


# Mosaic GPU ------------------------------------------------------------------------------------------------------------------------------

def on_gpu(kernel: Any, out: Any, *args: Any, scratch: Any, **more: Any) -> Any:
    return plgpu.kernel(kernel, out_type=jax.tree.map(like, out), scratch_types=scratch, **more)(*args)


X9 = numbers(16, 64)


@bug("gpu-h100", X9 + 3, depth=2, hangs=True)
def crossed_locks(mended):
    """Two warpgroups take two locks, one of them in the other order."""
    def kernel(x_ref, o_ref, tile, begun, ended):
        wg = lax.axis_index("wg")

        def locked(a, b):
            @pl.when(wg == 0)
            def _():
                tile[...] = x_ref[...]
                pl.semaphore_signal(a, 1)
                pl.semaphore_signal(b, 1)

            plgpu.barrier_arrive(begun)
            plgpu.barrier_wait(begun)
            for who, locks in enumerate([(a, b), (a, b) if mended else (b, a)]):
                @pl.when(wg == who)
                def _():
                    for lock in locks:
                        pl.semaphore_wait(lock, 1)
                    tile[...] = tile[...] + (who + 1)
                    for lock in locks:
                        pl.semaphore_signal(lock, 1)

            plgpu.barrier_arrive(ended)
            plgpu.barrier_wait(ended)

            @pl.when(wg == 0)
            def _():
                for lock in a, b:
                    pl.semaphore_wait(lock, 1)
                o_ref[...] = tile[...]

        pl.run_scoped(locked, plgpu.SemaphoreType.REGULAR, plgpu.SemaphoreType.REGULAR, collective_axes="wg")

    both = plgpu.Barrier(num_arrivals=2)
    return on_gpu(kernel, X9, X9, scratch=[plgpu.SMEM(X9.shape, F32), both, both], num_threads=2, thread_name="wg")


X10 = numbers(2, 16, 64)


@bug("gpu-h100", X10 * 2)
def cluster_barrier_left_out(mended):
    """CTA 1 reads tiles in the shared memory of CTA 0, which writes the next one when both have met once."""
    def kernel(x_ref, o_ref, smem, met, read):
        at = lax.axis_index("x")
        for step in range(2):
            @pl.when(at == 0)
            def _():
                smem[...] = x_ref[step] * 2

            plgpu.barrier_arrive(met)
            plgpu.barrier_wait(met)

            @pl.when(at == 1)
            def _():
                o_ref[step] = plgpu.cluster_ref(smem, {"x": 0})[...]

            if mended or step == 1:  # nobody leaves while its memory is read
                plgpu.barrier_arrive(read)
                plgpu.barrier_wait(read)

    together = plgpu.ClusterBarrier(collective_axes=("x",))
    return on_gpu(kernel, X10, X10, scratch=[plgpu.SMEM(X10.shape[1:], F32), together, together], grid=(1,), grid_names=("i",), cluster=(2,),
                  cluster_names=("x",))


X11 = np.random.default_rng(11).integers(-4, 5, (2, 64, 64)).astype(np.float16)
MATRIX = plgpu.SMEM((64, 64), F16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))


@bug("gpu-h100", X11[0].astype(np.float32) @ X11[0])
def accumulator_read_early(mended):
    """The sum of a product is read while the product is under way."""
    def kernel(x_ref, o_ref, smem, came):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, came)
        plgpu.barrier_wait(came)

        def product(acc):
            plgpu.wgmma(acc, smem, smem)
            return plgpu.wgmma_accumulator_load(acc, wait_n=0 if mended else None)

        o_ref[...] = pl.run_scoped(product, plgpu.ACC((64, 64), F32))
        plgpu.wgmma_wait(0)

    return on_gpu(kernel, jax.ShapeDtypeStruct((64, 64), F32), X11, scratch=[MATRIX, plgpu.Barrier()])


@bug("gpu-h100", X11[0].astype(np.float32) @ X11[0])
def operand_overwritten(mended):
    """The next tile comes to where a product's operand lies, before the product is awaited."""
    def kernel(x_ref, o_ref, smem, came):
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, came)
        plgpu.barrier_wait(came)

        def product(acc):
            plgpu.wgmma(acc, smem, smem)
            if mended:
                plgpu.wgmma_wait(0)
            plgpu.copy_gmem_to_smem(x_ref.at[1], smem, came)
            plgpu.barrier_wait(came)
            return acc[...]

        o_ref[...] = pl.run_scoped(product, plgpu.ACC((64, 64), F32))

    return on_gpu(kernel, jax.ShapeDtypeStruct((64, 64), F32), X11, scratch=[MATRIX, plgpu.Barrier()])


X12 = numbers(2, 16, 64)


@bug("gpu-h100", X12 + 4)
def store_reused(mended):
    """A staging buffer is filled again while the bulk store may still read it."""
    def kernel(x_ref, o_ref, staging):
        for i in range(2):
            if mended:
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            staging[...] = x_ref[i] + 4
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(staging, o_ref.at[i])
        plgpu.wait_smem_to_gmem(0)

    return on_gpu(kernel, X12, X12, scratch=[plgpu.SMEM(X12.shape[1:], F32)])


CLUSTERS = 149  # one more than the chip holds at a time
WORK = np.arange(1, CLUSTERS + 1, dtype=np.int32)


def requests(kernel: Any, want: np.ndarray) -> Any:
    """Clusters of one CTA each; the last buffer leaves no room for a second one on a multiprocessor."""
    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier(), plgpu.SMEM((200 * 1024,), jnp.int8)]
    return on_gpu(kernel, want, scratch=scratch, grid=(CLUSTERS,), grid_names=("a",))


def request(answer: Any, asked: Any, o_ref: Any, waits: bool, value: Callable[[Any], Any]) -> None:
    """Asks for another cluster's work, and does it."""
    plgpu.try_cluster_cancel(answer, asked)
    if waits:
        plgpu.barrier_wait(asked)
    (other,), given = plgpu.query_cluster_cancel(answer, ("a",))

    @pl.when(given)
    def _():
        o_ref[other] = value(other)

    if not waits:
        plgpu.barrier_wait(asked)


def ends_behind(a: Any, o_ref: Any, who: int, body: Callable[[], None]) -> None:
    """`body` on the first `who` clusters; all others end behind them, so that none of them begins what was asked for."""
    done = pl.get_global(plgpu.SemaphoreType.REGULAR)
    o_ref[a] = a + 1

    @pl.when(a < who)
    def _():
        body()
        pl.semaphore_signal(done, 1)

    @pl.when(a >= who)
    def _():
        pl.semaphore_wait(done, who, decrement=False)


@bug("gpu-b200", WORK, seeds=1, schedules=30)
def cancelled_cluster(mended):
    """A cluster asks for another one's work and looks at the answer before it came."""
    def kernel(o_ref, answer, asked, _):
        ends_behind(lax.axis_index("a"), o_ref, 1, lambda: request(answer, asked, o_ref, mended, lambda other: other + 1))

    return requests(kernel, WORK)


@bug("gpu-b200", WORK)
def cancelled_cluster_among_others(mended):
    """The same where the others end when they like: the cluster that is asked for may begin before."""
    def kernel(o_ref, answer, asked, _):
        a = lax.axis_index("a")
        o_ref[a] = a + 1

        @pl.when(a == 0)
        def _():
            request(answer, asked, o_ref, mended, lambda other: other + 1)

    return requests(kernel, WORK)


@bug("gpu-b200", WORK, schedules=20)
def work_of_whoever_asks_first(mended):
    """Two clusters ask for the work of one: what is stored says who got it, and must not."""
    def kernel(o_ref, answer, asked, _):
        a = lax.axis_index("a")
        ends_behind(a, o_ref, 2, lambda: request(answer, asked, o_ref, True, lambda other: (other if mended else other + a) + 1))

    return requests(kernel, WORK)
