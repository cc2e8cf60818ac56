"""Unit 7: Megacore.

    .venv/bin/python examples/course/unit_07_megacore.py [--grade]

A v4 or v5p is one device with two TensorCores, which share HBM and have a VMEM each. A grid is divided between them along an axis that is declared "parallel":
that is a promise that no point of this axis needs what another one did.

Question: what does the promise save, and what if it is not true?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

CHIP = "tpu-v5p"
ROWS, COLUMNS, BLOCK, TIMES = 2048, 1024, 128, 24
SHAPE = jax.ShapeDtypeStruct((ROWS, COLUMNS), jnp.float32)


def f(x):
    for _ in range(TIMES):
        x = jnp.tanh(x)
    return x


def wave_kernel(x_ref, o_ref):
    o_ref[...] = f(x_ref[...])


def wave(x, semantics):
    spec = pl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0))
    return pl.pallas_call(wave_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // BLOCK,), in_specs=[spec], out_specs=spec,
                          compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(x)


def main():
    took = {}
    for semantics in ("arbitrary", "parallel"):
        (k,) = pallasim.predict(functools.partial(wave, semantics=semantics), SHAPE, chip=CHIP, sensitivity=False)
        print(f"{semantics:10} {k.seconds * 1e6:5.1f} us, bound by {k.bound}")
        took[semantics] = k.seconds
    # Half of the arithmetic each. The launch, the first fetch and the last write are as long as before.
    assert 0.5 < took["parallel"] / took["arbitrary"] < 0.65


def picture():
    """One of the two cores: it does half of the blocks, the other one does the same with the other half at the same time."""
    page = pallasim.predict(functools.partial(wave, semantics="parallel"), SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(core=1, title="Unit 7: the second of two cores, tpu-v5p")


def sum_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += f(x_ref[...])


def exercise(x):
    """The sum of f(block) over the blocks of rows, declared as parallel, which it is not: say why, and let both cores work without a broken promise."""
    return pl.pallas_call(
        sum_kernel, out_shape=jax.ShapeDtypeStruct((BLOCK, COLUMNS), x.dtype), grid=(x.shape[0] // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0))], out_specs=pl.BlockSpec((BLOCK, COLUMNS), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x)


def grade(answer):
    x = jax.random.normal(jax.random.key(0), SHAPE.shape, jnp.float32)
    want = np.asarray(x, np.float64)
    for _ in range(TIMES):
        want = np.tanh(want)
    with pallasim.emulate(CHIP, detect_races=True, findings="raise"):
        y = np.asarray(answer(x))
    np.testing.assert_allclose(y, want.reshape(-1, BLOCK, COLUMNS).sum(0), atol=1e-3, err_msg="it is not the sum of f(block)")
    predicted = pallasim.predict(answer, SHAPE, chip=CHIP, sensitivity=False)
    one = pallasim.predict(functools.partial(wave, semantics="arbitrary"), SHAPE, chip=CHIP, sensitivity=False)
    assert predicted.seconds <= 0.7 * one.seconds, f"it takes {predicted.seconds * 1e6:.1f} us; f alone takes {one.seconds * 1e6:.1f} on one core, and there are two"


def half_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += f(x_ref[...])


def solution(x):
    """Each core has half of the columns to itself, and adds up their rows in order."""
    half = COLUMNS // 2
    return pl.pallas_call(
        half_kernel, out_shape=jax.ShapeDtypeStruct((BLOCK, COLUMNS), x.dtype), grid=(2, x.shape[0] // BLOCK),
        in_specs=[pl.BlockSpec((BLOCK, half), lambda c, i: (i, c))], out_specs=pl.BlockSpec((BLOCK, half), lambda c, i: (0, c)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")))(x)


if __name__ == "__main__":
    import classroom

    classroom.run()
