"""Kernels of GPUs with one mistake in the order of two events, and the same ones mended; they join those of TPUs in BUGS."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as plt
from order_bugs import BUGS, F32, I32, bug, like, numbers

__all__ = ["BUGS"]

F16 = jnp.float16

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


def bring(tile: Any, smem: Any, came: Any) -> None:
    plgpu.copy_gmem_to_smem(tile, smem, came)
    plgpu.barrier_wait(came)


@bug("gpu-h100", X11[0].astype(np.float32) @ X11[0])
def accumulator_read_early(mended):
    """The sum of a product is read while the product is under way."""
    def kernel(x_ref, o_ref, smem, came):
        bring(x_ref.at[0], smem, came)

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
        bring(x_ref.at[0], smem, came)

        def product(acc):
            plgpu.wgmma(acc, smem, smem)
            if mended:
                plgpu.wgmma_wait(0)
            bring(x_ref.at[1], smem, came)
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
