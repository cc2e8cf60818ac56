"""Every report points at a line that the user wrote: the kernel's, a BlockSpec's, or the one that launches the kernel.

`CASES` has a program for each code of docs/diagnostics that a program in Python can have; `ELSEWHERE` says why the others cannot.
"""
from __future__ import annotations

import linecache
import pathlib

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "diagnostics"
X = jnp.ones((32, 128), jnp.float32)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
ANY = pl.BlockSpec(memory_space=pl.ANY)


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def call(kernel, *args, **options):
    options.setdefault("out_shape", X)
    return pl.pallas_call(kernel, **options)(*(args or (X,)))  # the launch


def alias_late():
    def kernel(x_ref, o_ref):
        o_ref[0, :] = x_ref[0, :] * 2
        o_ref[1, :] = x_ref[0, :]  # here

    return call(kernel, input_output_aliases={0: 0})


def for_triton(x=X):
    return call(copy, x, compiler_params=pltriton.CompilerParams())


def check_failed():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0, 0] < 0, "must be negative")  # here
        o_ref[...] = x_ref[...]

    with pl.enable_debug_checks(True):
        return call(kernel)


def deadlock():
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_wait(sem, 1)  # here

    return call(kernel, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def copy_shapes():
    def kernel(x_ref, o_ref, row, sem):
        pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], row, sem).start()  # here

    return call(kernel, in_specs=[ANY], scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA])


def spin():
    def kernel(x_ref, o_ref):
        o_ref[0, 0] = jax.lax.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 7, 0).astype(jnp.float32)  # here

    return call(kernel)


def too_much_vmem():
    return call(lambda x_ref, o_ref, big_ref: copy(x_ref, o_ref), scratch_shapes=[pltpu.VMEM((40000, 1024), jnp.float32)])


def outside():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.program_id(0) + 1, 32)]  # here

    return call(kernel, grid=(1,))


def block_outside():
    far = pl.BlockSpec((8, 128), lambda i: (i + 1, 0))  # here
    return call(copy, grid=(4,), in_specs=[far], out_specs=ROWS)


def block_revisited():
    again = pl.BlockSpec((8, 128), lambda i, j: (j, 0))  # here
    return call(copy, grid=(2, 4), in_specs=[again], out_specs=again)


def not_covered():
    return call(copy, grid=(2,), in_specs=[ROWS], out_specs=ROWS)


def false_claim():
    def kernel(x_ref, o_ref, last_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            last_ref[...] = x_ref[...]

        o_ref[...] = last_ref[...]  # here

    return call(kernel, grid=(4,), in_specs=[ROWS], out_specs=ROWS, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
                compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))


def programs_share():
    def kernel(x_ref, o_ref):
        o_ref[0, :] = o_ref[0, :] + x_ref[pl.program_id(0), :]  # here

    return call(kernel, grid=(4,), compiler_params=pltriton.CompilerParams())


def not_awaited():
    def kernel(x_ref, o_ref, row, sem):
        dma = pltpu.make_async_copy(x_ref, row, sem)
        dma.start()
        o_ref[...] = row[...]  # here
        dma.wait()

    return call(kernel, in_specs=[ANY], scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA])


def writes_input():
    def kernel(x_ref, o_ref):
        x_ref[0, 0] = 1.0  # here

    return call(kernel)


def signal_nobody():
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1, device_id=3, device_id_type=pl.DeviceIdType.LOGICAL)  # here

    return call(kernel, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def left_over():
    def kernel(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        pl.semaphore_signal(sem, 1)  # here

    return call(kernel, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def too_large():
    return call(lambda x_ref, o_ref, big_ref: copy(x_ref, o_ref), scratch_shapes=[pltpu.VMEM((1 << 16, 1 << 16), jnp.float32)])


def odd_blocks():
    rows = pl.BlockSpec((4, 128), lambda i: (i, 0))  # here
    return call(copy, grid=(8,), in_specs=[rows], out_specs=rows)


def two_semantics():
    return call(copy, grid=(4,), in_specs=[ROWS], out_specs=ROWS, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * 2))


def sorted_rows():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.sort(x_ref[...])  # here

    return call(kernel)


def narrow_floats():
    x = jnp.ones((128, 128), jnp.float8_e4m3fn)

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)  # here

    return call(kernel, x, out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))


def load_from_hbm():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]  # here

    return call(kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)])


def bools():
    x = jnp.ones((32, 128), jnp.bool_)

    def kernel(x_ref, o_ref, row, sem):
        dma = pltpu.make_async_copy(x_ref, row, sem)
        dma.start()  # here
        dma.wait()

    return call(kernel, x, out_shape=x, in_specs=[ANY], scratch_shapes=[pltpu.VMEM((32, 128), jnp.bool_), pltpu.SemaphoreType.DMA])


def slices():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[:, pl.ds(pl.program_id(0), 128)]  # here

    return call(kernel, jnp.ones((8, 512)), grid=(1,), out_shape=jnp.ones((8, 128)))


def joined():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.concatenate([x_ref[...]] * 2)  # here

    return call(kernel, out_shape=jnp.ones((64, 128)), compiler_params=pltriton.CompilerParams())


def on_cores(body, **options):
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    return pl.kernel(body, X, mesh=mesh, **options)(X)  # the launch


def cores_race():
    def kernel(x_hbm, o_hbm, row):
        pltpu.sync_copy(x_hbm, row)
        row[...] += jax.lax.axis_index("core")
        pltpu.sync_copy(row, o_hbm)  # here

    return on_cores(kernel, scratch_types=[pltpu.VMEM((32, 128), jnp.float32)])


def cores_cover_half():
    def kernel(x_hbm, o_hbm, row):
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(x_hbm.at[pl.ds(8 * core, 8)], row)
        pltpu.sync_copy(row, o_hbm.at[pl.ds(8 * core, 8)])

    return on_cores(kernel, scratch_types=[pltpu.VMEM((8, 128), jnp.float32)])


def fifteen():
    return pl.pallas_call(copy15, out_shape=jnp.ones((3, 5)), compiler_params=pltriton.CompilerParams())(jnp.ones((3, 5)))


def copy15(x_ref, o_ref):
    o_ref[...] = x_ref[...]  # here


def no_warps():
    return call(copy, compiler_params=pltriton.CompilerParams(num_warps=3))


def unset():
    def kernel(x_ref, o_ref):
        o_ref[...] += x_ref[...]  # here

    return call(kernel)


def partly_set():
    def kernel(x_ref, o_ref, rows_ref):
        rows_ref[0:8, :] = x_ref[0:8, :]
        o_ref[...] = rows_ref[...]  # here

    return call(kernel, scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)])


def decided_by_nobody():
    def kernel(x_ref, o_ref, count_ref):
        o_ref[...] = x_ref[...]

        @pl.when(count_ref[0] > 3)  # here
        def _():
            o_ref[...] = -x_ref[...]

    return call(kernel, scratch_shapes=[pltpu.SMEM((1,), jnp.int32)])


def inline_assembly():
    def kernel(x_ref, o_ref):
        (o_ref[...],) = pltriton.elementwise_inline_asm("mov $0, $1;", args=[x_ref[...]], constraints="=r,r", pack=1,  # here
                                                        result_shape_dtypes=[jax.ShapeDtypeStruct((32, 128), jnp.float32)])

    return call(kernel, compiler_params=pltriton.CompilerParams())


def on_warpgroup(body, *scratch, x=X, **options):
    """plgpu.kernel, whose arguments newer JAX renamed."""
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    try:
        kernel = plgpu.kernel(body, out_type=out, scratch_types=scratch, **options)
    except TypeError:
        kernel = plgpu.kernel(body, out_shape=out, scratch_shapes=scratch, **options)
    return kernel(x)


def scope_of_a_cluster():
    def body(x_ref, o_ref):
        pl.run_scoped(lambda tile: copy(x_ref, o_ref), plgpu.SMEM((32, 128), jnp.float32), collective_axes="x")  # here

    return plgpu.kernel(body, out_type=X, cluster=(2,), cluster_names=("x",))(X)


def budgets(of_two=240):
    """Two warpgroups compute, and the third one gives registers back."""
    def kernel(x_ref, o_ref):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg < 2)
        def _():
            plgpu.set_max_registers(of_two, action="increase")  # here

        @pl.when(wg == 2)
        def _():
            plgpu.set_max_registers(40, action="decrease")
            o_ref[...] = x_ref[...]

    return on_warpgroup(kernel, num_threads=3, thread_name="wg")


def arrivals(n, waits):
    def kernel(x_ref, o_ref, barrier):
        for _ in range(n):
            plgpu.barrier_arrive(barrier)  # here
        for _ in range(waits):
            plgpu.barrier_wait(barrier)  # here
        o_ref[...] = x_ref[...]

    return on_warpgroup(kernel, plgpu.Barrier())


def stored_late():
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[...]
        plgpu.copy_smem_to_gmem(smem, o_ref)  # here
        plgpu.wait_smem_to_gmem(0)

    return on_warpgroup(kernel, plgpu.SMEM((32, 128), jnp.float32))


def overflows():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...] * 100.0)  # here

    return call(kernel)


def no_number():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.log(x_ref[...] - 2.0)  # here

    return call(kernel)


def masked_everywhere():
    def kernel(x_ref, o_ref):
        s = jnp.where(x_ref[...] > 2.0, x_ref[...], -jnp.inf)
        o_ref[...] = s - s.max(axis=1, keepdims=True)  # here

    return call(kernel)


def few_rows():
    def kernel(x_ref, o_ref, smem):
        def scope(acc):
            plgpu.wgmma(acc, smem, smem.T)  # here
            return acc[...]

        pl.run_scoped(scope, plgpu.ACC((32, 32), jnp.float32))

    return on_warpgroup(kernel, plgpu.SMEM((32, 32), jnp.float32))


def untiled_product():
    def kernel(x_ref, o_ref, smem, barrier, acc):
        plgpu.tcgen05_mma(acc, smem, smem.T, barrier, accumulate=False)  # here
        plgpu.barrier_wait(barrier)

    return on_warpgroup(kernel, plgpu.SMEM((64, 64), jnp.float32), plgpu.Barrier(orders_tensor_core=True), plgpu.TMEM((64, 64), jnp.float32))


def narrow_copy():
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[:, pl.ds(0, 2)], smem, barrier)  # here
        plgpu.barrier_wait(barrier)

    return on_warpgroup(kernel, plgpu.SMEM((32, 2), jnp.float32), plgpu.Barrier())


TPU = {"machine": "tpu-v5e"}
HOPPER = {"machine": "gpu-h100"}
CHECKED = TPU | {"detect_races": True}
# code -> (program, options, what the line contains)
CASES = {
    "PS-ALIAS-001": (alias_late, {"detect_races": True}, "# here"),
    "PS-BAR-002": (lambda: arrivals(3, 1), HOPPER, "# here"),
    "PS-BAR-003": (lambda: arrivals(1, 0), HOPPER, "# here"),
    "PS-CHIP-001": (for_triton, TPU, "# the launch"),
    "PS-CHK-001": (check_failed, {}, "# here"),
    "PS-DEAD-001": (deadlock, TPU, "# here"),
    "PS-IR-107": (copy_shapes, TPU, "# here"),
    "PS-LIVE-002": (spin, {"max_steps": 10000}, "# here"),
    "PS-MEM-001": (too_much_vmem, TPU, "# the launch"),
    "PS-MGPU-001": (few_rows, HOPPER, "# here"),
    "PS-MGPU-002": (narrow_copy, HOPPER, "# here"),
    "PS-MGPU-003": (budgets, HOPPER, "# here"),
    "PS-MGPU-004": (untiled_product, HOPPER, "# here"),
    "PS-MGPU-005": (scope_of_a_cluster, HOPPER, "# here"),
    "PS-NAN-001": (no_number, {"nans": "report"}, "# here"),
    "PS-NAN-002": (overflows, {"nans": "report"}, "# here"),
    "PS-NAN-003": (masked_everywhere, {"nans": "report"}, "# here"),
    "PS-OOB-001": (outside, {}, "# here"),
    "PS-OOB-002": (block_outside, {}, "# here"),
    "PS-OUT-001": (not_covered, CHECKED, "# the launch"),
    "PS-OUT-002": (block_revisited, CHECKED, "# here"),
    "PS-PAR-001": (false_claim, CHECKED, "# here"),
    "PS-PAR-002": (programs_share, {"machine": "gpu-h100", "detect_races": True}, "# here"),
    "PS-RACE-001": (not_awaited, CHECKED, "# here"),
    "PS-RACE-002": (cores_race, {"machine": "tpu-v5p", "detect_races": True}, "# here"),
    "PS-RACE-003": (stored_late, HOPPER | {"detect_races": True}, "# here"),
    "PS-RO-001": (writes_input, {}, "# here"),
    "PS-SEM-001": (signal_nobody, TPU, "# here"),
    "PS-SEM-002": (left_over, TPU, "# here"),
    "PS-SIZE-001": (too_large, {"machine": "generic", "kernels_for": "tpu"}, "# the launch"),
    "PS-TOK-001": (lambda: call(copy), {"replay": "ps2:nonsense"}, "# the launch"),
    "PS-TPU-001": (odd_blocks, TPU, "# here"),
    "PS-TPU-002": (two_semantics, TPU, "# the launch"),
    "PS-TPU-003": (sorted_rows, TPU, "# here"),
    "PS-TPU-004": (narrow_floats, {"machine": "tpu-v6e"}, "# here"),
    "PS-TPU-005": (load_from_hbm, TPU, "# here"),
    "PS-TPU-006": (bools, TPU, "# here"),
    "PS-TPU-007": (slices, TPU, "# here"),
    "PS-TRI-001": (fifteen, {"machine": "gpu-h100"}, "# here"),
    "PS-TRI-002": (no_warps, {"machine": "gpu-h100"}, "# the launch"),
    "PS-TRI-003": (joined, {"machine": "gpu-h100"}, "# here"),
    "PS-UNINIT-001": (unset, CHECKED, "# here"),
    "PS-UNINIT-003": (partly_set, CHECKED, "# here"),
    "PS-UNINIT-004": (decided_by_nobody, CHECKED, "# here"),
    "PS-UNSUP-001": (inline_assembly, {"machine": "gpu-h100"}, "# here"),
}
ELSEWHERE = {
    "PS-ARG-001": "arrays of pallasim.run, which takes a module's text",
    "PS-BAR-001": "an arrival counts once; two in one phase end two phases", "PS-BAR-004": "JAX knows the bytes of its copies",
    "PS-BUG-001": "a mistake of Pallasim", "PS-BUG-002": "a mistake of Pallasim", "PS-BUG-003": "a mistake of Pallasim",
    "PS-BUG-004": "a mistake of Pallasim",
    "PS-CLU-001": "more clusters than a chip holds: test_peers.py", "PS-CLU-002": "test_peers.py",
    "PS-DEV-001": "ten seconds until a device is missed; it has the line of the launch",
    "PS-OUT-003": "test_running_stores.py", "PS-DEV-002": "test_neighbours.py", "PS-SEM-003": "test_neighbours.py",
    "PS-DMA-001": "needs an extent that is known at run time only, which JAX's own copies do not have",
    "PS-INT-001": "Ctrl-C",
    "PS-LIVE-001": "after a thousand million steps", "PS-LIVE-003": "after millions of steps of a whole chip's programs",
    "PS-MEM-002": "test_hazards.py", "PS-OOB-003": "test_hazards.py", "PS-PIPE-001": "test_hazards.py", "PS-PIPE-002": "test_hazards.py",
    "PS-PROM-001": "test_hazards.py", "PS-RACE-005": "test_hazards.py", "PS-DMA-002": "test_hazards.py",
    "PS-NAN-004": "test_nans.py",
    "PS-RACE-004": "several devices: lesson 44",
    "PS-OPT-001": "options are checked where they are written",
}
# The command line, files, and modules as text, which capture writes.
FAMILIES = ("PS-CAP", "PS-CLI", "PS-DIFF", "PS-IO", "PS-IR", "PS-NPY")


def found(program, options):
    """The findings of a program: those that it was told, and its error."""
    pallasim.findings()
    error = None
    try:
        with pallasim.emulate(**{"findings": "collect"} | options):
            jax.block_until_ready(program())
    except pallasim.KernelError as e:
        error = e.finding
    return [f for f in [error, *pallasim.findings()] if f is not None]


@pytest.mark.parametrize("code", CASES)
def test_the_report_has_a_line_of_the_user(code):
    if code == "PS-TPU-006" and jax.__version_info__ >= (0, 11):
        pytest.skip("the compiler of JAX 0.11 takes this kernel; test_tpu_rules has the rule for older ones")
    program, options, text = CASES[code]
    findings = found(program, options)
    assert code in [f.code for f in findings], findings
    for f in findings:
        assert f.file == __file__ and f.line > 0 and f.text == linecache.getline(__file__, f.line).strip(), f.report
        assert "site-packages" not in f.report and "%0" not in f.report, f.report
    f = next(f for f in findings if f.code == code)
    assert text in f.text, f.report
    assert f.text in f.report and f"{f.file}:{f.line}" in f.report


def test_a_kernel_on_a_mesh_has_the_line_of_its_launch():
    (f,) = [f for f in found(cores_cover_half, {"machine": "tpu-v5p", "detect_races": True}) if f.code == "PS-OUT-001"]
    assert f.file == __file__ and "# the launch" in f.text


def test_library_functions_are_not_the_users_line():
    """A kernel that JAX makes itself: its report has the line that asked for it."""
    f = found(lambda: jax.jit(lambda x: call(copy, x, grid=(2,), in_specs=[ROWS], out_specs=ROWS))(X), CHECKED)[0]
    assert f.code == "PS-OUT-001" and f.file == __file__ and "# the launch" in f.text


def test_every_code_is_walked():
    codes = {page.stem for page in PAGES.glob("PS-*.md")}
    assert set(CASES) <= codes and set(ELSEWHERE) <= codes
    assert {c for c in codes if c not in CASES and c not in ELSEWHERE and c.rpartition("-")[0] not in FAMILIES} == set()
