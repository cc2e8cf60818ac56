"""Products: whole rows and columns per block, an accumulator over a third grid axis, an activation."""
from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from . import case, normal


def quarters_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] @ y_ref[...]


def silu_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = jax.nn.silu(x_ref[...] @ y_ref[...])


def _quarters(kernel, n, interpret):
    return lambda x, y: pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct((n, n), x.dtype), grid=(2, 2),
        in_specs=[pl.BlockSpec((n // 2, n), lambda i, j: (i, 0)), pl.BlockSpec((n, n // 2), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((n // 2, n // 2), lambda i, j: (i, j)), interpret=interpret)(x, y)


def _squares(n, dtype="float32"):
    return lambda: (normal(n, n, dtype=dtype), normal(n, n, seed=1, dtype=dtype))


@case(arguments=_squares(1024), reference=lambda x, y: x @ y, steps=4, flops=2 * 1024**3, bytes=12 * 1024**2, tolerance=1e-2)
def matmul_1024_2x2(interpret):
    return _quarters(quarters_kernel, 1024, interpret)


@case(arguments=_squares(512), reference=lambda x, y: jax.nn.silu(x @ y), steps=4, flops=2 * 512**3, bytes=12 * 512**2, tolerance=1e-2)
def matmul_silu_512(interpret):
    return _quarters(silu_kernel, 512, interpret)


def accumulate_kernel(x_ref, y_ref, o_ref, sum_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = sum_ref[...].astype(o_ref.dtype)


def _accumulate(m, n, k, block, interpret):
    return lambda x, y: pl.pallas_call(
        accumulate_kernel, out_shape=jax.ShapeDtypeStruct((m, n), x.dtype), grid=(m // block, n // block, k // block),
        in_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, k)), pl.BlockSpec((block, block), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")), interpret=interpret)(x, y)


@case(arguments=_squares(512), reference=lambda x, y: x @ y, machine="tpu", steps=64, flops=2 * 512**3, bytes=12 * 512**2, tolerance=1e-2)
def matmul_512_blocks_of_128(interpret):
    return _accumulate(512, 512, 512, 128, interpret)


@case(arguments=_squares(1024, "bfloat16"), reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype), machine="tpu",
      steps=64, flops=2 * 1024**3, bytes=6 * 1024**2, tolerance=0.5)
def matmul_1024_bf16_blocks_of_256(interpret):
    return _accumulate(1024, 1024, 1024, 256, interpret)


# The size at which a CI of a user of interpret mode stops after 300 s; the interpreters are not asked.
M, N, K = 65536, 1024, 1280


def _tall(dtype):
    return dict(arguments=lambda: (normal(M, K, dtype=dtype), normal(K, N, seed=1, dtype=dtype)),
                reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype), machine="tpu", steps=M * N * K // 256**3,
                flops=2 * M * N * K, bytes=4 * (M * K + K * N + M * N), tolerance=1.0, only=("xla", "pallasim"))


@case(**_tall("float32"))
def matmul_65536_f32_blocks_of_256(interpret):
    return _accumulate(M, N, K, 256, interpret)


@case(**_tall("bfloat16"))
def matmul_65536_bf16_blocks_of_256(interpret):
    return _accumulate(M, N, K, 256, interpret)
