"""Lesson 2: a grid runs one body many times.

    .venv/bin/python examples/lesson_02_grid.py

`grid=8` calls the kernel for program_id 0 to 7, in this order on one core. All eight share one output, so a point can
see what earlier ones wrote; a kernel that relies on it must not declare its axis `parallel`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim


def iota_kernel(o_ref):
    i = pl.program_id(0)
    o_ref[i] = i


def iota(size):
    return pl.pallas_call(iota_kernel, out_shape=jax.ShapeDtypeStruct((size,), jnp.int32), grid=(size,))()


# A mistake to look at: the grid is longer than the output.
def iota_too_long(size):
    return pl.pallas_call(iota_kernel, out_shape=jax.ShapeDtypeStruct((size,), jnp.int32), grid=(size + 1,))()


def main():
    print("A grid of 9 for 8 elements stops at the line that is wrong:")
    try:
        with pallasim.emulate():
            jax.block_until_ready(iota_too_long(8))
    except pallasim.KernelError as error:
        print(error)
    else:
        raise AssertionError("the access out of bounds was not found")

    with pallasim.emulate(detect_races=True):
        out = np.asarray(iota(8))
    np.testing.assert_array_equal(out, np.arange(8))
    (traffic,) = pallasim.last_run()["traffic"]
    assert (traffic["writes"], traffic["bytes_written"], traffic["reads"]) == (8, 32, 0)
    print("iota(8) =", out)
    print("What memory held after each point of a grid of 8; every point writes 4 bytes, none reads:")
    for i in range(8):
        print(f"  point {i}   o_ref", " ".join(str(v) if k <= i else "." for k, v in enumerate(out)))


if __name__ == "__main__":
    main()
