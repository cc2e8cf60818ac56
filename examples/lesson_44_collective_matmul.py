"""Lesson 44: a matrix product over two GPUs that gathers while it multiplies (Hopper GPUs).

    .venv/bin/python examples/lesson_44_collective_matmul.py

Each GPU has half of the rows of `x` and half of the columns of `w`, and wants all rows of its columns of `x @ w`. It multiplies its own rows
first, and sends each block of them to the other GPU while it lies in shared memory anyway: `plgpu.remote_ref` names the other one's array.
A signal says that all of them are there; then come the other rows. Three twins are wrong: one signals before its copies are complete, one does
not wait for the signal, and in one a GPU leaves the kernel although the other one still writes to its array.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

jax.config.update("jax_num_cpu_devices", 4)

import pallasim  # noqa: E402

GPUS, ROWS, COLUMNS, STEP, STEPS = 2, 64, 64, 64, 3
K = STEP * STEPS
TILES = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)


def kernel(x_gmem, w_gmem, o_gmem, gathered, x_smem, w_smem, came, arrived, *, complete, wait, leave):
    me = lax.axis_index("gpu")
    other = 1 - me

    def multiply(rows, send):
        def products(acc):
            for i in range(STEPS):
                k = pl.ds(i * STEP, STEP)
                plgpu.copy_gmem_to_smem(rows.at[:, k], x_smem, came)
                plgpu.copy_gmem_to_smem(w_gmem.at[k], w_smem, came)
                plgpu.barrier_wait(came)
                if send:
                    plgpu.copy_smem_to_gmem(x_smem, plgpu.remote_ref(gathered, other).at[:, k])
                plgpu.wgmma(acc, x_smem, w_smem)
                plgpu.wgmma_wait(0)
                if send:
                    plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            return acc[...]

        return pl.run_scoped(products, plgpu.ACC((ROWS, COLUMNS), jnp.float32)).astype(x_gmem.dtype)

    o_gmem[pl.ds(me * ROWS, ROWS)] = multiply(x_gmem, send=True)
    if complete:
        plgpu.wait_smem_to_gmem(0)
    pl.semaphore_signal(arrived, device_id=other)

    @pl.when((me == 0) | (not leave))
    def _():
        if wait:
            pl.semaphore_wait(arrived)
        o_gmem[pl.ds(other * ROWS, ROWS)] = multiply(gathered, send=False)


@functools.partial(jax.jit, static_argnames=("complete", "wait", "leave"))
def matmul(x, w, complete=True, wait=True, leave=False):
    def on_each(x, w):
        out = jax.ShapeDtypeStruct((GPUS * ROWS, COLUMNS), x.dtype), jax.ShapeDtypeStruct((ROWS, K), x.dtype)
        blocks = [plgpu.SMEM(shape, x.dtype, transforms=TILES) for shape in ((ROWS, STEP), (STEP, COLUMNS))]
        body = functools.partial(kernel, complete=complete, wait=wait, leave=leave)
        scratch = [*blocks, plgpu.Barrier(num_arrivals=2), plgpu.SemaphoreType.REGULAR]
        return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x, w)[0]

    mesh = jax.sharding.Mesh(jax.devices()[:GPUS], ["gpu"])
    P = jax.sharding.PartitionSpec
    return jax.shard_map(on_each, mesh=mesh, in_specs=(P("gpu", None), P(None, "gpu")), out_specs=P(None, "gpu"), check_vma=False)(x, w)


def finding(code, *args, **twin):
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        jax.block_until_ready(matmul(*args, **twin))
    return next(f for f in pallasim.findings() if f.code == code)


def main():
    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.integers(-4, 5, s), jnp.float16) for s in ((GPUS * ROWS, K), (K, GPUS * COLUMNS)))
    want = np.asarray(x, np.float32) @ np.asarray(w, np.float32)
    assert np.abs(want).max() > 100
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("gpu-h100", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(np.asarray(matmul(x, w), np.float32), want)
        found = pallasim.findings()
        assert not found, found[0].report
    print(f"{GPUS} GPUs: each has all {GPUS * ROWS} rows of its {COLUMNS} columns, in every schedule")

    for what, code, words, twin in (
        ("A signal before the copies are complete", "PS-RACE-002", "gathered", dict(complete=False)),
        ("Nobody waits for the signal", "PS-RACE-002", "gathered", dict(wait=False)),
        ("A GPU that leaves", "PS-RACE-004", "gathered of device 1 is written by", dict(leave=True)),
    ):
        report = finding(code, x, w, **twin).report
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
