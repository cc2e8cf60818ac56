"""Lesson 1: a kernel sees refs, not arrays.

    .venv/bin/python examples/lesson_01_add_vectors.py

The kernel is the first one of JAX's Pallas quickstart, unchanged. `pallasim.emulate()` runs it on a model of the
machine instead of on the machine.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim


# x_ref, y_ref and o_ref are places in memory. `x_ref[...]` reads all of one into a value that the core can compute
# with; assigning to `o_ref[...]` writes a value back. The kernel returns nothing: its results are what it wrote.
def add_vectors_kernel(x_ref, y_ref, o_ref):
    x, y = x_ref[...], y_ref[...]
    o_ref[...] = x + y


@jax.jit
def add_vectors(x, y):
    return pl.pallas_call(add_vectors_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def main():
    x = jnp.arange(8, dtype=jnp.float32)
    y = jnp.full(8, 0.5, jnp.float32)

    before = pallasim.launch_count()
    with pallasim.emulate(detect_races=True):  # a checked run also counts what memory did
        out = add_vectors(x, y)
    out.block_until_ready()

    # Proof that the emulator ran, and that it ran right: NumPy's sum is exact here.
    assert pallasim.launch_count() == before + 1
    np.testing.assert_array_equal(np.asarray(out), np.asarray(x) + np.asarray(y))

    print("add_vectors(x, y) =", np.asarray(out))
    print()
    print("What the kernel did to memory:")
    print(f"  {'ref':6} {'read':>6} {'written':>8}")
    traffic = pallasim.last_run()["traffic"]
    for t in traffic:
        print(f"  {t['name']:6} {t['bytes_read']:4} B {t['bytes_written']:6} B")
    assert [(t["bytes_read"], t["bytes_written"]) for t in traffic] == [(32, 0), (32, 0), (0, 32)]
    print("96 bytes moved for 8 additions: such a kernel is as fast as its memory, whatever computes.")


if __name__ == "__main__":
    main()
