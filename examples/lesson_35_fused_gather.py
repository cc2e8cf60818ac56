"""Lesson 35: an all-gather inside a matrix product: each part is multiplied while the next one is on its way.

    .venv/bin/python examples/lesson_35_fused_gather.py

Every device has a part of x and all of its own columns of w. It multiplies the part that it has, and passes it on at the same time; the
copy and the product read the same buffer, which two may do. What must not happen is that the next part comes into that buffer: there
are two, and a device that is done with one says so to its left neighbour. Each buffer has a semaphore for what comes: one for both could not
tell which of two parts is there. The twin multiplies the next part before it came.
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

N, ROWS, K, COLUMNS = 4, 8, 128, 128
LOGICAL = pl.DeviceIdType.LOGICAL


def gather_matmul(x, w, wait_first=True):
    def kernel(x_ref, w_ref, o_ref, parts, sent, came, free):
        me = lax.axis_index("x")
        left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
        ready = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(ready, 1, device_id=neighbour, device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)
        parts[0] = x_ref[...]
        copy = None
        for step in range(N):
            here, there = step % 2, (step + 1) % 2
            before = copy
            if step < N - 1:
                copy = pltpu.make_async_remote_copy(parts.at[here], parts.at[there], sent, came.at[there], device_id=right,
                                                    device_id_type=LOGICAL)
                if step > 0:
                    pl.semaphore_wait(free, 1)  # the right neighbour has multiplied what lies there
                copy.start()
            whose = lax.rem(me + N - step, N)
            o_ref[pl.ds(pl.multiple_of(whose * ROWS, ROWS), ROWS), :] = jnp.dot(parts[here], w_ref[...], preferred_element_type=jnp.float32)
            if before is not None and not wait_first:
                before.wait_recv()  # too late: for the part that is multiplied already
            if step < N - 1:
                copy.wait_send()
                if step < N - 2:
                    pl.semaphore_signal(free, 1, device_id=left, device_id_type=LOGICAL)
                if wait_first:
                    copy.wait_recv()

    scratch = [pltpu.VMEM((2, ROWS, K), x.dtype), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.REGULAR]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((N * ROWS, COLUMNS), jnp.float32), scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(collective_id=0))(x, w)


def run(x, w, **twin):
    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(lambda a, b: gather_matmul(a, b, **twin), mesh=mesh, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"),
                      check_vma=False)
    return np.asarray(jax.jit(f)(x, w))


def main():
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((N * ROWS, K), (K, N * COLUMNS)))
    want = x.astype(np.float64) @ w
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=seed):
            np.testing.assert_allclose(run(x, w), want, atol=1e-3)
        assert not pallasim.findings()
    assert np.abs(want).max() > 1
    print(f"{N} devices, {N} products each, {N - 1} of them while a part was on its way")

    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        run(x, w, wait_first=False)
    race = next(f for f in pallasim.findings() if f.code.startswith("PS-RACE"))
    print("A part that is used one step too early:")
    print(race.report)
    assert "parts" in race.message


if __name__ == "__main__":
    main()
