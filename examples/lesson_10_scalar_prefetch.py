"""Lesson 10: scalars that are known before the grid starts can choose its blocks.

    .venv/bin/python examples/lesson_10_scalar_prefetch.py

A page table maps logical pages to places in memory. It is fetched into scalar memory first, so the index map can read
it, and the pipeline knows which block comes next before the kernel runs.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

PAGES, ROWS, WIDTH = 8, 8, 128


def copy_kernel(table_ref, page_ref, o_ref):
    o_ref[...] = page_ref[...]


def gather_pages(table, memory):
    return pl.pallas_call(
        copy_kernel,
        out_shape=jax.ShapeDtypeStruct((len(table) * ROWS, WIDTH), memory.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(len(table),),
            in_specs=[pl.BlockSpec((ROWS, WIDTH), lambda i, table_ref: (table_ref[i], 0))],
            out_specs=pl.BlockSpec((ROWS, WIDTH), lambda i, table_ref: (i, 0)),
        ),
    )(table, memory)


def main():
    memory = np.random.default_rng(0).standard_normal((PAGES * ROWS, WIDTH), dtype=np.float32)
    table = np.array([6, 1, 1, 4, 0], np.int32)
    print("A page that does not exist:")
    try:
        with pallasim.emulate("tpu-v5e"):
            jax.block_until_ready(gather_pages(jnp.array([6, 9], jnp.int32), memory))
    except pallasim.KernelError as error:
        print(error)
    else:
        raise AssertionError("the access out of bounds was not found")

    with pallasim.emulate("tpu-v5e", detect_races=True):
        out = np.asarray(gather_pages(jnp.asarray(table), memory))
    traffic = pallasim.last_run()["traffic"]
    np.testing.assert_array_equal(out, memory.reshape(PAGES, ROWS, WIDTH)[table].reshape(out.shape))
    assert np.abs(out).max() > 1

    print("memory " + " ".join(f"[{p}]" for p in range(PAGES)))
    for i, page in enumerate(table):
        print(f"point {i} " + "    " * page + " ^" + ("   the block is there already" if i and table[i - 1] == page else ""))
    print()
    for t in traffic:
        print(f"  {t['name']:9} {t['bytes_read']:5} B read {t['bytes_written']:5} B written")
    print(f"Pages {sorted(set(range(PAGES)) - set(table.tolist()))} were never touched: {ROWS * WIDTH * 4} B per point, not {memory.nbytes} B.")
    by_name = {t["name"]: t for t in traffic}
    assert by_name["page_ref"]["bytes_read"] == by_name["o_ref"]["bytes_written"] == len(table) * ROWS * WIDTH * 4


if __name__ == "__main__":
    main()
