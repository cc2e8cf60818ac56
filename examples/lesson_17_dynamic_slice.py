"""Lesson 17: which part of an array is needed is known at run time only: the number goes through scalar memory.

    .venv/bin/python examples/lesson_17_dynamic_slice.py

The kernel cannot look into slow memory (HBM). It copies the table of starts to scalar memory (SMEM), where single numbers
are read, and uses each as the start of the next copy. Only the rows that somebody asked for are moved.

Starts are multiples of 8: rows lie in tiles of 8 in memory, and `pl.multiple_of` tells the compiler so.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROWS, PART = 64, 8


def gather_kernel(starts_ref, x_ref, o_ref, starts, sem):
    pltpu.sync_copy(starts_ref, starts)

    @pl.loop(0, starts_ref.shape[0])
    def _(i):
        start = pl.multiple_of(starts[i], PART)
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(start, PART)], o_ref.at[pl.ds(i * PART, PART)], sem)
        copy.start()
        copy.wait()


def gather(starts, x):
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(
        gather_kernel,
        out_shape=jax.ShapeDtypeStruct((starts.shape[0] * PART, x.shape[1]), x.dtype),
        in_specs=[hbm, hbm],
        scratch_shapes=[pltpu.SMEM(starts.shape, jnp.int32), pltpu.SemaphoreType.DMA(())],
    )(starts, x)


def main():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((ROWS, 128), dtype=np.float32))
    starts = np.array([40, 0, 16], np.int32)
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True):
        out = np.asarray(gather(jnp.asarray(starts), x))
    want = np.concatenate([np.asarray(x)[s : s + PART] for s in starts])
    np.testing.assert_array_equal(out, want)
    assert np.abs(out).min(axis=1).max() > 0 and pallasim.findings() == []
    traffic = {t["name"]: t for t in pallasim.last_run()["traffic"]}
    assert traffic["x_ref"]["bytes_read"] == want.nbytes

    try:
        with pallasim.emulate("tpu-v5e"):
            jax.block_until_ready(gather(jnp.asarray([40, 60, 16], jnp.int32), x))
    except pallasim.KernelError as e:
        print("A start that leaves the array:")
        print(e)
        assert e.finding.code == "PS-OOB-001"
    else:
        raise AssertionError("the copy beyond the end was not noticed")

    print("x, a cell for every 8 rows; the number is the place in the output that it was copied to:")
    cells = ["."] * (ROWS // PART)
    for i, s in enumerate(starts):
        cells[s // PART] = str(i)
    print("  " + " ".join(cells))
    print(f"moved {traffic['x_ref']['bytes_read']} B of the {x.nbytes} B of x, and {starts.nbytes} B to scalar memory")


if __name__ == "__main__":
    main()
