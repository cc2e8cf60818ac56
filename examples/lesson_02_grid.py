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
    with pallasim.emulate():
        out = np.asarray(iota(8))
        np.testing.assert_array_equal(out, np.arange(8))
        print("iota(8) =", out)

        print()
        print("A grid of 9 for 8 elements stops at the line that is wrong:")
        try:
            jax.block_until_ready(iota_too_long(8))
        except Exception as error:
            print(error)
        else:
            raise AssertionError("the access out of bounds was not found")


if __name__ == "__main__":
    main()
