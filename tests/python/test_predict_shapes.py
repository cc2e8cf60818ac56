"""Predictions of kernels whose arrays are shapes alone: zeros stand for what they hold, and are no ground for findings."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

S = jax.ShapeDtypeStruct
X = S((8192, 128), jnp.float32)


def predicted(f, *args):
    return pallasim.predict(f, *args, chip="tpu-v5e", sensitivity=False)


def rows_before(numbers, x):
    """The row before each that `numbers` names."""
    def kernel(numbers_ref, x_ref, o_ref, rows, arrived):
        for i in range(8):
            copy = pltpu.make_async_copy(x_ref.at[pl.ds(numbers_ref[i] - 1, 1)], rows.at[pl.ds(i, 1)], arrived)
            copy.start()
            copy.wait()
        o_ref[...] = rows[...]

    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, numbers: (0, 0)),
                                        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA])
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=S((8, 128), jnp.float32))(numbers, x)


def test_zeros_in_place_of_numbers_are_no_finding():
    """With shapes alone the row before row 0 would be read, which no kernel that is given its numbers does."""
    x, numbers = np.ones((64, 128), np.float32), np.arange(1, 9, dtype=np.int32)
    with pytest.raises(pallasim.KernelError, match=r"(?s)PS-OPT-001.*what arrays hold.*zeros in place of numbers_ref, x_ref: PS-OOB-001.*index -1.*give arrays"):
        predicted(rows_before, S((8,), jnp.int32), X)
    assert predicted(rows_before, numbers, x).seconds > 0

    def numbers_from_a_kernel(numbers, x):  # which a trace does not know
        def kernel(n_ref, o_ref):
            for i in range(8):
                o_ref[i] = n_ref[i] + 1

        one_more = pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)], out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
                                  out_shape=S((8,), jnp.int32))(numbers)
        return rows_before(one_more, x)

    assert len(predicted(numbers_from_a_kernel, np.arange(8, dtype=np.int32), x)) == 2
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001.*index -1"):
        predicted(rows_before, numbers - 1, x)
