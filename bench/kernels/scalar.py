"""One number at a time: a grid of scalars, and a loop that no vector unit helps with."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from . import case

POINTS, ITERATIONS = 4096, 20_000


def iota_kernel(first_ref, o_ref):
    i = pl.program_id(0)
    o_ref[i] = i + first_ref[0]


@case(arguments=lambda: (jnp.asarray([7], jnp.int32),), reference=lambda first: jnp.arange(POINTS, dtype=jnp.int32) + first[0], steps=POINTS, flops=POINTS,
      bytes=4 * POINTS, tolerance=0)
def iota_4096_steps(interpret):
    scalars = pl.BlockSpec(memory_space=pltpu.SMEM)
    return lambda first: pl.pallas_call(iota_kernel, out_shape=jax.ShapeDtypeStruct((POINTS,), jnp.int32), grid=(POINTS,), in_specs=[scalars],
                                        out_specs=scalars, interpret=interpret)(first)


def _generator(load, store):
    def step(i, state):
        state = state * jnp.int32(1664525) + load(i % 256)
        store(i % 256, state)
        return state

    return step


def loop_kernel(x_ref, o_ref):
    def store(i, value):
        o_ref[i] = value

    jax.lax.fori_loop(0, ITERATIONS, _generator(lambda i: x_ref[i], store), jnp.int32(1))


def loop_reference(x):
    def step(i, carry):
        state, out = carry
        state = state * jnp.int32(1664525) + x[i % 256]
        return state, out.at[i % 256].set(state)

    return jax.lax.fori_loop(0, ITERATIONS, step, (jnp.int32(1), jnp.zeros(256, jnp.int32)))[1]


@case(arguments=lambda: (jnp.arange(256, dtype=jnp.int32),), reference=loop_reference, machine="tpu", flops=6 * ITERATIONS, bytes=2048, tolerance=0)
def scalar_loop_20000(interpret):
    scalars = pl.BlockSpec(memory_space=pltpu.SMEM)
    return lambda x: pl.pallas_call(loop_kernel, out_shape=x, in_specs=[scalars], out_specs=scalars, interpret=interpret)(x)
