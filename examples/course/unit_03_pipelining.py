"""Unit 3: Pipelining.

    .venv/bin/python examples/course/unit_03_pipelining.py [--grade]

A grid is a pipeline: while the core computes with one block, the next one is fetched and the last result is written back. That needs two buffers for each
operand, which Pallas makes unless told otherwise: pl.Buffered(n) asks for n.

Question: moving a block takes about as long as computing with it. What does the second buffer save, and what is left that nothing hides?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

CHIP = "tpu-v5e"
ROWS, COLUMNS, BLOCK, TIMES = 1024, 1024, 128, 12
SHAPE = jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32)


def wave_kernel(x_ref, o_ref):
    x = x_ref[...]
    for _ in range(TIMES):
        x = jnp.tanh(x)
    o_ref[...] = x


def wave(x, rows=BLOCK, buffers=2):
    spec = pl.BlockSpec((rows, COLUMNS), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
    return pl.pallas_call(wave_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // rows,), in_specs=[spec], out_specs=spec)(x)


def main():
    took = {}
    for rows, buffers in ((BLOCK, 1), (BLOCK, 2), (8, 2)):
        (k,) = pallasim.predict(functools.partial(wave, rows=rows, buffers=buffers), SHAPE, chip=CHIP, sensitivity=False)
        alone = {b.name: b.seconds for b in k.bounds}
        copies, arithmetic = alone["HBM"], max(alone["VPU"], alone["EUP"])  # the EUP computes tanh
        print(f"blocks of {rows:3} rows, Buffered({buffers}): {k.seconds * 1e6:5.1f} us; copies alone {copies * 1e6:.1f}, arithmetic alone {arithmetic * 1e6:.1f}")
        took[rows, buffers] = k.seconds
    # With one buffer the times add up; with two, the longer one counts, but for the first fetch and the last write, which have nothing to hide behind.
    # Small blocks make these two short, and pay for each step.
    assert took[BLOCK, 1] > copies + arithmetic > took[BLOCK, 2] > max(copies, arithmetic)
    assert took[BLOCK, 1] > 1.6 * took[BLOCK, 2] and took[8, 2] > took[BLOCK, 1]


def picture():
    """Two buffers: copies in flight while the core computes; before the first block and after the last one it waits."""
    page = pallasim.predict(wave, SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 3: copies behind arithmetic, two buffers, tpu-v5e")


def exercise(x):
    """One block, the whole array: it is fetched, then computed with, then written back. Let the copies hide behind the arithmetic."""
    return wave(x, rows=x.shape[0])


def grade(answer):
    x = jax.random.normal(jax.random.key(0), (ROWS, COLUMNS), jnp.float32)
    with pallasim.emulate(CHIP):
        y = np.asarray(answer(x))
    want = np.asarray(x, np.float64)
    for _ in range(TIMES):
        want = np.tanh(want)
    np.testing.assert_allclose(y, want, rtol=1e-4, err_msg=f"it is not tanh, {TIMES} times")
    predicted = pallasim.predict(answer, SHAPE, chip=CHIP, sensitivity=False)
    longest = sum(max(b.seconds for b in k.bounds) for k in predicted)
    assert predicted.seconds <= 1.5 * longest, (f"it takes {predicted.seconds * 1e6:.1f} us, and its busiest unit has work for {longest * 1e6:.1f}: "
                                                "the others do not work at the same time")


def solution(x):
    return wave(x, rows=128)


if __name__ == "__main__":
    import classroom

    classroom.run()
