"""A report tells both sides apart: where and when each was, and who can still help."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = jnp.ones((32, 128), jnp.float32)
BLOCK = jax.ShapeDtypeStruct((8, 128), jnp.float32)
ANY = pl.BlockSpec(memory_space=pl.ANY)


def found(program, machine="tpu-v5e"):
    pallasim.findings()
    with pallasim.emulate(machine, detect_races=True, findings="collect"):
        jax.block_until_ready(program())
    return pallasim.findings()


@pytest.mark.parametrize("points, told", [(1, "no thread that is left comes to a signal of it"), (2, "only this thread comes to a signal of it, behind the wait, at ")])
def test_a_signal_before_the_wait_is_behind_it_only_where_another_grid_point_comes(points, told):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 2)
        pl.semaphore_wait(sem, 3)
        o_ref[...] = x_ref[...]

    with pytest.raises(pallasim.KernelError) as e:
        found(lambda: pl.pallas_call(kernel, grid=(points,), out_shape=X, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(X))
    assert e.value.finding.code == "PS-DEAD-001" and told in e.value.finding.report, e.value.finding.report


def test_the_copy_of_an_earlier_grid_point_says_which():
    def kernel(x_hbm, o_ref, buf, sem):
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(0, 8)], buf, sem)

        @pl.when(pl.program_id(0) == 1)
        def _():
            copy.start()

        @pl.when(pl.program_id(0) == 3)
        def _():
            o_ref[...] = buf[...]
            copy.wait()

    (f,) = found(lambda: pl.pallas_call(kernel, grid=(4,), in_specs=[ANY], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), out_shape=BLOCK,
                                        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA])(X))
    assert f.code == "PS-RACE-001" and f.grid_point == (3,) and "the copy was started at grid point (1,)" in f.numbers, f.report


@pytest.mark.parametrize("slots", [1, 2])
def test_the_copy_of_an_earlier_trip_says_which(slots):
    def kernel(x_hbm, o_hbm, buf, sems):
        @pl.loop(0, 4)
        def _(i):
            pltpu.async_copy(x_hbm.at[pl.ds(8 * i, 8)], buf.at[lax.rem(i, slots)], sems.at[0]).wait()
            pltpu.async_copy(buf.at[lax.rem(i, slots)], o_hbm.at[pl.ds(8 * i, 8)], sems.at[1])

        @pl.loop(0, 4)
        def _(i):
            pltpu.make_async_copy(buf.at[0], o_hbm.at[pl.ds(0, 8)], sems.at[1]).wait()

    (f,) = found(lambda: pl.pallas_call(kernel, in_specs=[ANY], out_specs=ANY, out_shape=X,
                                        scratch_shapes=[pltpu.VMEM((slots, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))])(X))
    now, then = [n for n in f.numbers if "trip " in n]
    assert now.startswith(f"in trip {slots} of the loop at ") and then == f"the copy was started {now.replace(str(slots), '0', 1)}", f.report


def test_copies_of_one_line_and_one_moment_say_so_once():
    def kernel(x_hbm, o_hbm):
        pltpu.sync_copy(x_hbm.at[pl.ds(0, 8)], o_hbm)

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    with pallasim.emulate("tpu-v5p"):
        call = pl.kernel(kernel, mesh=mesh, **{("out_type" if jax.__version_info__ >= (0, 10) else "out_shape"): BLOCK})
    (f,) = found(lambda: call(X), "tpu-v5p")
    assert f.code == "PS-RACE-002" and [n for n in f.numbers if "cop" in n] == ["both copies go from x_hbm to o_hbm"], f.report


def test_a_barrier_for_too_few_is_one_report():
    def kernel(x_ref, o_ref, bar):
        plgpu.barrier_arrive(bar)
        plgpu.barrier_wait(bar)

        @pl.when(lax.axis_index("wg") == 0)
        def _():
            o_ref[...] = x_ref[...]

        plgpu.barrier_arrive(bar)
        plgpu.barrier_wait(bar)

    options = {"num_threads": 2, "thread_name": "wg"}
    try:
        call = plgpu.kernel(kernel, out_type=X, scratch_types=[plgpu.Barrier(num_arrivals=1)], **options)
    except TypeError:
        call = plgpu.kernel(kernel, out_shape=X, scratch_shapes=[plgpu.Barrier(num_arrivals=1)], **options)
    (f,) = found(lambda: call(X), "gpu-h100")
    assert f.code == "PS-BAR-002" and any("bar was made for 1 arrival" in n and "2 threads arrived" in n for n in f.numbers), f.report
    assert sum("follows: " in n for n in f.numbers) >= 2
