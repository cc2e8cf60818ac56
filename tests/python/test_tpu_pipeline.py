"""The grid's own pipeline with windows, TensorCores that share a grid or a mesh, and what JAX's interpreter options ask for."""
import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ON_CHIP = pl.BlockSpec(memory_space=pltpu.SMEM)
HBM = pl.BlockSpec(memory_space=pltpu.HBM)
MODELLED = [dict(pipeline="modelled", dma_execution_mode=m, random_seed=s)
            for m, s in (("eager", None), ("on_wait", None), ("scheduled", 0), ("scheduled", 1), ("scheduled", 2))]


def both(same, f, *args, machine="tpu-v5e"):
    """What `f` gives with elided windows, after every modelled schedule was seen to give the same."""
    plain = dict(numerics="reference")  # a library's sums depend on how its operands lie
    with pallasim.emulate(machine, **plain):
        want = f(*args)
    for options in MODELLED:
        begin = pallasim.launch_count()
        with pallasim.emulate(machine, **plain, **options):
            same(f(*args), want)
        assert pallasim.launch_count() > begin
    return want


def matmul(x, y):
    def kernel(x_ref, y_ref, o_ref, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = acc[...]

    return pl.pallas_call(
        kernel, grid=(2, 2, 3), out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32), scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
        in_specs=[pl.BlockSpec((8, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)))(x, y)


def test_an_accumulating_kernel_has_the_same_bytes_with_windows(same):
    x = jax.random.normal(jax.random.key(0), (16, 384))
    y = jax.random.normal(jax.random.key(1), (384, 256))
    np.testing.assert_allclose(both(same, matmul, x, y), x @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("buffers", [1, 2])
def test_prefetched_scalars_choose_the_blocks_that_are_fetched_ahead(same, buffers):
    def f(idx, x):
        return pl.pallas_call(
            lambda idx_ref, x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1, grid=(idx.size,),
                in_specs=[pl.BlockSpec((8, 128), lambda i, idx: (idx[i], 0), pipeline_mode=pl.Buffered(buffers))],
                out_specs=pl.BlockSpec((8, 128), lambda i, idx: (i, 0))),
            out_shape=jax.ShapeDtypeStruct((8 * idx.size, 128), x.dtype))(idx, x)

    idx = jnp.array([2, 2, 0, 3, 1], jnp.int32)
    x = jax.random.normal(jax.random.key(2), (32, 128))
    same(both(same, f, idx, x), 2 * np.asarray(x).reshape(4, 8, 128)[np.asarray(idx)].reshape(-1, 128))


def test_edge_blocks_dynamic_grids_and_squeezed_dimensions(same):
    @jax.jit
    def f(steps, x):
        return pl.pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + pl.program_id(1).astype(jnp.float32)),
            grid=(2, steps), out_shape=jax.ShapeDtypeStruct((2, 20, 128), x.dtype),
            in_specs=[pl.BlockSpec((None, 8, 128), lambda b, i: (b, i, 0))],
            out_specs=pl.BlockSpec((None, 8, 128), lambda b, i: (b, i, 0)))(x)

    x = jax.random.normal(jax.random.key(3), (2, 20, 128))
    same(both(same, f, jnp.int32(3), x), np.asarray(x) + np.repeat(np.float32([0, 1, 2]), 8)[:20, None])


def test_windows_are_memory_of_the_core():
    """A kernel may change its input's window; the array, and what is fetched again, stay as they are."""

    def kernel(x_ref, o_ref):
        x_ref[...] += 1.0
        o_ref[...] = x_ref[...]

    x = jnp.zeros((16, 128))
    for options in [{}, dict(pipeline="modelled")]:
        with pallasim.emulate("tpu-v5e", **options):
            out = pl.pallas_call(
                kernel, grid=(2, 3), out_shape=jax.ShapeDtypeStruct((2, 3, 8, 128), jnp.float32),
                in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, 0))], out_specs=pl.BlockSpec((None, None, 8, 128), lambda i, j: (i, j, 0, 0)))(x)
        np.testing.assert_array_equal(out[:, :, 0, 0], [[1, 2, 3], [1, 2, 3]])
    np.testing.assert_array_equal(x, np.zeros((16, 128)))


def test_an_aliased_input_is_read_once_where_its_window_does_not_move():
    def f(x):
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), grid=(5,), input_output_aliases={0: 0},
                              out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[pl.BlockSpec(x.shape, lambda i: (0, 0))],
                              out_specs=pl.BlockSpec(x.shape, lambda i: (0, 0)))(x)

    x = jnp.arange(1024.0).reshape(8, 128)
    with pallasim.emulate("tpu-v5e"):
        np.testing.assert_array_equal(f(x), x + 1)


# --- cores ----------------------------------------------------------------------------------------------------------
def counted(**params):
    """What each step finds in a counter in SMEM: cores have one each."""

    def kernel(o_ref, n):
        @pl.when(pl.program_id(1) == 0)
        def _():
            n[0] = n[0] * 0 if params.get("reset") else jnp.where(pl.program_id(0) % 4 == 0, 0, n[0])

        o_ref[...] = jnp.full(o_ref.shape, n[0])
        n[0] = n[0] + 1

    return pl.pallas_call(
        kernel, grid=(8, 2), out_shape=jax.ShapeDtypeStruct((8, 256), jnp.int32), out_specs=pl.BlockSpec((1, 128), lambda i, j: (i, j)),
        scratch_shapes=[pltpu.SMEM((1,), jnp.int32)], compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")))()


@pytest.mark.parametrize("machine, threads", [("tpu-v4", 2), ("tpu-v5p", 2), ("tpu-v6e", 1)])
def test_a_megacore_chip_splits_its_parallel_axis(machine, threads):
    with pallasim.emulate(machine, rules=False):
        out = counted()
    np.testing.assert_array_equal(out[:, ::128].ravel(), list(range(8)) * 2)
    assert pallasim.last_run()["threads"] == threads


@pytest.mark.parametrize("machine", ["tpu-v4", "tpu-v5p"])
def test_a_mesh_has_the_cores_of_the_chip(machine, same):
    """create_tensorcore_mesh without num_cores; cores meet, and each does its half."""

    def f(x):
        @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=pltpu.create_tensorcore_mesh("core"),
                   scratch_types=[pltpu.VMEM((8, 128), x.dtype), pltpu.SemaphoreType.REGULAR])
        def halves(x_ref, o_ref, v, ready):
            core, cores = jax.lax.axis_index("core"), jax.lax.axis_size("core")
            for other in range(cores):
                pl.semaphore_signal(ready, 1, core_index=other)
            pl.semaphore_wait(ready, cores)
            pltpu.sync_copy(x_ref.at[pl.ds(core * 8, 8)], v)
            v[...] = v[...] + core.astype(v.dtype)
            pltpu.sync_copy(v, o_ref.at[pl.ds(core * 8, 8)])

        return halves(x)

    x = jax.random.normal(jax.random.key(4), (16, 128))
    with pallasim.emulate(machine):
        assert pltpu.get_tpu_info().num_cores == 2
        same(f(x), np.asarray(x) + np.repeat(np.float32([0, 1]), 8)[:, None])
        assert pallasim.last_run()["threads"] == 2


def test_a_pipeline_over_the_cores_of_a_mesh(same):
    def f(x):
        @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=pltpu.create_tensorcore_mesh("core"))
        def run(x_ref, o_ref):
            spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(lambda a, b: b.__setitem__(..., a[...] * 3), grid=(x.shape[0] // 8,), in_specs=[spec], out_specs=[spec],
                                core_axis_name="core", dimension_semantics=(pltpu.PARALLEL,))(x_ref, o_ref)

        return run(x)

    x = jax.random.normal(jax.random.key(5), (64, 128))
    for options in [{}, *[dict(dma_execution_mode="scheduled", random_seed=s) for s in range(3)]]:
        with pallasim.emulate("tpu-v5p", **options):
            same(f(x), 3 * np.asarray(x))


def test_a_pipeline_that_is_an_operation_of_its_own():
    """As JAX's flag makes it in 0.10, and newer JAX always does. The body asks where it is."""
    flag = getattr(jax._src.config, "use_emit_pipeline_primitive", None)

    def f(x, y):
        def body(a, b, c):
            c[...] = a[...] @ b[...] + (pl.program_id(0) * 10 + pl.program_id(1)).astype(jnp.float32)

        def kernel(x_ref, y_ref, o_ref):
            pltpu.emit_pipeline(body, grid=(2, 3), in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 128), lambda i, j: (0, j))],
                                out_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))])(x_ref, y_ref, o_ref)

        return pl.pallas_call(kernel, in_specs=[HBM, HBM], out_specs=HBM, out_shape=jax.ShapeDtypeStruct((16, 384), jnp.float32))(x, y)

    x, y = (jax.random.normal(jax.random.key(k), s) for k, s in ((6, (16, 128)), (7, (128, 384))))
    places = np.repeat(np.repeat(np.float32([[0, 1, 2], [10, 11, 12]]), 8, 0), 128, 1)
    for own in (None,) if flag is None else (False, True):
        begin = pallasim.launch_count()
        with contextlib.nullcontext() if flag is None else flag(own), pallasim.emulate("tpu-v5e"):
            np.testing.assert_allclose(f(x, y), np.asarray(x) @ np.asarray(y) + places, atol=1e-4)
        assert pallasim.launch_count() > begin


def test_the_chip_answers_inside_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))

    def f(x):
        assert pltpu.get_tpu_info().num_cores == 2 and pltpu.create_tensorcore_mesh("core").shape["core"] == 2
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = jnp.ones((8, 128))
    spec = jax.sharding.PartitionSpec("d")
    with pallasim.emulate("tpu-v5p"):
        out = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))(x)
    np.testing.assert_array_equal(out, 2 * np.ones((8, 128)))


def test_memory_of_the_device_is_one_for_all_cores(same):
    def f(x):
        @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
                   scratch_types=[pltpu.SemaphoreType.REGULAR])
        def through(x_ref, o_ref, sem):
            def body(shared):
                @pl.when(jax.lax.axis_index("core") == 0)
                def _():
                    pltpu.sync_copy(x_ref, shared)
                    pl.semaphore_signal(sem, 1, core_index=1)

                @pl.when(jax.lax.axis_index("core") == 1)
                def _():
                    pl.semaphore_wait(sem, 1)
                    pltpu.sync_copy(shared, o_ref)

            pl.run_scoped(body, pltpu.HBM(x.shape, x.dtype))

        return through(x)

    x = jax.random.normal(jax.random.key(6), (8, 128))
    for seed in range(4):
        with pallasim.emulate("tpu-v5p", random_seed=seed):
            same(f(x), np.asarray(x))


def test_memory_of_a_core_lives_between_kernels(same):
    """An array outside kernels in SMEM, which each core has for itself; JAX takes no other memory of cores there."""
    mesh = lambda: pltpu.create_tensorcore_mesh("core")  # noqa: E731

    def f():
        own = pl.empty_ref_like(pltpu.SMEM((16,), jnp.int32))
        out = pl.empty_ref_like(pltpu.HBM((2, 16), jnp.int32))

        @pl.core_map(mesh())
        def first():
            core = jax.lax.axis_index("core")
            for i in range(16):
                own[i] = 100 * (core + 1) + i

        for _ in range(2):

            @pl.core_map(mesh())
            def more():
                own[3] = own[3] + 1

        @pl.core_map(mesh())
        def last():
            pltpu.sync_copy(own, out.at[jax.lax.axis_index("core")])

        return out[...]

    want = np.int32([[100], [200]]) + np.arange(16, dtype=np.int32)
    want[:, 3] += 2
    with pallasim.emulate("tpu-v5p"):
        for _ in range(2):
            begin = pallasim.launch_count()
            same(jax.jit(f)(), want)
            assert pallasim.launch_count() == begin + 4


def test_a_semaphore_outside_kernels_is_one_per_core(same):
    """The second core starts two copies in one kernel; in the next one each sees and awaits its own."""
    mesh = lambda: pltpu.create_tensorcore_mesh("core")  # noqa: E731

    def f(x):
        came = pl.empty_ref_like(pltpu.SemaphoreType.DMA(()))
        x_ref, copied = jax.new_ref(x), pl.empty_ref_like(pltpu.HBM((2, 8, 128), jnp.int32))
        counts = pl.empty_ref_like(pltpu.HBM((2, 8, 128), jnp.int32))

        @pl.core_map(mesh())
        def first():
            core = jax.lax.axis_index("core")
            copy = pltpu.make_async_copy(x_ref, copied.at[core], came)
            copy.start()
            pl.when(core == 1)(copy.start)

        @pl.core_map(mesh())
        def last():
            core = jax.lax.axis_index("core")
            copy = pltpu.make_async_copy(x_ref, copied.at[core], came)

            def body(rows):
                rows[...] = jnp.full(rows.shape, pl.semaphore_read(came), jnp.int32)
                copy.wait()
                pl.when(core == 1)(copy.wait)
                pltpu.sync_copy(rows, counts.at[core])

            pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.int32))

        return counts[...][:, 0, 0], copied[...]

    x = jnp.arange(1024, dtype=jnp.int32).reshape(8, 128)
    with pallasim.emulate("tpu-v5p"):
        begin = pallasim.launch_count()
        counts, copied = jax.jit(f)(x)
        assert pallasim.launch_count() == begin + 2
    same(counts, np.int32([4096, 8192]))
    same(copied, np.stack([x, x]))


# --- JAX's interpreter options --------------------------------------------------------------------------------------
def test_integers_that_nobody_wrote_are_the_greatest_as_in_jaxs_interpreter():
    def f(interpret):
        return pl.pallas_call(lambda o_ref, s_ref: o_ref.__setitem__(..., s_ref[...]), out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int16),
                              scratch_shapes=[pltpu.VMEM((8, 128), jnp.int16)], interpret=interpret)()

    with pallasim.emulate():
        assert int(f(pltpu.InterpretParams())[0, 0]) == 32767
        assert int(f(pltpu.InterpretParams(uninitialized_memory="zero"))[0, 0]) == 0
        assert int(f(True)[0, 0]) == -32768


@pytest.mark.parametrize("bounds", ["logical", "padded"])
def test_buffer_bounds_say_who_may_name_padding(bounds):
    def kernel(x_ref, o_ref, s_ref):
        pltpu.sync_copy(x_ref, s_ref.at[pl.ds(jnp.int32(4), 8)])
        o_ref[...] = s_ref[pl.ds(jnp.int32(4), 8)]

    def f(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[HBM], scratch_shapes=[pltpu.VMEM((10, 128), x.dtype)],
                              interpret=pltpu.InterpretParams(buffer_bounds=bounds))(x)

    with pallasim.emulate("tpu-v6e", rules=False):
        if bounds == "logical":
            with pytest.raises(Exception, match="Out-of-bounds write"):
                f(jnp.ones((8, 128)))
        else:
            out = np.asarray(f(jnp.ones((8, 128))))
            assert (out[:6] == 1).all() and np.isnan(out[6:]).all()


def test_reads_from_outside_may_be_uninitialized():
    def f(x, reads):
        return pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), grid=(4,), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                              in_specs=[pl.BlockSpec((4, 128), lambda i: (i + 1, 0))], out_specs=pl.BlockSpec((4, 128), lambda i: (i, 0)),
                              interpret=pltpu.InterpretParams(out_of_bounds_reads=reads))(x)

    x = jnp.ones((16, 128))
    with pallasim.emulate():
        out = np.asarray(f(x, "uninitialized"))
        assert (out[:12] == 1).all() and np.isnan(out[12:]).all()
        with pytest.raises(Exception, match="Out-of-bounds block index 4 for input x_ref"):
            f(x, "raise")


# --- refs with other element widths ---------------------------------------------------------------------------------
@pytest.mark.parametrize("side", ["source", "destination"])
def test_copies_through_a_bitcast_to_another_width(side, same):
    words = jax.random.bits(jax.random.key(7), (8, 128), jnp.uint32)

    def f(x):
        def kernel(x_ref, o_ref, sem):
            a, b = (x_ref.bitcast(jnp.uint16), o_ref) if side == "source" else (x_ref, o_ref.bitcast(jnp.uint16))
            copy = pltpu.make_async_copy(a, b, sem)
            copy.start()
            copy.wait()

        dtype, shape = (jnp.uint16, (16, 128)) if side == "source" else (jnp.uint32, (8, 128))
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, dtype), in_specs=[HBM], out_specs=HBM, scratch_shapes=[pltpu.SemaphoreType.DMA])(x)

    halves = np.asarray(words).view(np.uint16).reshape(8, 128, 2).transpose(0, 2, 1).reshape(16, 128)
    with pallasim.emulate("tpu-v5e"):
        if side == "source":
            same(f(words), halves)
        else:
            same(f(jnp.asarray(halves)), np.asarray(words))


def test_a_value_that_a_core_works_on_in_place_is_its_own(same):
    """run_state without a word on memory: not one that the cores share."""
    def f(x):
        @pl.kernel(out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=pltpu.create_tensorcore_mesh("core"),
                   scratch_types=[pltpu.VMEM((8, 128), jnp.float32)])
        def run(x_ref, o_ref, row):
            core = jax.lax.axis_index("core")
            rows = pl.ds(8 * core, 8)
            pltpu.sync_copy(x_ref.at[rows], row)

            def add(total):
                @pl.loop(0, 5)
                def _(i):
                    total[...] += row[...] + core.astype(jnp.float32)

            row[...] = pl.run_state(add)(row[...])
            pltpu.sync_copy(row, o_ref.at[rows])

        return run(x)

    x = jnp.arange(16 * 128, dtype=jnp.float32).reshape(16, 128)
    for options in [{}, {"detect_races": True}, *[{"random_seed": s} for s in range(4)]]:
        with pallasim.emulate("tpu-v5p", findings="raise", **options):
            same(f(x), 6 * np.asarray(x) + np.repeat(np.float32([0, 5]), 8)[:, None])
