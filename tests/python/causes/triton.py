"""Triton kernels with one mistake in their masks, their indices or their blocks."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from .bugs import bug

F32 = jnp.float32
CHIP = "gpu-h100"
N = 1000  # not a multiple of the block
V = jnp.asarray(np.random.default_rng(0).integers(1, 9, N), F32)
M = jnp.asarray(np.random.default_rng(1).integers(1, 9, (64, 64)), F32)
EDGE = jnp.asarray(np.random.default_rng(2).integers(1, 9, (16, 100)), F32)
ROWS = pl.BlockSpec((16, 64), lambda i: (i, 0))


def launch(kernel, out, *args, **options):
    call = pl.pallas_call(kernel, out_shape=out, compiler_params=pltriton.CompilerParams(num_warps=options.pop("num_warps", 4)), **options)
    return lambda: call(*args)


@bug(CHIP, "PS-OOB-001", words=("x_ref", "size 1000", "mask"))
def load_has_no_mask(fixed):
    def kernel(x_ref, o_ref):
        at = pl.program_id(0) * 256 + jnp.arange(256)
        x = pltriton.load(x_ref.at[at], mask=at < N if fixed else None)  # CAUSE
        pltriton.store(o_ref.at[at], x * 2, mask=at < N)

    return launch(kernel, V, V, grid=(5,)), V * 2  # the fifth block begins where the array's allocation ends


@bug(CHIP, "PS-OOB-001", words=("o_ref", "size 1000", "write"))
def store_has_no_mask(fixed):
    def kernel(x_ref, o_ref):
        at = pl.program_id(0) * 256 + jnp.arange(256)
        x = pltriton.load(x_ref.at[at], mask=at < N, other=0.0)
        pltriton.store(o_ref.at[at], x * 2, mask=at < N if fixed else None)  # CAUSE

    return launch(kernel, V, V, grid=(4,)), V * 2


@bug(CHIP, "PS-OOB-001", words=("o_ref", "index 1000", "size 1000"))
def mask_lets_one_more_pass(fixed):
    def kernel(x_ref, o_ref):
        at = pl.program_id(0) * 256 + jnp.arange(256)
        inside = at < N if fixed else at <= N
        x = pltriton.load(x_ref.at[at], mask=inside, other=0.0)
        pltriton.store(o_ref.at[at], x + 1, mask=inside)  # CAUSE

    return launch(kernel, V, V, grid=(4,)), V + 1


@bug(CHIP, "PS-UNINIT-003", words=("x_ref", "mask", "other"))
def sum_takes_what_the_mask_left_out(fixed):
    def kernel(x_ref, o_ref):
        at = jnp.arange(128)
        x = pltriton.load(x_ref.at[pl.program_id(0), at], mask=at < 100, other=0.0 if fixed else None)  # CAUSE
        o_ref[pl.program_id(0)] = jnp.sum(x)

    return launch(kernel, EDGE[:, 0], EDGE, grid=(16,)), EDGE.sum(1)


@bug(CHIP, "PS-OOB-001", words=("x_ref", "index 1600", "size 1600"))
def stride_is_that_of_the_padded_row(fixed):
    def kernel(x_ref, o_ref):
        i, at = pl.program_id(0), jnp.arange(128)
        inside = at < 100
        x = pltriton.load(x_ref.at[i * (100 if fixed else 128) + at], mask=inside, other=0.0)  # CAUSE
        pltriton.store(o_ref.at[i, at], x * 3, mask=inside)

    return launch(kernel, EDGE, EDGE.reshape(-1), grid=(16,)), EDGE * 3


@bug(CHIP, "PS-PAR-002", words=("o_ref", "50 elements | element 50 | (50 | 50 to 99 | 50:100"))
def stride_is_that_of_half_a_row(fixed):
    def kernel(x_ref, o_ref):
        i, at = pl.program_id(0), jnp.arange(128)
        inside = at < 100
        x = pltriton.load(x_ref.at[i, at], mask=inside, other=0.0)
        pltriton.store(o_ref.at[i * (100 if fixed else 50) + at], x * 3, mask=inside)  # CAUSE

    return launch(kernel, EDGE.reshape(-1), EDGE, grid=(16,)), EDGE.reshape(-1) * 3


@bug(CHIP, "PS-PAR-002", words=("o_ref", "axis 1"))
def block_of_the_output_forgets_an_axis(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2  # CAUSE

    blocks = pl.BlockSpec((16, 16), lambda i, j: (i, j))
    out = pl.BlockSpec((16, 16), lambda i, j: (i, j if fixed else 0))
    return launch(kernel, M, M, grid=(4, 4), in_specs=[blocks], out_specs=out), M * 2


@bug(CHIP, "PS-OOB-002", "PS-OOB-001", words=("x_ref", "4 blocks | 0 to 3"), misleading=("give the access a mask",))
def index_map_is_one_block_off(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 5  # CAUSE

    rows = pl.BlockSpec((16, 64), lambda i: (i if fixed else i + 1, 0))  # CAUSE, ALSO
    return launch(kernel, M, M, grid=(4,), in_specs=[rows], out_specs=ROWS), M + 5


@bug(CHIP, "PS-OOB-002", "PS-OOB-001", words=("x_ref", "4 points | 4 blocks | 0 to 3"), misleading=("give the access a mask",))
def grid_is_too_large(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 5  # CAUSE

    rows = pl.BlockSpec((16, 64), lambda i: (i, 0))  # CAUSE
    return launch(kernel, M, M, grid=(4 if fixed else 5,), in_specs=[rows], out_specs=rows), M + 5


@bug(CHIP, "PS-OUT-001", words=("o_ref", "232 of 1000", "axis 0", "4 points"))
def grid_rounds_down(fixed):
    def kernel(x_ref, o_ref):
        at = pl.program_id(0) * 256 + jnp.arange(256)
        inside = at < N
        pltriton.store(o_ref.at[at], pltriton.load(x_ref.at[at], mask=inside, other=0.0) - 1, mask=inside)  # CAUSE

    call = pl.pallas_call(kernel, out_shape=V, grid=(pl.cdiv(N, 256) if fixed else N // 256,), compiler_params=pltriton.CompilerParams())  # CAUSE
    return lambda: call(V), V - 1


@bug(CHIP, "PS-OOB-001", words=("table_ref", "index 99", "99 = ids_ref[5]"))
def id_is_not_in_the_table(fixed):
    def kernel(ids_ref, table_ref, o_ref):
        row = ids_ref[pl.program_id(0)]
        o_ref[pl.program_id(0), :] = table_ref[row, :]  # CAUSE

    ids = np.array([3, 1, 60, 63, 0, 7 if fixed else 99, 5, 8], np.int32)
    return launch(kernel, M[:8], jnp.asarray(ids), M, grid=(8,)), M[np.clip(ids, 0, 63)]


@bug(CHIP, "PS-OOB-001", words=("table_ref", "index 64", "size 64"))
def gathered_rows_are_counted_from_one(fixed):
    def kernel(ids_ref, table_ref, o_ref):
        ids = ids_ref[...] - (1 if fixed else 0)
        columns = jnp.arange(64)
        o_ref[...] = pltriton.load(table_ref.at[ids[:, None], columns[None, :]])  # CAUSE

    ids = np.array([64, 1, 60, 63, 2, 7, 5, 8], np.int32)
    return launch(kernel, M[:8], jnp.asarray(ids), M), M[ids - 1]


@bug(CHIP, "PS-OOB-001", words=("x_ref", "-1", "size 64"))
def left_neighbour_of_the_first_element(fixed):
    def kernel(x_ref, o_ref):
        i, at = pl.program_id(0), jnp.arange(64)
        left = pltriton.load(x_ref.at[i, jnp.maximum(at - 1, 0) if fixed else at - 1])  # CAUSE
        o_ref[i, :] = x_ref[i, :] - left

    return launch(kernel, M, M, grid=(64,)), M - M[:, np.maximum(np.arange(64) - 1, 0)]


@bug(CHIP, "PS-OOB-001", words=("k_ref", "from 64 | index 64", "size 64"))
def loop_over_keys_takes_a_block_too_many(fixed):
    def kernel(q_ref, k_ref, o_ref):
        i = pl.program_id(0)

        def block(j, total):
            k = k_ref[pl.ds(16 * j, 16), :]  # CAUSE
            return total + jnp.sum(pltriton.dot(q_ref[...], k.T), axis=1)

        o_ref[...] = jax.lax.fori_loop(0, i + (1 if fixed else 2), block, jnp.zeros(16, F32))

    specs = [ROWS, pl.BlockSpec((64, 64), lambda i: (0, 0))]
    scores = np.asarray(M @ M.T).reshape(64, 4, 16).sum(2)
    want = np.array([scores[r, :r // 16 + 1].sum() for r in range(64)], np.float32)
    return launch(kernel, M[:, 0], M, M, grid=(4,), in_specs=specs, out_specs=pl.BlockSpec((16,), lambda i: (i,))), want


@bug(CHIP, "PS-TRI-001", words=("24",))
def block_is_no_power_of_two(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2  # CAUSE

    rows = 32 if fixed else 24
    x = jnp.concatenate([M, M[:32]])
    spec = pl.BlockSpec((rows, 64), lambda i: (i, 0))  # CAUSE
    return launch(kernel, x, x, grid=(96 // rows,), in_specs=[spec], out_specs=spec), x * 2
