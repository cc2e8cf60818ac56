"""Lesson 40: copies ahead of the work, a ring of slots in shared memory (a Hopper GPU).

    .venv/bin/python examples/lesson_40_tma_ring.py

A warpgroup adds up blocks of an array and keeps the running sums. The bulk copy unit (TMA) brings blocks into the slots of a ring while
the warpgroup works: each slot has a barrier whose phase ends when the slot's bytes are there. The sums go back the same way, from a
staging buffer that may be filled again when the unit has read it. Four twins are wrong: one does not wait for its slot, one leaves out the
fence between its stores and the copy unit, one fills the staging buffer while it is still read, and one ends with copies on their way.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

BLOCKS, BLOCK, SLOTS = 8, (64, 64), 3


@functools.partial(jax.jit, static_argnames=("await_slot", "fence", "await_staging", "copies"))
def running_sums(x, await_slot=True, fence=True, await_staging=True, copies=BLOCKS):
    def kernel(x_gmem, o_gmem, ring, staging, full):
        def fetch(i):
            plgpu.copy_gmem_to_smem(x_gmem.at[lax.rem(i, BLOCKS)], ring.at[lax.rem(i, SLOTS)], full.at[lax.rem(i, SLOTS)])

        for i in range(SLOTS - 1):
            fetch(i)

        def block(i, total):
            slot = lax.rem(i, SLOTS)
            if await_slot:
                plgpu.barrier_wait(full.at[slot])
            total += ring[slot]

            @pl.when(i + SLOTS - 1 < copies)  # into the slot that the step before emptied
            def _():
                fetch(i + SLOTS - 1)

            if await_staging:
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            staging[...] = total
            if fence:
                plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(staging, o_gmem.at[i])
            return total

        # What a loop carries keeps its place in registers: zeros begin where blocks are loaded to.
        lax.fori_loop(0, BLOCKS, block, plgpu.layout_cast(jnp.zeros(BLOCK, x.dtype), plgpu.Layout.WG_STRIDED(BLOCK, vec_size=2)))
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM((SLOTS, *BLOCK), x.dtype), plgpu.SMEM(BLOCK, x.dtype), plgpu.Barrier(num_barriers=SLOTS)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_types=scratch)(x)


def findings(x, **twin):
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        jax.block_until_ready(running_sums(x, **twin))
    return pallasim.findings()


def main():
    x = np.random.default_rng(0).integers(-9, 9, (BLOCKS, *BLOCK)).astype(np.float32)
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("gpu-h100", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(running_sums(x), np.cumsum(x, axis=0))
        assert not pallasim.findings()
    assert np.abs(np.cumsum(x, axis=0)[-1]).max() > 1
    print(f"{BLOCKS} blocks through {SLOTS} slots: the running sums are right, whenever the copies end")

    for what, code, words, twin in (
        ("A slot used before its bytes came", "PS-RACE-001", "ring", dict(await_slot=False)),
        ("Stores without a fence before the copy unit reads", "PS-RACE-003", "staging", dict(fence=False)),
        ("A staging buffer filled while it is read", "PS-RACE-001", "staging", dict(await_staging=False)),
        ("More copies than steps", "PS-BAR-003", "full", dict(copies=BLOCKS + SLOTS - 1)),
    ):
        found = findings(x, **twin)
        report = next(f.report for f in found if code in f.report)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
