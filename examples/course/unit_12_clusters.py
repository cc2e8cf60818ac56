"""Unit 12: Clusters.

    .venv/bin/python examples/course/unit_12_clusters.py [--grade]

CTAs of a cluster run at the same time, and TMA can write one block into the shared memory of all of them: `collective_axes` names the axis of the cluster along
which each asks for its part of the block, and gets all of it.

Question: two CTAs multiply different rows by the same columns. How often are the columns read, and what do the CTAs owe each other if it is once?
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
CTAS, ROWS, COLUMNS, STEP, STEPS, SLOTS = 2, 64, 128, 64, 16, 4
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
A, B = jax.ShapeDtypeStruct((CTAS * ROWS, STEPS * STEP), jnp.float16), jax.ShapeDtypeStruct((STEPS * STEP, COLUMNS), jnp.float16)


def matmul(fetch_columns, before_refill, a, b):
    """Each CTA has its rows of a. `fetch_columns` asks for a block of b, `before_refill` says when a slot may be filled again."""
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, came, empty):
        rows = pl.ds(lax.axis_index("cta") * ROWS, ROWS)

        def fetch(i):
            slot, k = lax.rem(i, SLOTS), pl.ds(i * STEP, STEP)
            plgpu.copy_gmem_to_smem(a_gmem.at[rows, k], a_ring.at[slot], came.at[slot])
            fetch_columns(b_gmem.at[k], b_ring.at[slot], came.at[slot])

        for i in range(SLOTS):
            fetch(i)

        def products(acc):
            @pl.loop(0, STEPS)
            def _(i):
                slot = lax.rem(i, SLOTS)
                plgpu.barrier_wait(came.at[slot])
                plgpu.wgmma(acc, a_ring.at[slot], b_ring.at[slot])
                plgpu.wgmma_wait(0)

                @pl.when(i + SLOTS < STEPS)
                def _():
                    before_refill(empty)
                    fetch(i + SLOTS)

            return acc[...]

        o_gmem[rows] = pl.run_scoped(products, plgpu.ACC((ROWS, COLUMNS), jnp.float32)).astype(a.dtype)

    scratch = [plgpu.SMEM((SLOTS, ROWS, STEP), a.dtype, transforms=TILES), plgpu.SMEM((SLOTS, STEP, COLUMNS), a.dtype, transforms=TILES),
               plgpu.Barrier(num_arrivals=2, num_barriers=SLOTS), plgpu.ClusterBarrier(collective_axes=("cta",))]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((CTAS * ROWS, COLUMNS), a.dtype), scratch_types=scratch, cluster=(CTAS,),
                        cluster_names=("cta",))(a, b)


def columns_of_each(b, slot, came):
    plgpu.copy_gmem_to_smem(b, slot, came)


def columns_of_all(b, slot, came):
    plgpu.copy_gmem_to_smem(b, slot, came, collective_axes="cta")


def nothing(empty):
    """This CTA is done with its slot, and nobody else reads or writes it."""


separate = functools.partial(matmul, columns_of_each, nothing)


def operands():
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.integers(-4, 5, s.shape), s.dtype) for s in (A, B))


def run(f, a, b):
    """What f computes, and how many bytes it reads from global memory for that."""
    out = np.asarray(f(a, b), np.float32)
    return out, sum(t["bytes_read"] for t in pallasim.last_run()["traffic"])


def main():
    (k,) = pallasim.predict(separate, A, B, chip=CHIP, sensitivity=False)
    with pallasim.emulate(CHIP, detect_races=True, findings="raise"):
        _, read = run(separate, *operands())
    rows, columns = A.size * 2, B.size * 2
    print(f"{rows >> 10} KiB of rows, {columns >> 10} KiB of columns, {read >> 10} KiB read; {k.seconds * 1e6:.2f} us, bound by {k.bound}")
    # Each CTA reads all columns. It depends on nobody for that: its slots are its own.
    assert read == rows + CTAS * columns


def picture():
    """One of the two CTAs: for each product a block of rows and a block of columns come. The other one asks for the same columns at the same time."""
    page = pallasim.predict(separate, A, B, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 12: one of two CTAs that read the same columns, gpu-h100")


def exercise(a, b):
    """One copy serves both CTAs, so the columns are read once. But nobody asks whether the other one still reads what is written over."""
    return matmul(columns_of_all, nothing, a, b)


def grade(answer):
    a, b = operands()
    for seed in (None, 0, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="raise", random_seed=seed):
            got, read = run(answer, a, b)
        np.testing.assert_array_equal(got, np.asarray(a, np.float32) @ np.asarray(b, np.float32), err_msg="it is not a @ b")
    assert read <= a.nbytes + b.nbytes, f"it reads {read >> 10} KiB, and {(a.nbytes + b.nbytes) >> 10} would do: one copy of the columns for both"


def both_are_done(empty):
    plgpu.barrier_arrive(empty)
    plgpu.barrier_wait(empty)


solution = functools.partial(matmul, columns_of_all, both_are_done)


if __name__ == "__main__":
    import classroom

    classroom.run()
