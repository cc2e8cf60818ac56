"""Lesson 3: blocks bring to a grid point what it needs, and no more.

    .venv/bin/python examples/lesson_03_blocks.py

A BlockSpec is a shape and an index map. For each grid point (i, j) the map names a block; the kernel gets a ref to it,
and indexes it from zero. Grid (2, 2) over a 1024 x 1024 product: four quarters, each from half of x and half of y.

Two notes for readers of older texts. An index map returns block numbers, which are multiplied by the block's size; it
does not return offsets of elements. And the order of BlockSpec's arguments was once the other way round: today the shape
comes first.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

N = 1024


def matmul_kernel(x_ref, y_ref, z_ref):
    z_ref[...] = x_ref[...] @ y_ref[...]


@jax.jit
def matmul(x, y):
    return pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((x.shape[0] // 2, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((y.shape[0], y.shape[1] // 2), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((x.shape[0] // 2, y.shape[1] // 2), lambda i, j: (i, j)),
    )(x, y)


def main():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, N), dtype=np.float32)
    y = rng.standard_normal((N, N), dtype=np.float32)
    with pallasim.emulate():
        z = np.asarray(matmul(jnp.asarray(x), jnp.asarray(y)))

    # Each element is a sum of N products in f32: its error is at most about N rounding steps of the sum of their
    # magnitudes, and far less in practice.
    exact = x.astype(np.float64) @ y.astype(np.float64)
    bound = N * np.finfo(np.float32).eps * (np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64))
    error = np.abs(z - exact)
    assert (error <= bound).all() and np.abs(z).max() > 1
    print(f"matmul {N} x {N} on grid (2, 2): largest error {error.max():.2e}, allowed there {bound.min():.2e} or more")

    # JAX's quickstart compares with x @ y at a relative tolerance of 1e-7, which is less than the last bit of an f32:
    # only a sum in XLA's own order meets it. So we compare with f64, and a bound that follows from the arithmetic.
    xla = np.asarray(jnp.asarray(x) @ jnp.asarray(y))
    apart = np.mean(np.abs(z - xla) > 1e-7 * np.abs(xla))
    xla_apart = np.mean(np.abs(xla - exact) > 1e-7 * np.abs(exact))
    print(f"further than 1e-7 from XLA's product: {apart:.0%} of the elements; XLA's from the exact one: {xla_apart:.0%}")

    block, whole = N // 2 * N * 4 >> 20, N * N * 4 >> 20
    print()
    print("What each grid point holds:")
    print("  x_ref   a half of x     ", f"{block} of {whole} MiB")
    print("  y_ref   a half of y     ", f"{block} of {whole} MiB")
    print("  z_ref   a quarter of z  ", f"{block // 2} of {whole} MiB")
    print("The grid runs (0, 0), (0, 1), (1, 0), (1, 1): x's block stays for two points and is fetched twice in all,")
    print("y's block changes at every point and is fetched four times.")


if __name__ == "__main__":
    main()
