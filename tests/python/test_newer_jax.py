"""What JAX 0.11 and 0.12 added to Pallas: run, captured, or refused by name."""
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

import pallasim
from pallasim._capture import jaxver

newer = pytest.mark.skipif(jaxver.JAX_VERSION < (0, 12), reason="what it tests came with JAX 0.12")
X = np.arange(1, 8 * 128 + 1, dtype=np.float32).reshape(8, 128) / 64


def call(kernel, out, *args, **options):
    return pl.pallas_call(kernel, out_shape=out, **options)(*args)


def like(x, shape=None):
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, x.dtype)


@newer
@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
def test_gpu_reductions(emulated, same, op):
    x = 1 + X / 1024

    def kernel(x_ref, o_ref):
        o_ref[...] = getattr(plgpu, op)(x_ref[...], axis=1, accumulator_ilp=2)

    got = emulated(lambda x: call(kernel, like(x, (8,)), x, compiler_params=plgpu.CompilerParams()), x, machine="gpu-h100")
    same(got, getattr(np, op)(x, axis=1), rtol=1e-5)


@newer
def test_gpu_store_and_mma(emulated, same):
    a, b = X[:, :16].astype(np.float16), X[:8, 16:32].T.astype(np.float16)

    def kernel(a_ref, b_ref, o_ref):
        plgpu.store(o_ref, plgpu.mma(jnp.full((8, 8), 2, jnp.float32), a_ref[...], b_ref[...]), optimized=False)

    f = lambda a, b: call(kernel, jax.ShapeDtypeStruct((8, 8), jnp.float32), a, b, compiler_params=plgpu.CompilerParams())  # noqa: E731
    same(emulated(f, a, b, machine="gpu-h100"), 2 + a.astype(np.float32) @ b.astype(np.float32), rtol=1e-6)


@newer
def test_claims_about_accesses(emulated, same):
    def run(**claims):
        def kernel(x_ref, o_ref):
            o_ref[...] = pltpu.annotate(x_ref.at[pl.ds(0, 8)], **claims)[...] + 1

        in_vmem = [pl.BlockSpec(memory_space=pltpu.VMEM)]
        return emulated(lambda x: call(kernel, like(x), x, in_specs=in_vmem), X, machine="tpu-v5e")

    same(run(no_bank_conflict=True, no_hazard=True), X + 1)
    for claim in ("no_store", "no_hazard_no_deps"):
        with pytest.raises(pallasim.UnsupportedError, match=f"annotate\\({claim}=True\\)"):
            run(**{claim: True})


@newer
def test_where_an_operand_lies(emulated, same):
    def kernel(x_ref, o_ref, scratch, sem):
        pltpu.async_copy(x_ref, scratch, sem).wait()
        in_hbm = pltpu.has_memory_space(x_ref, pltpu.MemorySpace.HBM)
        in_vmem = pltpu.has_memory_space(x_ref, pltpu.MemorySpace.VMEM)
        o_ref[...] = scratch[...] + jnp.where(in_hbm, 1.0, 0.0) + jnp.where(in_vmem, 10.0, 0.0)

    got = emulated(lambda x: call(kernel, like(x), x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                                  scratch_shapes=[pltpu.VMEM(X.shape, X.dtype), pltpu.SemaphoreType.DMA]), X, machine="tpu-v5e")
    same(got, X + 1)


@newer
@pytest.mark.parametrize("accumulated", [False, True])
def test_convolution(emulated, same, accumulated):
    x, k = X.reshape(1, 8, 16, 8), X[:, :24].reshape(3, 1, 8, 8)
    numbers = ("NHWC", "HWIO", "NHWC")
    expected = np.asarray(jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=numbers))

    def kernel(x_ref, k_ref, o_ref):
        acc = jnp.full(expected.shape, 3, jnp.float32) if accumulated else None
        o_ref[...] = pltpu.conv(x_ref[...], k_ref[...], acc, dimension_numbers=numbers, padding="SAME")

    got = emulated(lambda x, k: call(kernel, like(expected), x, k), x, k)
    same(got, expected + 3 * accumulated, rtol=1e-5)


@newer
def test_matrix_units_with_a_queue_are_refused_by_name():
    def kernel(x_ref, o_ref):
        pltpu.matmul_lhs_fifo(x_ref[...], 0)
        o_ref[...] = pltpu.matmul_pop_fifo((8, 128), jnp.float32, 0)

    with pallasim.emulate("tpu-7x"), pytest.raises(pallasim.KernelError, match="matmul_lhs_fifo"):
        jax.block_until_ready(call(kernel, like(X), X))


@newer
def test_barriers_and_loads_of_tensor_memory_are_captured():
    def kernel(x_ref, o_ref, barrier, tmem):
        plgpu.barrier_arrive_and_wait(barrier)
        value, largest = plgpu.async_load_tmem(tmem, reduce="absmax")
        plgpu.async_store_tmem(tmem, value)
        plgpu.set_max_registers(40, action="decrease")
        plgpu.wgmma_wait(1)
        o_ref[...] = largest

    f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128,), jnp.float32), scratch_types=[
        plgpu.Barrier(), plgpu.TMEM((128, 128), jnp.float32)])
    (text,) = pallasim.capture_text(f, jax.ShapeDtypeStruct((128,), jnp.float32), machine="gpu-b200")
    for pattern in (r"barrier_arrive .*\n.*barrier_wait ", r"= async_load_tmem %\d+ .*: f32\[128,128\]", r"= abs %", r"reduce_max %\d+ \{axes = \[1\]\}",
                    r"set_max_registers \{n = 40, action = decrease\}", r"wgmma_wait %"):
        assert re.search(pattern, text), (pattern, text)


@newer
def test_copies_of_older_gpus_are_refused_by_name():
    def kernel(x_ref, o_ref, smem):
        plgpu.copy_gmem_to_smem(x_ref, smem)
        o_ref[...] = smem[...]

    f = plgpu.kernel(kernel, out_type=like(X), scratch_types=[plgpu.SMEM(X.shape, X.dtype)])
    with pallasim.emulate("gpu-a100"), pytest.raises(pallasim.UnsupportedError, match=r"copy_gmem_to_smem without a barrier"):
        jax.block_until_ready(f(X))


def test_gpu_kernels_without_compiler_parameters_are_compiled_as_jax_does():
    """By Triton, unless a switch that JAX 0.12 has no more says Mosaic GPU."""
    from jax._src import config

    f = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=jnp.ones((3, 5)))
    switch = getattr(config, "jax_pallas_use_mosaic_gpu", None)
    mosaic = switch is not None and switch.value
    (text,) = pallasim.capture_text(f, jnp.ones((3, 5)), machine="gpu-h100")
    assert f"machine = {'mosaic_gpu' if mosaic else 'triton'}" in text
    if switch is None:
        with pytest.raises(pallasim.RefusedError, match="PS-TRI-001"), pallasim.emulate("gpu-h100"):
            f(jnp.ones((3, 5)))


@newer
def test_who_asks_for_a_cluster():
    """All warpgroups together: one cluster is taken for each that has begun, and all know it. Each by itself: one is lost."""
    def run(together):
        def kernel(by, answer, asked, _):
            a, wg = jax.lax.axis_index("a"), jax.lax.axis_index("wg")
            plgpu.try_cluster_cancel(answer, asked, collective_axes=together)
            plgpu.barrier_wait(asked)
            (other,), given = plgpu.query_cluster_cancel(answer, ("a",))
            by[a, wg] = a

            @pl.when(given)
            def _():
                by[other, wg] = a

        scratch = [plgpu.TryClusterCancelResult(), plgpu.Barrier(num_arrivals=2), plgpu.SMEM((200 * 1024,), jnp.int8)]
        f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((150, 2), jnp.int32), grid=(150,), grid_names=("a",), num_threads=2, thread_name="wg",
                         scratch_types=scratch)
        with pallasim.emulate("gpu-b200", detect_races=True, findings="collect"):
            return np.asarray(f())

    pallasim.findings()
    got = run("wg")
    assert not pallasim.findings(), pallasim.findings()[0].report
    assert (got[:148] == np.arange(148)[:, None]).all() and (got[148:, 0] == got[148:, 1]).all() and set(got[148:, 0]) <= set(range(148))
    run(())  # each warpgroup asks, and the second answer comes over the first
    (lost,) = [f for f in pallasim.findings() if f.code == "PS-CLU-001"]
    assert "cluster (148) is lost" in lost.message and "collective_axes" in lost.report


@newer
@pytest.mark.parametrize("clusters, lost", [(4, False), (80, True)])
def test_pairs_whose_ctas_ask_each_by_itself(clusters, lost):
    """JAX 0.12's own product names no axis of the cluster: right while the chip holds all clusters, and clusters are lost behind them."""
    from jax.experimental.pallas.ops.gpu import blackwell_matmul_mgpu as mm

    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((clusters // 2 * 256, 64), (64, 512)))
    config = mm.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=2, collective=True)
    pallasim.findings()
    with pallasim.emulate("gpu-b200", findings="collect"):
        got = np.asarray(mm.matmul_kernel(jnp.asarray(a), jnp.asarray(b), config))
    told = [f for f in pallasim.findings() if f.code == "PS-CLU-001"]
    right = np.isclose(got.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), atol=0.02).all()
    assert bool(told) == lost and right == (not lost)
    assert all("is lost" in f.message and "cluster_axes" in f.report and "dynamic_scheduling_loop" in f.report for f in told)


@newer
@pytest.mark.parametrize("holds", [True, False])
def test_arrivals_under_a_predicate(holds):
    """Of a thread, and of what the tensor pipe was told."""
    def kernel(x_ref, o_ref, bar, done, t):
        plgpu.async_store_tmem(t, plgpu.load(x_ref))
        plgpu.commit_tmem()
        plgpu.barrier_arrive(bar, predicate=x_ref[0, 0] > 0)
        plgpu.barrier_wait(bar)
        plgpu.tcgen05_commit_arrive(done, predicate=x_ref[0, 1] > 0)
        plgpu.barrier_wait(done)
        o_ref[...] = plgpu.async_load_tmem(t)

    x = np.ones((128, 128), np.float32)
    x[0, 1] = 1 if holds else -1
    f = plgpu.kernel(kernel, out_type=like(x), scratch_types=[plgpu.Barrier(), plgpu.Barrier(orders_tensor_core=True), plgpu.TMEM((128, 128), jnp.float32)])
    options = {"detect_races": True, "findings": "raise"}
    if holds:
        with pallasim.emulate("gpu-b200", **options):
            np.testing.assert_array_equal(f(x), x)
    else:
        with pytest.raises(pallasim.KernelError, match="PS-DEAD-001"), pallasim.emulate("gpu-b200", **options):
            jax.block_until_ready(f(x))


@newer
@pytest.mark.parametrize("scaled", [False, True])
def test_products_of_two_kinds_of_f8(scaled):
    """Of Blackwell; with block scales, too."""
    from test_blackwell import done, load, numbers, smem

    def kernel(*refs):
        a_gmem, b_gmem, *s_gmem, o_gmem, a, b, bar, end, acc, s, ta, tb = refs
        load([(a_gmem, a), (b_gmem, b), *((g, s.at[i]) for i, g in enumerate(s_gmem))], bar)
        for i, to in enumerate((ta, tb) if scaled else ()):
            plgpu.async_copy_scales_to_tmem(s.at[i], to)
        with_scales = {"a_scale": ta, "b_scale": tb} if scaled else {}
        plgpu.tcgen05_mma(acc, a, plgpu.transpose_ref(b, (1, 0)) if scaled else b, end, accumulate=False, **with_scales)
        plgpu.barrier_wait(end)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    e4, e5, f8 = jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e8m0fnu
    x, y = numbers((128, 128), e4), numbers((128, 128), e5)
    given = [jnp.ones((1, 1, 32, 16), f8) for _ in range(2 if scaled else 0)]
    scratch = [smem((128, 128), e4), smem((128, 128), e5), plgpu.Barrier(num_arrivals=2 + len(given)), done(), plgpu.TMEM((128, 128), jnp.float32),
               plgpu.SMEM((2, 1, 1, 32, 16), f8), *[plgpu.TMEM((128, 4), f8, layout=plgpu.TMEMLayout.SCALES_LAYOUT) for _ in range(2)]]
    f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 128), jnp.float32), scratch_types=scratch)
    with pallasim.emulate("gpu-b200", detect_races=True, findings="raise"):
        got = f(x, y, *given)
    left, right = (np.asarray(v, np.float32) for v in (x, y))
    np.testing.assert_array_equal(got, left @ (right.T if scaled else right))
