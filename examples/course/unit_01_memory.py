"""Unit 1: The memory hierarchy.

    .venv/bin/python examples/course/unit_01_memory.py [--grade]

Arrays lie in a large, slow memory (HBM), and a core computes with what lies in a small, fast one (VMEM). A v5e fetches 0.82 TB/s from HBM and has 128 MiB
of VMEM.

Question: a kernel computes gelu(x * s + b) on 64 MiB. How much of its time is arithmetic, and what would a second kernel that adds a row of biases cost?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

CHIP = "tpu-v5e"
ROWS, COLUMNS, BLOCK = 16384, 1024, 512
SHAPE = jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32)


def rowwise(body, *arrays):
    """One kernel over blocks of rows: each block is fetched from HBM, computed in VMEM and written back."""
    spec = pl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(arrays[0].shape[0] // BLOCK,), in_specs=[spec] * len(arrays), out_specs=spec,
                          out_shape=jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype))(*arrays)


def scale_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 0.5 + 1.0


def gelu_kernel(x_ref, o_ref):
    o_ref[...] = jax.nn.gelu(x_ref[...])


def two_kernels(x):
    return rowwise(gelu_kernel, rowwise(scale_kernel, x))


def main():
    predicted = pallasim.predict(two_kernels, SHAPE, chip=CHIP)
    for k in predicted:
        print(f"{k.kernel:12} {k.seconds * 1e6:6.1f} us, {(k.bytes_read + k.bytes_written) >> 20} MiB moved, bound by {k.bound}")

    # Both kernels wait for memory: the time of each is that of its bytes, whatever it computes. What a kernel computes on the way is free as long as
    # the units of the core are faster than the memory.
    traffic = sum(k.bytes_read + k.bytes_written for k in predicted)
    print(f"{traffic >> 20} MiB at {0.82:g} TB/s are {traffic / 0.82e12 * 1e6:.0f} us; predicted are {predicted.seconds * 1e6:.0f} us")
    assert all(k.bound == "HBM" for k in predicted)
    assert 1.0 <= predicted.seconds / (traffic / 0.82e12) < 1.15


def picture():
    """The first of the two kernels: copies without a gap, and a core that waits for them."""
    page = pallasim.predict(two_kernels, SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(1, end=30e-6, title="Unit 1: a kernel that is bound by memory, tpu-v5e")


def exercise(x):
    """Write one kernel in place of the two, so that no byte moves twice: half the traffic, half the time."""
    return two_kernels(x)


def grade(answer):
    x = jax.random.normal(jax.random.key(0), (4 * BLOCK, COLUMNS), jnp.float32)
    with pallasim.emulate(CHIP):
        y = np.asarray(answer(x))
    np.testing.assert_allclose(y, np.asarray(jax.nn.gelu(x * 0.5 + 1.0)), rtol=1e-4, atol=1e-5, err_msg="it is not gelu(x * 0.5 + 1)")
    predicted = pallasim.predict(answer, SHAPE, chip=CHIP, sensitivity=False)
    moved, least = sum(k.bytes_read + k.bytes_written for k in predicted), 2 * ROWS * COLUMNS * 4
    assert moved <= 1.1 * least, f"it moves {moved >> 20} MiB, and {least >> 20} would do: the array once from HBM, and once back"


def fused_kernel(x_ref, o_ref):
    o_ref[...] = jax.nn.gelu(x_ref[...] * 0.5 + 1.0)


solution = functools.partial(rowwise, fused_kernel)


if __name__ == "__main__":
    import classroom

    classroom.run()
