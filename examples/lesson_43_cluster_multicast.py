"""Lesson 43: one copy for all CTAs of a cluster (a Hopper GPU).

    .venv/bin/python examples/lesson_43_cluster_multicast.py

Two CTAs of a cluster multiply different rows by the same columns. With `collective_axes` each brings half of the columns' block and the copy
unit writes it into the shared memory of both: global memory is read once. The price is an order between CTAs: nobody may fill a slot that
the other CTA still reads, so both tell each other at a barrier of the cluster. Three twins are wrong: one has no such barrier, in one only
one CTA arrives there, and one asks for the block in one CTA alone although all must.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

CTAS, ROWS, COLUMNS, STEP, STEPS, SLOTS = 2, 64, 64, 64, 6, 2
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)


@functools.partial(jax.jit, static_argnames=("shared", "order", "arrive", "ask"))
def matmul(a, b, shared=True, order=True, arrive=(0, 1), ask=(0, 1)):
    def kernel(a_gmem, b_gmem, o_gmem, a_ring, b_ring, a_came, b_came, empty):
        cta = lax.axis_index("cta")
        rows = pl.ds(cta * ROWS, ROWS)

        def among(ctas):
            return (cta >= min(ctas)) & (cta <= max(ctas))

        def fetch(i):
            slot, k = lax.rem(i, SLOTS), pl.ds(i * STEP, STEP)
            plgpu.copy_gmem_to_smem(a_gmem.at[rows, k], a_ring.at[slot], a_came.at[slot])

            @pl.when(among(ask))
            def _():
                plgpu.copy_gmem_to_smem(b_gmem.at[k], b_ring.at[slot], b_came.at[slot], collective_axes="cta" if shared else None)

        for i in range(SLOTS):
            fetch(i)

        def products(acc):
            @pl.loop(0, STEPS)
            def _(i):
                slot = lax.rem(i, SLOTS)
                plgpu.barrier_wait(a_came.at[slot])
                plgpu.barrier_wait(b_came.at[slot])
                plgpu.wgmma(acc, a_ring.at[slot], b_ring.at[slot])
                plgpu.wgmma_wait(0)

                @pl.when(i + SLOTS < STEPS)
                def _():
                    if order:
                        @pl.when(among(arrive))
                        def _():
                            plgpu.barrier_arrive(empty)

                        plgpu.barrier_wait(empty)
                    fetch(i + SLOTS)

            return acc[...]

        o_gmem[rows] = pl.run_scoped(products, plgpu.ACC((ROWS, COLUMNS), jnp.float32)).astype(a.dtype)

    scratch = [plgpu.SMEM((SLOTS, ROWS, STEP), a.dtype, transforms=TILES), plgpu.SMEM((SLOTS, STEP, COLUMNS), a.dtype, transforms=TILES),
               plgpu.Barrier(num_barriers=SLOTS), plgpu.Barrier(num_barriers=SLOTS), plgpu.ClusterBarrier(collective_axes=("cta",))]
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((CTAS * ROWS, COLUMNS), a.dtype), scratch_types=scratch, cluster=(CTAS,),
                        cluster_names=("cta",))(a, b)


def findings(*args, **twin):
    pallasim.findings()
    try:
        with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
            jax.block_until_ready(matmul(*args, **twin))
    except pallasim.KernelError as e:
        return [*pallasim.findings(), e.finding]
    return pallasim.findings()


def main():
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.integers(-4, 5, s), jnp.float16) for s in ((CTAS * ROWS, STEPS * STEP), (STEPS * STEP, COLUMNS)))
    want = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    assert np.abs(want).max() > 100
    for shared in (False, True):
        for seed in (None, 0, 1):
            pallasim.findings()
            with pallasim.emulate("gpu-h100", detect_races=True, random_seed=seed):
                np.testing.assert_array_equal(np.asarray(matmul(a, b, shared=shared), np.float32), want)
            assert not pallasim.findings(), pallasim.findings()[0].report
        read = next(t["bytes_read"] for t in pallasim.last_run()["traffic"] if t["name"] == "b_gmem")
        assert read == b.nbytes * (1 if shared else CTAS)
        print(f"{'One copy for both' if shared else 'A copy for each'}: {read // 1024} KiB of columns read")

    for what, code, words, twin in (
        ("No order between the CTAs", "PS-RACE-002", "b_ring", dict(order=False)),
        ("One CTA does not say that its slot is empty", "PS-DEAD-001", "phase 0 of empty of CTA cta=0 to end: 1 of 2 arrived", dict(arrive=(0,))),
        ("One CTA does not ask for the block", "PS-DEAD-001", "4096 bytes are due", dict(ask=(0,))),
    ):
        report = next(f.report for f in findings(a, b, **twin) if code in f.report)
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
