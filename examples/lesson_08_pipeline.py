"""Lesson 8: a grid is a pipeline: while one block is computed, the next one is fetched.

    .venv/bin/python examples/lesson_08_pipeline.py

Blocks live in fast memory, arrays in slow memory. Two buffers per operand let the copy engine work during the
computation; `pl.Buffered(n)` asks for n of them. Older texts do it with `pipelines.PipelineParams`, which JAX does not
have: today the number of buffers belongs to the BlockSpec. `pltpu.emit_pipeline` makes such a pipeline inside a kernel.
"""

import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

BLOCKS, ROWS = 6, 8


def exp_kernel(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...])


def exp(x, buffers):
    block = pl.BlockSpec((ROWS, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(buffers))
    return pl.pallas_call(exp_kernel, out_shape=x, grid=(BLOCKS,), in_specs=[block], out_specs=block)(x)


# The same pipeline inside a kernel: its refs are whole arrays in slow memory, and the copies are started by the kernel.
def pipelined_kernel(x_ref, o_ref):
    block = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    pltpu.emit_pipeline(exp_kernel, grid=(BLOCKS,), in_specs=[block], out_specs=[block])(x_ref, o_ref)


def exp_inside(x):
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(pipelined_kernel, out_shape=x, in_specs=[anywhere], out_specs=anywhere)(x)


def schedule(buffers):
    """Rows of (fetch, compute, write back) per step: an engine for each, a block each, `buffers` slots per operand."""
    fetched, computed, written = [], [], []
    rows = []
    while len(written) < BLOCKS:
        may_fetch = len(fetched) < BLOCKS and len(fetched) - len(computed) < buffers
        may_compute = len(computed) < len(fetched) and len(computed) - len(written) < buffers
        may_write = len(written) < len(computed)
        if buffers == 1:  # the only slot is taken until its block has been used
            may_fetch = may_fetch and not may_compute and not may_write
            may_compute = may_compute and not may_write
        rows.append([str(len(done)) if may else "." for done, may in ((fetched, may_fetch), (computed, may_compute), (written, may_write))])
        for done, may in ((fetched, may_fetch), (computed, may_compute), (written, may_write)):
            if may:
                done.append(len(done))
    return rows


def main():
    x = np.random.default_rng(0).standard_normal((BLOCKS * ROWS, 128), dtype=np.float32)
    outs = []
    for buffers in (1, 2):
        with pallasim.emulate("tpu-v5e", detect_races=True):
            outs.append(np.asarray(exp(x, buffers)))
        traffic = pallasim.last_run()["traffic"]
        assert [(t["reads"], t["writes"]) for t in traffic] == [(BLOCKS, 0), (0, BLOCKS)]
    np.testing.assert_allclose(outs[1], np.exp(x.astype(np.float64)), rtol=1e-6)
    np.testing.assert_array_equal(outs[0], outs[1])

    with pallasim.emulate("tpu-v5e", detect_races=True):
        inside = np.asarray(exp_inside(x))
    np.testing.assert_array_equal(inside, outs[0])
    assert [(t["bytes_read"], t["bytes_written"]) for t in pallasim.last_run()["traffic"][:2]] == [(x.nbytes, 0), (0, x.nbytes)]

    print(f"exp over {BLOCKS} blocks; each cell is the number of the block (one step per block and engine):")
    for buffers in (1, 2):
        rows = schedule(buffers)
        print(f"  Buffered({buffers}): {len(rows)} steps, {2 * buffers * ROWS * 512} B of fast memory")
        for name, column in zip(("fetch", "compute", "write back"), zip(*rows)):
            print(f"    {name:10} {' '.join(column)}")
    assert (len(schedule(1)), len(schedule(2))) == (3 * BLOCKS, BLOCKS + 2)
    print("The bytes are the same: buffers change when data moves, never what is computed.")


if __name__ == "__main__":
    main()
