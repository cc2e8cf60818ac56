"""Reports name the line where a barrier was made: the kernel's own, or that of what a library makes for it."""
from __future__ import annotations

import linecache

import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from test_lines import found, on_warpgroup

TILED = plgpu.BlockSpec((8, 128), lambda i: (i, 0))
PIPELINE = {"grid": (4,), "in_specs": [TILED], "out_specs": [TILED], "memory_registers": 40, "wg_axis": "wg", "num_compute_wgs": 1}


def pipeline_is_not_released():
    def kernel(x_ref, o_ref, own):
        def block(_, x_smem, o_smem, consumed):
            o_smem[...] = x_smem[...]  # and no arrival at `consumed`

        plgpu.emit_pipeline_warp_specialized(block, manual_consumed_barriers=True, **PIPELINE)(x_ref, o_ref)  # made here

    return on_warpgroup(kernel, plgpu.Barrier(), num_threads=2, thread_name="wg")  # the kernel's own


def barrier_of_ones_own_beside_a_pipeline():
    def kernel(x_ref, o_ref, own):
        def block(_, x_smem, o_smem):
            plgpu.barrier_wait(own)

        plgpu.emit_pipeline_warp_specialized(block, **PIPELINE)(x_ref, o_ref)  # made here

    return on_warpgroup(kernel, plgpu.Barrier(), num_threads=2, thread_name="wg")  # the kernel's own


@pytest.mark.parametrize("program", [pipeline_is_not_released, barrier_of_ones_own_beside_a_pipeline])
def test_barriers_that_a_library_makes_have_the_line_that_asked_for_them(program):
    f = found(program, {"machine": "gpu-h100"})[0]
    assert f.code == "PS-DEAD-001" and "site-packages" not in f.report, f.report
    made = [n for n in f.numbers if " was made for " in n]
    lines = [linecache.getline(__file__, int(n.partition(f"({__file__}:")[2].partition(")")[0])) for n in made]
    assert len(lines) == 2 and all("# made here" in line or "# the kernel's own" in line for line in lines), f.report
    assert sum("# made here" in line for line in lines) == (2 if program is pipeline_is_not_released else 1), f.report


def test_a_barrier_has_the_line_that_made_it():
    def kernel(x_ref, o_ref, in_scope, own):
        plgpu.barrier_arrive(own)
        plgpu.barrier_wait(own)
        o_ref[...] = x_ref[...]

    def scope(x_ref, o_ref, own):
        pl.run_scoped(lambda inner: kernel(x_ref, o_ref, inner, own), plgpu.Barrier())

    own = plgpu.Barrier(num_arrivals=2)  # made here
    f = found(lambda: on_warpgroup(scope, own), {"machine": "gpu-h100"})[0]
    (made,) = [n for n in f.numbers if " was made for 2 arrivals" in n]
    line = int(made.partition(f"({__file__}:")[2].partition(")")[0])
    assert "# made here" in linecache.getline(__file__, line), f.report
