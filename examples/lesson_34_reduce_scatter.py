"""Lesson 34: a ring of devices sums everybody's numbers, and each keeps its part of the sum.

    .venv/bin/python examples/lesson_34_reduce_scatter.py

In every step a partial sum comes from the left, the device adds its own part, and sends the result on to the right. It comes into one of
two slots. A slot must not be sent to again before its owner has read it: the owner says so to its left neighbour by a signal, one for
each slot that is free. The twin leaves these signals out: then a fast neighbour writes over a sum that a slow one has not read.
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


def reduce_scatter(x, tell_free=True):
    """Of x, N blocks per device: the sum over all devices of block number `me`."""
    def kernel(x_ref, o_ref, inbox, outbox, sent, came, free):
        me = lax.axis_index("x")
        left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
        ready = pltpu.get_barrier_semaphore()
        for neighbour in (left, right):
            pl.semaphore_signal(ready, 1, device_id=neighbour, device_id_type=LOGICAL)
        pl.semaphore_wait(ready, 2)
        outbox[...] = x_ref[lax.rem(me + N - 1, N)]
        for step in range(N - 1):
            slot = step % 2
            if tell_free and step >= 2:
                pl.semaphore_wait(free, 1)  # the right neighbour has read what was sent two steps ago
            copy = pltpu.make_async_remote_copy(outbox, inbox.at[slot], sent, came.at[slot], device_id=right, device_id_type=LOGICAL)
            copy.start()
            copy.wait()
            outbox[...] = inbox[slot] + x_ref[lax.rem(me + 2 * N - 2 - step, N)]
            if tell_free and step + 2 < N - 1:
                pl.semaphore_signal(free, 1, device_id=left, device_id_type=LOGICAL)
        o_ref[...] = outbox[...]

    scratch = [pltpu.VMEM((2, *BLOCK), x.dtype), pltpu.VMEM(BLOCK, x.dtype), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA((2,)),
               pltpu.SemaphoreType.REGULAR]
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(BLOCK, x.dtype), scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(collective_id=0))(x.reshape(N, *BLOCK))


def run(x, **twin):
    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(lambda part: reduce_scatter(part, **twin), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return np.asarray(jax.jit(f)(x)).reshape(N, *BLOCK)


def main():
    x = np.random.default_rng(0).integers(-99, 99, (N * N * BLOCK[0], BLOCK[1])).astype(np.float32)  # sums are exact
    want = x.reshape(N, N, *BLOCK).sum(0)
    for seed in (None, 0, 1, 2):
        pallasim.findings()
        with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=seed):
            np.testing.assert_array_equal(run(x), want)
        assert not pallasim.findings()
    assert np.abs(want).max() > 1
    print(f"each of {N} devices has its quarter of the sum, in every schedule")

    pallasim.findings()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        run(x, tell_free=False)
    race = pallasim.findings()[0]
    print("Without a word that a slot is free:")
    print(race.report)
    assert "inbox" in race.message
    for seed in range(200):
        with pallasim.emulate("tpu-v5e", random_seed=seed):
            wrong = run(x, tell_free=False)
        if (wrong != want).any():
            print(f"Schedule {pallasim.last_run()['token']}: {np.count_nonzero(wrong != want)} of {want.size} sums are wrong.")
            break
    else:
        raise AssertionError("no schedule showed it")


if __name__ == "__main__":
    main()
