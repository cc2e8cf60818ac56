"""Random kernels that copy by hand: what a model of the rules calls a race is reported, and nothing else; a kernel without
one has the same bytes under every schedule."""
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROWS, SEMS = 4, 3
MODES = [dict(), dict(dma_execution_mode="on_wait"), *(dict(dma_execution_mode="scheduled", random_seed=s) for s in (0, 1))]


def program(seed):
    """A list of steps; every semaphore has at most one copy in flight, and every copy is awaited in the end."""
    rng = random.Random(seed)
    steps, free, busy = [("write", r, r + 1) for r in range(ROWS)], list(range(SEMS)), []
    for n in range(8):
        kind = rng.choice(["start", "wait", "wait", "write", "read"])
        if kind == "start" and free:
            src, dst = rng.sample(range(ROWS), 2)
            busy.append(free.pop(rng.randrange(len(free))))
            steps.append(("start", src, dst, busy[-1]))
        elif kind == "wait" and busy:
            free.append(busy.pop(rng.randrange(len(busy))))
            steps.append(("wait", free[-1]))
        elif kind == "write":
            steps.append(("write", rng.randrange(ROWS), 10 + n))
        elif kind == "read":
            steps.append(("read", rng.randrange(ROWS)))
    return steps + [("wait", s) for s in busy] + [("read", r) for r in range(ROWS)]


def races(steps):
    """Whether a step touches what a copy in flight writes, or changes what one reads."""
    flights = {}
    for kind, *a in steps:
        reads = {a[0]} if kind in ("read", "start") else set()
        writes = {a[0]} if kind == "write" else {a[1]} if kind == "start" else set()
        for src, dst in flights.values():
            if dst in reads | writes or src in writes:
                return True
        if kind == "start":
            flights[a[2]] = (a[0], a[1])
        elif kind == "wait":
            del flights[a[0]]
    return False


def kernel(steps):
    def body(o_ref, rows, sems):
        copies, reads = {}, 0
        for kind, *a in steps:
            if kind == "write":
                rows[a[0]] = jnp.full((8, 128), a[1], jnp.float32)
            elif kind == "read":
                o_ref[reads] = rows[a[0]]
                reads += 1
            elif kind == "start":
                copies[a[2]] = pltpu.make_async_copy(rows.at[a[0]], rows.at[a[1]], sems.at[a[2]])
                copies[a[2]].start()
            else:
                copies[a[0]].wait()

    count = sum(s[0] == "read" for s in steps)
    return jax.jit(lambda: pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((count, 8, 128), jnp.float32),
        scratch_shapes=[pltpu.VMEM((ROWS, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((SEMS,))])())


@pytest.mark.parametrize("seed", range(24))
def test_races_are_found_and_nothing_else(seed):
    steps = program(seed)
    begin = pallasim.launch_count()
    pallasim.findings()
    with pallasim.emulate("tpu-v6e", detect_races=True):
        jax.block_until_ready(kernel(steps)())
    found = {d.code for d in pallasim.findings()}
    assert pallasim.launch_count() == begin + 1
    assert found == ({"PS-RACE-001"} if races(steps) else set())
    assert pallasim.last_run()["races"] == races(steps)


def test_the_programs_are_of_both_kinds():
    kinds = [races(program(seed)) for seed in range(24)]
    assert 5 < sum(kinds) < 19


@pytest.mark.parametrize("seed", [s for s in range(60) if not races(program(s))][:8])
def test_without_a_race_every_schedule_gives_the_same_bytes(seed):
    outs = []
    for mode in MODES:
        with pallasim.emulate("tpu-v6e", **mode):
            outs.append(np.asarray(kernel(program(seed))()))
    assert outs[0].min() > 0
    for out in outs[1:]:
        np.testing.assert_array_equal(out, outs[0])


def test_what_the_machine_does_out_of_bounds_is_noted_once_per_place():
    def shift(x_ref, o_ref):
        @pl.loop(0, 8)
        def _(i):
            o_ref[pl.ds(i, 1)] = x_ref[pl.ds(i + 4, 1)]

    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    pallasim.findings()
    with pallasim.emulate("tpu-v6e", out_of_bounds="machine"):
        out = np.asarray(pl.pallas_call(shift, out_shape=x)(x))
    np.testing.assert_array_equal(out, np.asarray(x)[[4, 5, 6, 7, 7, 7, 7, 7]])
    (note,) = pallasim.findings()
    assert (note.code, note.severity) == ("PS-OOB-001", "warning") and "x_ref[pl.ds(i + 4, 1)]" in note.text
    assert "index 7 was used instead, as the machine does" in note.numbers
