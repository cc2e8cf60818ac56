"""Lesson 14: programs of a GPU run at the same time: what they share, they change by atomic operations.

    .venv/bin/python examples/lesson_14_atomics.py

Every program counts its part of the letters into one histogram. Reading, adding and writing would lose counts whenever
two programs meet; an atomic addition does not, in whatever order the programs come.

Older texts write `pl.atomic_add`, and start such kernels with `plgpu.triton_call`. Today the operation is in the Triton
backend, and its compiler parameters choose the backend; `pallasim.compat` makes the old forms run.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

import pallasim

TEXT = "A histogram is a sum that many hands write at once, and nobody may wait for anybody else to be done with it."
BLOCK = 16


def atomic_kernel(x_ref, zero_ref, count_ref):
    pltriton.atomic_add(count_ref, (x_ref[...],), jnp.ones(BLOCK, jnp.int32))


def histogram(letters):
    return pl.pallas_call(
        atomic_kernel,
        out_shape=jax.ShapeDtypeStruct((32,), jnp.int32),
        grid=(len(letters) // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK,), lambda i: (i,)), pl.BlockSpec((32,), lambda i: (0,))],
        out_specs=pl.BlockSpec((32,), lambda i: (0,)),
        input_output_aliases={1: 0},
        compiler_params=pltriton.CompilerParams(num_warps=1),
    )(letters, jnp.zeros(32, jnp.int32))


def main():
    codes = np.frombuffer(TEXT.lower().encode(), np.uint8).astype(np.int32) - ord("a")
    letters = np.where((codes >= 0) & (codes < 26), codes, 26)
    letters = np.concatenate([letters, np.full(-len(letters) % BLOCK, 31, np.int32)]).astype(np.int32)
    want = np.bincount(letters, minlength=32)

    orders = set()
    for seed in range(4):
        with pallasim.emulate("gpu-h100", random_seed=seed):
            counts = np.asarray(histogram(jnp.asarray(letters)))
        orders.add(pallasim.last_run()["token"])
        np.testing.assert_array_equal(counts, want)
    assert want.max() > 5 and len(orders) == 4

    print(f"{len(letters) // BLOCK} programs, each of {BLOCK} letters, in {len(orders)} orders: the same counts every time.")
    for code in np.argsort(-want[:26], kind="stable")[:8]:
        print(f"  {chr(ord('a') + code)} {'#' * counts[code]} {counts[code]}")
    print(f"{len(letters)} additions met in {np.count_nonzero(want)} places of memory.")


if __name__ == "__main__":
    main()
