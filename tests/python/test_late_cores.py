"""A core that begins behind the points at which refs are set: one line for all that one branch sets."""
from __future__ import annotations

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from test_lines import found

X = jnp.ones((4, 8, 128), jnp.float32)


def test_refs_of_one_branch_are_one_line():
    def kernel(x_ref, o_ref, m_ref, l_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            m_ref[...] = jnp.zeros_like(m_ref)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        m_ref[...] += x_ref[...]
        l_ref[...] += x_ref[...]
        acc_ref[...] += x_ref[...]
        o_ref[...] = m_ref[...] + l_ref[...] + acc_ref[...]

    block = pl.BlockSpec((1, 8, 128), lambda i: (i, 0, 0))
    call = pl.pallas_call(kernel, out_shape=X, grid=(4,), in_specs=[block], out_specs=block, scratch_shapes=[pltpu.VMEM((1, 8, 128), jnp.float32)] * 3,
                          compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))
    (f,) = [f for f in found(lambda: call(X), {"machine": "tpu-v5p", "detect_races": True}) if f.code == "PS-PAR-001"]
    (line,) = [n for n in f.numbers if " never runs " in n]
    assert line.startswith("core 1 starts at 2 of axis 0") and line.endswith(", where core 0 sets m_ref, l_ref and acc_ref"), f.report
