"""Unit 6: Scalar prefetch.

    .venv/bin/python examples/course/unit_06_scalar_prefetch.py [--grade]

Which block comes next may depend on data: on a page table, or on which blocks of a matrix hold anything. Scalars that are prefetched lie in scalar memory (SMEM)
before the grid starts, and index maps may read them.

Question: a table names 24 of 64 pages. Who has to know the table, so that the next page is on its way before the kernel asks for it?
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

CHIP = "tpu-v5e"
PAGES, ROWS, COLUMNS = 64, 256, 512


def add_kernel(table_ref, page_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += page_ref[...]


def sum_of_pages(table, memory):
    """The index map reads the table, so the pipeline fetches the pages that it names, and no others."""
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=table.shape,
        in_specs=[pl.BlockSpec((ROWS, COLUMNS), lambda i, table_ref: (table_ref[i], 0))],
        out_specs=pl.BlockSpec((ROWS, COLUMNS), lambda i, table_ref: (0, 0)))
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct((ROWS, COLUMNS), memory.dtype), grid_spec=grid_spec)(table, memory)


def table_and_memory():
    rng = np.random.default_rng(0)
    return rng.permutation(PAGES)[:24].astype(np.int32), rng.standard_normal((PAGES * ROWS, COLUMNS), dtype=np.float32)


def main():
    table, memory = table_and_memory()
    for what, pages in (("as they come", table), ("every second one twice", np.repeat(table[::2], 2))):
        (k,) = pallasim.predict(sum_of_pages, pages, memory, chip=CHIP, sensitivity=False)
        fetched = k.bytes_read / (ROWS * COLUMNS * 4)
        print(f"{len(pages)} pages, {what}: {fetched:.0f} are fetched, {k.seconds * 1e6:.1f} us; the whole memory has {PAGES}")
        # A page that is named again at once is there already.
        assert round(fetched) == len(set(pages.tolist()))


def picture():
    """While a page is added, the next one is in flight already, whatever its number."""
    page = pallasim.predict(sum_of_pages, *table_and_memory(), chip=CHIP, sensitivity=False, report=True).page
    return page.picture(end=10e-6, title="Unit 6: pages that a table names, tpu-v5e")


# Of a matrix x in blocks of 256 x 256, few hold anything: `places[i]` are the numbers of those in row i of blocks.
BLOCK = 256


def masked_kernel(mask_ref, x_ref, y_ref, o_ref):
    i, k = pl.program_id(0), pl.program_id(1)

    @pl.when(k == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    @pl.when(mask_ref[i, k] > 0)
    def _():
        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def exercise(places, x, y):
    """x @ y for such an x. Empty blocks are not multiplied, but they are fetched. Let the index maps go to the full ones alone."""
    rows, steps = x.shape[0] // BLOCK, x.shape[1] // BLOCK
    mask = jnp.zeros((rows, steps), jnp.int32).at[jnp.arange(rows)[:, None], places].set(1)
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(rows, steps),
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, k, mask_ref: (i, k)), pl.BlockSpec((BLOCK, y.shape[1]), lambda i, k, mask_ref: (k, 0))],
        out_specs=pl.BlockSpec((BLOCK, y.shape[1]), lambda i, k, mask_ref: (i, 0)))
    return pl.pallas_call(masked_kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32), grid_spec=grid_spec)(mask, x, y)


def grade(answer):
    rng, rows, full = np.random.default_rng(1), 8, 2
    places = np.stack([np.sort(rng.permutation(rows)[:full]) for _ in range(rows)]).astype(np.int32)
    blocks = np.zeros((rows, BLOCK, rows, BLOCK), np.float32)
    for i in range(rows):
        blocks[i, :, places[i]] = rng.standard_normal((full, BLOCK, BLOCK))
    x, y = jnp.asarray(blocks.reshape(rows * BLOCK, -1), jnp.bfloat16), jnp.asarray(rng.standard_normal((rows * BLOCK, 256)), jnp.bfloat16)
    with pallasim.emulate(CHIP):
        z = np.asarray(answer(places, x, y))
    np.testing.assert_allclose(z, np.asarray(x, np.float64) @ np.asarray(y, np.float64), atol=1e-2, err_msg="it is not x @ y")
    predicted = pallasim.predict(answer, places, x, y, chip=CHIP, sensitivity=False)
    read, least = sum(k.bytes_read for k in predicted), 2 * rows * full * BLOCK * BLOCK * 2
    assert read <= 1.1 * least, f"it reads {read / 2**20:.1f} MiB; the full blocks and those of y that meet them have {least / 2**20:.1f}"


def full_kernel(places_ref, x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def solution(places, x, y):
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=places.shape,
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, s, places_ref: (i, places_ref[i, s])),
                  pl.BlockSpec((BLOCK, y.shape[1]), lambda i, s, places_ref: (places_ref[i, s], 0))],
        out_specs=pl.BlockSpec((BLOCK, y.shape[1]), lambda i, s, places_ref: (i, 0)))
    return pl.pallas_call(full_kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32), grid_spec=grid_spec)(places, x, y)


if __name__ == "__main__":
    import classroom

    classroom.run()
