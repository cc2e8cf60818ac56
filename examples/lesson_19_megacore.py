"""Lesson 19: a device with two cores: each takes half of the grid, and a barrier brings them together.

    .venv/bin/python examples/lesson_19_megacore.py

On v4 and v5p two TensorCores are one device ("Megacore"). They share slow memory (HBM); VMEM, SMEM and semaphores are each
core's own. The kernel runs once per core of the mesh. Each core sums its half of the rows; then core 0 adds what core 1 left in
HBM. Without the barrier in between it may read before the other core is done: a checked run finds that in any schedule,
and the token of a schedule that gives wrong sums gives them again.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROWS, WIDTH, BLOCK = 64, 128, 8


def sum_rows(x, cores, wait=True):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=cores)
    share = ROWS // cores

    def kernel(x_hbm, parts_hbm, o_hbm, acc, other, barrier):
        core = jax.lax.axis_index("core")
        acc[...] = jnp.zeros_like(acc)

        def add(x_block):
            acc[...] += x_block[...]

        pltpu.emit_pipeline(add, grid=(share // BLOCK,), in_specs=[pl.BlockSpec((BLOCK, WIDTH), lambda i: (i, 0))])(
            x_hbm.at[pl.ds(pl.multiple_of(core * share, BLOCK), share)])
        pltpu.sync_copy(acc, parts_hbm.at[core])
        if wait:
            pltpu.core_barrier(barrier, core_axis_name="core")

        @pl.when(core == 0)
        def _():
            for n in range(1, cores):
                pltpu.sync_copy(parts_hbm.at[n], other)
                acc[...] += other[...]
            pltpu.sync_copy(acc, o_hbm)

    block = jax.ShapeDtypeStruct((BLOCK, WIDTH), x.dtype)
    scratch = [pltpu.VMEM((BLOCK, WIDTH), x.dtype), pltpu.VMEM((BLOCK, WIDTH), x.dtype), pltpu.SemaphoreType.REGULAR]
    out = (jax.ShapeDtypeStruct((cores, BLOCK, WIDTH), x.dtype), block)
    return pl.kernel(kernel, out, mesh=mesh, scratch_types=scratch)(x)


def main():
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32)
    want = x.astype(np.float64).reshape(-1, BLOCK, WIDTH).sum(0)
    rows = []
    for chip, cores in (("tpu-v5e", 1), ("tpu-v5p", 2)):
        tokens = set()
        for seed in (None, 0, 1, 2):  # whichever core is ahead
            with pallasim.emulate(chip, random_seed=seed):
                parts, out = (np.asarray(a) for a in jax.jit(sum_rows, static_argnums=1)(x, cores))
            np.testing.assert_allclose(out, want, atol=1e-4)
            tokens.add(pallasim.last_run()["token"])
        assert np.abs(out).max() > 1 and len(tokens) == 4
        rows.append((chip, pallasim.last_run()["threads"], parts.shape[0]))
    assert [r[1] for r in rows] == [1, 2]

    broken = jax.jit(sum_rows, static_argnums=(1, 2))
    pallasim.findings()
    with pallasim.emulate("tpu-v5p", detect_races=True, findings="collect"):
        jax.block_until_ready(jax.jit(sum_rows, static_argnums=1)(x, 2))
        assert pallasim.findings() == []
        jax.block_until_ready(broken(x, 2, False))
    race = next(f for f in pallasim.findings() if f.code.startswith("PS-RACE"))
    print("Without the barrier:")
    print(race.report)
    assert "parts_hbm" in race.message
    for seed in range(50):
        with pallasim.emulate("tpu-v5p", random_seed=seed):
            early = np.asarray(broken(x, 2, False)[1])
        if not np.allclose(early, want, atol=1e-4):
            break
    else:
        raise AssertionError("no schedule showed the missing barrier")
    token = pallasim.last_run()["token"]
    with pallasim.emulate("tpu-v5p", replay=token):
        again = np.asarray(broken(x, 2, False)[1])
    np.testing.assert_array_equal(early, again)
    print(f"Schedule {token}: {np.count_nonzero(~np.isclose(early, want, atol=1e-4))} of {want.size} sums are wrong.")
    print()

    print("chip      cores   rows of each core")
    for chip, threads, cores in rows:
        share = ROWS // cores
        print(f"  {chip}   {threads}     " + "  ".join(f"core {n}: {n * share}..{(n + 1) * share - 1}" for n in range(cores)))
    print()
    print("What the two cores did to memory:")
    print("  core 0  x[0:32]  -> VMEM  sum  -> parts[0]  |barrier|  parts[1] -> VMEM  add  -> o")
    print("  core 1  x[32:64] -> VMEM  sum  -> parts[1]  |barrier|")


if __name__ == "__main__":
    main()
