"""Programs in the spellings of older JAX versions, as they were written."""
from __future__ import annotations

import functools
import importlib
import pathlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim
from pallasim import compat

X = np.random.default_rng(0).standard_normal((8, 128), dtype=np.float32)
OUT = jax.ShapeDtypeStruct(X.shape, X.dtype)


@pytest.fixture
def old():
    """Inside: older spellings, and `old(count)` warnings of ours must have come by then."""
    with warnings.catch_warnings(record=True) as caught, compat.old_spellings():
        warnings.simplefilter("always")
        yield lambda text: any(text in str(w.message) and w.filename == __file__ for w in caught)


ROWS: set[str] = set()


def row(written: str):
    """The test runs the row of docs/compat.md that is written like this."""
    ROWS.add(written)
    return lambda test: test


@row('`pl.load(ref, idx)`, `pl.store(ref, idx, val)`, `pl.swap(ref, idx, val)`')
def test_load_store_swap(emulated, same, old):
    def kernel(x_ref, o_ref):
        row = pl.load(x_ref, (pl.ds(2, 4), slice(None)))
        pl.store(o_ref, (slice(0, 4), slice(None)), row)
        pl.store(o_ref, (slice(4, 8), slice(None)), row * 2)
        before = pl.swap(o_ref, (0, slice(None)), jnp.zeros(128, jnp.float32))
        pl.store(o_ref, (slice(1, 2), slice(None)), before[None])

    out = emulated(lambda x: pl.pallas_call(kernel, OUT)(x), X)
    want = np.concatenate([X[2:6], X[2:6] * 2])
    want[0], want[1] = 0, X[2]
    same(out, want)
    assert old("pl.load(ref, idx)") and old("pl.store(ref, idx, val)") and old("pl.swap")


@row('`pl.load(ref, idx, mask=, other=)`, `pl.store(ref, idx, val, mask=)`')
@row('`pl.load(..., memory_space=)`, `pl.store(..., memory_space=)`')
def test_masked_load_and_memory_space(emulated, same, old):
    def kernel(x_ref, o_ref):
        i = jnp.arange(8)
        x = pl.load(x_ref, (i,), mask=i < 5, other=7.0, memory_space=pltpu.VMEM)
        pl.store(o_ref, (i,), x, mask=i > 0, memory_space=pltpu.VMEM)

    out = emulated(lambda x: pl.pallas_call(kernel, jax.ShapeDtypeStruct((8,), jnp.float32))(x), jnp.arange(8.0))
    same(out[1:], np.array([1, 2, 3, 4, 7, 7, 7], np.float32))
    assert np.isnan(out[0])  # nobody wrote it


@row('`pl.atomic_add`, `max`, `min`, `and`, `or`, `xor`, `xchg`')
@pytest.mark.parametrize("name, value, want", [("add", 3, 4), ("max", 3, 3), ("min", -3, -3), ("and", 0, 0), ("or", 2, 3), ("xor", 3, 2), ("xchg", 9, 9)])
def test_atomics(emulated, old, name, value, want):
    def kernel(x_ref, o_ref, before_ref):
        before_ref[...] = getattr(pl, f"atomic_{name}")(o_ref, (), jnp.int32(value))

    def f(x):
        shape = jax.ShapeDtypeStruct((), jnp.int32)
        return pl.pallas_call(kernel, (shape, shape), input_output_aliases={0: 0}, compiler_params=pltriton.CompilerParams())(x)

    after, before = emulated(f, jnp.int32(1), machine="gpu-h100")
    assert after == want and before == 1
    assert old(f"pl.atomic_{name}")


@row('`pl.atomic_cas(ref, (), cmp, val)`, `(ref, (0,), cmp, val)`')
@pytest.mark.parametrize("shape, index", [((1,), (0,)), ((1,), 0), ((1, 1), (0, 0)), ((1,), ()), ((), ())])
def test_atomic_cas_of_one_element(emulated, old, shape, index):
    """Plain numbers are of the ref's type."""
    def kernel(x_ref, o_ref, before_ref):
        before_ref[0] = pl.atomic_cas(o_ref, index, 1, 5)
        before_ref[1] = pl.atomic_cas(o_ref, index, 1, 7)
        if shape:
            before_ref[2] = pl.atomic_cas(o_ref.at[(0,) * len(shape)], jnp.float32(5), jnp.float32(9))
        else:
            before_ref[2] = pl.atomic_cas(o_ref, 5, 9)

    def f(x):
        out = (jax.ShapeDtypeStruct(shape, jnp.float32), jax.ShapeDtypeStruct((3,), jnp.float32))
        return pl.pallas_call(kernel, out, input_output_aliases={0: 0}, compiler_params=pltriton.CompilerParams())(x)

    after, before = emulated(f, jnp.ones(shape, jnp.float32), machine="gpu-h100")
    assert after.shape == shape and after.item() == 9 and before.tolist() == [1, 5, 5] and old("pl.atomic_cas")


def test_atomic_cas_locks_programs(emulated, old):
    """Who finds the lock free takes it: one of eight."""
    def kernel(x_ref, lock_ref, got_ref):
        got_ref[pl.program_id(0)] = pl.atomic_cas(lock_ref, (0,), 0, 5)

    def f(x):
        out = (jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((8,), jnp.int32))
        return pl.pallas_call(kernel, out, grid=(8,), input_output_aliases={0: 0}, compiler_params=pltriton.CompilerParams())(x)

    lock, got = emulated(f, jnp.zeros(1, jnp.int32), machine="gpu-h100", random_seed=3)
    assert lock.tolist() == [5] and sorted(got.tolist()) == [0] + 7 * [5]


def test_atomic_cas_of_more_elements_is_refused(old):
    def call(index, *values):
        def kernel(x_ref, o_ref):
            pl.atomic_cas(o_ref, index, *values)

        return pallasim.capture_text(lambda x: pl.pallas_call(kernel, jax.ShapeDtypeStruct((1, 1), jnp.float32))(x), X)

    for index, values, said in [((0, slice(None)), (1, 5), "names no single element"), ((0, 0), (jnp.int32(1), 5), "scalars of the ref's type float32"),
                                ((0, 0), (), "not 2 arguments")]:
        with pytest.raises((TypeError, ValueError), match=said):
            call(index, *values)


def test_atomic_cas(emulated, old):
    def kernel(x_ref, o_ref, before_ref):
        before_ref[...] = pl.atomic_cas(o_ref, (), jnp.int32(1), jnp.int32(5))

    def f(x):
        shape = jax.ShapeDtypeStruct((), jnp.int32)
        return pl.pallas_call(kernel, (shape, shape), input_output_aliases={0: 0}, compiler_params=pltriton.CompilerParams())(x)

    after, before = emulated(f, jnp.int32(1), machine="gpu-h100")
    assert after == 5 and before == 1 and old("pl.atomic_cas")

    def indexed(x_ref, o_ref):
        pl.atomic_cas(o_ref, (2,), jnp.float32(1), jnp.float32(5))

    with pytest.raises(TypeError, match="a ref of one element"):
        pallasim.capture_text(lambda x: pl.pallas_call(indexed, OUT)(x), X)


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def machine_of(f, *args, machine="generic"):
    (text,) = pallasim.capture_text(f, *args, machine=machine)
    return text.splitlines()[1]


@row('`jax.vmap(partial(pl.pallas_call, kernel, out_shape=...))(x)`')
def test_arrays_given_to_pallas_call(emulated, same, old):
    row = jax.ShapeDtypeStruct((128,), jnp.float32)
    out = emulated(jax.vmap(functools.partial(pl.pallas_call, double_kernel, out_shape=row)), X)
    same(out, X * 2)
    same(emulated(lambda x: pl.pallas_call(double_kernel, OUT, x), X), X * 2)
    assert old("called with arrays")


@row('`pallas_call(dimension_semantics=)`')
def test_dimension_semantics(emulated, same, old):
    spec = pl.BlockSpec((1, 128), lambda i: (i, 0))

    def f(x):
        return pl.pallas_call(double_kernel, OUT, grid=(8,), in_specs=[spec], out_specs=spec, dimension_semantics=("parallel",))(x)

    same(emulated(f, X, machine="tpu-v5e", rules=False), X * 2)
    (text,) = pallasim.capture_text(f, X)
    assert "grid {size = 8, semantics = parallel}" in text and "machine = tpu" in text and old("dimension_semantics")


@row('`pallas_call(backend="mosaic" or "triton" or "mosaic_gpu")`')
@pytest.mark.parametrize("backend, machine", [("mosaic", "tpu"), ("mosaic_tpu", "tpu"), ("triton", "triton"), ("mosaic_gpu", "mosaic_gpu")])
def test_backend(old, backend, machine):
    assert machine_of(lambda x: pl.pallas_call(double_kernel, OUT, backend=backend)(x), X).startswith(f'module "double_kernel" {{machine = {machine}, ')
    assert old("backend")


def test_backend_contradictions(old):
    with pytest.raises(ValueError, match="there are mosaic"):
        pl.pallas_call(double_kernel, OUT, backend="cuda")
    with pytest.raises(ValueError, match="contradicts"):
        pl.pallas_call(double_kernel, OUT, backend="triton", compiler_params=pltpu.CompilerParams())
    with pytest.raises(ValueError, match="several backends"):
        pl.pallas_call(double_kernel, OUT, compiler_params={"mosaic": {}, "triton": {}})


@row('`pallas_call(num_warps=, num_stages=)`')
@row('`pallas_call(compiler_params={"mosaic": {...}})`')
def test_dictionaries_and_warps(old):
    line = machine_of(lambda x: pl.pallas_call(double_kernel, OUT, compiler_params={"mosaic": {"dimension_semantics": ("arbitrary",)}}, grid=(1,))(x), X)
    assert "machine = tpu," in line and "arbitrary" in line
    line = machine_of(lambda x: pl.pallas_call(double_kernel, OUT, num_warps=4, num_stages=2)(x), X)
    assert "machine = triton," in line and "num_warps = 4" in line and "num_stages = 2" in line


@row('`triton_call(kernel, out_shape=...)`, `@triton_call(out_shape=..., grid=...)`')
def test_triton_call(emulated, same, old):
    assert "machine = triton," in machine_of(lambda x: plgpu.triton_call(double_kernel, out_shape=OUT, num_warps=2)(x), X)
    same(emulated(lambda x: plgpu.triton_call(double_kernel, out_shape=OUT)(x), X, machine="gpu-h100"), X * 2)

    @pltriton.triton_call(out_shape=OUT, grid=(8,), num_warps=4)
    def rows(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[i, :] = x_ref[i, :] * 2

    same(emulated(rows, X, machine="gpu-h100"), X * 2)
    assert old("triton_call")


@row('`pipelines.PipelineParams(num_stages=n)` or `(prefetch=n - 1)` as `pallas_call(pipeline_params=)`')
def test_pipeline_params(emulated, same, old):
    from jax.experimental.pallas import pipelines

    spec = pl.BlockSpec((2, 128), lambda i: (i, 0))

    def f(x):
        return pl.pallas_call(double_kernel, OUT, grid=(4,), in_specs=[spec], out_specs=spec, pipeline_params=pipelines.PipelineParams(num_stages=3))(x)

    same(emulated(f, X), X * 2)
    assert pallasim.capture_text(f, X)[0].count("pipeline = buffered(3)") == 2 and old("pipeline_params")

    def ahead(x, **params):
        big = pl.BlockSpec((4, 128), lambda i: (i, 0))
        return pl.pallas_call(double_kernel, OUT, grid=(2,), in_specs=[big], out_specs=big, pipeline_params=pipelines.PipelineParams(**params))(x)

    for params, buffers in (({"prefetch": 3}, 4), ({"prefetch": True}, 2), ({"prefetch": 0}, 1), ({"num_stages": 3, "prefetch": 2}, 3), ({}, 2)):
        assert pallasim.capture_text(lambda x: ahead(x, **params), X)[0].count(f"pipeline = buffered({buffers})") == 2
    # The pipeline of a TPU's pallas_call has two buffers at most.
    (text,) = pallasim.capture_text(lambda x: ahead(x, num_stages=3), X, machine="tpu-v5e")
    assert text.count("pipeline = buffered(2)") == 2 and old("are two here")
    with pytest.raises(ValueError, match="2 stages fetch 1 blocks ahead"):
        pallasim.capture_text(lambda x: ahead(x, num_stages=2, prefetch=2), X)


@row('`pl.BlockSpec(index_map, block_shape)`')
def test_block_spec_order(emulated, same, old):
    def f(x):
        return pl.pallas_call(double_kernel, OUT, grid=(4,), in_specs=[pl.BlockSpec(lambda i: (i, 0), (2, 128))],
                              out_specs=pl.BlockSpec(lambda i: (i, 0), block_shape=(2, 128)))(x)

    same(emulated(f, X), X * 2)
    assert old("BlockSpec(index_map, block_shape)")
    today = pl.BlockSpec((2, 128), lambda i: (i, 0), memory_space=pl.ANY)
    assert isinstance(today, pl.BlockSpec) and today.block_shape == (2, 128)
    assert pl.BlockSpec(None, lambda i: (i, 0)).block_shape is None


@row('`pl.BlockSpec(..., indexing_mode=pl.Unblocked(padding))`')
def test_unblocked(emulated, same, old):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def f(x):  # rows 1-2, 3-4, 5-6: offsets of elements, which no block of two rows has
        return pl.pallas_call(kernel, jax.ShapeDtypeStruct((6, 128), jnp.float32), grid=(3,),
                              in_specs=[pl.BlockSpec((2, 128), lambda i: (2 * i + 1, 0), indexing_mode=pl.Unblocked())],
                              out_specs=pl.BlockSpec((2, 128), lambda i: (i, 0)))(x)

    same(emulated(f, X), X[1:7])
    assert old("pl.Unblocked")


@row('`pl.kernel(out_shape=, scratch_shapes=)`')
def test_kernel_out_shape(emulated, same, old):
    def f(x):
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
        scratch = [pltpu.VMEM(X.shape, jnp.float32)]

        def body(x_ref, o_ref, tmp_ref):
            tmp_ref[...] = x_ref[...]
            o_ref[...] = tmp_ref[...] * 2

        return pl.kernel(body, out_shape=OUT, mesh=mesh, scratch_shapes=scratch)(x)

    same(emulated(f, X, machine="tpu-v5e", rules=False), X * 2)
    assert old("pl.kernel(out_shape=)") and old("pl.kernel(scratch_shapes=)")


@row('`pltpu.TPUCompilerParams`, `TPUInterpretParams`, `TPUMemorySpace`, `KernelType`, `ANY`, `repeat`')
def test_names_of_the_tpu_backend(emulated, same, old):
    params = pltpu.TPUCompilerParams(dimension_semantics=("arbitrary",))
    assert params == pltpu.CompilerParams(dimension_semantics=("arbitrary",)) and isinstance(params, pltpu.TPUCompilerParams)
    assert pltpu.TPUInterpretParams() == pltpu.InterpretParams()
    assert pltpu.TPUMemorySpace.VMEM is pltpu.VMEM and pltpu.TPUMemorySpace.ANY is pl.ANY and pltpu.ANY is pl.ANY
    assert pltpu.KernelType is pltpu.CoreType and pltpu.delay is pl.delay
    assert old("pltpu.TPUCompilerParams") and old("pltpu.TPUInterpretParams")

    def kernel(x_ref, o_ref):
        o_ref[...] = pltpu.repeat(x_ref[...], 2, 0)

    out = emulated(lambda x: pl.pallas_call(kernel, jax.ShapeDtypeStruct((16, 128), jnp.float32))(x), X, machine="tpu-v5e")
    same(out, np.concatenate([X, X]))


@row('`plgpu.GPUCompilerParams`, `GPUMesh`, `GPUMemorySpace`, `GPUBlockSpec`, `TileTransform`, `tcgen05_commit`, `wait_barrier`')
@row('`plgpu.Barrier(num_threads=)`')
@row('`jax.experimental.pallas.gpu`, `TritonCompilerParams`')
def test_names_of_the_gpu_backends(old):
    assert plgpu.GPUCompilerParams(approx_math=True) == plgpu.CompilerParams(approx_math=True)
    assert plgpu.GPUMesh(grid=(2,), grid_names=("x",)) == plgpu.Mesh(grid=(2,), grid_names=("x",))
    assert plgpu.TileTransform((8, 64)) == plgpu.TilingTransform((8, 64)) and plgpu.tcgen05_commit is plgpu.tcgen05_commit_arrive
    assert plgpu.GPUMemorySpace is plgpu.MemorySpace and plgpu.GPUBlockSpec is plgpu.BlockSpec and plgpu.wait_barrier is plgpu.barrier_wait
    barrier = plgpu.Barrier(num_threads=2, num_barriers=3)
    assert barrier.num_arrivals == 2 and barrier.num_barriers == (3,) and isinstance(barrier, plgpu.Barrier)
    assert plgpu.Barrier(num_arrivals=4).num_arrivals == 4
    assert old("plgpu.GPUCompilerParams") and old("plgpu.GPUMesh") and old("plgpu.Barrier(num_threads=)")

    gpu = importlib.import_module("jax.experimental.pallas.gpu")
    assert gpu.TritonCompilerParams(num_warps=8) == pltriton.CompilerParams(num_warps=8)


@row('`plgpu.copy_gmem_to_smem(partitioned_axis=)`')
def test_partitioned_copies(old, monkeypatch):
    seen = {}
    monkeypatch.setattr(compat, "_original", lambda name, module: lambda *args, **kwargs: seen.update(kwargs))
    plgpu.copy_gmem_to_smem("src", "dst", "barrier", collective_axes="x", partitioned_axis=1)
    assert seen == {"collective_axes": "x", "leader_tracked": plgpu.CopyPartition.PARTITIONED(1)} and old("partitioned_axis")


@row('`jax.mutable_array`, `jax.array_ref`')
def test_refs(old):
    for make in (jax.mutable_array, jax.array_ref):
        ref = make(jnp.arange(4.0))
        ref[1] = 7.0
        np.testing.assert_array_equal(ref[...], [0, 7, 2, 3])


@row('`ref[i * 8 : (i + 1) * 8]`, also in `pl.load` and `pl.store`: slices with traced bounds')
def test_slices_with_traced_bounds(emulated, same, old):
    def kernel(x_ref, o_ref):
        i, size = pl.program_id(0), 2
        rows = pl.load(x_ref, (slice(i * size, (i + 1) * size), slice(None)))
        o_ref[size * i : size + i * size] = rows * 2

    same(emulated(lambda x: pl.pallas_call(kernel, OUT, grid=(4,))(x), X), X * 2)
    assert old("traced bounds")

    def unknown(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[i : 2 * i] = x_ref[i : 2 * i]

    with pytest.raises(TypeError, match=r"write pl.ds\(start, size\)"):
        pallasim.capture_text(lambda x: pl.pallas_call(unknown, OUT, grid=(4,))(x), X)


@row('`pl.atomic_add(ref.at[i], val)`, `pl.atomic_add(ref, i, val)`, `pl.atomic_add(ref, (idx,), val, mask=)`')
def test_atomics_with_refs_and_indices(emulated, same, old):
    def kernel(x_ref, o_ref):
        pl.atomic_add(o_ref.at[1], 3.0)
        pl.atomic_add(o_ref, 2, 4.0)
        lanes = jnp.arange(8)
        pl.atomic_add(o_ref, (lanes,), jnp.full(8, 0.5), mask=lanes < 2)

    def f(x):
        return pl.pallas_call(kernel, jax.ShapeDtypeStruct((8,), jnp.float32), input_output_aliases={0: 0}, compiler_params=pltriton.CompilerParams())(x)

    same(emulated(f, jnp.zeros(8), machine="gpu-h100"), np.array([0.5, 3.5, 4, 0, 0, 0, 0, 0], np.float32))


@row('`pl.max_contiguous`, `pl.dot`, `pl.approx_tanh`, `pl.debug_barrier`, `pl.elementwise_inline_asm`')
def test_names_of_triton(old):
    def kernel(x_ref, o_ref):
        pl.debug_barrier()
        o_ref[...] = pl.dot(x_ref[...], pl.approx_tanh(x_ref[...]))

    (text,) = pallasim.capture_text(lambda x: pl.pallas_call(kernel, jax.ShapeDtypeStruct((16, 16), jnp.float32), compiler_params=pltriton.CompilerParams())(x),
                                    jnp.ones((16, 16)), machine="gpu-h100")
    assert "tanh" in text and "dot" in text and old("pl.dot") and old("pl.approx_tanh") and old("pl.debug_barrier")
    assert callable(pl.elementwise_inline_asm) and callable(pl.max_contiguous)


@row('`pallas_call(in_specs=BlockSpec(...))`, also of `pl.GridSpec`')
def test_bare_block_spec(emulated, same, old):
    spec = pl.BlockSpec((2, 128), lambda i: (i, 0))

    def add(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    same(emulated(lambda x: pl.pallas_call(add, OUT, grid=(4,), in_specs=spec, out_specs=spec)(x, x), X), X * 2)
    assert old("a bare in_specs")
    grid_spec = pl.GridSpec(grid=(4,), in_specs=spec, out_specs=spec)
    same(emulated(lambda x: pl.pallas_call(double_kernel, OUT, grid_spec=grid_spec)(x), X), X * 2)


@row('`pl.GridSpec(scratch_specs=)`, `pltpu.PrefetchScalarGridSpec(scratch_specs=)`, `pallas_call(scratch_specs=)`')
def test_scratch_specs(emulated, same, old):
    def kernel(x_ref, o_ref, tmp_ref):
        tmp_ref[...] = x_ref[...]
        o_ref[...] = tmp_ref[...] * 2

    def prefetched(n_ref, x_ref, o_ref, tmp_ref):
        kernel(x_ref, o_ref, tmp_ref)

    scratch = [pltpu.VMEM(X.shape, jnp.float32)]
    same(emulated(lambda x: pl.pallas_call(kernel, OUT, grid_spec=pl.GridSpec(grid=(1,), scratch_specs=scratch))(x), X), X * 2)
    same(emulated(lambda x: pl.pallas_call(kernel, OUT, scratch_specs=scratch)(x), X), X * 2)
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), scratch_specs=scratch)
    same(emulated(lambda x: pl.pallas_call(prefetched, OUT, grid_spec=spec)(jnp.ones(1, jnp.int32), x), X), X * 2)
    assert old("GridSpec(scratch_specs=)") and old("pallas_call(scratch_specs=)") and isinstance(spec, pltpu.PrefetchScalarGridSpec)


@row('`plgpu.kernel(out_shape=, scratch_shapes=)`')
@row('`plgpu.kernel(grid=)`, `(cluster=)` without names')
def test_kernels_of_mosaic_gpu(emulated, same, old):
    def body(x_ref, o_ref, tmp_ref):
        i = pl.program_id(0)
        tmp_ref[...] = x_ref[pl.ds(2 * i, 2)]
        o_ref[pl.ds(2 * jax.lax.axis_index("x"), 2)] = tmp_ref[...] * 2

    f = plgpu.kernel(body, out_shape=OUT, scratch_shapes=[plgpu.SMEM((2, 128), jnp.float32)], grid=(4,))
    same(emulated(f, X, machine="gpu-h100"), X * 2)
    assert old("plgpu.kernel(out_shape=)") and old("plgpu.kernel(scratch_shapes=)") and old("without grid_names")
    names = pallasim.capture_text(plgpu.kernel(lambda o_ref: None, out_type=OUT, grid=(1, 1, 1, 1), cluster=(2,)), machine="gpu-h100")[0]
    assert all(f'axis("{n}", ' in names for n in ("axis0", "axis3", "u"))


@row('`pltpu.delay`, `run_scoped`, `semaphore_signal`, `semaphore_wait`, `semaphore_read`, `DeviceIdType`, `CostEstimate`, `MemoryRef`, `ds`, `when`, `HOST`')
def test_names_that_moved_to_pl(old):
    for name in ("delay", "run_scoped", "semaphore_signal", "semaphore_wait", "semaphore_read", "DeviceIdType", "CostEstimate", "MemoryRef", "ds", "when", "HOST"):
        assert getattr(pltpu, name) is getattr(pl, name)


@pytest.mark.parametrize("name, write", [("block_id", "pl.program_id(axis)"), ("syncthreads", "nothing"), ("matmul", "jnp.dot"),
                                         ("arange", "jnp.arange"), ("make_async_copy", "pltpu.make_async_copy"),
                                         ("SMEM", "pltpu.SMEM"), ("num_program", "pl.num_programs"), ("BlocSpec", "pl.BlockSpec")])
def test_invented_names_are_refused_with_what_to_write(old, name, write):
    with pytest.raises(AttributeError, match=rf"has no '{name}'.*; write .*{re.escape(write)}"):
        getattr(pl, name)
    assert not hasattr(pltpu, "frobnicate")
    with pytest.raises(AttributeError, match="has no 'zzzzzzz', today or in an older version$"):
        plgpu.zzzzzzz


@pytest.mark.parametrize("name, write", [("block_shape", "in_specs="), ("output_shape", "out_shape="), ("in_spec", "in_specs="), ("scratch", "scratch_shapes=")])
def test_invented_arguments_are_refused_with_what_to_write(old, name, write):
    with pytest.raises(TypeError, match=rf"pallas_call has no argument '{name}'.*; write .*{re.escape(write)}"):
        pl.pallas_call(double_kernel, out_shape=OUT, **{name: 1})


def test_every_row_of_the_page_is_run():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "compat.md").read_text()
    written = {line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| `")}
    assert written == ROWS


def test_outside_jax_is_untouched():
    before = {module: dict(vars(module)) for module in (pl, pltpu, plgpu, pltriton, jax)}
    with compat.old_spellings(), compat.old_spellings():
        assert hasattr(pl, "load") and pl.BlockSpec is not before[pl]["BlockSpec"]
    for module, names in before.items():
        assert {k: v for k, v in vars(module).items() if k in names} == names and not set(vars(module)) - set(names)
    for name in ("load", "atomic_add"):
        assert not hasattr(pl, name)
    with pytest.raises(ImportError):
        importlib.import_module("jax.experimental.pallas.pipelines")
    with pytest.raises(RuntimeError, match="not enabled"):
        compat.disable()
    with pytest.raises(TypeError):
        pl.pallas_call(double_kernel, OUT, backend="mosaic")
