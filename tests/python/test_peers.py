"""GPUs that reach into each other, and clusters that take the work of others. Tests of several devices are processes with eight."""
import functools
import inspect
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

PROLOGUE = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.sharding import Mesh, PartitionSpec as P
import pallasim

def sharded(f, n, spec, out):
    mesh = Mesh(np.array(jax.devices()[:n]), "x")
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out, check_vma=False))
"""


@pytest.fixture
def devices():
    """`devices(f)`: runs the body of `f` behind PROLOGUE on eight devices."""

    def run(f, *args):
        body = textwrap.dedent("".join(inspect.getsource(f).splitlines(True)[1:]))
        env = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}
        done = subprocess.run([sys.executable, "-c", PROLOGUE + body, *args], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]

    return run


def test_collectives_of_jax(devices):
    """All-gather and reduce-scatter by multimem, on 2 to 8 devices, with more blocks than the chip holds and with fewer."""

    def body():
        from jax.experimental.pallas.ops.gpu import all_gather_mgpu, reduce_scatter_mgpu

        for n in (2, 3, 8):
            x = jnp.asarray(np.random.default_rng(n).integers(-9, 9, (n * 8, 256)), jnp.float32)
            for blocks in (1, 4):
                with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
                    gather = lambda x: all_gather_mgpu.all_gather(x, axis_name="x", num_blocks=blocks, tile_size=512)
                    got = sharded(gather, n, P("x"), P("x"))(x)
                    np.testing.assert_array_equal(got, np.tile(x, (n, 1)))
                    scatter = lambda x: reduce_scatter_mgpu.reduce_scatter(x, axis_name="x", num_blocks=blocks, tile_size=256)
                    got = sharded(scatter, n, P(None, None), P("x"))(jnp.tile(x, (1, 2)))
                    np.testing.assert_array_equal(got, n * np.tile(x, (1, 2)))
                bad = [f for f in pallasim.findings() if f.severity != "note"]
                assert not bad, bad[0].report
        assert pallasim.launch_count() >= 12

    devices(body)


def test_a_peers_array(devices):
    """Loads, stores and bulk copies by index before and behind `remote_ref`, under every way to order them."""

    def body():
        def kernel(x_ref, o_ref, far_ref, smem, bar, sems):
            me = lax.axis_index("x")
            right = lax.rem(me + 1, 3)
            o_ref[0] = x_ref[pl.ds(0, 128)]
            pl.semaphore_signal(sems.at[0], device_id=lax.rem(me + 2, 3))
            pl.semaphore_wait(sems.at[0])
            o_ref[1] = plgpu.remote_ref(o_ref, right)[0]
            plgpu.remote_ref(o_ref.at[2], right)[...] = x_ref[...] + 1
            plgpu.copy_gmem_to_smem(plgpu.remote_ref(x_ref, right), smem, bar)
            plgpu.barrier_wait(bar)
            plgpu.copy_smem_to_gmem(smem, plgpu.remote_ref(far_ref, right))
            plgpu.wait_smem_to_gmem(0)
            plgpu.semaphore_signal_parallel(*(plgpu.SemaphoreSignal(sems.at[1], device_id=jnp.int32(d)) for d in range(3)))
            pl.semaphore_wait(sems.at[1], 3)

        def run(x):
            out = jax.ShapeDtypeStruct((3, 128), jnp.int32), jax.ShapeDtypeStruct((128,), jnp.int32)
            scratch = [plgpu.SMEM((128,), jnp.int32), plgpu.Barrier(), plgpu.SemaphoreType.REGULAR((2,))]
            return plgpu.kernel(kernel, out_type=out, scratch_types=scratch)(x)

        x = jnp.arange(3 * 128, dtype=jnp.int32)
        rows = np.asarray(x).reshape(3, 128)
        want = np.stack([rows, np.roll(rows, -1, 0), np.roll(rows, 1, 0) + 1], 1).reshape(9, 128)
        for options in (dict(), dict(detect_races=True), dict(random_seed=3), dict(random_seed=4, dma_execution_mode="scheduled"), dict(detect_races=True, random_seed=5)):
            with pallasim.emulate("gpu-h100", findings="collect", **options):
                o, far = sharded(run, 3, P("x"), (P("x"), P("x")))(x)
            np.testing.assert_array_equal(o, want)
            np.testing.assert_array_equal(np.asarray(far).reshape(3, 128), rows)  # the right one's, back to it
            bad = [f for f in pallasim.findings() if f.severity != "note"]
            assert not bad, bad[0].report

    devices(body)


@functools.partial(jax.jit, static_argnames=("grid", "cluster", "threads"))
def scheduled(grid, cluster, threads):
    """Which cluster did the work of each place of the grid."""
    names, axes = tuple("ab"[: len(grid)]), tuple("xy"[: len(cluster)])

    def kernel(by, _):
        me = sum(lax.axis_index(n) * int(np.prod(grid[i + 1:])) for i, n in enumerate(names))
        place = *(lax.axis_index(n) for n in axes), lax.axis_index("wg")

        @plgpu.dynamic_scheduling_loop(names, thread_axis="wg", cluster_axes=axes)
        def _(info):
            by[*info.index, *place] = me

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((*grid, *cluster, threads), jnp.int32), grid=grid, grid_names=names,
                        cluster=cluster, cluster_names=axes, num_threads=threads, thread_name="wg",
                        scratch_types=[plgpu.SMEM((200 * 1024,), jnp.int8)])()


@pytest.mark.parametrize("grid, cluster, threads", [((160,), (1,), 1), ((100,), (2,), 1), ((9, 20), (1,), 2), ((5,), (1,), 1)])
def test_dynamic_scheduling(grid, cluster, threads, emulated):
    for seed in (None, 1):
        by = emulated(lambda: scheduled(grid, cluster, threads), machine="gpu-b200", random_seed=seed)
        clusters, held = int(np.prod(grid)), 148 // int(np.prod(cluster))
        by = by.reshape(clusters, -1)
        assert (by == by[:, :1]).all()  # all threads of a cluster do the same work
        assert by.min() == 0 and by.max() < held and len(np.unique(by)) == min(held, clusters)
        assert (np.arange(clusters)[:held] == by[:held, 0]).all()  # who begins does his own


def test_a_cluster_that_nobody_asks_for_is_lost():
    def kernel(o, answer, bar, _):
        plgpu.try_cluster_cancel(answer, bar)
        o[lax.axis_index("a")] = lax.axis_index("a")
        plgpu.barrier_wait(bar)

    scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier(), plgpu.SMEM((200 * 1024,), jnp.int8)]
    f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((149,), jnp.int32), grid=(149,), grid_names=("a",), scratch_types=scratch)
    pallasim.findings()
    with pallasim.emulate("gpu-b200", findings="collect"):
        got = np.asarray(f())
    (lost,) = [f for f in pallasim.findings() if f.code == "PS-CLU-001"]
    assert "cluster (148) is lost" in lost.message and "plgpu.try_cluster_cancel(answer, bar)" in lost.report
    assert (got[:148] == np.arange(148)).all() and got[148] != 148


def test_a_request_behind_one_that_got_none():
    """PTX leaves it undefined once the CTA has read that there is none; here it gets none again."""
    def kernel(o, answer, bar):
        for _ in range(2):
            plgpu.try_cluster_cancel(answer, bar)
            plgpu.barrier_wait(bar)
            (_, given) = plgpu.query_cluster_cancel(answer, ("a",))
            o[lax.axis_index("a")] = given.astype(jnp.int32) + 5

    f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((3,), jnp.int32), grid=(3,), grid_names=("a",),
                     scratch_types=[plgpu.TryClusterCancelResult(), plgpu.Barrier()])
    pallasim.findings()
    with pallasim.emulate("gpu-b200", findings="collect"):
        got = np.asarray(f())
    (vain,) = [f for f in pallasim.findings() if f.code == "PS-CLU-002"]
    assert "plgpu.try_cluster_cancel(answer, bar)" in vain.report and (got == 5).all()
