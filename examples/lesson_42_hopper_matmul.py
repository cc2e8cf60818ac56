"""Lesson 42: a matrix product on a Hopper GPU, step by step.

    .venv/bin/python examples/lesson_42_hopper_matmul.py

Three kernels, each with the one idea that the next one builds on. `in_turn`: a warpgroup brings a block of each operand into shared memory,
multiplies, waits. `ahead`: the copies run ahead in a ring, and a product is still in flight when the next block is awaited; a slot is filled
again only when the product that read it is over. `specialised`: a warpgroup copies, two multiply, and half of the operands' traffic goes.
Blocks lie in shared memory tiled and swizzled, as the tensor cores read them. Three twins are wrong: one fills a slot that a product still
reads, one has blocks as they lie in global memory, and one has blocks that are too small for a product.
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
K = 512
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)


def matmul(body, a, b, block, scratch, **threads):
    grid = dict(grid=(M // block[0], N // block[1]), grid_names=("m", "n"))
    return plgpu.kernel(body, out_type=jax.ShapeDtypeStruct((M, N), a.dtype), scratch_types=scratch, **grid, **threads)(a, b)


def tile(block):
    return pl.ds(lax.axis_index("m") * block[0], block[0]), pl.ds(lax.axis_index("n") * block[1], block[1])


@functools.partial(jax.jit, static_argnames=("rows", "tiles"))
def in_turn(a, b, rows=64, tiles=TILES):
    block, step = (rows, 64), 64

    def kernel(a_gmem, b_gmem, o_gmem, a_smem, b_smem, came):
        m, n = tile(block)

        def products(acc):
            @pl.loop(0, K // step)
            def _(i):
                plgpu.copy_gmem_to_smem(a_gmem.at[m, pl.ds(i * step, step)], a_smem, came)
                plgpu.copy_gmem_to_smem(b_gmem.at[pl.ds(i * step, step), n], b_smem, came)
                plgpu.barrier_wait(came)
                plgpu.wgmma(acc, a_smem, b_smem)
                plgpu.wgmma_wait(0)

            return acc[...]

        o_gmem[m, n] = pl.run_scoped(products, plgpu.ACC(block, jnp.float32)).astype(a.dtype)

    scratch = [plgpu.SMEM((rows, step), a.dtype, transforms=tiles), plgpu.SMEM((step, 64), a.dtype, transforms=tiles),
               plgpu.Barrier(num_arrivals=2)]
    return matmul(kernel, a, b, block, scratch)


@functools.partial(jax.jit, static_argnames=("slots", "early"))
def ahead(a, b, slots=4, early=0):
    block, step, steps = (64, 64), 64, K // 64

    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, o_smem, came):
        m, n = tile(block)

        def fetch(i):
            slot, k = lax.rem(i, slots), pl.ds(i * step, step)
            plgpu.copy_gmem_to_smem(a_gmem.at[m, k], a_ring.at[slot], came.at[slot])
            plgpu.copy_gmem_to_smem(b_gmem.at[k, n], b_ring.at[slot], came.at[slot])

        for i in range(slots - 1 + early):
            fetch(i)

        def products(acc):
            @pl.loop(0, steps)
            def _(i):
                slot = lax.rem(i, slots)
                plgpu.barrier_wait(came.at[slot])
                plgpu.wgmma(acc, a_ring.at[slot], b_ring.at[slot])
                plgpu.wgmma_wait(1)  # all but the product just begun are over: the slot of the one before may be filled

                @pl.when(i + slots - 1 + early < steps)
                def _():
                    fetch(i + slots - 1 + early)

            return acc[...]

        o_smem[...] = pl.run_scoped(products, plgpu.ACC(block, jnp.float32)).astype(a.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[m, n])
        plgpu.wait_smem_to_gmem(0)

    ring = plgpu.SMEM((slots, 64, 64), a.dtype, transforms=TILES)
    scratch = [ring, ring, plgpu.SMEM(block, a.dtype, transforms=TILES), plgpu.Barrier(num_arrivals=2, num_barriers=slots)]
    return matmul(kernel, a, b, block, scratch)


@jax.jit
def specialised(a, b):
    block, step = (128, 128), 64  # 64 rows for each of two warpgroups

    def kernel(a_gmem, b_gmem, o_gmem, o_smem):
        m, n = tile(block)
        half = pl.ds(lax.axis_index("warpgroup") * 64, 64)

        def whole(pipeline):
            acc = plgpu.layout_cast(jnp.zeros((64, 128), jnp.float32), plgpu.Layout.WGMMA)
            o_smem[half] = pipeline(acc).astype(a.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem.at[half], o_gmem.at[pl.ds(lax.axis_index("m") * 128 + lax.axis_index("warpgroup") * 64, 64), n])
            plgpu.wait_smem_to_gmem(0)

        def products(_, a_smem, b_smem, acc):
            def product(ref):
                plgpu.wgmma(ref, a_smem.at[half], b_smem)

            return pl.run_state(product)(plgpu.ACC.init(acc))

        plgpu.emit_pipeline_warp_specialized(
            products, grid=(K // step,), memory_registers=40, max_concurrent_steps=4, wg_axis="warpgroup", num_compute_wgs=2,
            in_specs=[plgpu.BlockSpec((128, step), lambda k: (lax.axis_index("m"), k), transforms=TILES),
                      plgpu.BlockSpec((step, 128), lambda k: (k, lax.axis_index("n")), transforms=TILES)],
            compute_context=whole)(a_gmem, b_gmem)

    return matmul(kernel, a, b, block, [plgpu.SMEM(block, a.dtype, transforms=TILES)], num_threads=3, thread_name="warpgroup")


def findings(run, *args, **twin):
    pallasim.findings()
    try:
        with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
            jax.block_until_ready(run(*args, **twin))
    except pallasim.KernelError as e:
        return [*pallasim.findings(), e.finding]
    return pallasim.findings()


def main():
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-4, 5, s), jnp.float16) for s in ((M, K), (K, N)))
    want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    assert np.abs(want).max() > 100
    for run in (in_turn, ahead, specialised):
        for seed in (None, 0, 1):
            pallasim.findings()
            with pallasim.emulate("gpu-h100", detect_races=True, random_seed=seed, numerics="device"):
                np.testing.assert_array_equal(np.asarray(run(a, b), np.float32), want)
            assert not pallasim.findings(), pallasim.findings()[0].report
        read = sum(x["bytes_read"] for x in pallasim.last_run()["traffic"])
        print(f"{run.__name__}: right; {read // 1024} KiB came from global memory")

    for what, code, words, run, twin in (
        ("A slot filled while a product reads it", "PS-RACE-002", "ring", ahead, dict(early=1)),
        ("Blocks as they lie in global memory", "PS-MGPU-001", "not tiled and swizzled", in_turn, dict(tiles=())),
        ("Blocks of 32 rows", "PS-MGPU-001", "wgmma of 32 rows", in_turn, dict(rows=32)),
    ):
        report = next(f.report for f in findings(run, a, b, **twin) if f.code == code)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
