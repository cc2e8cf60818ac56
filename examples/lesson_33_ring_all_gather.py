"""Lesson 33: a ring of devices gathers everybody's part.

    .venv/bin/python examples/lesson_33_ring_all_gather.py

Each of four devices holds a quarter. In every step each sends to its right neighbour what came last from the left, so that after three
steps everybody has everything. Before the first copy a device has to know that its neighbour began the kernel: the barrier semaphore,
of which all devices with the same collective_id hold one, is there for that. Three twins are wrong: one has no barrier, one never waits
for what it sent, and one goes a step too far round the ring of four, to a device 4.
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


def all_gather(x, barrier=True, await_sent=True, right_of=lambda me: lax.rem(me + 1, N)):
    def kernel(x_hbm, o_hbm, sent, came):
        me = lax.axis_index("x")
        left, right = lax.rem(me + N - 1, N), right_of(me)
        if barrier:
            ready = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(ready, 1, device_id=left, device_id_type=LOGICAL)
            pl.semaphore_wait(ready, 1)
        pltpu.sync_copy(x_hbm, o_hbm.at[me])
        for step in range(N - 1):
            part = lax.rem(me + N - step, N)  # of whom it came
            copy = pltpu.make_async_remote_copy(o_hbm.at[part], o_hbm.at[part], sent.at[step], came.at[step], device_id=right,
                                                device_id_type=LOGICAL)
            copy.start()
            copy.wait_recv()
            if await_sent:
                copy.wait_send()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((N, *BLOCK), x.dtype), in_specs=[hbm], out_specs=hbm,
                          scratch_shapes=[pltpu.SemaphoreType.DMA((N - 1,))] * 2,
                          compiler_params=pltpu.CompilerParams(collective_id=0) if barrier else None)(x)


def run(x, **twin):
    mesh = Mesh(np.array(jax.devices()), "x")
    gathered = jax.shard_map(lambda part: all_gather(part, **twin), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return np.asarray(jax.jit(gathered)(x)).reshape(N, N, *BLOCK)


def finding(code, x, **twin):
    pallasim.findings()
    try:
        with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
            run(x, **twin)
    except Exception as e:  # of many devices the error comes through JAX
        found = [*pallasim.findings(), *([e.finding] if isinstance(e, pallasim.KernelError) else [])]
    else:
        found = pallasim.findings()
    return next(f for f in found if f.code == code)


def main():
    x = np.random.default_rng(0).standard_normal((N * BLOCK[0], BLOCK[1]), dtype=np.float32)
    for seed in (None, 0, 1):
        pallasim.findings()
        with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=seed):
            got = run(x)
        assert not pallasim.findings()
        for device in range(N):
            np.testing.assert_array_equal(got[device].reshape(x.shape), x)
    print(f"{N} devices, {N - 1} steps: everybody has all {x.size} numbers, in every schedule")

    for what, code, words, twin in (
        ("Without the barrier", "PS-RACE-003", "does not know that device 1 began", dict(barrier=False)),
        ("Sends that nobody waits for", "PS-SEM-002", "sent[0]", dict(await_sent=False)),
        ("A neighbour that does not exist", "PS-SEM-001", "device 4", dict(right_of=lambda me: me + 1)),
    ):
        report = finding(code, x, **twin).report
        print(f"{what}:")
        print(report)
        assert words in report, report


if __name__ == "__main__":
    main()
