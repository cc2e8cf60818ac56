"""Where data lies: blocks chosen by prefetched scalars, copies started by hand, a pipeline inside a kernel,
rows that subcores gather."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from . import case, normal


def copy_kernel(index_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


@case(arguments=lambda: (jnp.asarray(np.random.default_rng(0).integers(0, 64, 256), jnp.int32), normal(64, 128, 128)), reference=lambda i, x: x[i],
      machine="tpu", steps=256, bytes=8 * 256 * 128 * 128, tolerance=0)
def gather_256_blocks(interpret):
    block = (1, 128, 128)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(256,), in_specs=[pl.BlockSpec(block, lambda i, index: (index[i], 0, 0))],
                                        out_specs=pl.BlockSpec(block, lambda i, index: (i, 0, 0)))
    return lambda i, x: pl.pallas_call(copy_kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((256, 128, 128), jnp.float32), interpret=interpret)(i, x)


CHUNKS, ROWS = 16, 256


def double_buffer_kernel(x_ref, o_ref, in_ref, out_ref, in_sem, out_sem):
    def fetch(i):
        return pltpu.make_async_copy(x_ref.at[pl.ds(i * ROWS, ROWS)], in_ref.at[i % 2], in_sem.at[i % 2])

    def write(i):
        return pltpu.make_async_copy(out_ref.at[i % 2], o_ref.at[pl.ds(i * ROWS, ROWS)], out_sem.at[i % 2])

    fetch(0).start()

    def step(i, _):
        @pl.when(i + 1 < CHUNKS)
        def _():
            fetch(i + 1).start()

        fetch(i).wait()

        @pl.when(i >= 2)
        def _():
            write(i - 2).wait()

        out_ref[i % 2] = in_ref[i % 2] * 2 + 1
        write(i).start()

    jax.lax.fori_loop(0, CHUNKS, step, None)
    write(CHUNKS - 2).wait()
    write(CHUNKS - 1).wait()


@case(arguments=lambda: (normal(CHUNKS * ROWS, 1024),), reference=lambda x: x * 2 + 1, machine="tpu", steps=CHUNKS, flops=2 * CHUNKS * ROWS * 1024,
      bytes=8 * CHUNKS * ROWS * 1024)
def double_buffered_copies_16_mib(interpret):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    scratch = [pltpu.VMEM((2, ROWS, 1024), jnp.float32)] * 2 + [pltpu.SemaphoreType.DMA((2,))] * 2
    return lambda x: pl.pallas_call(double_buffer_kernel, out_shape=x, in_specs=[anywhere], out_specs=anywhere, scratch_shapes=scratch, interpret=interpret)(x)


def pipeline_kernel(x_ref, o_ref):
    def body(block_ref, out_ref):
        out_ref[...] = jnp.exp(block_ref[...])

    block = pl.BlockSpec((64, 512), lambda i: (i, 0))
    pltpu.emit_pipeline(body, grid=(32,), in_specs=[block], out_specs=[block])(x_ref, o_ref)


@case(arguments=lambda: (normal(2048, 512),), reference=jnp.exp, machine="tpu", steps=32, flops=2048 * 512, bytes=8 * 2048 * 512)
def emit_pipeline_exp(interpret):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return lambda x: pl.pallas_call(pipeline_kernel, out_shape=x, in_specs=[anywhere], out_specs=anywhere, interpret=interpret)(x)


SUBCORES, TABLE, WIDTH, SHARE = 16, 4096, 128, 128


@case(arguments=lambda: (normal(TABLE, WIDTH), jnp.asarray(np.random.default_rng(0).integers(0, TABLE, 16384), jnp.int32)), reference=lambda x, i: x[i],
      machine="sparsecore", steps=SUBCORES, bytes=8 * 16384 * WIDTH, tolerance=0)
def subcores_gather_16k_rows(interpret):
    from jax.experimental.pallas import tpu_sc as plsc

    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)

    def kernel(table_ref, rows_ref, o_ref, rows, buffer):
        per_subcore = rows_ref.shape[0] // SUBCORES

        @pl.loop(0, per_subcore // SHARE)
        def _(i):
            mine = pl.ds(jax.lax.axis_index("subcore") * per_subcore + i * SHARE, SHARE)
            pltpu.sync_copy(rows_ref.at[mine], rows)
            pltpu.sync_copy(table_ref.at[rows], buffer)
            pltpu.sync_copy(buffer, o_ref.at[mine])

    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), jnp.float32)]
    return pl.kernel(kernel, out_type=jax.ShapeDtypeStruct((16384, WIDTH), jnp.float32), mesh=mesh, scratch_types=scratch, interpret=interpret)
