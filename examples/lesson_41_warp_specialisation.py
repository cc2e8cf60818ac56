"""Lesson 41: warpgroups with different work: one copies, two compute (a Hopper GPU).

    .venv/bin/python examples/lesson_41_warp_specialisation.py

The last of three warpgroups needs few registers: it only fills the slots of a ring. The others take half of every slot each. `full` tells them
that a slot's bytes are there; `empty` tells the last one that both are done with it, so one phase of `empty` takes two arrivals. Three
twins are wrong: one fills slots without asking whether they are empty, one has `empty` made for a single arrival, and in one a warpgroup
forgets to say that it is done.
"""

import functools

import jax
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

BLOCKS, ROWS, COLUMNS, SLOTS = 8, 128, 64, 2
HALF = ROWS // 2


@functools.partial(jax.jit, static_argnames=("ask", "arrivals", "tells"))
def squares(x, ask=True, arrivals=2, tells=(0, 1)):
    def kernel(x_gmem, o_gmem, ring, full, empty):
        warpgroup = lax.axis_index("warpgroup")

        @pl.when(warpgroup == 2)
        def copies():
            plgpu.set_max_registers(40, action="decrease")

            @pl.loop(0, BLOCKS)
            def _(i):
                slot = lax.rem(i, SLOTS)
                if ask:
                    @pl.when(i >= SLOTS)
                    def _():
                        plgpu.barrier_wait(empty.at[slot])
                plgpu.copy_gmem_to_smem(x_gmem.at[i], ring.at[slot], full.at[slot])

        @pl.when(warpgroup < 2)
        def computes():
            plgpu.set_max_registers(232, action="increase")
            half = pl.ds(warpgroup * HALF, HALF)

            @pl.loop(0, BLOCKS)
            def _(i):
                slot = lax.rem(i, SLOTS)
                plgpu.barrier_wait(full.at[slot])
                o_gmem[i, half] = ring[slot, half] ** 2

                @pl.when((i < BLOCKS - SLOTS) & (warpgroup <= max(tells)) & (warpgroup >= min(tells)))
                def _():
                    plgpu.barrier_arrive(empty.at[slot])

    scratch = [plgpu.SMEM((SLOTS, ROWS, COLUMNS), x.dtype), plgpu.Barrier(num_barriers=SLOTS),
               plgpu.Barrier(num_arrivals=arrivals, num_barriers=SLOTS)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=scratch, num_threads=3,
                        thread_name="warpgroup")(x)


def findings(x, **twin):
    pallasim.findings()
    try:
        with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
            jax.block_until_ready(squares(x, **twin))
    except pallasim.KernelError as e:
        return [*pallasim.findings(), e.finding]
    return pallasim.findings()


def main():
    x = np.random.default_rng(0).integers(-99, 99, (BLOCKS, ROWS, COLUMNS)).astype(np.float32)
    for seed in (None, 0, 1, 2):
        pallasim.findings()
        with pallasim.emulate("gpu-h100", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(squares(x), x**2)
        assert not pallasim.findings()
    assert x.any(axis=(1, 2)).all()
    print(f"One warpgroup copies {BLOCKS} blocks, two compute: right in every schedule, at most {SLOTS} blocks in shared memory")

    for what, code, words, twin in (
        ("Slots filled without asking", "PS-RACE-001", "ring is written by another copy", dict(ask=False)),
        ("`empty` made for one arrival, not two", "PS-BAR-002", "empty[0]", dict(arrivals=1)),
        ("A warpgroup that does not say that it is done", "PS-DEAD-001", "phase 0 of empty[0] to end: 1 of 2 arrived", dict(tells=(0,))),
    ):
        report = next(f.report for f in findings(x, **twin) if code in f.report)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
