"""Lesson 15: double buffering by hand: one row is copied while the last one is used.

    .venv/bin/python examples/lesson_15_double_buffering.py

The array stays in slow memory (HBM). Two slots of fast memory (VMEM) take turns: while the kernel works on one, the copy
engine fills the other. A DMA semaphore per slot counts the bytes that have arrived; waiting takes them away again. The
same kernel with its two slots swapped reads a row that may not be there yet: a checked run names both lines.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROWS = 6


def double_kernel(x_ref, o_ref, slots, sems):
    def fetch(row):
        slot = jax.lax.rem(row, 2)
        return pltpu.make_async_copy(x_ref.at[row], slots.at[slot], sems.at[slot])

    fetch(0).start()

    @pl.loop(0, ROWS)
    def _(row):
        @pl.when(row + 1 < ROWS)
        def _():
            fetch(row + 1).start()

        fetch(row).wait()
        o_ref[row] = slots[jax.lax.rem(row, 2)] * 2


def swapped_kernel(x_ref, o_ref, slots, sems):
    def fetch(row):
        slot = jax.lax.rem(row, 2)
        return pltpu.make_async_copy(x_ref.at[row], slots.at[slot], sems.at[slot])

    fetch(0).start()

    @pl.loop(0, ROWS)
    def _(row):
        @pl.when(row + 1 < ROWS)
        def _():
            fetch(row + 1).start()

        fetch(row).wait()
        o_ref[row] = slots[jax.lax.rem(row + 1, 2)] * 2  # the slot that is being filled


def run(kernel, x):
    return pl.pallas_call(
        kernel,
        out_shape=x,
        in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
        scratch_shapes=[pltpu.VMEM((2, *x.shape[1:]), x.dtype), pltpu.SemaphoreType.DMA((2,))],
    )(x)


def main():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((ROWS, 8, 128), dtype=np.float32))
    pallasim.findings()
    for mode in ("eager", "on_wait"):  # whenever the bytes move, they are the same
        with pallasim.emulate("tpu-v5e", dma_execution_mode=mode, detect_races=True):
            out = np.asarray(run(double_kernel, x))
        np.testing.assert_array_equal(out, 2 * np.asarray(x))
    assert pallasim.findings() == []
    traffic = {t["name"]: t for t in pallasim.last_run()["traffic"]}
    assert traffic["x_ref"]["bytes_read"] == x.nbytes and traffic["x_ref"]["reads"] == ROWS

    with pallasim.emulate("tpu-v5e", dma_execution_mode="on_wait", detect_races=True, findings="collect"):
        wrong = np.asarray(run(swapped_kernel, x))
    assert not np.array_equal(wrong, 2 * np.asarray(x))
    found = {d.code: d for d in pallasim.findings()}
    print("With the slots swapped:")
    print(found["PS-RACE-001"].report)
    assert "the slot that is being filled" in found["PS-RACE-001"].text and "fetch(row + 1).start()" in found["PS-RACE-001"].also[0].source.text

    print("With the right slot; > the row arrives in it, * the kernel uses it:")
    print("  step   " + " ".join(f"{row:>2}" for row in range(ROWS)))
    for slot in (0, 1):
        cells = [f"*{row}" if row % 2 == slot else f">{row + 1}" if row + 1 < ROWS else " ." for row in range(ROWS)]
        print(f"  slot {slot} " + " ".join(f"{c:>2}" for c in cells))
    print(f"{ROWS} copies of {x.nbytes // ROWS} B; fast memory for rows of x: {2 * x.nbytes // ROWS} B of {x.nbytes} B.")


if __name__ == "__main__":
    main()
