"""Hints are computed from the kernel: each one's advice, followed to the letter, ends in the right result and no finding."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

N, B = 16, 8
X = jnp.asarray(np.random.default_rng(0).integers(-4, 5, (2 * N, 2 * N)), jnp.float32)
Y = jnp.asarray(np.random.default_rng(1).integers(-4, 5, (2 * N, 2 * N)), jnp.float32)
# Grid axes of rows, columns and the sum in several orders.
ORDERS = {"ijk": (0, 1, 2), "jik": (1, 0, 2)}


def matmul(order, scratch, condition):
    """x @ y by blocks; the accumulator is set where `condition`, a Python expression, says. None: nowhere."""
    i, j, k = (order.index(a) for a in range(3))
    steps = 2 * N // B

    def kernel(x_ref, y_ref, o_ref, *acc):
        sums = acc[0] if acc else o_ref
        if condition:
            pl.when(eval(condition))(lambda: sums.__setitem__(..., jnp.zeros_like(sums)))
        sums[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        if acc:
            pl.when(pl.program_id(k) == steps - 1)(lambda: o_ref.__setitem__(..., sums[...]))

    return pl.pallas_call(
        kernel, grid=(steps,) * 3, out_shape=jax.ShapeDtypeStruct((2 * N, 2 * N), jnp.float32),
        in_specs=[pl.BlockSpec((B, B), lambda *p: (p[i], p[k])), pl.BlockSpec((B, B), lambda *p: (p[k], p[j]))],
        out_specs=pl.BlockSpec((B, B), lambda *p: (p[i], p[j])),
        scratch_shapes=[pltpu.VMEM((B, B), jnp.float32)] if scratch else [])(X, Y)


def checked(run):
    """The result of a checked run on a TPU whose rules are not looked at (blocks are small), and its findings."""
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, rules=False, findings="collect"):
        result = jax.block_until_ready(run())
    return result, pallasim.findings()


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_an_accumulator_is_set_where_the_hint_says(order, scratch):
    _, found = checked(lambda: matmul(ORDERS[order], scratch, None))
    hints = [f.hint for f in found if f.code == "PS-UNINIT-001"]
    assert len(hints) == 1
    condition = re.search(r"@pl\.when\((.*)\)$", hints[0]).group(1)
    result, found = checked(lambda: matmul(ORDERS[order], scratch, condition))
    np.testing.assert_array_equal(result, X @ Y)
    assert not found
    # The check is one: the advice of another axis is wrong.
    other, found = checked(lambda: matmul(ORDERS[order], scratch, "pl.program_id(0) == 0"))
    assert found or not np.array_equal(other, X @ Y)


def test_a_sum_over_a_whole_grid_is_set_at_its_first_point():
    def total(condition):
        def kernel(x_ref, o_ref):
            if condition:
                pl.when(eval(condition))(lambda: o_ref.__setitem__(..., jnp.zeros_like(o_ref)))
            o_ref[...] += x_ref[...]

        return pl.pallas_call(
            kernel, grid=(4, 4), out_shape=jax.ShapeDtypeStruct((B, B), jnp.float32),
            in_specs=[pl.BlockSpec((B, B), lambda i, j: (i, j))], out_specs=pl.BlockSpec((B, B), lambda i, j: (0, 0)))(X)

    _, found = checked(lambda: total(None))
    condition = re.search(r"@pl\.when\((.*)\)$", next(f.hint for f in found if f.code == "PS-UNINIT-001")).group(1)
    assert condition == "(pl.program_id(0) == 0) & (pl.program_id(1) == 0)"
    result, found = checked(lambda: total(condition))
    np.testing.assert_array_equal(result, X.reshape(4, B, 4, B).sum((0, 2)))
    assert not found
