"""Lesson 4: what is fused into a kernel does not travel through memory.

    .venv/bin/python examples/lesson_04_activation.py

The kernel takes an activation function, which is ordinary Python: it is traced into the kernel's body. Applied as a
kernel of its own, the same function reads and writes the whole product once more.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

N = 256


def matmul_kernel(x_ref, y_ref, z_ref, *, activation):
    z_ref[...] = activation(x_ref[...] @ y_ref[...])


def activation_kernel(z_ref, o_ref, *, activation):
    o_ref[...] = activation(z_ref[...])


def matmul(x, y, activation=lambda z: z):
    half = (x.shape[0] // 2, y.shape[1] // 2)
    return pl.pallas_call(
        functools.partial(matmul_kernel, activation=activation),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((half[0], x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((y.shape[0], half[1]), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec(half, lambda i, j: (i, j)),
    )(x, y)


def activate(z, activation):
    return pl.pallas_call(functools.partial(activation_kernel, activation=activation), out_shape=z)(z)


def bytes_moved(f, *args):
    """Runs f on a checked emulator; its result, and the bytes that its last kernel read and wrote."""
    with pallasim.emulate(detect_races=True):
        out = jax.block_until_ready(f(*args))
    traffic = pallasim.last_run()["traffic"]
    return out, sum(t["bytes_read"] for t in traffic), sum(t["bytes_written"] for t in traffic)


def main():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((N, N), dtype=np.float32))
    y = jnp.asarray(rng.standard_normal((N, N), dtype=np.float32))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)

    print(f"  {'':12} {'':14} {'read':>9} {'written':>9}")
    for name, f, want in [
        ("relu", jax.nn.relu, np.maximum(exact, 0)),
        ("silu", jax.nn.silu, exact / (1 + np.exp(-exact))),
    ]:
        fused, read, written = bytes_moved(lambda: matmul(x, y, activation=f))
        np.testing.assert_allclose(fused, want, rtol=1e-4, atol=1e-4)
        assert np.abs(fused).max() > 1
        print(f"  {name:12} {'one kernel':14} {read >> 10:5} KiB {written >> 10:5} KiB")

        plain, read_1, written_1 = bytes_moved(matmul, x, y)
        after, read_2, written_2 = bytes_moved(activate, plain, f)
        np.testing.assert_allclose(after, fused, rtol=1e-5, atol=1e-5)
        print(f"  {'':12} {'two kernels':14} {(read_1 + read_2) >> 10:5} KiB {(written_1 + written_2) >> 10:5} KiB")
        # The second kernel reads the product and writes it again.
        assert (read_2, written_2) == (4 * N * N, 4 * N * N) and (read_1, written_1) == (read, written)
    print(f"Fusing saves {N * N * 4 >> 10} KiB in each direction; on a machine whose limit is its memory, that is the time saved.")


if __name__ == "__main__":
    main()
