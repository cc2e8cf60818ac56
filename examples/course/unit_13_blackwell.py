"""Unit 13: Blackwell.

    .venv/bin/python examples/course/unit_13_blackwell.py [--grade]

On a Blackwell GPU one thread starts a product of the tensor core, and its sum lies in tensor memory (TMEM), in nobody's registers. So a warp may copy, another
one may start products, and each waits only for what it needs; a barrier tells when a product is over.

Question: one warpgroup asks for blocks, starts a product, awaits it and asks for the next ones. What part of the time does the tensor core work?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

CHIP = "gpu-b200"
TILE, STEP, STEPS = 128, 64, 16
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
A, B = jax.ShapeDtypeStruct((TILE, STEPS * STEP), jnp.float16), jax.ShapeDtypeStruct((STEPS * STEP, TILE), jnp.float16)


def tile(products, slots, a, b):
    """One tile of a @ b. `products` fills slots with blocks, adds their products to `acc`, and lets `done` end when all of them are over."""
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, acc, came, free, done, staged):
        def fetch(i):
            slot, k = lax.rem(i, slots), pl.ds(i * STEP, STEP)
            plgpu.copy_gmem_to_smem(a_gmem.at[:, k], a_ring.at[slot], came.at[slot])
            plgpu.copy_gmem_to_smem(b_gmem.at[k], b_ring.at[slot], came.at[slot])

        def multiply(i):
            """Starts a product, which ends a phase of free[slot] when it is over."""
            slot = lax.rem(i, slots)
            plgpu.tcgen05_mma(acc, a_ring.at[slot], b_ring.at[slot], free.at[slot], accumulate=i > 0)

        products(fetch, multiply, came, free, done)
        plgpu.barrier_wait(done)
        staged[...] = plgpu.async_load_tmem(acc).astype(a.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(staged, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    rings = [plgpu.SMEM((slots, *shape), a.dtype, transforms=TILES) for shape in ((TILE, STEP), (STEP, TILE))]
    over = functools.partial(plgpu.Barrier, orders_tensor_core=True)
    barriers = [plgpu.Barrier(num_arrivals=2, num_barriers=slots), over(num_barriers=slots), over()]
    scratch = [*rings, plgpu.TMEM((TILE, TILE), jnp.float32), *barriers, plgpu.SMEM((TILE, TILE), a.dtype, transforms=TILES)]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((TILE, TILE), a.dtype), scratch_types=scratch)(a, b)


def one_after_another(fetch, multiply, came, free, done):
    @pl.loop(0, STEPS)
    def _(i):
        fetch(i)
        plgpu.barrier_wait(came.at[0])
        multiply(i)
        plgpu.barrier_wait(free.at[0])

    plgpu.tcgen05_commit_arrive(done)


in_turn = functools.partial(tile, one_after_another, 1)


def main():
    (k,) = pallasim.predict(in_turn, A, B, chip=CHIP, sensitivity=False)
    waits = {("blocks" if "came" in w.text else "products"): w for w in k.waits if "came" in w.text or "free" in w.text}
    for what, w in waits.items():
        print(f"{w.count} waits for {what}, {w.seconds / w.count * 1e9:.0f} ns each: {w.seconds / k.seconds:.0%} of {k.seconds * 1e6:.1f} us")
    # The tensor core works only while a product is awaited, and TMA only while it is not: each is there for less than half of the time.
    assert waits["blocks"].seconds > 1.5 * waits["products"].seconds and waits["products"].seconds < 0.4 * k.seconds


def picture():
    """Blocks come, then they are multiplied, then the next ones are asked for: whoever works, the other one rests."""
    page = pallasim.predict(in_turn, A, B, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 13: blocks and products in turn, gpu-b200")


def by_warps(fetch, multiply, came, free, done):
    """A warp for copies, four slots ahead of one for products."""
    slots = 4

    @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
    def _():
        warp = lax.axis_index("warp")

        @pl.when(warp == 0)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                fetch(i)

        @pl.when(warp == 1)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                plgpu.barrier_wait(came.at[lax.rem(i, slots)])
                multiply(i)

            plgpu.tcgen05_commit_arrive(done)


def exercise(a, b):
    """Two warps and a ring of four slots, and nobody waits for more than it needs. Or for less: mend it, and keep it fast."""
    return tile(by_warps, 4, a, b)


def grade(answer):
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-4, 5, s.shape), s.dtype) for s in (A, B))
    pallasim.findings()
    for seed in (None, 0, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="collect", random_seed=seed):
            got = np.asarray(answer(a, b), np.float32)
        for found in pallasim.findings():
            assert found.severity == "note", found.report  # that nobody awaits the last slots is a note, and all right
        np.testing.assert_array_equal(got, np.asarray(a, np.float32) @ np.asarray(b, np.float32), err_msg="it is not a @ b")
    seconds, slow = (pallasim.predict(f, A, B, chip=CHIP, sensitivity=False).seconds for f in (answer, in_turn))
    assert seconds <= 0.6 * slow, f"it takes {seconds * 1e6:.1f} us, and one after another {slow * 1e6:.1f}: let blocks come while products are made"


def by_warps_in_order(fetch, multiply, came, free, done):
    slots = 4

    @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
    def _():
        warp = lax.axis_index("warp")

        @pl.when(warp == 0)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                @pl.when(i >= slots)
                def _():
                    plgpu.barrier_wait(free.at[lax.rem(i, slots)])  # the product that read this slot is over

                fetch(i)

        @pl.when(warp == 1)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                plgpu.barrier_wait(came.at[lax.rem(i, slots)])
                multiply(i)

            plgpu.tcgen05_commit_arrive(done)


solution = functools.partial(tile, by_warps_in_order, 4)


if __name__ == "__main__":
    import classroom

    classroom.run()
