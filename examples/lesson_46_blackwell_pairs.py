"""Lesson 46: a matrix product on a Blackwell GPU, its last four steps.

    .venv/bin/python examples/lesson_46_blackwell_pairs.py

It goes on where lesson 45 ends. `pair`: two CTAs of a cluster multiply together. Each brings a half of the blocks and keeps half of the sum,
the tensor pipe of the first one reads the shared memory of both, and so half as much is read for each product. `stays`: a cluster that has
finished a tile takes the next one, and what it began with is there already. `two_groups`: a second warpgroup writes a sum out while the
first one has the next products started, so there are two sums in tensor memory; clusters ask the chip for tiles of others that have not
begun. `snake`: the order of tiles, in which those that are multiplied at a time share their blocks. Five twins are wrong, each in what two
CTAs, two warpgroups or two tiles owe each other.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

M, N, K, TILE, STEP, PART, SLOTS = 512, 512, 256, 256, 64, 64, 3
HALF, STEPS, TILES = TILE // 2, K // STEP, (M // TILE) * (N // TILE)
WIDE = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
PAIR = dict(collective_axes="cta")


def over(barriers=1):
    return plgpu.Barrier(num_barriers=barriers, orders_tensor_core=True)


def scratch(dtype, sums=1):
    """Of each CTA: its halves of the blocks, its rows of the sums; barriers for blocks, slots, sums."""
    blocks = [plgpu.SMEM((SLOTS, *shape), dtype, transforms=WIDE) for shape in ((HALF, STEP), (STEP, HALF), (HALF, PART))]
    return dict(a_ring=blocks[0], b_ring=blocks[1], staged=blocks[2], acc=plgpu.TMEM((HALF, sums * TILE), jnp.float32, collective=True),
                came=plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS), free=over(SLOTS), done=over(sums))


def call(kernel, a, b, grid, sums=1, barriers=(), **threads):
    pairs = dict(grid=grid, grid_names=("m", "n")[: len(grid)], cluster=(2,), cluster_names=("cta",))
    out = jax.ShapeDtypeStruct((M, N), a.dtype)
    return plgpu.kernel(kernel, out_type=out, scratch_types=scratch(a.dtype, sums) | dict(barriers), **pairs, **threads)(a, b)


def place(m, n):
    return pl.ds(m * TILE, TILE), pl.ds(n * TILE, TILE)


def multiply(m, n, a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done, earlier=False, before=None):
    """Both CTAs copy their halves; the first one has the products started for both, and both hear that they are over."""
    rows, columns = place(m, n)

    leads = lax.axis_index("cta") == 0  # asked out here: a warp knows its own axis alone

    @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
    def _():
        warp = lax.axis_index("warp")

        @pl.when(warp == 0)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                slot, k = lax.rem(i, SLOTS), pl.ds(i * STEP, STEP)

                @pl.when((i >= SLOTS) | earlier)
                def _():
                    plgpu.barrier_wait(free.at[slot])

                part = plgpu.CopyPartition.PARTITIONED
                plgpu.copy_gmem_to_smem(a_gmem.at[rows, k], a_ring.at[slot], came.at[slot], leader_tracked=part(0), **PAIR)
                plgpu.copy_gmem_to_smem(b_gmem.at[k, columns], b_ring.at[slot], came.at[slot], leader_tracked=part(1), **PAIR)

        if before is not None:
            pl.when(warp == 1)(before)

        @pl.when((warp == 1) & leads)
        def _():
            @pl.loop(0, STEPS)
            def _(i):
                slot = lax.rem(i, SLOTS)
                plgpu.barrier_wait(came.at[slot])
                plgpu.tcgen05_mma(acc, a_ring.at[slot], b_ring.at[slot], free.at[slot], accumulate=i > 0, collective_axis="cta")

            plgpu.tcgen05_commit_arrive(done, collective_axis="cta")


def write_out(m, n, acc, staged, o_gmem):
    """The CTA's rows of the sum, in parts."""
    rows, columns = pl.ds((2 * m + lax.axis_index("cta")) * HALF, HALF), pl.ds(n * TILE, TILE)
    for i in range(TILE // PART):
        part, to = pl.ds(i * PART, PART), staged.at[i % 2]
        plgpu.wait_smem_to_gmem(1, wait_read_only=True)
        to[...] = plgpu.async_load_tmem(acc.at[:, part]).astype(o_gmem.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(to, o_gmem.at[rows, columns].at[:, part])


@jax.jit
def pair(a, b):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, staged, acc, came, free, done):
        m, n = lax.axis_index("m"), lax.axis_index("n")
        multiply(m, n, a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done)
        plgpu.barrier_wait(done)
        write_out(m, n, acc, staged, o_gmem)
        plgpu.wait_smem_to_gmem(0)

    return call(kernel, a, b, (M // TILE, N // TILE))


@functools.partial(jax.jit, static_argnames=("clusters", "ask", "loaded"))
def stays(a, b, clusters=2, ask=True, loaded=True):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, staged, acc, came, free, done):
        @plgpu.nd_loop((M // TILE, N // TILE), collective_axes="m")
        def _(info):
            m, n = info.index
            multiply(m, n, a_gmem, b_gmem, a_ring, b_ring, acc, came, free, done, earlier=ask & (info.local_index > 0))
            plgpu.barrier_wait(done)
            write_out(m, n, acc, staged, o_gmem)
            if loaded:
                plgpu.wait_load_tmem()  # the next products begin the sum anew

        plgpu.wait_smem_to_gmem(0)

    return call(kernel, a, b, (clusters,))


@functools.partial(jax.jit, static_argnames=("clusters", "wait", "tell", "hear"))
def two_groups(a, b, clusters=TILES, wait=True, tell=(0, 1), hear=True):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, staged, acc, came, free, done, written):
        group, cta = lax.axis_index("group"), lax.axis_index("cta")

        if clusters == TILES:  # one for each tile: those that the chip has room for take the work of the others
            tiles = plgpu.dynamic_scheduling_loop(("m",), thread_axis="group", cluster_axes=("cta",))
        else:
            tiles = plgpu.nd_loop((TILES,), collective_axes="m")

        @tiles
        def _(info):
            m, n = plgpu.planar_snake(info.index[0], (M // TILE, N // TILE), 0, 2)
            turn = lax.rem(info.local_index, 2)
            own = acc.at[:, pl.ds(turn * TILE, TILE)]

            @pl.when(group == 0)
            def _():
                def two_tiles_ago():
                    @pl.when((info.local_index >= 2) & wait)
                    def _():
                        plgpu.barrier_wait(written.at[turn])

                multiply(m, n, a_gmem, b_gmem, a_ring, b_ring, own, came, free, done.at[turn], info.local_index > 0, two_tiles_ago)

            @pl.when(group == 1)
            def _():
                plgpu.wait_smem_to_gmem(0, wait_read_only=True)
                if hear:
                    plgpu.barrier_wait(done.at[turn])
                write_out(m, n, own, staged, o_gmem)
                plgpu.wait_load_tmem()

                @pl.when((cta >= tell[0]) & (cta <= tell[-1]))
                def _():
                    plgpu.barrier_arrive(written.at[turn])

        plgpu.wait_smem_to_gmem(0)

    written = plgpu.ClusterBarrier(collective_axes=("cta",), num_barriers=2, orders_tensor_core=True)
    return call(kernel, a, b, (clusters,), sums=2, barriers=dict(written=written), num_threads=2, thread_name="group")


def blocks(minor, width, at_a_time=2):
    """How many different blocks tiles read that are multiplied at a time, all in all, in the order of planar_snake."""
    grid = 8, 8
    order = [plgpu.planar_snake(jnp.int32(i), grid, minor, width) for i in range(64)]
    order = [(int(m), int(n)) for m, n in order]
    at = [order[i:i + at_a_time] for i in range(0, len(order), at_a_time)]
    return sum(len({m for m, _ in tiles}) + len({n for _, n in tiles}) for tiles in at)


def findings(f, *args, **twin):
    pallasim.findings()
    try:
        with pallasim.emulate("gpu-b200", detect_races=True, findings="collect"):
            jax.block_until_ready(f(*args, **twin))
    except pallasim.KernelError as e:
        return [*pallasim.findings(), e.finding]
    return pallasim.findings()


def main():
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-4, 5, s), jnp.float16) for s in ((M, K), (K, N)))
    want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    assert np.abs(want).max() > 100
    for f, some in ((pair, {}), (stays, {}), (two_groups, {}), (two_groups, dict(clusters=1))):
        for seed in (None, 0):
            pallasim.findings()
            with pallasim.emulate("gpu-b200", detect_races=True, random_seed=seed, findings="collect"):
                np.testing.assert_array_equal(np.asarray(f(a, b, **some), np.float32), want)
            found = [x for x in pallasim.findings() if x.severity != "note"]
            assert not found, found[0].report
        run = pallasim.last_run()
        read = sum(t["bytes_read"] for t in run["traffic"] if t["name"] in ("a_gmem", "b_gmem"))
        assert read == TILES * (TILE + TILE) * K * 2  # CTAs of their own, with tiles of 128 x 128, read twice as much
        print(f"{f.__name__} {some or ''}: {read // 1024} KiB of blocks read for {TILES} tiles")
    print("blocks of 16 tiles that 16 clusters multiply at a time:", {w: blocks(0, w, 16) for w in (1, 4, 8)})

    for what, f, code, words, twin in (
        ("The next tile's copies do not ask for their slots", stays, "PS-BAR-002", "ended before anybody saw the end of phase 0", dict(ask=False)),
        ("The next tile's products do not wait for the load of the sum", stays, "PS-RACE-002", "acc", dict(loaded=False)),
        ("The sum is written out before its products are over", two_groups, "PS-RACE-002", "acc", dict(hear=False)),
        ("Products do not wait for a sum that is still written out", two_groups, "PS-RACE-002", "acc", dict(wait=False, clusters=1)),
        ("One CTA of the pair does not say that its sum is written out", two_groups, "PS-DEAD-001", "written", dict(tell=(0,), clusters=1)),
    ):
        report = next(x.report for x in findings(f, a, b, **twin) if x.code == code)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
