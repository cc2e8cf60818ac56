"""Lesson 36: a ragged all-to-all: each device sends each other one as many rows as it has for it.

    .venv/bin/python examples/lesson_36_ragged_all_to_all.py

How many rows go where is known when the program runs: the sizes lie in SMEM, and every copy has a dynamic extent. Receivers wait for as
many bytes as will come to them. In the broken twin the sizes that the receivers expect are those of the wrong direction, and somebody
waits for rows that nobody sends.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

import pallasim  # noqa: E402

N, MOST, WIDTH = 4, 8, 128
LOGICAL = pl.DeviceIdType.LOGICAL


def all_to_all(sizes, x):
    """sizes[i, j]: rows from device i to device j, at most MOST; x: MOST rows for each device. Rows of device i arrive at i * MOST."""
    def kernel(sizes_ref, x_hbm, zeros_hbm, o_hbm, sent, came):
        me = lax.axis_index("x")
        pltpu.sync_copy(zeros_hbm, o_hbm)
        ready = pltpu.get_barrier_semaphore()
        for other in range(N):
            pl.semaphore_signal(ready, 1, device_id=other, device_id_type=LOGICAL)
        pl.semaphore_wait(ready, N)

        def rows(ref, first, n):
            return ref.at[pl.ds(first * MOST, n)]

        for other in range(N):
            n = sizes_ref[me, other]
            pltpu.make_async_remote_copy(rows(x_hbm, other, n), rows(o_hbm, me, n), sent, came, device_id=other,
                                         device_id_type=LOGICAL).start()
        for other in range(N):
            n = sizes_ref[me, other]
            pltpu.make_async_copy(rows(x_hbm, other, n), rows(x_hbm, other, n), sent).wait()
            n = sizes_ref[N + other, me]  # what the others say that they send
            pltpu.make_async_copy(rows(o_hbm, other, n), rows(o_hbm, other, n), came).wait()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[hbm, hbm], out_specs=hbm,
                                        scratch_shapes=[pltpu.SemaphoreType.DMA] * 2)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid_spec=grid,
                          compiler_params=pltpu.CompilerParams(collective_id=0))(sizes, x, jnp.zeros_like(x))


def run(sizes, expected, x):
    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(all_to_all, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"), check_vma=False)
    return np.asarray(jax.jit(f)(np.concatenate([sizes, expected]).astype(np.int32), x)).reshape(N, N, MOST, WIDTH)


def main():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, MOST + 1, (N, N))
    x = rng.standard_normal((N * N * MOST, WIDTH), dtype=np.float32)
    rows = x.reshape(N, N, MOST, WIDTH)
    want = np.zeros_like(rows)
    for i in range(N):
        for j in range(N):
            want[j, i, : sizes[i, j]] = rows[i, j, : sizes[i, j]]
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(run(sizes, sizes, x), want)
        assert not pallasim.findings()
    assert np.abs(want).max() > 1
    print("rows from device i to device j:")
    print(sizes)

    try:
        with pallasim.emulate("tpu-v5e"):
            run(sizes, sizes.T, x)
        raise AssertionError("a wait for rows that nobody sends ended")
    except pallasim.KernelError as e:
        print("Receivers that expect the sizes of the other direction:")
        print(e.finding.report)
        assert e.finding.code == "PS-DEAD-001" and "are missing" in e.finding.report


if __name__ == "__main__":
    main()
