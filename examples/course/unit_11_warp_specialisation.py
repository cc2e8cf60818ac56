"""Unit 11: Warp specialisation.

    .venv/bin/python examples/course/unit_11_warp_specialisation.py [--grade]

The warpgroups of a CTA may have different work: one asks TMA for blocks and needs few registers, the others compute. `full` tells those that a slot's bytes are
there; `empty` tells the first one that a slot may be filled again, once all who read it have said so.

Question: who waits for whom, and when?
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

CHIP = "gpu-h100"
BLOCKS, ROWS, COLUMNS, SLOTS, TIMES = 16, 128, 64, 4, 4
HALF = ROWS // 2
SHAPE = jax.ShapeDtypeStruct((BLOCKS, ROWS, COLUMNS), jnp.float32)


def f(x):
    for _ in range(TIMES):
        x = jnp.tanh(x)
    return x


def call(kernel, x, empty):
    scratch = [plgpu.SMEM((SLOTS, ROWS, COLUMNS), x.dtype), plgpu.Barrier(num_barriers=SLOTS), empty]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=scratch, num_threads=3, thread_name="warpgroup")(x)


def copy(x_gmem, ring, full, empty):
    """What the copying warpgroup does."""
    plgpu.set_max_registers(40, action="decrease")

    @pl.loop(0, BLOCKS)
    def _(i):
        slot = lax.rem(i, SLOTS)

        @pl.when(i >= SLOTS)
        def _():
            plgpu.barrier_wait(empty.at[slot])

        plgpu.copy_gmem_to_smem(x_gmem.at[i], ring.at[slot], full.at[slot])


def specialised_kernel(x_gmem, o_gmem, ring, full, empty):
    warpgroup = lax.axis_index("warpgroup")

    @pl.when(warpgroup == 2)
    def _():
        copy(x_gmem, ring, full, empty)

    @pl.when(warpgroup < 2)
    def _():
        plgpu.set_max_registers(232, action="increase")
        half = pl.ds(warpgroup * HALF, HALF)

        @pl.loop(0, BLOCKS)
        def _(i):
            slot = lax.rem(i, SLOTS)
            plgpu.barrier_wait(full.at[slot])
            o_gmem[i, half] = f(ring[slot, half])

            @pl.when(i + SLOTS < BLOCKS)
            def _():
                plgpu.barrier_arrive(empty.at[slot])


def specialised(x):
    return call(specialised_kernel, x, plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS))


def main():
    (k,) = pallasim.predict(specialised, SHAPE, chip=CHIP, sensitivity=False)
    print(f"{k.seconds * 1e6:.1f} us, bound by {k.bound}")
    for w in k.waits:
        print(f"  {w.count:2} waits of {w.seconds / w.count * 1e6:4.2f} us at {w.text.strip()}")
    # The copying warpgroup waits nearly all the time, for a slot: that is what it is for. The computing ones wait for the first block and for no other.
    waits = {("empty" if "empty" in w.text else "full"): w for w in k.waits}
    assert waits["empty"].seconds > 0.6 * k.seconds and waits["full"].seconds < 0.05 * k.seconds and waits["full"].count == 2


def picture():
    """Warpgroups 0 and 1 compute all the time; 2 wakes up when a slot is empty, asks for a block and waits again."""
    page = pallasim.predict(specialised, SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(end=15e-6, title="Unit 11: two warpgroups compute, the third one copies, gpu-h100")


def in_turns_kernel(x_gmem, o_gmem, ring, full, empty):
    warpgroup = lax.axis_index("warpgroup")

    @pl.when(warpgroup == 2)
    def _():
        copy(x_gmem, ring, full, empty)

    @pl.when(warpgroup < 2)
    def _():
        plgpu.set_max_registers(232, action="increase")

        @pl.loop(0, BLOCKS, step=2)
        def _(pair):
            i = pair + warpgroup
            slot = lax.rem(i, SLOTS)
            plgpu.barrier_wait(full.at[slot])
            o_gmem[i] = f(ring[slot])

            @pl.when(i + SLOTS < BLOCKS)
            def _():
                plgpu.barrier_arrive(empty.at[slot])


def exercise(x):
    """Each computing warpgroup takes every other block, and all of it. That is as much work as before, but now it does not end. Who waits for whom?"""
    return call(in_turns_kernel, x, plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS))


def grade(answer):
    x = np.random.default_rng(0).standard_normal(SHAPE.shape, dtype=np.float32)
    want = np.asarray(x, np.float64)
    for _ in range(TIMES):
        want = np.tanh(want)
    for seed in (None, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="raise", random_seed=seed):
            got = np.asarray(answer(x))
        np.testing.assert_allclose(got, want, atol=1e-3, err_msg=f"it is not tanh, {TIMES} times")
    seconds, allowed = (pallasim.predict(a, SHAPE, chip=CHIP, sensitivity=False).seconds for a in (answer, specialised))
    assert seconds <= 1.15 * allowed, f"it takes {seconds * 1e6:.1f} us, and with halves of blocks it took {allowed * 1e6:.1f}: do both warpgroups compute?"


def solution(x):
    """A slot has one reader, so one arrival ends a phase of `empty`. (Four slots, an even number: it is the same one each time, and sees every phase of `full`.)"""
    return call(in_turns_kernel, x, plgpu.Barrier(num_arrivals=1, num_barriers=SLOTS))


if __name__ == "__main__":
    import classroom

    classroom.run()
