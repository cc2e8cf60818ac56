"""Lesson 37: a stencil over a ring of devices: each needs the edges of its neighbours.

    .venv/bin/python examples/lesson_37_halo_exchange.py

Every device has a piece of a ring of rows, and computes the mean of each row and the ones beside it. It sends its first row to the left
and its last one to the right, computes the inner rows meanwhile, and the two outer ones when the halo came. In the twin a device sends
both rows to the right: the left neighbour waits for a row that never comes, and the report says who waits for what.
"""

import jax
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

import pallasim  # noqa: E402

N, ROWS, WIDTH = 4, 16, 128
LOGICAL = pl.DeviceIdType.LOGICAL


def smooth(x, first_row_to=lambda left, right: left):
    def kernel(x_ref, o_ref, above, below, sent, came_above, came_below):
        me = lax.axis_index("x")
        left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
        ready = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(ready, 1, device_id=neighbour, device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)
        up = pltpu.make_async_remote_copy(x_ref.at[pl.ds(0, 1)], below, sent, came_below, device_id=first_row_to(left, right),
                                          device_id_type=LOGICAL)
        down = pltpu.make_async_remote_copy(x_ref.at[pl.ds(ROWS - 1, 1)], above, sent, came_above, device_id=right,
                                            device_id_type=LOGICAL)
        up.start()
        down.start()
        o_ref[1 : ROWS - 1] = (x_ref[: ROWS - 2] + x_ref[1 : ROWS - 1] + x_ref[2:]) / 3
        down.wait_recv()
        o_ref[:1] = (above[...] + x_ref[:1] + x_ref[1:2]) / 3
        up.wait_recv()
        o_ref[ROWS - 1 :] = (x_ref[ROWS - 2 : ROWS - 1] + x_ref[ROWS - 1 :] + below[...]) / 3
        up.wait_send()
        down.wait_send()

    scratch = [pltpu.VMEM((1, WIDTH), x.dtype)] * 2 + [pltpu.SemaphoreType.DMA] * 3
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(collective_id=0))(x)


def run(x, **twin):
    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(lambda part: smooth(part, **twin), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return np.asarray(jax.jit(f)(x))


def main():
    x = np.random.default_rng(0).standard_normal((N * ROWS, WIDTH), dtype=np.float32)
    want = (np.roll(x, 1, 0) + x + np.roll(x, -1, 0)) / np.float32(3)
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=seed):
            np.testing.assert_allclose(run(x), want, atol=1e-6)
        assert not pallasim.findings()
    assert np.abs(want).max() > 1
    print(f"{N} devices with {ROWS} rows each: a ring of {N * ROWS} rows, smoothed")

    try:
        with pallasim.emulate("tpu-v5e"):
            run(x, first_row_to=lambda left, right: lax.select(lax.axis_index("x") == 2, right, left))
        raise AssertionError("a row that never came went unnoticed")
    except pallasim.KernelError as e:
        print("Device 2 sends its first row to the wrong side:")
        print(e.finding.report)
        assert e.finding.code == "PS-DEAD-001" and "device 1" in e.finding.report


if __name__ == "__main__":
    main()
