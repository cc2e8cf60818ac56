"""Unit 5: Revisiting.

    .venv/bin/python examples/course/unit_05_revisiting.py [--grade]

Grid points that follow each other and name the same block of an output share it: it stays in VMEM, and is written back when the next point names another one.
So a sum may be built up in it, as long as somebody begins it.

Question: a long product is added up block by block along k. Where does the sum lie in the meantime, and how often is it written to HBM?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

CHIP = "tpu-v5e"
M, K, N, BLOCK = 512, 4096, 512, 256
X, Y = jax.ShapeDtypeStruct((M, K), jnp.bfloat16), jax.ShapeDtypeStruct((K, N), jnp.bfloat16)


def step_kernel(axis, x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(axis) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def matmul(x, y):
    """k is the last axis of the grid: all steps of one block of the result follow each other."""
    m, k, n = *x.shape, y.shape[1]
    return pl.pallas_call(
        functools.partial(step_kernel, 2), out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32), grid=(m // BLOCK, n // BLOCK, k // BLOCK),
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)), pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)))(x, y)


def main():
    (k,) = pallasim.predict(matmul, X, Y, chip=CHIP, sensitivity=False)
    steps, blocks = (M // BLOCK) * (N // BLOCK) * (K // BLOCK), (M // BLOCK) * (N // BLOCK)
    written = k.bytes_written / (BLOCK * BLOCK * 4)
    print(f"{steps} steps add to {blocks} blocks of the sum, {written:.0f} blocks are written: each once, when it is whole")
    print(f"{k.seconds * 1e6:.0f} us, bound by {k.bound}")
    # A sum that came and went at every step would be read and written 16 times instead.
    assert written == blocks and steps == 16 * blocks


def picture():
    """Blocks of the operands come at every step. The one block more, behind 11 us, is the sum on its way out, after 16 steps."""
    page = pallasim.predict(matmul, X, Y, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(begin=8e-6, end=16e-6, title="Unit 5: a sum that stays, tpu-v5e")


def exercise(x, y):
    """The grid goes through k first, so that a block of y serves all rows at once. The sums are wrong: say where they are between two steps, and mend it."""
    m, k, n = *x.shape, y.shape[1]
    return pl.pallas_call(
        functools.partial(step_kernel, 0), out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32), grid=(k // BLOCK, n // BLOCK, m // BLOCK),
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda k, j, i: (i, k)), pl.BlockSpec((BLOCK, BLOCK), lambda k, j, i: (k, j))],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda k, j, i: (i, j)))(x, y)


def grade(answer):
    keys = jax.random.split(jax.random.key(0))
    x, y = (jax.random.normal(k, s, jnp.bfloat16) for k, s in zip(keys, ((M, 2 * BLOCK), (2 * BLOCK, N))))
    want = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    with pallasim.emulate(CHIP, detect_races=True, findings="raise"):
        z = np.asarray(answer(x, y))
    np.testing.assert_allclose(z, want, atol=1e-2, err_msg="it is not x @ y")
    (k,) = pallasim.predict(answer, X, Y, chip=CHIP, sensitivity=False)
    assert k.bytes_written <= M * N * 4, f"it writes {k.bytes_written / 2**20:.0f} MiB of a result that has {M * N * 4 / 2**20:.0f}: sums come and go"


def solution(x, y):
    return matmul(x, y)


if __name__ == "__main__":
    import classroom

    classroom.run()
