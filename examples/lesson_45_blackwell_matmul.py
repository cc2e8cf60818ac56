"""Lesson 45: a matrix product on a Blackwell GPU, its first three steps.

    .venv/bin/python examples/lesson_45_blackwell_matmul.py

A product of the tensor pipe needs one thread to start it and nobody to hold its sum: that lies in tensor memory. `in_turn`: one warpgroup
does everything; blocks come by a pipeline, and a product is awaited one step after its start. `by_warps`: one warp copies, another one
starts products, and neither waits for what the other one is for: a copy waits only for the product that read its slot, a product only for
its blocks. `in_parts`: the sum leaves tensor memory in parts of 32 columns, so that two small buffers stage it, and the shared memory that
they save holds further blocks that are on their way. Lesson 46 goes on. Five twins are wrong: one gives blocks back while a product reads
them, one reads the sum too early, one adds to a sum that nobody began, and two leave out what the last copies need.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

M = N = 256
K, TILE, STEP, PART = 512, 128, 64, 32
STEPS = K // STEP
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
NARROW = plgpu.TilingTransform((8, PART)), plgpu.SwizzleTransform(64)
SUM = plgpu.TMEM((TILE, TILE), jnp.float32)


def call(kernel, a, b, scratch):
    grid = dict(grid=(M // TILE, N // TILE), grid_names=("m", "n"))
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((M, N), a.dtype), scratch_types=scratch, **grid)(a, b)


def tile():
    return pl.ds(lax.axis_index("m") * TILE, TILE), pl.ds(lax.axis_index("n") * TILE, TILE)


def over(barriers=1):
    return plgpu.Barrier(num_barriers=barriers, orders_tensor_core=True)


@functools.partial(jax.jit, static_argnames=("kept",))
def in_turn(a, b, kept=1):
    def kernel(a_gmem, b_gmem, o_gmem, acc, staged, done):
        m, n = lax.axis_index("m"), lax.axis_index("n")

        def step(place, a_smem, b_smem):
            turn = lax.rem(place[0], 2)
            plgpu.tcgen05_mma(acc, a_smem, b_smem, done.at[turn], accumulate=place[0] > 0)

            @pl.when(place[0] > 0)
            def _():
                plgpu.barrier_wait(done.at[1 - turn])

        block = dict(transforms=TILES, delay_release=kept)
        plgpu.emit_pipeline(
            step, grid=(STEPS,), max_concurrent_steps=2,
            in_specs=[plgpu.BlockSpec((TILE, STEP), lambda k: (m, k), **block), plgpu.BlockSpec((STEP, TILE), lambda k: (k, n), **block)],
        )(a_gmem, b_gmem)
        plgpu.barrier_wait(done.at[(STEPS - 1) % 2])
        staged[...] = plgpu.async_load_tmem(acc).astype(a.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(staged, o_gmem.at[tile()])
        plgpu.wait_smem_to_gmem(0)

    return call(kernel, a, b, [SUM, plgpu.SMEM((TILE, TILE), a.dtype, transforms=TILES), over(2)])


def warps(a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done, begin=True):
    """One warp fills the ring, another one multiplies what is there."""
    slots = a_ring.shape[0]
    rows, columns = tile()

    @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
    def _():
        warp = lax.axis_index("warp")

        @pl.when(warp == 0)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                slot, k = lax.rem(i, slots), pl.ds(i * STEP, STEP)

                @pl.when(i >= slots)
                def _():
                    plgpu.barrier_wait(free.at[slot])

                plgpu.copy_gmem_to_smem(a_gmem.at[rows, k], a_ring.at[slot], came.at[slot])
                plgpu.copy_gmem_to_smem(b_gmem.at[k, columns], b_ring.at[slot], came.at[slot])

        @pl.when(warp == 1)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                slot = lax.rem(i, slots)
                plgpu.barrier_wait(came.at[slot])
                plgpu.tcgen05_mma(acc, a_ring.at[slot], b_ring.at[slot], free.at[slot], accumulate=(i > 0) | (not begin))

            plgpu.tcgen05_commit_arrive(done)


def ring(dtype, slots):
    blocks = [plgpu.SMEM((slots, *shape), dtype, transforms=TILES) for shape in ((TILE, STEP), (STEP, TILE))]
    return [*blocks, SUM, plgpu.Barrier(num_arrivals=2, num_barriers=slots), over(slots), over()]


@functools.partial(jax.jit, static_argnames=("wait",))
def by_warps(a, b, wait=True):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, acc, came, free, done, staged):
        warps(a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done)
        if wait:
            plgpu.barrier_wait(done)
        staged[...] = plgpu.async_load_tmem(acc).astype(a.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(staged, o_gmem.at[tile()])
        plgpu.wait_smem_to_gmem(0)
        if not wait:
            plgpu.barrier_wait(done)

    return call(kernel, a, b, [*ring(a.dtype, 3), plgpu.SMEM((TILE, TILE), a.dtype, transforms=TILES)])


@functools.partial(jax.jit, static_argnames=("begin", "commit", "turn"))
def in_parts(a, b, begin=True, commit=True, turn=True):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, acc, came, free, done, staged):
        warps(a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done, begin=begin)
        plgpu.barrier_wait(done)
        rows, columns = tile()
        for i in range(TILE // PART):
            part, to = pl.ds(i * PART, PART), staged.at[i % 2]
            if turn:
                plgpu.wait_smem_to_gmem(1, wait_read_only=True)  # the copy before the last one has read this buffer
            to[...] = plgpu.async_load_tmem(acc.at[:, part]).astype(a.dtype)
            if commit:
                plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(to, o_gmem.at[rows, columns].at[:, part])
        plgpu.wait_smem_to_gmem(0)

    return call(kernel, a, b, [*ring(a.dtype, 4), plgpu.SMEM((2, TILE, PART), a.dtype, transforms=NARROW)])


def findings(f, *args, **twin):
    pallasim.findings()
    with pallasim.emulate("gpu-b200", detect_races=True, findings="collect"):
        jax.block_until_ready(f(*args, **twin))
    return pallasim.findings()


def main():
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-4, 5, s), jnp.float16) for s in ((M, K), (K, N)))
    want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    assert np.abs(want).max() > 100
    for f, slots, staged in ((in_turn, 2, TILE), (by_warps, 3, TILE), (in_parts, 4, 2 * PART)):
        for seed in (None, 0, 1):
            pallasim.findings()
            with pallasim.emulate("gpu-b200", detect_races=True, random_seed=seed, findings="collect"):
                np.testing.assert_array_equal(np.asarray(f(a, b), np.float32), want)
            found = [x for x in pallasim.findings() if x.severity != "note"]
            assert not found, found[0].report
        read = sum(t["bytes_read"] for t in pallasim.last_run()["traffic"] if t["name"] in ("a_gmem", "b_gmem"))
        assert read == M // TILE * N * K * 2 + N // TILE * M * K * 2  # each tile reads its rows and its columns
        held = 2 * TILE * (slots * 2 * STEP + staged)
        print(f"{f.__name__}: {read // 1024} KiB of blocks read, up to {slots} steps ahead, {held // 1024} KiB of shared memory")

    for what, f, code, words, twin in (
        ("Blocks are given back too early", in_turn, "PS-RACE-002", "in_smem_refs[0]", dict(kept=0)),
        ("The sum is read before its products are over", by_warps, "PS-RACE-002", "acc", dict(wait=False)),
        ("The sum was never begun", in_parts, "PS-UNINIT-003", "acc", dict(begin=False)),
        ("The copy need not see what was stored", in_parts, "PS-RACE-003", "plgpu.commit_smem()", dict(commit=False)),
        ("A buffer is filled while a copy reads it", in_parts, "PS-RACE-001", "staged", dict(turn=False)),
    ):
        report = next(x.report for x in findings(f, a, b, **twin) if x.code == code)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
