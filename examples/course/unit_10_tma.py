"""Unit 10: TMA.

    .venv/bin/python examples/course/unit_10_tma.py [--grade]

On a Hopper GPU a unit of its own, TMA, copies blocks between global and shared memory while the threads work. Each slot that it fills has a barrier, whose phase
ends when the slot's bytes are there. In the other direction the threads store to shared memory, and TMA takes it from there.

Question: a block takes longer to come than to be added. How many slots does the ring need so that the warpgroup does not wait?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

CHIP = "gpu-h100"
BLOCKS, BLOCK = 32, (64, 64)
SHAPE = jax.ShapeDtypeStruct((BLOCKS, *BLOCK), jnp.float32)


def ring(use, x, slots, out_shape, *scratch):
    """A kernel that lets TMA bring the blocks of x into a ring of slots, in time for `use(i, block, sum so far)`, which gives the next sum."""
    def kernel(x_gmem, o_gmem, ring, full, *rest):
        def fetch(i):
            plgpu.copy_gmem_to_smem(x_gmem.at[i], ring.at[lax.rem(i, slots)], full.at[lax.rem(i, slots)])

        for i in range(slots):
            fetch(i)

        def step(i, total):
            slot = lax.rem(i, slots)
            plgpu.barrier_wait(full.at[slot])
            total = use(i, ring[slot], total, o_gmem, *rest)

            @pl.when(i + slots < BLOCKS)
            def _():
                fetch(i + slots)

            return total

        total = lax.fori_loop(0, BLOCKS, step, plgpu.layout_cast(jnp.zeros(BLOCK, x.dtype), plgpu.Layout.WG_STRIDED(BLOCK, vec_size=2)))
        if out_shape.shape == BLOCK:
            o_gmem[...] = total
        plgpu.wait_smem_to_gmem(0)

    return plgpu.kernel(kernel, out_type=out_shape, scratch_types=[plgpu.SMEM((slots, *BLOCK), x.dtype), plgpu.Barrier(num_barriers=slots), *scratch])(x)


def sum_of_blocks(x, slots):
    return ring(lambda i, block, total, o_gmem: total + block, x, slots, jax.ShapeDtypeStruct(BLOCK, x.dtype))


def main():
    took = {}
    for slots in (1, 2, 4, 8):
        (k,) = pallasim.predict(functools.partial(sum_of_blocks, slots=slots), SHAPE, chip=CHIP, sensitivity=False)
        took[slots] = k.seconds
        print(f"{slots} slots, {slots * 16:3} KiB of shared memory: {k.seconds * 1e6:5.1f} us; mostly {k.critical[0].name}")
    # With one slot each block is awaited from the moment it is asked for. With four the warpgroup is what takes the time, and four more only take memory.
    assert took[1] > 1.7 * took[2] and took[2] > 1.05 * took[4] and took[8] > 0.95 * took[4]


def picture():
    """Four slots: two blocks are on their way, one is there and one is added. The warpgroup never waits, but for the first."""
    page = pallasim.predict(functools.partial(sum_of_blocks, slots=4), SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(end=4e-6, title="Unit 10: blocks on their way into a ring of four slots, gpu-h100")


def store_hastily(i, block, total, o_gmem, staging):
    total += block
    staging[...] = total
    plgpu.copy_smem_to_gmem(staging, o_gmem.at[i])
    return total


def exercise(x):
    """All running sums, stored by TMA from a staging buffer. It is fast, and wrong: two waits or fences are missing. Let the reports tell which."""
    return ring(store_hastily, x, 4, jax.ShapeDtypeStruct(x.shape, x.dtype), plgpu.SMEM(BLOCK, x.dtype))


def grade(answer):
    x = np.random.default_rng(0).integers(-9, 9, SHAPE.shape).astype(np.float32)
    for seed in (None, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="raise", random_seed=seed):
            got = np.asarray(answer(x))
        np.testing.assert_array_equal(got, np.cumsum(x, axis=0), err_msg="these are not the running sums")
    adding = pallasim.predict(functools.partial(sum_of_blocks, slots=4), SHAPE, chip=CHIP, sensitivity=False).seconds
    seconds = pallasim.predict(answer, SHAPE, chip=CHIP, sensitivity=False).seconds
    assert seconds <= 3 * adding, f"it takes {seconds * 1e6:.1f} us, and adding takes {adding * 1e6:.1f}: let a store be on its way during the next step"


def store_in_order(i, block, total, o_gmem, staging):
    total += block
    plgpu.wait_smem_to_gmem(0, wait_read_only=True)  # TMA has read the sum before
    staging[...] = total
    plgpu.commit_smem()  # and sees this one
    plgpu.copy_smem_to_gmem(staging, o_gmem.at[i])
    return total


def solution(x):
    return ring(store_in_order, x, 4, jax.ShapeDtypeStruct(x.shape, x.dtype), plgpu.SMEM(BLOCK, x.dtype))


if __name__ == "__main__":
    import classroom

    classroom.run()
