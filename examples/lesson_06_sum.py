"""Lesson 6: a reduction visits its output again and again.

    .venv/bin/python examples/lesson_06_sum.py

Every grid point adds its block to the same output block. That works because the points run in order on one core: the
first one must set the output, and the axis must not be declared `parallel`. The declaration is a promise which nothing
on a TPU with one core breaks; a checked run finds it out.

Older texts pass `dimension_semantics=` to `pallas_call` itself. Today it belongs to the compiler parameters.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

BLOCKS, ROWS = 8, 8


def sum_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += x_ref[...]


def sum_blocks(x, semantics):
    return pl.pallas_call(
        sum_kernel,
        out_shape=jax.ShapeDtypeStruct((ROWS, 128), x.dtype),
        grid=(BLOCKS,),
        in_specs=[pl.BlockSpec((ROWS, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((ROWS, 128), lambda i: (0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
    )(x)


def main():
    x = np.random.default_rng(0).standard_normal((BLOCKS * ROWS, 128), dtype=np.float32)
    pallasim.findings()
    print('With dimension_semantics=("parallel",), which says that no point needs another:')
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        jax.block_until_ready(sum_blocks(x, "parallel"))
    (finding,) = pallasim.findings()
    print(finding.report)
    assert finding.code == "PS-PAR-001" and "o_ref[...]" in finding.text

    with pallasim.emulate("tpu-v5e", detect_races=True):
        out = np.asarray(sum_blocks(x, "arbitrary"))
    traffic = {t["name"]: t for t in pallasim.last_run()["traffic"]}
    np.testing.assert_allclose(out, x.astype(np.float64).reshape(BLOCKS, ROWS, 128).sum(0), atol=1e-5)
    assert np.abs(out).max() > 1 and not pallasim.findings()

    print('With ("arbitrary",), the truth:')
    print("point  x_ref           o_ref")
    for i in range(BLOCKS):
        print(f"  {i}    block {i}: read   block 0: {'set to zero, then ' if i == 0 else ''}read, added to, written")
    print(f"written back once, after point {BLOCKS - 1}: the block of the output never changes in between.")
    assert traffic["o_ref"]["writes"] == BLOCKS + 1 and traffic["o_ref"]["reads"] == BLOCKS


if __name__ == "__main__":
    main()
