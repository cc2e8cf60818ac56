"""Devices and blocks of a cluster that reach each other: one of them elsewhere than the others do (PS-DEV-002), and launches whose barrier a fast device may
come to twice (PS-SEM-003). Each test of devices is a process with four of them."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu
from test_devices import devices  # noqa: F401

import pallasim


def test_one_device_that_reaches_itself(devices):  # noqa: F811
    def body():
        LOGICAL = dict(device_id_type=pl.DeviceIdType.LOGICAL)

        def told(signal, waits):
            def kernel(x_ref, o_ref, ready):
                me = lax.axis_index("x")
                signal(me, ready)
                count = waits(me)

                @pl.when(count > 0)
                def _():
                    pl.semaphore_wait(ready, count)

                o_ref[...] = x_ref[...]

            call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), scratch_shapes=[pltpu.SemaphoreType.REGULAR],
                                  compiler_params=pltpu.CompilerParams(has_side_effects=True))
            pallasim.findings()
            with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
                jax.block_until_ready(sharded(call, mesh())(X))
            return [(f.code, f.message, f.severity) for f in pallasim.findings()]

        def to(target):
            return lambda me, ready: pl.semaphore_signal(ready, 1, device_id=target(me), **LOGICAL)

        def to_others(me, ready):
            for k in range(N):
                @pl.when(me != k)
                def _():
                    pl.semaphore_signal(ready, 1, device_id=k, **LOGICAL)

        def to_others_in_a_loop(me, ready):
            @pl.loop(0, N)
            def _(k):
                @pl.when(me != k)
                def _():
                    pl.semaphore_signal(ready, 1, device_id=k, **LOGICAL)

        def around(me, ready):
            for k in range(1, N):
                pl.semaphore_signal(ready, 1, device_id=lax.rem(me + k, N), **LOGICAL)

        def chain(me, ready):
            @pl.when(me < N - 1)
            def _():
                pl.semaphore_signal(ready, 1, device_id=me + 1, **LOGICAL)

        one, last = (lambda me: 1), (lambda me: jnp.where(me == 0, 0, jnp.where(me == N - 1, 2, 1)))
        (found,) = told(to(lambda me: jnp.minimum(me + 1, N - 1)), last)
        assert found == ("PS-DEV-002", "device 3 signals to itself, where the others' pattern says device 0", "note"), found
        (found,) = told(to(lambda me: jnp.where(me == 2, 1, lax.rem(me + 1, N))), lambda me: jnp.where(me == 1, 2, jnp.where(me == 3, 0, 1)))
        assert found[1] == "device 2 signals to device 1, where the others' pattern says device 3", found
        # Rings either way, pairs, one for all, all for all, a chain without an end.
        assert told(to(lambda me: lax.rem(me + 1, N)), one) == []
        assert told(to(lambda me: lax.rem(me + N - 1, N)), one) == []
        assert told(to(lambda me: me ^ 1), one) == []
        assert told(to(lambda me: N - 1 - me), one) == []
        assert told(to(lambda me: me), one) == []
        assert told(to(lambda me: 0), lambda me: jnp.where(me == 0, N, 0)) == []
        assert told(to(lambda me: me // 2), lambda me: jnp.where(me < 2, 2, 0)) == []
        for signal in to_others, to_others_in_a_loop, around:
            assert told(signal, lambda me: N - 1) == []
        assert told(chain, lambda me: jnp.where(me == 0, 0, 1)) == []

    devices(body)


def test_a_barrier_that_a_fast_device_comes_to_twice(devices):  # noqa: F811
    def body():
        LOGICAL = dict(device_id_type=pl.DeviceIdType.LOGICAL)

        def signal(semaphore, neighbours):
            for n in neighbours:
                pl.semaphore_signal(semaphore, 1, device_id=n, **LOGICAL)
            pl.semaphore_wait(semaphore, len(neighbours))

        def permute(way, neighbours, collective_id=0):
            def kernel(x_ref, o_ref, send, recv):
                me = lax.axis_index("x")
                around = [lax.rem(me + n + N, N) for n in neighbours]
                signal(pltpu.get_barrier_semaphore(), around)
                if way == "two rounds":
                    pl.run_scoped(lambda own: signal(own, around), pltpu.SemaphoreType.REGULAR)
                copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, recv, device_id=lax.rem(me + 1, N), **LOGICAL)
                copy.start()
                copy.wait()
                if way == "thanks":  # the receiver lets the sender go, and the sender the receiver
                    pl.run_scoped(lambda own: signal(own, around), pltpu.SemaphoreType.REGULAR)

            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[ANY], out_specs=ANY,
                                  scratch_shapes=[pltpu.SemaphoreType.DMA] * 2, compiler_params=pltpu.CompilerParams(collective_id=collective_id))

        def told(f):
            pallasim.findings()
            with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
                got = sharded(f, mesh())(X)
                jax.block_until_ready(got)
            return [(f.code, f.severity) for f in pallasim.findings()]

        both = (-1, 1)
        once, rounds, thanks = permute("", both), permute("two rounds", both), permute("thanks", both)
        assert told(lambda x: once(once(x))) == [("PS-SEM-003", "note")]
        assert told(lambda x: lax.fori_loop(0, 4, lambda i, v: once(v), x)) == [("PS-SEM-003", "note")]
        assert told(once) == []
        assert told(lambda x: rounds(rounds(rounds(x)))) == []
        assert told(lambda x: thanks(thanks(x))) == []
        # Another id is another semaphore; one signaller cannot be taken for two.
        assert told(lambda x: permute("", both, 1)(once(x))) == []
        alone = permute("", (1,))
        assert "PS-SEM-003" not in [code for code, _ in told(lambda x: alone(alone(x)))]

    devices(body)


@pytest.mark.parametrize("way, expected", [("ring", []), ("end", ["PS-DEV-002"])])
def test_one_block_of_a_cluster(way, expected):
    x = jnp.arange(4 * 16 * 64, dtype=jnp.float32).reshape(4, 16, 64)

    def body(x_ref, o_ref, tile, met, stored):
        at = lax.axis_index("x")
        tile[...] = jnp.zeros((16, 64), jnp.float32)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        to = lax.rem(at + 1, 4) if way == "ring" else jnp.minimum(at + 1, 3)
        plgpu.async_store_smem(x_ref[at], tile, stored, cluster_idx=to, cluster_dim="x")
        if way == "ring":
            plgpu.barrier_wait(stored)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        o_ref[at] = tile[...]

    run = plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), cluster=(4,), cluster_names=("x",), scratch_types=[
        plgpu.SMEM((16, 64), jnp.float32), plgpu.ClusterBarrier(collective_axes=("x",)), plgpu.Barrier()])
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        jax.block_until_ready(run(x))
    assert [f.code for f in pallasim.findings() if f.code.startswith("PS-DEV") or not expected] == expected
