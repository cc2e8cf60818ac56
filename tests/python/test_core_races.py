"""Two cores of a device and the memory that they share."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROW = (8, 128)


def run(body, *, seed=None):
    """Runs body(core, x, o, row, sem) on two cores; x has two rows, o four. The findings' codes, and o."""
    def kernel(x_hbm, o_hbm, row, sem):
        body(jax.lax.axis_index("core"), x_hbm, o_hbm, row, sem)

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    call = pl.kernel(kernel, jax.ShapeDtypeStruct((4, *ROW), jnp.float32), mesh=mesh,
                     scratch_types=[pltpu.VMEM(ROW, jnp.float32), pltpu.SemaphoreType.REGULAR])
    x = jnp.stack([jnp.full(ROW, 1.0), jnp.full(ROW, 2.0)])
    pallasim.findings()
    begin = pallasim.launch_count()
    with pallasim.emulate("tpu-v5p", detect_races=True, random_seed=seed):
        out = np.asarray(jax.jit(call)(x))
    assert pallasim.launch_count() == begin + 1
    # Who reads too early reads what nobody wrote.
    return {d.code for d in pallasim.findings()} - {"PS-OUT-001", "PS-UNINIT-001"}, out[:, 0, 0]


def own_rows(core, x, o, row, sem):
    pltpu.sync_copy(x.at[core], row)
    pltpu.sync_copy(row, o.at[core])
    pltpu.sync_copy(row, o.at[2 + core])


def neighbours_row(order):
    def body(core, x, o, row, sem):
        pltpu.sync_copy(x.at[core], row)
        pltpu.sync_copy(row, o.at[core])
        order(core, sem)
        pltpu.sync_copy(o.at[1 - core], row)
        pltpu.sync_copy(row, o.at[2 + core])

    return body


def signals(core, sem):
    pl.semaphore_signal(sem, 1, core_index=1 - core)
    pl.semaphore_wait(sem, 1)


def own_signal(core, sem):  # balanced, but says nothing of the other core
    pl.semaphore_signal(sem, 1)
    pl.semaphore_wait(sem, 1)


def one_way(core, sem):  # core 1 knows of core 0, not the other way round
    @pl.when(core == 0)
    def _():
        pl.semaphore_signal(sem, 1, core_index=1)

    @pl.when(core == 1)
    def _():
        pl.semaphore_wait(sem, 1)


def same_input(core, x, o, row, sem):
    pltpu.sync_copy(x.at[0], row)
    pltpu.sync_copy(row, o.at[2 * core])


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("body, races", [
    (own_rows, False),
    (same_input, False),
    (neighbours_row(signals), False),
    (neighbours_row(lambda core, sem: pltpu.core_barrier(sem, core_axis_name="core")), False),
    (neighbours_row(lambda core, sem: None), True),
    (neighbours_row(own_signal), True),
    (neighbours_row(one_way), True),
], ids=["own rows", "same input", "signals", "barrier", "nothing", "own signal", "one way"])
def test_what_no_semaphore_orders_is_a_race_in_every_schedule(body, races, seed):
    codes, out = run(body, seed=seed)
    assert codes == ({"PS-RACE-002"} if races else set())
    assert pallasim.last_run()["races"] == races
    if not races and body not in (own_rows, same_input):
        np.testing.assert_array_equal(out, [1, 2, 2, 1])


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("cleared", ["before a barrier", "before", "never"])
def test_scratch_of_a_core_into_which_another_one_copies(seed, cleared):
    def kernel(x_hbm, o_hbm, row, inbox, ready, sent, came):
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[core], row)
        if cleared != "never":
            inbox[...] = jnp.zeros_like(inbox)
        if cleared == "before a barrier":
            pltpu.core_barrier(ready, core_axis_name="core")
        pltpu.async_remote_copy(row, inbox, sent, came, device_id={"core": 1 - core}).wait()
        inbox[...] = inbox[...] + 1
        pltpu.sync_copy(inbox, o_hbm.at[core])

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    types = [pltpu.VMEM(ROW, jnp.float32)] * 2 + [pltpu.SemaphoreType.REGULAR] + [pltpu.SemaphoreType.DMA] * 2
    x = jnp.arange(2 * ROW[0] * ROW[1], dtype=jnp.float32).reshape(2, *ROW)
    pallasim.findings()
    with pallasim.emulate("tpu-v5p", detect_races=True, random_seed=seed):
        out = jax.block_until_ready(pl.kernel(kernel, jax.ShapeDtypeStruct((2, *ROW), jnp.float32), mesh=mesh, scratch_types=types)(x))
    found = [f for f in pallasim.findings() if f.code == "PS-RACE-002"]
    assert bool(found) == (cleared == "before")
    if cleared == "before":
        assert "inbox of thread" in found[0].message
    else:
        np.testing.assert_array_equal(out, x[::-1] + 1)


def test_a_report_shows_both_sides():
    def kernel(x_hbm, o_hbm, row):
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[core], row)
        pltpu.sync_copy(row, o_hbm)  # both cores

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    pallasim.findings()
    with pallasim.emulate("tpu-v5p", detect_races=True):
        jax.block_until_ready(pl.kernel(kernel, jax.ShapeDtypeStruct(ROW, jnp.float32), mesh=mesh, scratch_types=[pltpu.VMEM(ROW, jnp.float32)])(jnp.ones((2, *ROW))))
    (found,) = pallasim.findings()
    assert found.code == "PS-RACE-002" and "race on o_hbm: a copy of thread 0 writes it" in found.message
    assert "# both cores" in found.text and "# both cores" in found.also[0].source.text


@pytest.mark.parametrize("mode", ["eager", "on_wait", "scheduled"])
def test_a_core_that_looks_again_and_again_lets_the_copies_of_others_move(mode):
    def kernel(x_hbm, o_hbm, row, came, told):
        core = jax.lax.axis_index("core")

        @pl.when(core == 0)
        def _():
            copy = pltpu.make_async_copy(x_hbm, row, came)
            copy.start()
            copy.wait()
            pl.semaphore_signal(told, 1, core_index=1)
            pltpu.sync_copy(row, o_hbm.at[0])

        @pl.when(core == 1)
        def _():
            jax.lax.while_loop(lambda n: n < 1, lambda n: pl.semaphore_read(told), jnp.int32(0))
            pl.semaphore_wait(told, 1)
            pltpu.sync_copy(x_hbm, row)
            pltpu.sync_copy(row, o_hbm.at[1])

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    types = [pltpu.VMEM(ROW, jnp.float32), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR]
    x = jnp.arange(ROW[0] * ROW[1], dtype=jnp.float32).reshape(ROW)
    seed = 1 if mode == "scheduled" else None
    with pallasim.emulate("tpu-v5p", dma_execution_mode=mode, random_seed=seed):
        out = np.asarray(pl.kernel(kernel, jax.ShapeDtypeStruct((2, *ROW), jnp.float32), mesh=mesh, scratch_types=types)(x))
    np.testing.assert_array_equal(out, np.stack([x, x]))
