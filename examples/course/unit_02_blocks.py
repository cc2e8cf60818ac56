"""Unit 2: Blocks.

    .venv/bin/python examples/course/unit_02_blocks.py [--grade]

A BlockSpec says which block of an array a grid point gets. A block that is the same as that of the grid point before is not fetched again; any other one is,
even if it was there two points ago.

Question: a product of two 2048 x 2048 matrices has 24 MiB of operands and result. How many bytes does it move, and what do they have to do with the blocks?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

CHIP = "tpu-v5e"
N = 2048
SHAPE = jax.ShapeDtypeStruct((N, N), jnp.bfloat16)


def matmul_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)


def matmul(x, y, rows, columns):
    """Each grid point has `rows` rows of x and `columns` columns of y, whole, and makes a block of the result."""
    m, k, n = *x.shape, y.shape[1]
    return pl.pallas_call(
        matmul_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(m // rows, n // columns),
        in_specs=[pl.BlockSpec((rows, k), lambda i, j: (i, 0)), pl.BlockSpec((k, columns), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j: (i, j)))(x, y)


def main():
    print("rows columns  steps   read  of that x and y     time  bound by")
    seconds = {}
    for rows, columns in ((128, 128), (128, 512), (512, 128), (512, 512)):
        (k,) = pallasim.predict(functools.partial(matmul, rows=rows, columns=columns), SHAPE, SHAPE, chip=CHIP, sensitivity=False)
        # x's block stays while j runs, so x is read once; y's changes at every point, so y is read once for each block of rows of x.
        x, y = N * N * 2, N * N * 2 * (N // rows)
        assert k.bytes_read == x + y
        steps = (N // rows) * (N // columns)
        print(f"{rows:4} {columns:7} {steps:6} {x + y >> 20:4} MiB  {x >> 20:4} and {y >> 20:3} MiB {k.seconds * 1e6:5.0f} us  {k.bound}")
        seconds[rows, columns] = k.seconds, k.bound
    # It is the rows that count: with 128 of them the core waits for y, with 512 it computes all the time.
    assert seconds[128, 512][1] == "HBM" and seconds[512, 128][1] == "MXU" and seconds[512, 128][0] < 0.7 * seconds[128, 512][0]


def picture():
    """Blocks of 128 rows: the matrix unit (MXU) waits for the next columns of y."""
    page = pallasim.predict(functools.partial(matmul, rows=128, columns=512), SHAPE, SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(begin=20e-6, end=45e-6, title="Unit 2: blocks that are too small to keep the matrix unit busy, tpu-v5e")



def exercise(x, y):
    """x has 512 rows, y has 8192 columns: y is the one to be read once. Change the grid so that no block of either is fetched twice."""
    return matmul(x, y, 128, 512)


def grade(answer):
    keys = jax.random.split(jax.random.key(0))
    x, y = (jax.random.normal(k, s, jnp.bfloat16) for k, s in zip(keys, ((512, 256), (256, 1024))))
    with pallasim.emulate(CHIP):
        z = np.asarray(answer(x, y), np.float32)
    want = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    np.testing.assert_allclose(z, want, rtol=1e-2, atol=0.3, err_msg="it is not x @ y")
    tall, wide = jax.ShapeDtypeStruct((512, N), jnp.bfloat16), jax.ShapeDtypeStruct((N, 8192), jnp.bfloat16)
    predicted = pallasim.predict(answer, tall, wide, chip=CHIP, sensitivity=False)
    read, least = sum(k.bytes_read for k in predicted), (512 * N + N * 8192) * 2
    assert read <= least, f"it reads {read / 2**20:.0f} MiB, and {least / 2**20:.0f} would do: each operand once"


def solution(x, y):
    m, k, n = *x.shape, y.shape[1]
    rows, columns = m, 512  # all rows stay, y passes by
    return pl.pallas_call(
        matmul_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(n // columns,),
        in_specs=[pl.BlockSpec((rows, k), lambda j: (0, 0)), pl.BlockSpec((k, columns), lambda j: (0, j))],
        out_specs=pl.BlockSpec((rows, columns), lambda j: (0, j)))(x, y)


if __name__ == "__main__":
    import classroom

    classroom.run()
