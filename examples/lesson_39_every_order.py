"""Lesson 39: a ring that is right in one order and wrong in another.

    .venv/bin/python examples/lesson_39_every_order.py

Four devices pass what they hold to the right and add up what comes. What is to be sent next takes the place of what was sent, and the
twin does so while that may still be on its way: it awaits its copy a line too late. In an ordinary run, where copies move at once, its
sums are right, as they are on most machines most of the time. `pallasim.explore` runs it under other schedules: it finds the sums that
come of it, says which two lines decide, and gives a token for each that repeats it, anywhere and as often as you like. The mended ring is
then run under all schedules that differ.
"""

import jax
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

import pallasim  # noqa: E402

N, BLOCK = 4, (8, 128)
LOGICAL = pl.DeviceIdType.LOGICAL


def ring_sum(x, waits):
    def kernel(x_ref, o_ref, mine, slot, sent, came, free):
        me = lax.axis_index("x")
        left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
        ready = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(ready, 1, device_id=neighbour, device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)
        mine[...] = x_ref[...]
        o_ref[...] = x_ref[...]
        for step in range(N - 1):
            if step > 0:
                pl.semaphore_wait(free, 1)  # the neighbour has taken what came before
            copy = pltpu.make_async_remote_copy(mine, slot, sent, came, device_id=right, device_id_type=LOGICAL)
            copy.start()
            copy.wait_recv()
            if waits:
                copy.wait_send()
            mine[...] = slot[...]
            if not waits:
                copy.wait_send()  # too late: what is on its way may be overwritten
            if step < N - 2:
                pl.semaphore_signal(free, 1, device_id=left, device_id_type=LOGICAL)
            o_ref[...] += mine[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(BLOCK, x.dtype),
                          scratch_shapes=[pltpu.VMEM(BLOCK, x.dtype)] * 2 + [pltpu.SemaphoreType.DMA] * 2 + [pltpu.SemaphoreType.REGULAR],
                          compiler_params=pltpu.CompilerParams(collective_id=0))(x)


def run(x, waits):
    mesh = Mesh(np.array(jax.devices()), "x")
    return jax.jit(jax.shard_map(lambda part: ring_sum(part, waits), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))(x)


def main():
    x = np.repeat(np.float32([1, 10, 100, 1000]), BLOCK[0])[:, None] * np.ones((1, BLOCK[1]), np.float32)
    with pallasim.emulate("tpu-v5e"):
        np.testing.assert_array_equal(run(x, waits=False), 1111)
    print("The wrong ring, run once: every sum is 1111")

    found = pallasim.explore(run, x, False, chip="tpu-v5e", schedules=30)
    print(found)
    sums = [sorted({float(o[0, 0]) for o in outcome.outputs.values()}) for outcome in found]
    assert len(sums) > 1 and [1111.0] in sums, sums

    wrong = next(outcome for outcome in found if outcome.differs)
    assert wrong.order is not None
    for _ in range(3):
        with pallasim.emulate("tpu-v5e", replay=wrong.token):
            again = np.asarray(run(x, waits=False)).reshape(N, *BLOCK)
        for device in range(N):
            np.testing.assert_array_equal(again[device], wrong.outputs["o_ref", device])
    print(f"The token repeats it: {sorted({float(part[0, 0]) for part in again})}")

    right = pallasim.explore(run, x, True, chip="tpu-v5e", policy="exhaustive", schedules=100_000)
    print(right)
    assert right.exhausted and right.ok


if __name__ == "__main__":
    main()
