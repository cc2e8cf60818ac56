"""Lesson 18: four kernels that are wrong, and what the machine says about each.

    .venv/bin/python examples/lesson_18_broken_copies.py

A kernel that copies by hand can forget to wait, wait for too much, leave a count in a semaphore, or ask for more fast memory
than there is. On the hardware that is a wrong number, a program that never ends, or another kernel that fails later.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

HBM = pl.BlockSpec(memory_space=pltpu.HBM)


def missing_wait_kernel(x_ref, o_ref, row_ref, sem):
    copy = pltpu.make_async_copy(x_ref, row_ref, sem)
    copy.start()
    o_ref[...] = row_ref[...] + 1  # the bytes may still be on their way
    copy.wait()


def deadlock_kernel(x_ref, o_ref, row_ref, sem):
    pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], row_ref.at[pl.ds(0, 8)], sem).start()
    pltpu.make_async_copy(x_ref, row_ref, sem).wait()  # for all of x, but half of it was started
    o_ref[...] = row_ref[...] + 1


def leak_kernel(x_ref, o_ref, row_ref, sem):
    for half in (pl.ds(0, 8), pl.ds(8, 8)):
        pltpu.make_async_copy(x_ref.at[half], row_ref.at[half], sem).start()
    pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], row_ref.at[pl.ds(0, 8)], sem).wait()
    o_ref[...] = row_ref[...] + 1


def correct_kernel(x_ref, o_ref, row_ref, sem):
    copy = pltpu.make_async_copy(x_ref, row_ref, sem)
    copy.start()
    copy.wait()
    o_ref[...] = row_ref[...] + 1


def add_one(kernel, x):
    return pl.pallas_call(kernel, out_shape=x, in_specs=[HBM], scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())])(x)


def too_big(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    block = pl.BlockSpec((1024, 1024), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=(x.shape[0] // 1024,), in_specs=[block], out_specs=block,
                          compiler_params=pltpu.CompilerParams(vmem_limit_bytes=12 << 20))(x)


def finding_of(f, x):
    """The finding of a launch that is stopped, or that only reports."""
    pallasim.findings()
    try:
        with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
            jax.block_until_ready(f(x))
    except pallasim.KernelError as e:
        return e.finding, "stopped"
    return pallasim.findings()[0], "reported"


def main():
    x = jnp.asarray(np.random.default_rng(0).standard_normal((16, 128), dtype=np.float32))
    with pallasim.emulate("tpu-v5e", detect_races=True):
        np.testing.assert_array_equal(add_one(correct_kernel, x), x + 1)

    rows = []
    for what, f, code, words in (
        ("missing wait", lambda x: add_one(missing_wait_kernel, x), "PS-RACE-001", "row_ref is read while a copy that nobody awaited yet writes it"),
        ("wait for too much", lambda x: add_one(deadlock_kernel, x), "PS-DEAD-001", "4096 bytes arrived, 4096 are missing"),
        ("leaked semaphore", lambda x: add_one(leak_kernel, x), "PS-SEM-002", "ends with 4096 bytes that nobody waited for"),
        ("too much VMEM", lambda x: too_big(jnp.zeros((4096, 1024), jnp.float32)), "PS-MEM-001", "16777216 bytes are needed"),
    ):
        finding, how = finding_of(f, x)
        print(f"{what}:")
        print(finding.report)
        assert finding.code == code and words in finding.report, finding.report
        rows.append((what, how, code, finding.line or "-"))

    print("kernel               the run was   code          line")
    for what, how, code, line in rows:
        print(f"  {what:18} {how:13} {code:13} {line}")


if __name__ == "__main__":
    main()
