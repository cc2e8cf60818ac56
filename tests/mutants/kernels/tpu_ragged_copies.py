"""Groups of rows of any size, copied by the kernel to where each begins."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MACHINE = "tpu-v5e"


def kernel(starts_ref, sizes_ref, x_hbm, o_hbm, sems):
    def move(g):
        rows = pl.ds(starts_ref[g], sizes_ref[g])
        return pltpu.make_async_copy(x_hbm.at[g, pl.ds(0, sizes_ref[g])], o_hbm.at[rows], sems.at[g % 2])

    for g in range(4):
        if g >= 2:
            move(g - 2).wait()
        move(g).start()
    move(2).wait()
    move(3).wait()


def inputs(rng):
    cuts = np.sort(rng.choice(np.arange(1, 16), 3, replace=False))
    starts = np.concatenate([[0], cuts]).astype(np.int32)
    sizes = np.diff(np.concatenate([starts, [16]])).astype(np.int32)
    return starts, sizes, rng.standard_normal((4, 16, 8, 128), dtype=np.float32)


def run(starts, sizes, x):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 8, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(1,),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[pltpu.SemaphoreType.DMA((2,))],
        ),
    )(starts, sizes, x)


def reference(starts, sizes, x):
    return np.concatenate([x[g, : sizes[g]] for g in range(4)])
