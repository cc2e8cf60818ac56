"""Unit 8: Rings.

    .venv/bin/python examples/course/unit_08_rings.py [--grade]

Devices lie in rings, each with a link to the right and one to the left, both of which carry bytes in both directions at the same time. A copy to a neighbour
has two ends: one semaphore there says that the bytes came, one here that they are gone.

Question: four devices have a part each, and all want all parts. How long does that take if everybody sends to the right what came from the left?
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

import pallasim  # noqa: E402

CHIP = "tpu-v5e"
N, PART = 4, (512, 512)
SHAPE = jax.ShapeDtypeStruct((N * PART[0], PART[1]), jnp.float32)


def meet(*neighbours):
    """Nobody sends before its neighbours have begun."""
    ready = pltpu.get_barrier_semaphore()
    for device in neighbours:
        pl.semaphore_signal(ready, 1, device_id=device, device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_wait(ready, len(neighbours))


def send(part, to, sent, came):
    """A copy of a piece of the result to the same place on a neighbour."""
    return pltpu.make_async_remote_copy(part, part, sent, came, device_id=to, device_id_type=pl.DeviceIdType.LOGICAL)


def on_ring(kernel, semaphores, x):
    """`kernel` on each device, with its part of x and a result that has room for all parts."""
    def local(part):
        hbm = pl.BlockSpec(memory_space=pltpu.HBM)
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((N, *part.shape), x.dtype), in_specs=[hbm], out_specs=hbm,
                              scratch_shapes=[pltpu.SemaphoreType.DMA((semaphores,))] * 2, compiler_params=pltpu.CompilerParams(collective_id=0))(part)

    mesh = Mesh(np.array(jax.devices()[:N]), "x")
    return jax.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


def right_kernel(x_hbm, o_hbm, sent, came):
    me = lax.axis_index("x")
    left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
    meet(left, right)
    pltpu.sync_copy(x_hbm, o_hbm.at[me])
    for step in range(N - 1):
        copy = send(o_hbm.at[lax.rem(me + N - step, N)], right, sent.at[step], came.at[step])
        copy.start()
        copy.wait()


to_the_right = functools.partial(on_ring, right_kernel, N - 1)


def main():
    (k,) = pallasim.predict(to_the_right, SHAPE, chip=CHIP, sensitivity=False)
    size = PART[0] * PART[1] * 4
    print(f"{N - 1} steps of {size >> 20} MiB: {k.seconds * 1e6:.0f} us")
    for b in k.bounds[:5]:
        print(f"  {b.name:30} {b.seconds * 1e6:6.1f} us, busy for {b.busy:.0%}")


def picture():
    """One device: a part goes to the right, and the next one can only go when it has come from the left."""
    page = pallasim.predict(to_the_right, SHAPE, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 8: one of four devices, which send to the right, tpu-v5e")


def exercise(x):
    """Half of the links are idle: let half of each part go round the other way, at the same time."""
    return to_the_right(x)


def grade(answer):
    x = jax.random.normal(jax.random.key(0), (N * 64, 128), jnp.float32)
    for seed in (None, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="raise", random_seed=seed):
            y = np.asarray(jax.jit(answer)(x))
        for device in range(N):
            np.testing.assert_array_equal(y[device * N:(device + 1) * N].reshape(x.shape), x, err_msg=f"device {device} does not have all parts")
    predicted = pallasim.predict(answer, SHAPE, chip=CHIP, sensitivity=False)
    given = pallasim.predict(to_the_right, SHAPE, chip=CHIP, sensitivity=False)
    assert predicted.seconds <= 0.7 * given.seconds, (f"it takes {predicted.seconds * 1e6:.0f} us; both directions together would do in little more than half of "
                                                      f"{given.seconds * 1e6:.0f}")


def both_kernel(x_hbm, o_hbm, sent, came):
    me = lax.axis_index("x")
    left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
    meet(left, right)
    pltpu.sync_copy(x_hbm, o_hbm.at[me])
    half = x_hbm.shape[0] // 2
    for step in range(N - 1):
        upper = o_hbm.at[lax.rem(me + N - step, N), pl.ds(0, half)]
        lower = o_hbm.at[lax.rem(me + step, N), pl.ds(half, half)]
        copies = send(upper, right, sent.at[2 * step], came.at[2 * step]), send(lower, left, sent.at[2 * step + 1], came.at[2 * step + 1])
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()


solution = functools.partial(on_ring, both_kernel, 2 * (N - 1))


if __name__ == "__main__":
    import classroom

    classroom.run()
