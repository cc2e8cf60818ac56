"""Lesson 5: vmap makes a batch another axis of the grid.

    .venv/bin/python examples/lesson_05_vmap.py

`jax.vmap` of a function that calls a kernel launches one kernel, not one per example: the batch becomes the first grid
axis, every block gets a leading dimension of one, and `program_id` inside the kernel counts the other axes only.

Older texts map `partial(pl.pallas_call, kernel, ...)` itself and call the result with arrays. Today `pallas_call`
returns the function to be mapped; `pallasim.compat` makes the old form run.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

BATCH, N = 4, 64


def matmul_kernel(x_ref, y_ref, z_ref):
    z_ref[...] = x_ref[...] @ y_ref[...]


def matmul(x, y):
    half = (x.shape[0] // 2, y.shape[1] // 2)
    return pl.pallas_call(
        matmul_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((half[0], x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((y.shape[0], half[1]), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec(half, lambda i, j: (i, j)),
    )(x, y)


def main():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((BATCH, N, N), dtype=np.float32))
    y = jnp.asarray(rng.standard_normal((BATCH, N, N), dtype=np.float32))

    before = pallasim.launch_count()
    with pallasim.emulate(detect_races=True):
        z = np.asarray(jax.jit(jax.vmap(matmul))(x, y))
    run = pallasim.last_run()
    assert pallasim.launch_count() == before + 1, "one launch for the whole batch"
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    np.testing.assert_allclose(z, exact, atol=1e-4)
    assert np.abs(z).max() > 1

    print("The grid as the kernel's text has it, without and with vmap:")
    for title, text in (("matmul", pallasim.capture_text(matmul, x[0], y[0])), ("vmap(matmul)", pallasim.capture_text(jax.vmap(matmul), x, y))):
        print(f"  {title:13}", "  ".join(line for line in text[0].splitlines() if line.startswith("grid")))

    print()
    print(f"{run['grid_points']} grid points in one launch; batch element b, point (i, j) gets")
    print("  x_ref  x[b, rows of i]     y_ref  y[b, columns of j]     z_ref  z[b, rows of i, columns of j]")
    for t in run["traffic"]:
        print(f"  {t['name']:6} {t['bytes_read'] >> 10:4} KiB read {t['bytes_written'] >> 10:4} KiB written")
    # Each of x and y is fetched once per row or column of blocks: twice.
    assert run["grid_points"] == BATCH * 4
    assert [t["bytes_read"] for t in run["traffic"][:2]] == [2 * x.nbytes, 2 * y.nbytes]


if __name__ == "__main__":
    main()
