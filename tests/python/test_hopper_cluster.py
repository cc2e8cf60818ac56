"""CTAs of a cluster, ref unions, atomics and inline bodies of Mosaic GPU kernels, against NumPy; findings where a kernel is wrong."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import pallasim

SCHEDULES = [{}, {"dma_execution_mode": "on_wait"}, {"random_seed": 3}, {"dma_execution_mode": "scheduled", "random_seed": 5},
             {"detect_races": True}]


def load(ref: Any, layout: Any) -> Any:
    """The whole ref in registers, in this layout (JAX 0.10 has an index besides)."""
    index = ((),) if "idx" in inspect.signature(plgpu.load).parameters else ()
    return plgpu.load(ref, *index, layout=layout, optimized=False)


def kernel(body: Callable[..., None], out: Any, **kwargs: Any) -> Any:
    """plgpu.kernel, whose arguments newer JAX renamed."""
    scratch = kwargs.pop("scratch", ())
    try:
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, **kwargs)
    except TypeError:
        return plgpu.kernel(body, out_shape=out, scratch_shapes=scratch, **kwargs)


def shape(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def numbers(*dims: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.RandomState(sum(dims)).randint(1, 1000, dims).astype(dtype)


def codes_of(run: Callable[[], Any]) -> set[str]:
    """Codes of the findings of a checked run."""
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        np.asarray(run())
    return {f.code for f in pallasim.findings()}


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("axes", ["x", ("x", "y"), "y"])
def test_a_copy_for_several_ctas_reaches_each_of_them(axes: Any, options: Any) -> None:
    """Of a grid of clusters of 2 x 2, those along the axes get the rows of their cluster and place on the other axis."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        i, cx, cy = (jax.lax.axis_index(a) for a in ("i", "x", "y"))
        row = i * 4 + (0 if "x" in axes else cx * 2) + (0 if "y" in axes else cy)
        plgpu.copy_gmem_to_smem(x_ref.at[row], smem, barrier, collective_axes=axes)
        plgpu.barrier_wait(barrier)
        o_ref[i, cx, cy] = smem[...]

    x = numbers(12, 8, 64)
    with pallasim.emulate("gpu-h100", **options):
        out = np.asarray(kernel(body, jax.ShapeDtypeStruct((3, 2, 2, 8, 64), x.dtype), grid=(3,), grid_names=("i",), cluster=(2, 2),
                                cluster_names=("x", "y"), scratch=[plgpu.SMEM((8, 64), x.dtype), plgpu.Barrier()])(x))
    for i, cx, cy in np.ndindex(3, 2, 2):
        row = i * 4 + (0 if "x" in axes else cx * 2) + (0 if "y" in axes else cy)
        np.testing.assert_array_equal(out[i, cx, cy], x[row])


def shift(x: np.ndarray, wait: bool = True) -> Any:
    """Every CTA stores its rows in its own memory and reads those of its neighbour along "x"."""
    def body(x_ref: Any, o_ref: Any, smem: Any, met: Any) -> None:
        i, at = jax.lax.axis_index("i"), jax.lax.axis_index("x")
        smem[...] = x_ref[i, at]
        plgpu.barrier_arrive(met)
        if wait:
            plgpu.barrier_wait(met)
        o_ref[i, at] = plgpu.cluster_ref(smem, {"x": (at + 1) % 4})[...]
        if not wait:
            plgpu.barrier_wait(met)
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

    return kernel(body, shape(x), grid=(2,), grid_names=("i",), cluster=(4,), cluster_names=("x",),
                  scratch=[plgpu.SMEM(x.shape[2:], x.dtype), plgpu.ClusterBarrier(collective_axes=("x",))])(x)


@pytest.mark.parametrize("options", SCHEDULES)
def test_the_memory_of_another_cta_is_read(options: Any) -> None:
    x = numbers(2, 4, 8, 32)
    with pallasim.emulate("gpu-h100", **options):
        np.testing.assert_array_equal(np.asarray(shift(x)), np.roll(x, -1, axis=1))


def test_a_read_of_another_cta_needs_a_barrier_of_the_cluster() -> None:
    x = numbers(2, 4, 8, 32)
    assert not codes_of(lambda: shift(x))
    assert "PS-RACE-002" in codes_of(lambda: shift(x, wait=False))


@pytest.mark.parametrize("atomic", [None, "add"])
@pytest.mark.parametrize("options", SCHEDULES)
def test_a_value_is_stored_in_another_cta(atomic: str | None, options: Any) -> None:
    def body(x_ref: Any, o_ref: Any, smem: Any, met: Any, stored: Any) -> None:
        at = jax.lax.axis_index("x")
        smem[...] = x_ref[at] * 2
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        plgpu.async_store_smem(x_ref[at], smem, stored, cluster_idx=1 - at, cluster_dim="x", atomic=atomic)
        plgpu.barrier_wait(stored)
        o_ref[at] = smem[...]

    x = numbers(2, 64, 32, dtype=np.int32)
    with pallasim.emulate("gpu-h100", **options):
        out = np.asarray(kernel(body, shape(x), cluster=(2,), cluster_names=("x",), scratch=[
            plgpu.SMEM((64, 32), x.dtype, transforms=(plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128))),
            plgpu.ClusterBarrier(collective_axes=("x",)), plgpu.Barrier()])(x))
    np.testing.assert_array_equal(out, x[::-1] + (2 * x if atomic else 0))


def test_arrivals_along_two_axes_form_a_cross() -> None:
    """Of 2 x 4 CTAs each hears of the 1 + 1 + 3 that share one of its places."""
    def body(o_ref: Any, met: Any) -> None:
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        o_ref[jax.lax.axis_index("x"), jax.lax.axis_index("y")] = jnp.ones((128,), jnp.float32)

    with pallasim.emulate("gpu-h100"):
        out = kernel(body, jax.ShapeDtypeStruct((2, 4, 128), jnp.float32), cluster=(2, 4), cluster_names=("x", "y"),
                     scratch=[plgpu.ClusterBarrier(collective_axes=("x", "y"))])()
    np.testing.assert_array_equal(np.asarray(out), 1)


@pytest.mark.parametrize("kind", ["add", "max", "min", "and", "or", "xor"])
def test_atomics_of_two_warpgroups(kind: str) -> None:
    x = numbers(2, 64, 64, dtype=np.int32)

    def body(x_ref: Any, o_ref: Any, smem: Any, met: Any) -> None:
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _() -> None:
            smem[...] = jnp.full((64, 64), 77, jnp.int32)

        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)
        getattr(plgpu, f"atomic_{kind}")(smem, x_ref[wg])
        plgpu.barrier_arrive(met)
        plgpu.barrier_wait(met)

        @pl.when(wg == 0)
        def _() -> None:
            o_ref[...] = smem[...]

    with pallasim.emulate("gpu-h100"):
        out = kernel(body, jax.ShapeDtypeStruct((64, 64), jnp.int32), num_threads=2, thread_name="wg", scratch=[
            plgpu.SMEM((64, 64), jnp.int32, transforms=(plgpu.TilingTransform((8, 16)), plgpu.SwizzleTransform(64))),
            plgpu.Barrier(num_arrivals=2)])(x)
    f = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]
    np.testing.assert_array_equal(np.asarray(out), f(f(77, x[0]), x[1]))


def test_members_of_a_union_share_bytes() -> None:
    x = numbers(2, 256)
    tags = (plgpu.TilingTransform((64,)),)

    def body(x_ref: Any, o_ref: Any, union: Any) -> None:
        whole, (first, second) = union
        whole[...] = x_ref[...]
        o_ref[0] = second[...]
        first[...] = jnp.full((256,), 7, jnp.int32)
        o_ref[1] = whole[0, 0:128]

    with pallasim.emulate("gpu-h100"):
        out = np.asarray(kernel(body, jax.ShapeDtypeStruct((2, 128), x.dtype), scratch=[plgpu.RefUnion(
            plgpu.SMEM((2, 256), x.dtype), [plgpu.SMEM((256,), jnp.int32), plgpu.SMEM((128,), x.dtype, transforms=tags)])])(x))
    np.testing.assert_array_equal(out[0], x[1, :128])
    np.testing.assert_array_equal(out[1], np.full(128, 7, np.int32).view(np.float32))


def exchange(threads: int, order: bool = True) -> Any:
    """Two warpgroups of three hand a value over with a named barrier of the CTA."""
    def body(x_ref: Any, o_ref: Any, smem: Any) -> None:
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _() -> None:
            smem[...] = x_ref[...] * 3
            if order:
                named("arrive", threads)

        @pl.when(wg == 1)
        def _() -> None:
            if order:
                named("sync", threads)
            o_ref[...] = smem[...]

    x = numbers(8, 128)
    return x, kernel(body, shape(x), num_threads=3, thread_name="wg", scratch=[plgpu.SMEM((8, 128), x.dtype)])(x)


@pytest.mark.parametrize("options", SCHEDULES)
def test_named_barriers_of_an_inline_body(options: Any) -> None:
    with pallasim.emulate("gpu-h100", **options):
        x, out = exchange(256)
        np.testing.assert_array_equal(np.asarray(out), x * 3)


def test_a_named_barrier_orders_and_may_hang() -> None:
    assert not codes_of(lambda: exchange(256)[1])
    assert "PS-RACE-002" in codes_of(lambda: exchange(256, order=False)[1])
    with pytest.raises(pallasim.KernelError, match="PS-DEAD-001"), pallasim.emulate("gpu-h100"):
        np.asarray(exchange(384)[1])


def named(act: str, count: int) -> None:
    """A named barrier of so many CUDA threads."""
    from jaxlib.mlir.dialects import llvm

    @plgpu.inline_mgpu()
    def emit(_: Any) -> None:
        from jaxlib.mlir import ir

        llvm.inline_asm(ir.Type.parse("!llvm.void"), [], f"bar.{act} 5, {count};", "", has_side_effects=True)
    emit()


def warps(tiles: int = 4, threads: int = 160) -> Any:
    """Single warps of a warpgroup bring tiles and take them away, each tile in a mesh of warps of its own: a warp knows the phases that it
    saw in those before. The last one tells the other warpgroup by a named barrier of a warpgroup and a warp."""
    def body(x_ref: Any, o_ref: Any, smem: Any, out: Any, full: Any, ready: Any, taken: Any) -> None:
        wg = jax.lax.axis_index("wg")

        @pl.loop(0, tiles)
        def _(i: Any) -> None:
            @pl.when(wg == 0)
            def _() -> None:
                @pl.core_map(plgpu.WarpMesh(axis_name="warp"))
                def _() -> None:
                    @pl.when(jax.lax.axis_index("warp") == 0)
                    def _() -> None:
                        @pl.when(i > 0)
                        def _() -> None:
                            plgpu.barrier_wait(taken)
                        plgpu.copy_gmem_to_smem(x_ref.at[i], smem, full)

                    @pl.when(jax.lax.axis_index("warp") == 3)
                    def _() -> None:
                        plgpu.barrier_wait(ready)
                        plgpu.copy_smem_to_gmem(out, o_ref.at[i])
                        plgpu.wait_smem_to_gmem(0)
                        named("arrive", threads)

            @pl.when(wg == 1)
            def _() -> None:
                plgpu.barrier_wait(full)
                out[...] = smem[...] * 3
                plgpu.commit_smem()
                plgpu.barrier_arrive(ready)
                plgpu.barrier_arrive(taken)
                named("sync", threads)

    x = numbers(tiles, 8, 128)
    scratch = [plgpu.SMEM((8, 128), x.dtype), plgpu.SMEM((8, 128), x.dtype), plgpu.Barrier(), plgpu.Barrier(), plgpu.Barrier()]
    return x, kernel(body, shape(x), num_threads=2, thread_name="wg", scratch=scratch)(x)


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.filterwarnings("ignore")
def test_warps_remember_the_phases_that_they_saw(options: Any) -> None:
    with pallasim.emulate("gpu-h100", **options):
        x, out = warps()
        np.testing.assert_array_equal(np.asarray(out), x * 3)


@pytest.mark.filterwarnings("ignore")
def test_a_named_barrier_counts_warps() -> None:
    assert codes_of(lambda: warps()[1]) <= {"PS-BAR-003"}  # nobody waits for the last tile's slot
    with pytest.raises(pallasim.KernelError, match="5 of 8 warps arrived"), pallasim.emulate("gpu-h100"):
        np.asarray(warps(tiles=1, threads=256)[1])


def test_what_the_body_of_a_run_state_returns_comes_first() -> None:
    """As Mosaic GPU has it: the carried sum, and not what the accumulator holds."""
    def body(x_ref: Any, o_ref: Any) -> None:
        def scope(acc: Any) -> Any:
            return jax.lax.fori_loop(0, 4, lambda _, v: v + acc[...], acc[...])

        o_ref[...] = pl.run_state(scope)(plgpu.ACC.init(x_ref[...]))

    x = numbers(64, 64)
    with pallasim.emulate("gpu-h100"):
        np.testing.assert_array_equal(np.asarray(kernel(body, shape(x))(x)), 5 * x)


def stored(commit: bool) -> Any:
    def body(x_ref: Any, o_ref: Any, smem: Any) -> None:
        smem[...] = x_ref[...] + 1
        if commit:
            plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    x = numbers(8, 128)
    return kernel(body, shape(x), scratch=[plgpu.SMEM((8, 128), x.dtype)])(x)


def test_a_store_needs_a_fence_before_a_bulk_copy() -> None:
    assert not codes_of(lambda: stored(True))
    assert codes_of(lambda: stored(False)) == {"PS-RACE-003"}


def multiplied(wait: bool) -> Any:
    """The operand of a product is overwritten behind it."""
    tags = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(x_ref.at[0], smem, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc: Any) -> Any:
            plgpu.wgmma(acc, smem, smem)
            if wait:
                plgpu.wgmma_wait(0)
            plgpu.copy_gmem_to_smem(x_ref.at[1], smem, barrier)
            plgpu.barrier_wait(barrier)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), jnp.float32))

    x = (numbers(2, 64, 64) / 1000).astype(np.float16)
    return kernel(body, jax.ShapeDtypeStruct((64, 64), jnp.float32), scratch=[plgpu.SMEM((64, 64), x.dtype, transforms=tags), plgpu.Barrier()])(x)


def test_a_product_in_flight_reads_its_operands_until_it_is_awaited() -> None:
    assert not codes_of(lambda: multiplied(True))
    assert "PS-RACE-002" in codes_of(lambda: multiplied(False))


def test_libraries_find_cuda_and_its_products() -> None:
    a = (numbers(8, 8) / 1000).astype(np.float16)
    with pallasim.emulate("gpu-h100"):
        from jax._src.lib import cuda_versions

        assert cuda_versions is not None and cuda_versions.cuda_runtime_get_version() >= 12000
        out = jnp.dot(a, a, precision=jax.lax.DotAlgorithmPreset.F16_F16_F32)
        np.testing.assert_allclose(np.asarray(out, np.float32), a.astype(np.float32) @ a.astype(np.float32), rtol=1e-2)


def overwritten() -> Any:
    """What a copy reads is written behind its start, and nobody waits for the copy."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(o_ref, smem, barrier)
        plgpu.commit_smem()
        o_ref[...] = x_ref[...]

    x = numbers(8, 128)
    return kernel(body, shape(x), scratch=[plgpu.SMEM((8, 128), x.dtype), plgpu.Barrier()])(x)


def not_awaited() -> Any:
    """Shared memory ends while a store still reads it."""
    def body(x_ref: Any, o_ref: Any, smem: Any) -> None:
        smem[...] = x_ref[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)

    x = numbers(8, 128)
    return kernel(body, shape(x), scratch=[plgpu.SMEM((8, 128), x.dtype)])(x)


@pytest.mark.parametrize("wrong, words", [
    (overwritten, "o_ref is written while a copy that nobody awaited yet reads it"),
    (not_awaited, "the scope of smem ends while a copy that nobody awaited yet reads it"),
])
def test_reports_name_refs_as_the_kernel_does(wrong: Any, words: str) -> None:
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        np.asarray(wrong())
    assert words in [f.message for f in pallasim.findings()]
    assert not any("refs[" in f.report for f in pallasim.findings())


@pytest.mark.parametrize("options", SCHEDULES)
@pytest.mark.parametrize("axes", ["t", ()])
def test_scratch_outside_of_the_sms_belongs_to_those_whom_its_scope_names(axes: Any, options: Any) -> None:
    """Each CTA, or thread, writes its own numbers, and reads them when the others have written theirs."""
    def body(o_ref: Any, barrier: Any) -> None:
        c, t = jax.lax.axis_index("c"), jax.lax.axis_index("t")

        def scope(ref: Any) -> None:
            own = t if axes else 0
            ref[own] = 10 * c + t + 1
            plgpu.barrier_arrive(barrier)
            plgpu.barrier_wait(barrier)
            o_ref[c, t] = ref[own]

        pl.run_scoped(scope, plgpu.GMEM((2,), jnp.int32), collective_axes=axes)

    run = kernel(body, jax.ShapeDtypeStruct((2, 2), jnp.int32), cluster=(2,), cluster_names=("c",), num_threads=2, thread_name="t",
                 scratch=[plgpu.ClusterBarrier(collective_axes=("c",), num_arrivals=2)])
    with pallasim.emulate("gpu-h100", findings="raise", **options):
        np.testing.assert_array_equal(run(), [[1, 2], [11, 12]])


@pytest.mark.parametrize("who", ["all", "the first", "nobody"])
def test_who_of_a_cluster_waits_for_its_barrier(who: str) -> None:
    """Each arrival reaches both CTAs; one may wait for both, and let the other one go on."""
    def body(o_ref: Any, met: Any, go: Any) -> None:
        c = jax.lax.axis_index("c")
        for _ in range(3):
            plgpu.barrier_arrive(met)

            @pl.when(c < {"all": 2, "the first": 1, "nobody": 0}[who])
            def _() -> None:
                plgpu.barrier_wait(met)

            plgpu.barrier_arrive(go)
            plgpu.barrier_wait(go)

        o_ref[c] = jnp.full((128,), 1, jnp.int32)

    f = kernel(body, jax.ShapeDtypeStruct((2, 128), jnp.int32), cluster=(2,), cluster_names=("c",), scratch=[plgpu.ClusterBarrier(collective_axes=("c",))] * 2)
    pallasim.findings()
    with pallasim.emulate("gpu-h100", detect_races=True, findings="collect"):
        np.asarray(f())
    found = [(x.code, x.severity) for x in pallasim.findings()]
    assert found == {"all": [], "the first": [("PS-BAR-003", "note")], "nobody": [("PS-BAR-002", "warning")]}[who]
