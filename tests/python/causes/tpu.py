"""TPU kernels with one mistake in their grid, their blocks or their scratch."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .bugs import bug

F32 = jnp.float32
X = jnp.asarray(np.random.default_rng(0).integers(1, 9, (64, 128)), F32)
A, B = (jnp.asarray(np.random.default_rng(s).integers(-4, 5, (256, 256)), F32) for s in (1, 2))
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
LEFT, RIGHT, OUT = (pl.BlockSpec((128, 128), f) for f in (lambda i, j, k: (i, k), lambda i, j, k: (k, j), lambda i, j, k: (i, j)))
TILE = pltpu.VMEM((128, 128), F32)


def semantics(*axes):
    return pltpu.CompilerParams(dimension_semantics=axes)


def matmul_of(kernel, *axes, scratch=(TILE,)):
    return pl.pallas_call(kernel, out_shape=A, grid=(2, 2, 2), in_specs=[LEFT, RIGHT], out_specs=OUT, scratch_shapes=scratch,
                          compiler_params=semantics(*(axes or ("parallel", "parallel", "arbitrary"))))


def matmul(kernel, *axes, scratch=(TILE,)):
    call = matmul_of(kernel, *axes, scratch=scratch)
    return lambda: call(A, B)


@bug("tpu-v5e", "PS-PAR-001", words=("acc_ref", "declare axis 2 arbitrary | declare it arbitrary"), misleading=("axis 0, 1, 2",))
def product_over_a_parallel_axis(fixed):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)  # CAUSE

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]  # CAUSE

    return matmul(kernel, "parallel", "parallel", "arbitrary" if fixed else "parallel"), A @ B


@bug("tpu-v5e", "PS-PAR-001", words=("o_ref", "declare axis 2 arbitrary | declare it arbitrary"), misleading=("axis 0, 1, 2",))
def product_into_the_output_over_a_parallel_axis(fixed):
    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)  # CAUSE

    return matmul(kernel, "parallel", "parallel", "arbitrary" if fixed else "parallel", scratch=()), A @ B


@bug("tpu-v5e", "PS-PAR-001", words=("m_ref", "l_ref", "acc_ref", "declare axis 1 arbitrary | declare it arbitrary"), misleading=("axis 0, 1",))
def attention_over_parallel_keys(fixed):
    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        s = jax.lax.dot_general(q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=F32)
        m_prev = m_ref[...]  # CAUSE
        m_next = jnp.maximum(m_prev, jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp(s - m_next[:, :1])
        scale = jnp.exp(m_prev - m_next)
        l_ref[...] = l_ref[...] * scale + jnp.sum(p, axis=1, keepdims=True)  # CAUSE
        acc_ref[...] = acc_ref[...] * scale + jnp.dot(p, v_ref[...], preferred_element_type=F32)  # CAUSE
        m_ref[...] = m_next

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = acc_ref[...] / l_ref[...]

    q, k, v = A[:, :128] / 16, B[:, :128] / 16, B[:, 128:]
    rows, columns = pl.BlockSpec((128, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 128), lambda i, j: (j, 0))
    call = pl.pallas_call(kernel, out_shape=q, grid=(2, 2), in_specs=[rows, columns, columns], out_specs=rows, scratch_shapes=[TILE] * 3,
                          compiler_params=semantics("parallel", "arbitrary" if fixed else "parallel"))
    return lambda: call(q, k, v), jax.nn.softmax(q @ k.T) @ v


@bug("tpu-v5e", "PS-UNINIT-001", words=("m_ref", "l_ref", "acc_ref", "(0, 0)"))
def attention_is_cleared_at_the_second_key(fixed):
    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        j = pl.program_id(1)

        @pl.when(j == (0 if fixed else 1))  # ALSO
        def _():
            m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
            l_ref[...] = jnp.zeros_like(l_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        s = jax.lax.dot_general(q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=F32)
        m_next = jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))  # CAUSE
        p = jnp.exp(s - m_next)
        scale = jnp.exp(m_ref[...] - m_next)
        l_ref[...] = l_ref[...] * scale + jnp.sum(p, axis=1, keepdims=True)
        acc_ref[...] = acc_ref[...] * scale + jnp.dot(p, v_ref[...], preferred_element_type=F32)
        m_ref[...] = m_next

        @pl.when(j == pl.num_programs(1) - 1)
        def _():
            o_ref[...] = acc_ref[...] / l_ref[...]

    q, k, v = A[:128, :128] / 16, B[:, :128] / 16, B[:, 128:]
    rows, columns = pl.BlockSpec((128, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 128), lambda i, j: (j, 0))
    call = pl.pallas_call(kernel, out_shape=q, grid=(1, 2), in_specs=[rows, columns, columns], out_specs=rows, scratch_shapes=[TILE] * 3,
                          compiler_params=semantics("parallel", "arbitrary"))
    return lambda: call(q, k, v), jax.nn.softmax(q @ k.T) @ v


@bug("tpu-v5p", "PS-PAR-001", words=("core 1", "acc_ref", "declare axis 0 arbitrary | declare it arbitrary"), misleading=("set it before it is read",))
def sum_is_cleared_on_one_core_only(fixed):
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)  # ALSO
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]  # CAUSE
        o_ref[...] = acc_ref[...]

    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[ROWS], out_specs=ROWS, scratch_shapes=[pltpu.VMEM((8, 128), F32)],
                          compiler_params=semantics("arbitrary" if fixed else "parallel"))
    return lambda: call(X), jnp.cumsum(X.reshape(8, 8, 128), 0).reshape(64, 128)


@bug("tpu-v5e", "PS-PAR-001", words=("carry_ref", "declare axis 0 arbitrary | declare it arbitrary"))
def scan_hands_a_row_to_the_next_point(fixed):
    def kernel(x_ref, o_ref, carry_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            carry_ref[...] = jnp.zeros_like(carry_ref)

        o_ref[0:1] = jnp.maximum(x_ref[0:1], carry_ref[...])  # CAUSE
        for r in range(1, 8):
            o_ref[r:r + 1] = jnp.maximum(x_ref[r:r + 1], o_ref[r - 1:r])
        carry_ref[...] = o_ref[7:8]

    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[ROWS], out_specs=ROWS, scratch_shapes=[pltpu.VMEM((1, 128), F32)],
                          compiler_params=semantics("arbitrary" if fixed else "parallel"))
    return lambda: call(X), jax.lax.cummax(X)


@bug("tpu-v5e", "PS-UNINIT-001", words=("acc_ref", "(0, 0, 0)"))
def accumulator_is_never_cleared(fixed):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        if fixed:
            @pl.when(pl.program_id(2) == 0)
            def _():
                acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)  # CAUSE

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    return matmul(kernel), A @ B


@bug("tpu-v5e", "PS-UNINIT-001", words=("acc_ref", "(0, 0, 0)"))
def accumulator_is_cleared_at_the_second_point(fixed):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == (0 if fixed else 1))  # ALSO
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)  # CAUSE

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    return matmul(kernel), A @ B


@bug("tpu-v5e", "PS-OUT-001", words=("o_ref", "0 of 8"))
def result_is_stored_at_a_point_that_is_not(fixed):
    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=F32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - (1 if fixed else 0))  # CAUSE, ALSO
        def _():
            o_ref[...] = acc_ref[...]  # CAUSE, ALSO

    call = matmul_of(kernel)
    return lambda: call(A, B), A @ B  # CAUSE


@bug("tpu-v5e", "PS-OUT-001", words=("o_ref", "0 of 8"))
def rows_are_stored_where_their_sum_is_negative(fixed):
    def kernel(x_ref, o_ref):
        total = jnp.sum(x_ref[...])

        @pl.when(total > 0 if fixed else total < 0)  # CAUSE, ALSO
        def _():
            o_ref[...] = x_ref[...] / total  # CAUSE, ALSO

    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[ROWS], out_specs=ROWS)  # CAUSE
    return lambda: call(X), X / X.reshape(8, -1).sum(1).repeat(8)[:, None]


@bug("tpu-v5e", "PS-OUT-001", words=("o_ref", "(8, 0)"))
def both_halves_are_stored_in_the_first(fixed):
    def kernel(x_ref, o_ref):
        for half in range(2):
            at = 8 * half if fixed else 0
            o_ref[at:at + 8] = x_ref[8 * half:8 * half + 8] * (half + 1)  # CAUSE

    rows = pl.BlockSpec((16, 128), lambda i: (i, 0))  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X, grid=(4,), in_specs=[rows], out_specs=rows)
    return lambda: call(X), (X.reshape(4, 2, 8, 128) * np.array([1, 2]).reshape(1, 2, 1, 1)).reshape(64, 128)


@bug("tpu-v5e", "PS-OUT-001", words=("o_ref", "axis 0", "8 points"))
def grid_is_too_small(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    call = pl.pallas_call(kernel, out_shape=X, grid=(8 if fixed else 7,), in_specs=[ROWS], out_specs=ROWS)  # CAUSE
    return lambda: call(X), X * 2


@bug("tpu-v5e", "PS-OUT-002", words=("o_ref", "(1, 0)", "(0, 0)"))
def reduction_is_the_first_axis(fixed):
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1 if fixed else 0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    if fixed:
        grid, blocks, sums = (2, 4), lambda i, k: (4 * i + k, 0), pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    else:
        grid, blocks, sums = (4, 2), lambda k, i: (4 * i + k, 0), pl.BlockSpec((8, 128), lambda k, i: (i, 0))  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X[:16], grid=grid, in_specs=[pl.BlockSpec((8, 128), blocks)], out_specs=sums)
    return lambda: call(X), X.reshape(2, 4, 8, 128).sum(1).reshape(16, 128)


@bug("tpu-v5e", "PS-OOB-002", words=("x_ref", "divide by 8"))
def index_map_returns_rows(fixed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    rows = pl.BlockSpec((8, 128), lambda i: (i if fixed else i * 8, 0))  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[rows], out_specs=ROWS)
    return lambda: call(X), X + 1


@bug("tpu-v5e", "PS-OOB-002", words=("x_ref", "99 = table_ref[2, 1]"))
def table_of_pages_has_a_page_that_is_not(fixed):
    def kernel(table_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    table = np.array([[3, 0], [7, 1], [2, 99], [5, 4]], np.int32)
    if fixed:
        table[2, 1] = 6
    pages = pl.BlockSpec((8, 128), lambda i, j, table_ref: (table_ref[i, j], 0))  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X, grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4, 2), in_specs=[pages], out_specs=pl.BlockSpec((8, 128), lambda i, j, table_ref: (2 * i + j, 0))))
    return lambda: call(jnp.asarray(table), X), 2 * X.reshape(8, 8, 128)[np.clip(table.reshape(-1), 0, 7)].reshape(64, 128)


@bug("tpu-v5e", "PS-UNINIT-003", words=("x_ref", "index 99", "99 = ids_ref[3]"))
def row_that_a_list_chooses_is_not_there(fixed):
    def kernel(ids_ref, x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[0, 0] = x_ref[ids_ref[i]]  # CAUSE

    ids = np.array([5, 60, 7, 63 if fixed else 99, 1, 2, 3, 4], np.int32)
    call = pl.pallas_call(kernel, out_shape=X[:8].reshape(8, 1, 128), grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(8,), in_specs=[pl.BlockSpec((64, 128), lambda i, ids: (0, 0))],
        out_specs=pl.BlockSpec((1, 1, 128), lambda i, ids: (i, 0, 0))))
    return lambda: call(jnp.asarray(ids), X), X[np.clip(ids, 0, 63)].reshape(8, 1, 128)


@bug("tpu-v5e", "PS-UNINIT-003", words=("x_ref", "from 56 | pl.ds(56, 16)", "size 64"))
def window_reaches_over_the_end(fixed):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        start = jnp.minimum(8 * i, 48) if fixed else 8 * i
        window = x_ref[pl.ds(pl.multiple_of(start, 8), 16)]  # CAUSE
        o_ref[...] = window[:8] + window[8:]

    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[pl.BlockSpec((64, 128), lambda i: (0, 0))], out_specs=ROWS)
    rows = X.reshape(8, 8, 128)
    return lambda: call(X), jnp.stack([rows[min(i, 6)] + rows[min(i, 6) + 1] for i in range(8)]).reshape(64, 128)


@bug("generic", "PS-ALIAS-001", words=("x_ref", "o_ref"))
def input_is_read_when_its_output_is_written(fixed):
    """On a TPU the two are windows of their own, and elsewhere one buffer: only `generic` shows that the kernel means different things."""
    def kernel(x_ref, o_ref):
        top = x_ref[0:8]
        o_ref[0:8] = x_ref[0:8] + x_ref[8:16]  # ALSO
        o_ref[8:16] = top if fixed else x_ref[0:8]  # CAUSE

    call = pl.pallas_call(kernel, out_shape=X[:16], input_output_aliases={0: 0})
    return lambda: call(X[:16]), jnp.concatenate([X[:8] + X[8:16], X[:8]])


@bug("tpu-v5e", "PS-UNINIT-001", words=("rows_ref", "rows 8 | (8, 0) | 8 to 15 | 8:16"), misleading=("rows_ref is read before anybody wrote to it",))
def more_rows_are_read_than_were_written(fixed):
    def kernel(x_ref, o_ref, rows_ref):
        rows_ref[0:8] = x_ref[...] * 2
        if fixed:
            rows_ref[8:16] = x_ref[...] * 3
        for r in range(2):
            o_ref[8 * r:8 * r + 8] = rows_ref[8 * r:8 * r + 8]  # CAUSE

    call = pl.pallas_call(kernel, out_shape=X[:16], scratch_shapes=[pltpu.VMEM((16, 128), F32)])
    return lambda: call(X[:8]), jnp.concatenate([X[:8] * 2, X[:8] * 3])


@bug("tpu-v5e", "PS-MEM-001", words=("big_ref", "40000,1024 | (40000, 1024)", "163840000"), misleading=("Buffered(1)",))
def scratch_does_not_fit_into_vmem(fixed):
    def kernel(x_ref, o_ref, big_ref):
        big_ref[0:8, 0:128] = x_ref[...]
        o_ref[...] = big_ref[0:8, 0:128] + 1

    big = pltpu.VMEM((400 if fixed else 40000, 1024), F32)  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X, grid=(8,), in_specs=[ROWS], out_specs=ROWS, scratch_shapes=[big])
    return lambda: call(X), X + 1  # CAUSE


@bug("tpu-v5e", "PS-MEM-001", words=("table_ref", "SMEM", "1024,2048 | (1024, 2048)"), misleading=("Buffered(1)", "max_concurrent_steps"))
def table_does_not_fit_into_smem(fixed):
    def kernel(table_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + table_ref[3, 5].astype(F32)

    table = jnp.ones((8 if fixed else 1024, 2048), jnp.int32)
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]  # CAUSE
    call = pl.pallas_call(kernel, out_shape=X, in_specs=specs)
    return lambda: call(table, X), X + 1  # CAUSE
