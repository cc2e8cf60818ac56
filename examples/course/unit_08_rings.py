"""Unit 8: Rings.

    .venv/bin/python examples/course/unit_08_rings.py [--grade]

Devices lie in rings, linked to their neighbours. A copy to a neighbour has two ends: one semaphore there says that the bytes came, one here that they are gone.
A link of a v5e carries 45 GB/s, which is a small part of what its HBM does.

Question: four devices have a part each, and all want all parts. Each sends on to the right what came from the left. What do their cores do meanwhile?
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
N, ROWS, K, COLUMNS = 4, 128, 1024, 4096
X, W = jax.ShapeDtypeStruct((N * ROWS, K), jnp.bfloat16), jax.ShapeDtypeStruct((K, N * COLUMNS), jnp.bfloat16)


def neighbours():
    """This device, and those left and right of it, which have begun: nobody may send to one that has not."""
    me = lax.axis_index("x")
    left, right = lax.rem(me + N - 1, N), lax.rem(me + 1, N)
    ready = pltpu.get_barrier_semaphore()
    for device in (left, right):
        pl.semaphore_signal(ready, 1, device_id=device, device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_wait(ready, 2)
    return me, left, right


def send(part, to, sent, came):
    """A copy to the same place on another device."""
    return pltpu.make_async_remote_copy(part, part, sent, came, device_id=to, device_id_type=pl.DeviceIdType.LOGICAL)


def on_ring(call, *specs):
    """`call` on each of the devices, with its parts of the arrays."""
    *into, out = specs
    return jax.shard_map(call, mesh=Mesh(np.array(jax.devices()[:N]), "x"), in_specs=tuple(into), out_specs=out, check_vma=False)


def gather_kernel(x_hbm, o_hbm, sent, came):
    me, _, right = neighbours()
    pltpu.sync_copy(x_hbm, o_hbm.at[me])
    for step in range(N - 1):
        copy = send(o_hbm.at[lax.rem(me + N - step, N)], right, sent.at[step], came.at[step])  # what came last
        copy.start()
        copy.wait()


def gather(x):
    hbm, sems = pl.BlockSpec(memory_space=pltpu.HBM), pltpu.SemaphoreType.DMA((N - 1,))
    return on_ring(lambda x: pl.pallas_call(gather_kernel, out_shape=jax.ShapeDtypeStruct((N, *x.shape), x.dtype), in_specs=[hbm], out_specs=hbm,
                                            scratch_shapes=[sems, sems], compiler_params=pltpu.CompilerParams(collective_id=0))(x), P("x"), P("x"))(x)


def main():
    (k,) = pallasim.predict(gather, X, chip=CHIP, sensitivity=False)
    size = ROWS * K * 2
    links = next(b.seconds for b in k.bounds if b.name == "ICI")
    print(f"{N - 1} steps of {size >> 10} KiB: {k.seconds * 1e6:.1f} us, of which {links * 1e6:.1f} the links are busy; bound by {k.bound}")
    # The cores wait for nearly all of that time.
    assert abs(links - (N - 1) * size / 45e9) < 0.05 * links and links > 0.6 * k.seconds


def picture():
    """One of the devices: three parts go to its neighbour, one after another, as they come from the other one, and its core waits."""
    page = pallasim.predict(gather, X, chip=CHIP, sensitivity=False, report=True).page
    return page.picture(title="Unit 8: one of four devices in a ring, tpu-v5e")


def then_multiply_kernel(x_ref, w_ref, o_ref, parts, sent, came):
    me, _, right = neighbours()
    parts[me] = x_ref[...]
    for step in range(N - 1):
        copy = send(parts.at[lax.rem(me + N - step, N)], right, sent.at[step], came.at[step])
        copy.start()
        copy.wait()
    for whose in range(N):
        rows = pl.ds(whose * x_ref.shape[0], x_ref.shape[0])
        o_ref[rows, :] = jnp.dot(parts[whose], w_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)


def gather_and_multiply(kernel, x, w):
    def call(x, w):
        sems = pltpu.SemaphoreType.DMA((N - 1,))
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((N * x.shape[0], w.shape[1]), x.dtype),
                              scratch_shapes=[pltpu.VMEM((N, *x.shape), x.dtype), sems, sems], compiler_params=pltpu.CompilerParams(collective_id=0))(x, w)

    return on_ring(call, P("x"), P(None, "x"), P(None, "x"))(x, w)


def exercise(x, w):
    """x @ w: every device has a part of x's rows and of w's columns. All parts are gathered, then multiplied. Multiply while the next one is on its way."""
    return gather_and_multiply(then_multiply_kernel, x, w)


def grade(answer):
    keys = jax.random.split(jax.random.key(0))
    x, w = (jax.random.normal(k, s, jnp.bfloat16) for k, s in zip(keys, ((N * 16, 128), (128, N * 128))))
    want = np.asarray(x, np.float64) @ np.asarray(w, np.float64)
    for seed in (None, 1):
        with pallasim.emulate(CHIP, detect_races=True, findings="raise", random_seed=seed):
            z = np.asarray(jax.jit(answer)(x, w), np.float32)
        np.testing.assert_allclose(z, want, rtol=1e-2, atol=0.3, err_msg="it is not x @ w")
    (k,) = pallasim.predict(answer, X, W, chip=CHIP, sensitivity=False)
    alone = {b.name: b.seconds for b in k.bounds if b.name in ("ICI", "HBM", "MXU")}
    assert k.seconds <= 0.9 * sum(alone.values()), (f"it takes {k.seconds * 1e6:.0f} us, and its parts " + ", ".join(f"{n} {t * 1e6:.0f}" for n, t in alone.items())
                                                    + ": they take turns")


def meanwhile_kernel(x_ref, w_ref, o_ref, parts, sent, came):
    me, _, right = neighbours()
    parts[me] = x_ref[...]
    for step in range(N):
        whose = lax.rem(me + N - step, N)
        if step < N - 1:
            copy = send(parts.at[whose], right, sent.at[step], came.at[step])
            copy.start()
        rows = pl.ds(pl.multiple_of(whose * x_ref.shape[0], x_ref.shape[0]), x_ref.shape[0])
        o_ref[rows, :] = jnp.dot(parts[whose], w_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)
        if step < N - 1:
            copy.wait()


solution = functools.partial(gather_and_multiply, meanwhile_kernel)


if __name__ == "__main__":
    import classroom

    classroom.run()
