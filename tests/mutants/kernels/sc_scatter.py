"""Rows go where a list sends them, and come back; a row may be left out."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

MACHINE = "tpu-7x"
SUBCORES, SHARE, WIDTH = 4, 8, 128
TOKENS = SUBCORES * SHARE


def kernel(x_hbm, places_hbm, zeros_hbm, sorted_hbm, back_hbm, place, buffer):
    mine = pl.ds(jax.lax.axis_index("subcore") * SHARE, SHARE)
    pltpu.sync_copy(zeros_hbm.at[mine], sorted_hbm.at[mine])
    pltpu.sync_copy(places_hbm.at[mine], place)
    plsc.subcore_barrier()
    pltpu.sync_copy(x_hbm.at[mine], buffer)
    pltpu.sync_copy(buffer, sorted_hbm.at[plsc.Indices(place, ignored_value=-1)])
    pltpu.sync_copy(zeros_hbm.at[mine], buffer)
    pltpu.sync_copy(sorted_hbm.at[plsc.Indices(place, ignored_value=-1)], buffer)
    pltpu.sync_copy(buffer, back_hbm.at[mine])


def inputs(rng):
    places = rng.permutation(TOKENS).astype(np.int32)
    return rng.standard_normal((TOKENS, WIDTH), dtype=np.float32), np.where(places % 5 == 0, -1, places).astype(np.int32)


def run(tokens, places):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)
    out = [jax.ShapeDtypeStruct(tokens.shape, jnp.float32)] * 2
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), jnp.float32)]
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(tokens, places, jnp.zeros_like(tokens))


def reference(tokens, places):
    placed, taken = np.zeros_like(tokens), places >= 0
    placed[places[taken]] = tokens[taken]
    return placed, np.where(taken[:, None], tokens, 0)
