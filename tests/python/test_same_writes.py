"""Two writes that nothing orders: a race where they leave different bytes, a note where they leave the same ones."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas import triton as pltriton
from test_core_races import ROW, one_way

import pallasim


def found(call, *args, chip, code="PS-RACE-002", **options):
    """Severities of the findings of the code, and the result."""
    pallasim.findings()
    begin = pallasim.launch_count()
    with pallasim.emulate(chip, detect_races=True, **options):
        out = np.asarray(jax.jit(call)(*args))
    assert pallasim.launch_count() == begin + 1
    return [f for f in pallasim.findings() if f.code == code], out


def sparsecore(kernel, **mesh):
    """A call of the kernel, which writes 16 integers of HBM by way of as many in its subcore's memory."""
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, **mesh)
    return pl.kernel(kernel, jax.ShapeDtypeStruct((16,), jnp.int32), mesh=mesh, scratch_types=[pltpu.VMEM((16,), jnp.int32)])


def two_cores(body, **options):
    """body(core, x, o, row, sem) on two cores of a chip; x: a row of 1, one of 2, one of 1."""
    def kernel(x_hbm, o_hbm, row, sem):
        body(lax.axis_index("core"), x_hbm, o_hbm, row, sem)

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    call = pl.kernel(kernel, jax.ShapeDtypeStruct((2, *ROW), jnp.float32), mesh=mesh,
                     scratch_types=[pltpu.VMEM(ROW, jnp.float32), pltpu.SemaphoreType.REGULAR])
    x = jnp.stack([jnp.full(ROW, v) for v in (1.0, 2.0, 1.0)])
    findings, out = found(call, x, chip="tpu-v5p", **options)
    return [f.severity for f in findings], out[:, 0, 0]


def rows(first, second):
    """Core 0 copies row `first` to o[0], core 1 row `second`."""
    def body(core, x, o, row, sem):
        pltpu.sync_copy(x.at[jnp.where(core == 0, first, second)], row)
        pltpu.sync_copy(row, o.at[0])
        pltpu.sync_copy(x.at[0], o.at[1])

    return body


SEEDS = [None, 0, 1, 2, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_two_cores(seed):
    assert two_cores(rows(0, 2), random_seed=seed) == (["note"], pytest.approx([1, 1]))
    assert two_cores(rows(0, 1), random_seed=seed)[0] == ["warning"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("last, severity", [(0, "note"), (1, "warning")])
def test_a_write_behind_one_that_wrote_the_same_meets_the_other_writer_too(last, severity, seed):
    """Core 1 writes what core 0 writes, and then something else, in an order with its own write alone."""
    def body(core, x, o, row, sem):
        pltpu.sync_copy(x.at[0], row)
        pltpu.sync_copy(row, o.at[0])

        @pl.when(core == 1)
        def _():
            pltpu.sync_copy(x.at[last], row)
            pltpu.sync_copy(row, o.at[0])

        pltpu.sync_copy(x.at[0], o.at[1])

    assert two_cores(body, random_seed=seed)[0] == [severity]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_has_to_know_of_both_writers(seed):
    """Core 0 writes; core 1 writes the same and reads: core 0 may write while it reads, the same bytes or not."""
    def body(core, x, o, row, sem):
        pltpu.sync_copy(x.at[0], row)
        pltpu.sync_copy(row, o.at[0])
        pltpu.sync_copy(o.at[0], row)

        @pl.when(core == 1)
        def _():
            pltpu.sync_copy(row, o.at[1])

    assert two_cores(body, random_seed=seed)[0] == ["warning"]


@pytest.mark.parametrize("seed", SEEDS)
def test_who_waits_before_the_second_write_is_silent(seed):
    def body(core, x, o, row, sem):
        pltpu.sync_copy(x.at[core], row)

        @pl.when(core == 0)
        def _():
            pltpu.sync_copy(row, o.at[0])
            pltpu.sync_copy(row, o.at[1])

        one_way(core, sem)

        @pl.when(core == 1)
        def _():
            pltpu.sync_copy(row, o.at[0])

    severities, out = two_cores(body, random_seed=seed)
    assert severities == []
    np.testing.assert_array_equal(out, [2, 1])


@pytest.mark.parametrize("mode", ["eager", "on_wait", "scheduled"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("second, severity", [(2, "note"), (1, "warning")])
def test_copies_under_way_at_once(second, severity, seed, mode):
    def body(core, x, o, row, sem):
        def copy(done):
            c = pltpu.make_async_copy(x.at[jnp.where(core == 0, 0, second)], o.at[0], done)
            c.start()
            pltpu.core_barrier(sem, core_axis_name="core")
            c.wait()

        pl.run_scoped(copy, pltpu.SemaphoreType.DMA)

        @pl.when(core == 0)
        def _():
            pltpu.sync_copy(x.at[0], o.at[1])

    assert two_cores(body, random_seed=seed, dma_execution_mode=mode)[0] == [severity]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("value, severity", [(lambda c: 7, "note"), (lambda c: 7 + c, "warning")], ids=["same", "own"])
def test_subcores_of_a_sparsecore(value, severity, seed):
    def kernel(o_hbm, row):
        row[...] = jnp.full((16,), value(lax.axis_index("subcore")), jnp.int32)
        pltpu.sync_copy(row, o_hbm)

    findings, out = found(lambda: sparsecore(kernel)(), chip="tpu-7x", random_seed=seed)
    assert [f.severity for f in findings] == [severity]
    if severity == "note":
        np.testing.assert_array_equal(out, 7)
        assert "both write the same bytes" in findings[0].message


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("value, severity", [(lambda t: 7, "note"), (lambda t: 7 + t, "warning")], ids=["same", "own"])
def test_warpgroups(value, severity, seed):
    def kernel(o_gmem):
        o_gmem[...] = jnp.full((128,), value(lax.axis_index("wg")), jnp.int32)

    call = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128,), jnp.int32), num_threads=2, thread_name="wg")
    findings, out = found(call, chip="gpu-h100", random_seed=seed)
    assert [f.severity for f in findings] == [severity]
    if severity == "note":
        np.testing.assert_array_equal(out, 7)


def test_a_loop_that_differs_late():
    """The two lines wrote the same bytes in the first trips."""
    def kernel(o_gmem):
        t = lax.axis_index("wg")

        def trip(i, _):
            o_gmem[...] = jnp.full((128,), jnp.where(i < 3, 7, 7 + t), jnp.int32)
            return _

        lax.fori_loop(0, 4, trip, None)

    call = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128,), jnp.int32), num_threads=2, thread_name="wg")
    findings, _ = found(call, chip="gpu-h100")
    assert [f.severity for f in findings] == ["warning"]


@pytest.mark.parametrize("value, severity", [(lambda i: 7, "note"), (lambda i: i, "warning")], ids=["same", "own"])
def test_trips_of_a_parallel_loop(value, severity):
    def kernel(o_hbm, row):
        @plsc.parallel_loop(0, 8)
        def _(i):
            row[...] = jnp.full((16,), value(i), jnp.int32)

        pltpu.sync_copy(row, o_hbm)

    findings, _ = found(lambda: sparsecore(kernel, num_subcores=1)(), chip="tpu-7x")
    assert [f.severity for f in findings] == [severity]


def same(i, x_ref, o_ref):
    o_ref[...] = jnp.full((16,), 7, jnp.int32)


def own(i, x_ref, o_ref):
    o_ref[...] = jnp.full((16,), i, jnp.int32)


def what_is_there_first(i, x_ref, o_ref):
    """All write 7 and the last one something else then."""
    o_ref[...] = jnp.full((16,), 7, jnp.int32)

    @pl.when(i == 3)
    def _():
        o_ref[...] = jnp.full((16,), 8, jnp.int32)


def one_lane_differs(i, x_ref, o_ref):
    o_ref[...] = jnp.where((jnp.arange(16) == 5) & (i == 2), 8, 7)


def some_lanes(i, x_ref, o_ref):
    """A scatter whose places all programs share."""
    pltriton.store(o_ref.at[x_ref[...]], jnp.full((16,), 7, jnp.int32))


def reads_what_it_wrote(i, x_ref, o_ref):
    o_ref[...] = jnp.full((16,), 7, jnp.int32)
    o_ref[...] = o_ref[...] + 0


@pytest.mark.parametrize("kernel, severity", [
    (same, "note"), (own, "warning"), (what_is_there_first, "warning"), (one_lane_differs, "warning"), (some_lanes, "note"),
    (reads_what_it_wrote, "warning"),
], ids=lambda p: getattr(p, "__name__", p))
def test_programs_of_triton(kernel, severity):
    def body(x_ref, o_ref):
        kernel(pl.program_id(0), x_ref, o_ref)

    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((16,), jnp.int32), grid=(4,), compiler_params=pltriton.CompilerParams())
    findings, out = found(call, jnp.arange(16)[::-1], chip="gpu-h100", code="PS-PAR-002")
    assert [f.severity for f in findings] == [severity]
    if severity == "note":
        np.testing.assert_array_equal(out, 7)


@pytest.mark.parametrize("last, severity", [(0, "note"), (1, "warning")])
def test_programs_that_meet(last, severity):
    """Programs that atomic operations order are threads."""
    def body(c_in, o_in, c_ref, o_ref):
        i = pl.program_id(0)
        pltriton.atomic_add(c_ref, 0, 1)
        o_ref[...] = jnp.full((16,), 7 + last * i, jnp.int32)

    shapes = [jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((16,), jnp.int32)]
    call = pl.pallas_call(body, out_shape=shapes, grid=(4,), input_output_aliases={0: 0, 1: 1}, compiler_params=pltriton.CompilerParams())
    findings, _ = found(lambda c, o: call(c, o)[1], jnp.zeros(1, jnp.int32), jnp.zeros(16, jnp.int32), chip="gpu-h100", code="PS-PAR-002")
    assert [f.severity for f in findings] == [severity]
