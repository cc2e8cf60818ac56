"""Kernels on several devices: one launch runs all that reach into each other. Each test is a process with four devices."""
import inspect
import os
import subprocess
import sys
import textwrap

import pytest
from test_capsule import BINARY

PROLOGUE = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec as P
import pallasim

N = 4
X = jnp.arange(N * 8 * 128, dtype=jnp.float32).reshape(N * 8, 128)
ANY = pl.BlockSpec(memory_space=pl.ANY)

def mesh(shape=(N,), names="x"):
    return Mesh(np.array(jax.devices()).reshape(shape), names)

def sharded(f, m, spec=P("x")):
    return jax.jit(jax.shard_map(f, mesh=m, in_specs=spec, out_specs=spec, check_vma=False))

def send_right(x_ref, o_ref, ready, send, recv):
    me = lax.axis_index("x")
    pl.semaphore_signal(ready, 1, device_id=lax.rem(me + N - 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_wait(ready, 1)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, send, recv, device_id=lax.rem(me + 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
    copy.start()
    copy.wait()

def ring(kernel=send_right):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[ANY], out_specs=ANY,
                          scratch_shapes=[pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA])
"""


@pytest.fixture
def devices():
    """`devices(f)`: runs the body of `f` behind PROLOGUE on four devices."""

    def run(f, *args):
        body = textwrap.dedent("".join(inspect.getsource(f).splitlines(True)[1:]))
        env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
        done = subprocess.run([sys.executable, "-c", PROLOGUE + body, *args], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]

    return run


def test_a_remote_copy_of_nothing_may_start_anywhere(devices):
    def body():
        def kernel(s_ref, x_ref, o_ref, ready, send, recv):
            me = lax.axis_index("x")
            pl.semaphore_signal(ready, 1, device_id=lax.rem(me + N - 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
            pl.semaphore_wait(ready, 1)
            start, n = s_ref[0], s_ref[me + 1]
            copy = pltpu.make_async_remote_copy(x_ref.at[pl.ds(start, n)], o_ref.at[pl.ds(start, n)], send, recv,
                                                device_id=lax.rem(me + 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
            copy.start()
            copy.wait_send()
            left = s_ref[lax.rem(me + N - 1, N) + 1]
            pltpu.make_async_copy(o_ref.at[pl.ds(0, left)], o_ref.at[pl.ds(0, left)], recv).wait()

        def f(s, x):
            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                                  in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANY], out_specs=ANY, input_output_aliases={1: 0},
                                  scratch_shapes=[pltpu.SemaphoreType.REGULAR, pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA])(s, x)

        for start in (-8, 8, 2**30):
            for checked in (False, True):
                for outside in ("error", "machine", "uninitialized"):
                    before = pallasim.launch_count()
                    with pallasim.emulate("tpu-v5e", detect_races=checked, out_of_bounds=outside):
                        s = jnp.array([start, 0, 0, 0, 0], jnp.int32)
                        call = jax.jit(jax.shard_map(f, mesh=mesh((N,), ("x",)), in_specs=(P(), P("x")), out_specs=P("x"), check_vma=False))
                        np.testing.assert_array_equal(call(s, X), X)
                    assert pallasim.launch_count() == before + 1 and pallasim.findings() == []

    devices(body)


def test_a_ring_in_one_launch(devices):
    def body():
        want = np.roll(np.asarray(X), 8, 0)
        for seed in (None, 1, 2):
            for mode in ("eager", "on_wait", "scheduled"):
                with pallasim.emulate("tpu-v5e", random_seed=seed, dma_execution_mode=mode):
                    before = pallasim.launch_count()
                    np.testing.assert_array_equal(np.asarray(sharded(ring(), mesh())(X)), want)
                    assert pallasim.launch_count() == before + 1

    devices(body)


def test_in_loops_between_collectives_and_on_a_permuted_mesh(devices):
    def body():
        def program(x):
            f = ring()
            x = lax.fori_loop(0, 3, lambda _, v: f(v), x)
            x = x + lax.psum(jnp.sum(x), "x") * 0
            return f(f(x))

        m = Mesh(np.array(jax.devices())[[2, 0, 3, 1]], "x")
        with pallasim.emulate("tpu-v5e"):
            np.testing.assert_array_equal(np.asarray(sharded(program, m)(X)), np.roll(np.asarray(X), 5 * 8, 0))

    devices(body)


def test_coordinates_of_two_axes(devices):
    def body():
        def kernel(x_ref, o_ref, send, recv):
            y, x = lax.axis_index("y"), lax.axis_index("x")
            pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id={"y": 1 - y, "x": x}).wait()

        f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[ANY], out_specs=ANY,
                           scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA])
        with pallasim.emulate("tpu-v5e"):
            got = sharded(f, mesh((2, 2), ("y", "x")), P(("y", "x")))(X)
        np.testing.assert_array_equal(np.asarray(got), np.roll(np.asarray(X), 16, 0))

        def where(o_ref):
            o_ref[0] = 10 * lax.axis_index("y") + lax.axis_index("x")

        f = pl.pallas_call(where, out_shape=jax.ShapeDtypeStruct((1,), jnp.int32), out_specs=pl.BlockSpec(memory_space=pltpu.SMEM))
        with pallasim.emulate("tpu-v5e"):
            before = pallasim.launch_count()
            got = jax.jit(jax.shard_map(f, mesh=mesh((2, 2), ("y", "x")), in_specs=(), out_specs=P(("y", "x")), check_vma=False))()
            assert np.asarray(got).tolist() == [0, 1, 10, 11]
            assert pallasim.launch_count() == before + 4

    devices(body)


@pytest.mark.parametrize("machine", ["tpu-v5p", "tpu-v6e"])
def test_cores_of_every_device_meet(devices, machine):
    def body():
        chip = sys.argv[1]

        def copy_by_cores(x):
            x_ref, y_ref = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))

            @pl.core_map(pltpu.create_tensorcore_mesh("core"))
            def _():
                cores, core = lax.axis_size("core"), lax.axis_index("core")

                def inner(ready):
                    for i in range(cores):
                        pl.semaphore_signal(ready, 1, device_id={"core": i})
                    pl.semaphore_wait(ready, cores)
                    pltpu.sync_copy(x_ref.at[pl.ds(core * (8 // cores), 8 // cores)], y_ref.at[pl.ds(core * (8 // cores), 8 // cores)])

                pl.run_scoped(inner, pltpu.SemaphoreType.REGULAR)

            return jax.freeze(y_ref)

        with pallasim.emulate(chip):
            np.testing.assert_array_equal(sharded(copy_by_cores, mesh())(X), X)
            assert pallasim.launch_count() == N and pallasim.last_run()["threads"] == (2 if chip == "tpu-v5p" else 1)

    devices(body, machine)


def test_a_deadlock_is_one_finding_and_the_next_launch_runs(devices):
    def body():
        def forgets(x_ref, o_ref, ready, send, recv):
            @pl.when(lax.axis_index("x") != 2)
            def _():
                send_right(x_ref, o_ref, ready, send, recv)

        with pallasim.emulate("tpu-v5e"):
            pallasim.findings()
            try:
                jax.block_until_ready(sharded(ring(forgets), mesh())(X))
                raise SystemExit("no error")
            except Exception as e:
                assert "PS-DEAD-001" in str(e) and "device" in str(e), e
            assert [f.code for f in pallasim.findings()] == ["PS-DEAD-001"]
            np.testing.assert_array_equal(np.asarray(sharded(ring(), mesh())(X)), np.roll(np.asarray(X), 8, 0))

    devices(body)


def test_devices_that_stay_away(devices, monkeypatch):
    def body():
        def some(x):
            return lax.cond(lax.axis_index("x") < 2, ring(), lambda v: v, x)

        with pallasim.emulate("tpu-v5e"):
            try:
                jax.block_until_ready(sharded(some, mesh())(X))
                raise SystemExit("no error")
            except Exception as e:
                assert "PS-DEV-001" in str(e) and "missing: 2, 3" in str(e), e
            np.testing.assert_array_equal(np.asarray(sharded(ring(), mesh())(X)), np.roll(np.asarray(X), 8, 0))

    monkeypatch.setenv("PALLASIM_DEVICE_TIMEOUT", "2")
    devices(body)


def test_capsule(devices, tmp_path):
    def body():
        import sys

        with pallasim.emulate("tpu-v5e"):
            pallasim.capture(sharded(ring(), mesh()), X, path=sys.argv[1])

    path = tmp_path / "ring.capsule"
    devices(body, str(path))
    done = subprocess.run([BINARY, "run", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("same bytes") == 4


def test_a_copy_to_a_device_that_may_not_have_begun(devices):
    def body():
        def send(x_ref, o_ref, ready, send, recv):
            me = lax.axis_index("x")
            pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id=lax.rem(me + 1, N), device_id_type=pl.DeviceIdType.LOGICAL).wait()

        want = np.roll(np.asarray(X), 8, 0)
        for chip, kernel, early in (("tpu-v5e", send, True), ("tpu-v5e", send_right, False), ("generic", send, False)):
            for seed in (None, 1):
                pallasim.findings()
                with pallasim.emulate(chip, detect_races=True, findings="collect", random_seed=seed):
                    np.testing.assert_array_equal(np.asarray(sharded(ring(kernel), mesh())(X)), want)
                found = [f for f in pallasim.findings() if "does not know" in f.message]
                assert bool(found) == early, (chip, kernel, found)
                assert all(f.code == "PS-RACE-002" and "get_barrier_semaphore" in f.report for f in found)

    devices(body)


def test_scratch_that_the_caller_passes_in_and_a_neighbour_writes(devices):
    def body():
        def call(barrier):
            def kernel(x_ref, inbox_ref, o_ref, send, recv):
                me = lax.axis_index("x")
                if barrier:
                    ready = pltpu.get_barrier_semaphore()
                    pl.semaphore_signal(ready, 1, device_id=lax.rem(me + N - 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
                    pl.semaphore_wait(ready, 1)
                pltpu.async_remote_copy(x_ref, inbox_ref, send, recv, device_id=lax.rem(me + 1, N), device_id_type=pl.DeviceIdType.LOGICAL).wait()
                pltpu.sync_copy(inbox_ref, o_ref)

            params = pltpu.CompilerParams(collective_id=0) if barrier else None
            send = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[ANY, ANY], out_specs=ANY,
                                  scratch_shapes=[pltpu.SemaphoreType.DMA] * 2, compiler_params=params)
            return sharded(lambda x: send(x, -x), mesh())

        for seed in (None, 1, 2, 3):
            with pallasim.emulate("tpu-v5e", random_seed=seed):
                np.testing.assert_array_equal(np.asarray(call(True)(X)), np.roll(np.asarray(X), 8, 0))
        try:
            with pallasim.emulate("tpu-v5e"):
                call(False)(X)
            raise AssertionError("nothing says that the copy was made before the neighbour wrote to it")
        except pallasim.KernelError as e:
            assert e.finding.code == "PS-RO-001" and e.finding.severity == "error"

    devices(body)


def test_kernels_that_share_a_collective_id_are_named(devices):
    def body():
        def shift(name, by, n):
            def kernel(x_ref, o_ref, send, recv):
                me = lax.axis_index("x")
                ready = pltpu.get_barrier_semaphore()
                pl.semaphore_signal(ready, 1, device_id=lax.rem(me + N - by, N), device_id_type=pl.DeviceIdType.LOGICAL)
                pl.semaphore_wait(ready, 1)
                pltpu.async_remote_copy(x_ref, o_ref, send, recv, device_id=lax.rem(me + by, N), device_id_type=pl.DeviceIdType.LOGICAL).wait()

            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[ANY], out_specs=ANY, name=name,
                                  scratch_shapes=[pltpu.SemaphoreType.DMA] * 2, compiler_params=pltpu.CompilerParams(collective_id=n))

        for second, ids, clash in (("far", (0, 0), True), ("far", (0, 1), False), ("near", (0, 0), False)):
            pallasim.findings()
            with pallasim.emulate("tpu-v5e", findings="collect"):
                f = sharded(lambda x: shift(second, 2, ids[1])(shift("near", 1, ids[0])(x)), mesh())
                np.testing.assert_array_equal(np.asarray(f(X)), np.roll(np.asarray(X), 24, 0))
            found = [f for f in pallasim.findings() if f.code == "PS-TPU-002"]
            assert bool(found) == clash, (second, ids, found)
            for f in found:
                assert f.severity == "note" and "near and far meet at one barrier semaphore: both have collective_id 0" in f.message, f

    devices(body)


def test_a_barrier_without_a_collective_id_is_refused(devices):
    def body():
        def kernel(x_ref, o_ref):
            ready = pltpu.get_barrier_semaphore()
            pl.semaphore_signal(ready, 1, device_id=lax.rem(lax.axis_index("x") + 1, N), device_id_type=pl.DeviceIdType.LOGICAL)
            pl.semaphore_wait(ready, 1)
            o_ref[...] = x_ref[...]

        call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))
        try:
            with pallasim.emulate("tpu-v5e"):
                sharded(call, mesh())(X)
            raise AssertionError("a TPU has no barrier semaphore without a collective_id")
        except pallasim.KernelError as e:
            assert e.finding.code == "PS-TPU-002" and "without a collective_id" in e.finding.message

    devices(body)
