"""Whose allocations are, and along which axes barriers and copies reach: what JAX's lowering of Mosaic GPU refuses, a run refuses with the user's line."""
from __future__ import annotations

import linecache

import jax
import jax.numpy as jnp
import pytest
from jax._src import core
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim
from pallasim import _jax_lowering

F32 = jnp.float32
X = jnp.ones((64, 64), F32)
TILE, PLAIN, SUMS = plgpu.SMEM((64, 64), F32), plgpu.Barrier(), plgpu.ACC((64, 64), F32)
THREADS = dict(num_threads=2, thread_name="wg")
CLUSTER = dict(cluster=(2,), cluster_names=("c",))
GRID = dict(grid=(2,), grid_names=("g",))


def launch(body, **options):
    return lambda: plgpu.kernel(body, out_type=jax.ShapeDtypeStruct(X.shape, F32), **options)(X)


def scoped(what, axes, **options):
    def body(x_ref, o_ref):
        pl.run_scoped(lambda _: None, what, collective_axes=axes)  # here
        o_ref[...] = x_ref[...]

    return launch(body, **options)


def met_along(axes, **options):
    def body(x_ref, o_ref, met):
        o_ref[...] = x_ref[...]

    met = plgpu.ClusterBarrier(collective_axes=axes)  # here
    return launch(body, scratch_types=[met], **options)


def copied_along(axes, **options):
    def body(x_ref, o_ref, tile, done):
        plgpu.copy_gmem_to_smem(x_ref, tile, done, collective_axes=axes)  # here
        plgpu.barrier_wait(done)
        o_ref[...] = tile[...]

    return launch(body, scratch_types=[TILE, PLAIN], **options)


SEMAPHORE = plgpu.SemaphoreType.REGULAR
CASES = {
    "memory of all threads": (scoped(TILE, "wg", **THREADS), True),
    "memory of a single thread": (scoped(TILE, (), **THREADS), False),
    "memory of a block with one thread": (scoped(TILE, ()), True),
    "memory along the threads' axis that is not there": (scoped(TILE, None), True),
    "memory of a cluster": (scoped(TILE, "c", **CLUSTER), False),
    "memory of a cluster's threads": (scoped(TILE, ("c", "wg"), **CLUSTER, **THREADS), False),
    "memory of the grid": (scoped(TILE, "g", **GRID), False),
    "a barrier of all threads": (scoped(PLAIN, "wg", **THREADS), True),
    "a barrier of a single thread": (scoped(PLAIN, (), **THREADS), False),
    "a semaphore of all threads": (scoped(SEMAPHORE, "wg", **THREADS), True),
    "a semaphore of a single thread": (scoped(SEMAPHORE, (), **THREADS), False),
    "a semaphore of a cluster": (scoped(SEMAPHORE, "c", **CLUSTER), False),
    "sums of a thread": (scoped(SUMS, (), **THREADS), True),
    "sums of all threads": (scoped(SUMS, "wg", **THREADS), False),
    "a barrier along the cluster": (met_along(("c",), **CLUSTER), True),
    "a barrier along the grid": (met_along(("g",), **GRID, **CLUSTER), False),
    "a barrier along the threads": (met_along(("wg",), **CLUSTER, **THREADS), False),
    "a barrier along nothing that is there": (met_along(("z",), **CLUSTER), False),
    "a copy along the cluster": (copied_along("c", **CLUSTER), True),
    "a copy along the grid": (copied_along("g", **GRID), False),
    "a copy along the threads": (copied_along("wg", **THREADS), False),
}


def launches(jaxpr):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("mpmd_map", "core_map"):
            yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            if eqn.primitive.name not in ("mpmd_map", "core_map"):
                yield from launches(inner)


@pytest.mark.parametrize("name", CASES)
def test_a_run_refuses_what_the_lowering_refuses(name):
    f, fits = CASES[name]
    with pallasim.emulate("gpu-h100", findings="collect"):
        eqns = list(launches(jax.make_jaxpr(f)().jaxpr))
        assert len(eqns) == 1
        refused = _jax_lowering.refusal(eqns[0], (), "mosaic_gpu")
    assert (refused is None) == fits, refused
    pallasim.findings()
    with pallasim.emulate("gpu-h100", findings="collect"):
        if fits:
            jax.block_until_ready(f())
            return
        with pytest.raises(pallasim.KernelError, match="PS-MGPU-005") as e:
            f()
    found = e.value.finding
    assert found.file == __file__ and linecache.getline(__file__, found.line).rstrip().endswith("# here"), found.report
