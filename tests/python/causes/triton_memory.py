"""Triton kernels with one mistake in what their programs share, or in how they wait for each other."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pltriton

from .bugs import bug
from .triton import CHIP, M, ROWS, launch

IDS = jnp.asarray(np.random.default_rng(3).integers(0, 16, 64), jnp.int32)


@bug(CHIP, "PS-PAR-002", words=("count_ref",))
def histogram_loads_and_stores(fixed):
    def kernel(x_ref, zero_ref, count_ref):
        bin = x_ref[pl.program_id(0)]
        if fixed:
            pltriton.atomic_add(count_ref, (bin,), 1)
        else:
            count_ref[bin] = count_ref[bin] + 1  # CAUSE

    zero = jnp.zeros(16, jnp.int32)
    return launch(kernel, zero, IDS, zero, grid=(64,), input_output_aliases={1: 0}), np.bincount(IDS, minlength=16).astype(np.int32)


@bug(CHIP, "PS-PAR-002", words=("o_ref", "axis 2"))
def parts_of_a_product_are_added_without_atomics(fixed):
    def kernel(x_ref, y_ref, zero_ref, o_ref):
        i, j, k = (pl.program_id(a) for a in range(3))
        rows, columns, depth = pl.ds(16 * i, 16), pl.ds(16 * j, 16), pl.ds(16 * k, 16)
        part = pltriton.dot(x_ref[rows, depth], y_ref[depth, columns])
        if fixed:
            at = 16 * i + jnp.arange(16), 16 * j + jnp.arange(16)
            pltriton.atomic_add(o_ref, (at[0][:, None], at[1][None, :]), part)
        else:
            o_ref[rows, columns] = o_ref[rows, columns] + part  # CAUSE

    return launch(kernel, M, M, M, jnp.zeros_like(M), grid=(4, 4, 4), input_output_aliases={2: 0}), M @ M


@bug(CHIP, "PS-PAR-002", words=("o_ref",))
def smoothing_in_place_reads_its_neighbours(fixed):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        above = x_ref[jnp.maximum(i - 1, 0), :]  # CAUSE, ALSO
        o_ref[i, :] = (x_ref[i, :] + above) / 2  # CAUSE, ALSO

    aliases = {} if fixed else {0: 0}
    return launch(kernel, M, M, grid=(64,), input_output_aliases=aliases), (M + M[np.maximum(np.arange(64) - 1, 0)]) / 2


@bug(CHIP, "PS-PAR-002", words=("stats_ref", "program"))
def statistics_of_another_program_are_read(fixed):
    def kernel(x_ref, o_ref, stats_ref):
        i = pl.program_id(0)
        stats_ref[i] = jnp.sum(x_ref[i, :])  # CAUSE, ALSO
        o_ref[i, :] = x_ref[i, :] / stats_ref[i if fixed else i // 8 * 8]  # CAUSE, ALSO

    return launch(kernel, (M, M[:, 0]), M, grid=(64,)), (M / M.sum(1)[:, None], M.sum(1))


@bug(CHIP, "PS-PAR-002", words=("o_ref", "row"))
def rows_are_scattered_to_one_place_twice(fixed):
    def kernel(rows_ref, x_ref, o_ref):
        row = rows_ref[pl.program_id(0)]
        o_ref[row, :] = x_ref[pl.program_id(0), :]  # CAUSE

    rows = np.arange(64).astype(np.int32)[::-1].copy()
    if not fixed:
        rows[7] = rows[40]
    return launch(kernel, M, jnp.asarray(rows), M, grid=(64,)), M[::-1]


@bug(CHIP, "PS-UNINIT-001", words=("o_ref",))
def output_is_accumulated_and_not_cleared(fixed):
    def kernel(x_ref, o_ref):
        if fixed:
            o_ref[...] = jnp.zeros_like(o_ref)
        for k in range(4):
            o_ref[...] += x_ref[:, 16 * k:16 * k + 16]  # CAUSE

    out = pl.BlockSpec((16, 16), lambda i: (i, 0))
    return launch(kernel, M[:, :16], M, grid=(4,), in_specs=[ROWS], out_specs=out), M.reshape(64, 4, 16).sum(1)


@bug(CHIP, "PS-UNINIT-001", words=("count_ref",))
def counters_of_atomics_are_not_cleared(fixed):
    if fixed:
        def kernel(x_ref, zero_ref, count_ref):
            pltriton.atomic_add(count_ref, (x_ref[pl.program_id(0)],), 1)
    else:
        def kernel(x_ref, count_ref):
            pltriton.atomic_add(count_ref, (x_ref[pl.program_id(0)],), 1)  # CAUSE

    zero = jnp.zeros(16, jnp.int32)
    args, aliases = ((IDS, zero), {1: 0}) if fixed else ((IDS,), {})
    return launch(kernel, zero, *args, grid=(64,), input_output_aliases=aliases), np.bincount(IDS, minlength=16).astype(np.int32)


@bug(CHIP, "PS-UNINIT-001", words=("last_ref",))
def value_is_read_from_an_output_that_nobody_wrote(fixed):
    def kernel(x_ref, o_ref, last_ref):
        i = pl.program_id(0)
        if fixed:
            last_ref[i, :] = x_ref[i, :] * 2
            o_ref[i, :] = last_ref[i, :] + 1
        else:
            o_ref[i, :] = last_ref[i, :] + 1  # CAUSE
            last_ref[i, :] = x_ref[i, :] * 2

    return launch(kernel, (M, M), M, grid=(64,)), (M * 2 + 1, M * 2)


@bug(CHIP, "PS-OUT-001", words=("o_ref", "48 of 64"))
def last_programs_do_not_store(fixed):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)

        @pl.when(i < (64 if fixed else 48))  # CAUSE, ALSO
        def _():
            o_ref[i, :] = x_ref[i, :] * 2  # CAUSE, ALSO

    call = pl.pallas_call(kernel, out_shape=M, grid=(64,), compiler_params=pltriton.CompilerParams())  # CAUSE
    return lambda: call(M), M * 2


def locked(body, out, *args):
    lock = jnp.zeros((), jnp.int32)
    return launch(body, (out, lock), *args, lock, grid=(16,), num_warps=1, input_output_aliases={len(args): 1, len(args) - 1: 0})


@bug(CHIP, "PS-LIVE-001", "PS-LIVE-003", words=("lock_ref", "it is 1 | is 1 | holds 1"), livelock_steps=100000)
def lock_is_never_released(fixed):
    def kernel(x_ref, sum_in, lock_in, sum_ref, lock_ref):
        jax.lax.while_loop(lambda got: got != 0, lambda _: pltriton.atomic_cas(lock_ref, 0, 1), jnp.int32(1))  # CAUSE
        sum_ref[...] = sum_ref[...] + x_ref[pl.program_id(0), :]
        if fixed:
            pltriton.atomic_xchg(lock_ref, (), 0)

    return locked(kernel, M[0], M[:16], jnp.zeros_like(M[0])), (M[:16].sum(0), np.int32(0))


@bug(CHIP, "PS-LIVE-001", "PS-LIVE-003", words=("lock_ref", "it is 0 | is 0 | holds 0"), livelock_steps=100000)
def lock_is_compared_with_the_wrong_value(fixed):
    def kernel(x_ref, sum_in, lock_in, sum_ref, lock_ref):
        free, taken = (0, 1) if fixed else (1, 0)
        jax.lax.while_loop(lambda got: got != free, lambda _: pltriton.atomic_cas(lock_ref, free, taken), jnp.int32(7))  # CAUSE
        sum_ref[...] = sum_ref[...] + x_ref[pl.program_id(0), :]
        pltriton.atomic_xchg(lock_ref, (), free)

    return locked(kernel, M[0], M[:16], jnp.zeros_like(M[0])), (M[:16].sum(0), 0)


@bug(CHIP, "PS-LIVE-001", "PS-LIVE-003", words=("count_ref", "it is 16 | is 16 | holds 16"), livelock_steps=100000)
def programs_wait_for_one_more_than_there_are(fixed):
    def kernel(x_ref, o_in, zero_ref, o_ref, count_ref):
        i = pl.program_id(0)
        o_ref[i, :] = x_ref[i, :] * 2
        pltriton.atomic_add(count_ref, (), 1)
        jax.lax.while_loop(lambda n: n < (16 if fixed else 17), lambda _: pltriton.atomic_add(count_ref, (), 0), jnp.int32(0))  # CAUSE

    return locked(kernel, M[:16], M[:16], M[:16]), (M[:16] * 2, np.int32(16))
