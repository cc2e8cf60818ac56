"""What the hint of each code says is done here to the kernel that had it: the result is right, and nothing is found any more.

`FOLLOWED` has the kernels, made from what the report says; `NO_ADVICE` says which codes leave nothing to follow.
"""
from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_lines
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton
from test_lines import ANY, CASES, CHECKED, ROWS, X, budgets, call, copy, for_triton, found, on_warpgroup

import pallasim

V = jnp.asarray(np.random.default_rng(0).integers(-9, 10, (32, 128)), jnp.float32)
SEMAPHORE = [pltpu.SemaphoreType.REGULAR]


@dataclasses.dataclass
class Followed:
    """`says`: what the report contains. `do`: the kernel that follows it, called with the groups of `says`, on `V`. `wrong`: a program and
    options with the finding, if not that of test_lines. `options`: of the run that follows, if they change."""

    says: str
    do: Callable[..., Any]
    want: Any
    wrong: Any = None
    options: Callable[..., dict[str, Any]] | None = None


def read_before(*_):
    def kernel(x_ref, o_ref):
        row = x_ref[0, :]
        o_ref[0, :] = row * 2
        o_ref[1, :] = row

    return call(kernel, V, input_output_aliases={0: 0})


def read_the_output(*_):
    def kernel(x_ref, o_ref):
        o_ref[0, :] = x_ref[0, :] * 2
        o_ref[1, :] = o_ref[0, :]

    return call(kernel, V, input_output_aliases={0: 0})


def signalled(*_):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1)
        pl.semaphore_wait(sem, 1)
        copy(x_ref, o_ref)

    return call(kernel, V, scratch_shapes=SEMAPHORE)


def ending(*_):
    def kernel(x_ref, o_ref):
        copy(x_ref, o_ref)
        o_ref[0, 0] = jax.lax.while_loop(lambda i: i < 6, lambda i: (i + 1) % 7, 0).astype(jnp.float32)

    return call(kernel, V)


def smaller_scratch(room):
    rows = int(room) // (1024 * 4) // 8 * 8

    def kernel(x_ref, o_ref, big_ref):
        big_ref[0:32, 0:128] = x_ref[...]
        o_ref[...] = big_ref[0:32, 0:128]

    allowed = pltpu.CompilerParams(vmem_limit_bytes=128 << 20)  # more than a kernel gets by default (PS-MEM-002)
    return call(kernel, V, scratch_shapes=[pltpu.VMEM((rows, 1024), jnp.float32)], compiler_params=allowed)


def clamped(clip, *_):
    def kernel(x_ref, o_ref):
        start = eval(clip, {"jnp": jnp, "index": pl.program_id(0) + 1})
        o_ref[...] = x_ref[pl.ds(start, 32)]

    return call(kernel, V, grid=(1,))


def clamped_block(last):
    shifted = pl.BlockSpec((8, 128), lambda i: (jnp.minimum(i + 1, int(last)), 0))
    return call(copy, V, grid=(4,), in_specs=[shifted], out_specs=ROWS)


def by_elements(divisor=1):
    rows = pl.BlockSpec((8, 128), lambda i: (i * 8 // divisor, 0))
    return call(copy, V, grid=(4,), in_specs=[rows], out_specs=rows)


def as_many_points(axis, points):
    assert axis == "0"
    return call(copy, V, grid=(int(points),), in_specs=[ROWS], out_specs=ROWS)


def some_rows(store_all=False):
    def kernel(x_ref, o_ref):
        pl.when((pl.program_id(0) > 0) | store_all)(lambda: copy(x_ref, o_ref))

    return call(kernel, V, grid=(4,), in_specs=[ROWS], out_specs=ROWS)


def blocks_last(*_):
    rows = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
    return call(copy, V, grid=(4, 2), in_specs=[rows], out_specs=rows)


def carried(parallel, axes=1):
    """The first point of the last axis leaves its block to the others."""

    def kernel(x_ref, o_ref, last_ref):
        pl.when(pl.program_id(axes - 1) == 0)(lambda: copy(x_ref, last_ref))
        o_ref[...] = last_ref[...]

    rows = pl.BlockSpec((8, 128), lambda *p: (p[0] if axes == 1 else 2 * p[0] + p[1], 0))
    return call(kernel, V, grid=(4,) if axes == 1 else (2, 2), in_specs=[rows], out_specs=rows, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
                compiler_params=pltpu.CompilerParams(dimension_semantics=tuple("parallel" if p else "arbitrary" for p in parallel)))


def rows_of_their_own(*_):
    def kernel(x_ref, o_ref):
        o_ref[pl.program_id(0), :] = x_ref[pl.program_id(0), :]

    return call(kernel, V, grid=(32,), compiler_params=pltriton.CompilerParams())


def awaited(*_):
    def kernel(x_ref, o_ref, row, sem):
        dma = pltpu.make_async_copy(x_ref, row, sem)
        dma.start()
        dma.wait()
        o_ref[...] = row[...]

    return call(kernel, V, in_specs=[ANY], scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.DMA])


def one_after_the_other(*_):
    """The second core writes when the first has."""

    def kernel(x_hbm, o_hbm, row, sem):
        core = jax.lax.axis_index("core")
        pltpu.sync_copy(x_hbm, row)
        pl.when(core == 1)(lambda: pl.semaphore_wait(sem, 1))
        pltpu.sync_copy(row, o_hbm)
        pl.when(core == 0)(lambda: pl.semaphore_signal(sem, 1, core_index=1))

    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)
    return pl.kernel(kernel, V, mesh=mesh, scratch_types=[pltpu.VMEM((32, 128), jnp.float32), pltpu.SemaphoreType.REGULAR])(V)


def written_elsewhere(*_):
    def kernel(x_ref, o_ref):
        copy(x_ref, o_ref)
        o_ref[0, 0] = 1.0

    return call(kernel, V)


def declared_alias(*_):
    def kernel(x_ref, o_ref):
        o_ref[0, 0] = 1.0

    return call(kernel, V, input_output_aliases={0: 0})


def a_device_that_is(*_):
    def kernel(x_ref, o_ref, sem):
        pl.semaphore_signal(sem, 1, device_id=0, device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(sem, 1)
        copy(x_ref, o_ref)

    return call(kernel, V, scratch_shapes=SEMAPHORE)


def balanced(wait):
    def kernel(x_ref, o_ref, sem):
        copy(x_ref, o_ref)
        pl.semaphore_signal(sem, 1)
        eval(wait, {"pl": pl, "sem": sem})

    return call(kernel, V, scratch_shapes=SEMAPHORE)


def whole_tiles(rows, lanes):
    blocks = pl.BlockSpec((int(rows), int(lanes)), lambda i: (i, 0))
    return call(copy, V, grid=(32 // int(rows),), in_specs=[blocks], out_specs=blocks)


def one_semantics(word):
    return call(copy, V, grid=(4,), in_specs=[ROWS], out_specs=ROWS, compiler_params=pltpu.CompilerParams(dimension_semantics=(word,)))


def converted(*_):
    def kernel(x_ref, o_ref):
        x = x_ref[...].astype(jnp.float32)
        o_ref[...] = jax.lax.dot(x, x, preferred_element_type=jnp.float32)

    return call(kernel, jnp.tile(V, (4, 1)).astype(jnp.float8_e4m3fn), out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32))


def copied_in(function):
    def kernel(x_ref, o_ref, row):
        {"pltpu.sync_copy": pltpu.sync_copy}[function](x_ref, row)
        o_ref[...] = row[...]

    return call(kernel, V, in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)], scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)])


def integers(*_):
    def kernel(x_ref, o_ref, row, sem):
        dma = pltpu.make_async_copy(x_ref, row, sem)
        dma.start()
        dma.wait()
        o_ref[...] = (row[...] != 0).astype(jnp.float32)

    return call(kernel, (V > 0).astype(jnp.int32), out_shape=V, in_specs=[ANY],
                scratch_shapes=[pltpu.VMEM((32, 128), jnp.int32), pltpu.SemaphoreType.DMA])


def aligned(multiple):
    def kernel(x_ref, o_ref):
        start = eval(multiple, {"pl": pl, "i": pl.program_id(0) * 128})
        o_ref[...] = x_ref[:, pl.ds(start, 128)]

    return call(kernel, V.reshape(8, 512), grid=(1,), out_shape=jnp.ones((8, 128)))


def under_a_mask(elements):
    def kernel(x_ref, o_ref):
        at = jnp.arange(int(elements))
        x = pltriton.load(x_ref.at[at], mask=at < 15, other=0.0)
        pltriton.store(o_ref.at[at], x, mask=at < 15)

    return call(kernel, V.reshape(-1)[:15], out_shape=jnp.ones(15), compiler_params=pltriton.CompilerParams()).reshape(3, 5)


def so_many_warps(fewer, _):
    return call(copy, V, compiler_params=pltriton.CompilerParams(num_warps=int(fewer)))


def set_first(statement):
    def kernel(x_ref, o_ref):
        exec(statement, {"jnp": jnp, "o_ref": o_ref})
        o_ref[...] += x_ref[...]

    return call(kernel, V)


def counted_first(statement):
    def kernel(x_ref, o_ref, count_ref):
        exec(statement.replace("jnp.zeros_like(count_ref)", "jnp.int32(0)").replace("[...]", "[0]"), {"jnp": jnp, "count_ref": count_ref})
        o_ref[...] = x_ref[...]

        @pl.when(count_ref[0] > 3)
        def _():
            o_ref[...] = -x_ref[...]

    return call(kernel, V, scratch_shapes=[pltpu.SMEM((1,), jnp.int32)])


def set_whole(statement):
    def kernel(x_ref, o_ref, rows_ref):
        exec(statement, {"jnp": jnp, "rows_ref": rows_ref})
        rows_ref[0:8, :] = x_ref[0:8, :]
        o_ref[...] = rows_ref[...]

    return call(kernel, V, scratch_shapes=[pltpu.VMEM((32, 128), jnp.float32)])


def seen_by_somebody(times):
    def kernel(x_ref, o_ref, barrier):
        for _ in range(times):
            plgpu.barrier_arrive(barrier)
            plgpu.barrier_wait(barrier)
        o_ref[...] = x_ref[...]

    return on_warpgroup(kernel, plgpu.Barrier(), x=V)


def committed(*_):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref)
        plgpu.wait_smem_to_gmem(0)

    return on_warpgroup(kernel, plgpu.SMEM((32, 128), jnp.float32), x=V)


TILED = plgpu.TilingTransform((8, 32)), plgpu.SwizzleTransform(128)


def as_many_rows(n, transforms=TILED):
    def kernel(x_ref, o_ref, smem):
        smem[...] = x_ref[...]
        plgpu.commit_smem()

        def scope(acc):
            plgpu.wgmma(acc, smem, smem.T)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((n, n), jnp.float32))

    return on_warpgroup(kernel, plgpu.SMEM((n, n), jnp.float32, transforms=transforms), x=TALL)


def ratio(kept):
    def kernel(x_ref, o_ref):
        x = kept(x_ref[...])
        o_ref[...] = x / x

    return call(kernel, V)


def relative(*_):
    def kernel(x_ref, o_ref):
        s = x_ref[...] * 100.0
        o_ref[...] = jnp.exp(s - s.max(axis=1, keepdims=True))

    return call(kernel)


MASKED = V.at[5].set(0)


def masked_rows(*_):
    def kernel(x_ref, o_ref):
        s = jnp.where(x_ref[...] > 2.0, x_ref[...], -jnp.inf)
        m = s.max(axis=1, keepdims=True)
        o_ref[...] = s - jnp.where(m == -jnp.inf, 0, m)

    return call(kernel, MASKED)


def wide_enough(columns):
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref.at[:, pl.ds(0, columns)], smem, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[...] = x_ref[...]
        o_ref[:, pl.ds(0, columns)] = smem[...] * 2

    return on_warpgroup(kernel, plgpu.SMEM((32, columns), jnp.float32), plgpu.Barrier(), x=V)


TALL = V.reshape(64, 64)
DOUBLED = V.at[0].multiply(2)
SIX, ONE = V.at[0, 0].set(6), V.at[0, 0].set(1)
SHIFTED = jnp.concatenate([V[8:], V[-8:]])
CARRIED = jnp.tile(V[:8], (4, 1))
PAIRS = jnp.concatenate([V[:8], V[:8], V[16:24], V[16:24]])
SQUARE = jnp.tile(V, (4, 1)) @ jnp.tile(V, (4, 1))
FOLLOWED = {
    "PS-ALIAS-001": Followed("read x_ref before o_ref is written", read_before, DOUBLED.at[1].set(V[0])),
    "PS-ALIAS-001, the other": Followed("or read o_ref where the new value is meant", read_the_output, DOUBLED.at[1].set(2 * V[0])),
    "PS-BAR-002": Followed("every phase needs somebody who waits", lambda: seen_by_somebody(3), V),
    "PS-BAR-003": Followed("every phase needs somebody who waits", lambda: seen_by_somebody(1), V),
    "PS-CHIP-001": Followed(r"name the chip that it is for: ([\w-]+)", lambda chip: for_triton(V), V, options=lambda chip: {"machine": chip}),
    "PS-DEAD-001": Followed("every wait needs a signal", signalled, V),
    "PS-LIVE-002": Followed("look for a loop that does not end", ending, SIX),
    "PS-LIVE-002, the limit": Followed("raise max_steps", ending, SIX, (lambda: ending(), {"max_steps": 5}), lambda: {"max_steps": 100000}),
    "PS-MEM-001": Followed(r"big_ref may take (\d+) bytes", smaller_scratch, V),
    "PS-MGPU-001": Followed(r"rows come in (\d+)s", lambda n: as_many_rows(int(n)), TALL @ TALL.T),
    "PS-MGPU-002": Followed(r"a multiple of (\d+) bytes", lambda n: wide_enough(int(n) // 4), V.at[:, :4].multiply(2)),
    "PS-MGPU-001, tiles": Followed(r"plgpu\.TilingTransform\(\(8, swizzle // itemsize\)\) and plgpu\.SwizzleTransform\(swizzle\)",
                            lambda: as_many_rows(64), TALL @ TALL.T, (lambda: as_many_rows(64, ()), {"machine": "gpu-h100"})),
    "PS-MGPU-003": Followed(r"sum up to at most (\d+)", lambda n: budgets((int(n) - 40) // 16 * 8), X),
    "PS-NAN-001": Followed(r"jnp\.where\(x > 0, x, 1\), before the operation", lambda: ratio(lambda x: jnp.where(x > 0, x, 1)), X,
                           (lambda: ratio(lambda x: x), {"nans": "report"})),
    "PS-NAN-002": Followed("subtract the maximum from what it is given", relative, X),
    "PS-NAN-003": Followed(r"jnp\.where\(m == -jnp\.inf, 0, m\)", masked_rows, jnp.where(MASKED > 2, MASKED, -jnp.inf) - MASKED.max(1, keepdims=True)),
    "PS-OOB-001": Followed(r"(jnp\.clip\(index, 0, \d+\))", clamped, V),
    "PS-OOB-002": Followed(r"those of dimension 0 are 0 to (\d+)", clamped_block, SHIFTED),
    "PS-OOB-002, elements": Followed(r"the block of element 8 is 1, divide by (\d+)", lambda by: by_elements(int(by)), V, (by_elements, {})),
    "PS-OUT-001": Followed(r"axis (\d+) of the grid needs (\d+) points", as_many_points, V),
    "PS-OUT-001, a path": Followed("some path through the kernel does not store", lambda: some_rows(True), V, (some_rows, CHECKED)),
    "PS-OUT-002": Followed("the grid axes that the block does not depend on be the last ones", blocks_last, V),
    "PS-PAR-001": Followed(r"declare axis (0) arbitrary", lambda axis: carried([False]), CARRIED),
    "PS-PAR-001, one of two": Followed(r"declare axis (\d) arbitrary", lambda axis: carried([axis != "0", axis != "1"], 2), PAIRS,
                                       (lambda: carried([True, True], 2), CHECKED)),
    "PS-PAR-002": Followed("give every program elements of its own", rows_of_their_own, V),
    "PS-RACE-001": Followed("wait for the copy before its destination is used", awaited, V),
    "PS-RACE-002": Followed("let one signal a semaphore of the other behind its access, and the other wait", one_after_the_other, V),
    "PS-RACE-003": Followed(r"plgpu\.commit_smem\(\) behind the stores", committed, V),
    "PS-RO-001": Followed("or write to an output", written_elsewhere, ONE),
    "PS-SEM-001": Followed("a logical device id counts the devices of the mesh", a_device_that_is, V),
    "PS-SEM-002": Followed(r"(pl\.semaphore_wait\(sem, 1\)) takes what is left", balanced, V),
    "PS-SIZE-001": Followed("smaller blocks", lambda: smaller_scratch(1 << 20), V),
    "PS-TOK-001": Followed(r"e\.g\. (ps2:\S+)", lambda token: call(copy, V), V, None, lambda token: {"replay": token}),
    "PS-TPU-001": Followed(r"multiples of 8 and 128, or the whole of the array's: (\d+) and (\d+), say", whole_tiles, V),
    "PS-TPU-002": Followed(r"give one of parallel, (arbitrary)", one_semantics, V),
    "PS-TPU-004": Followed("the compiler converts them first", converted, SQUARE),
    "PS-TPU-005": Followed(r"copy from and to other memory: ([\w.]+)", copied_in, V),
    "PS-TPU-006": Followed("copy integers", integers, (V > 0).astype(jnp.float32)),
    "PS-TPU-007": Followed(r"if it is, say so: (pl\.multiple_of\(i, 128\))", aligned, V.reshape(8, 512)[:, :128]),
    "PS-TRI-001": Followed(r"load (\d+) under a mask", under_a_mask, V.reshape(-1)[:15].reshape(3, 5)),
    "PS-TRI-002": Followed(r"a power of two up to 32: (\d+) or (\d+)", so_many_warps, V),
    "PS-UNINIT-001": Followed(r"set it before it is read: (.*)", set_first, V),
    "PS-UNINIT-004": Followed(r"set it before it is read: (.*)", counted_first, V),
    "PS-UNINIT-003": Followed(r"set it before it is read: (.*)", set_whole, V.at[8:].set(0)),
}
NO_ADVICE = {
    "PS-CHK-001": "the kernel's own check: its author knows",
    "PS-MGPU-005": "which axes memory, barriers and copies are along the author knows",
    "PS-MGPU-004": "what the instruction takes is in the report; which operand is to change the author knows",
    "PS-IR-107": "both shapes are in the report; which one is meant is not",
    "PS-TPU-003": "which operations serve instead depends on the kernel; the page lists what is missing",
    "PS-TRI-003": "which operations serve instead depends on the kernel; the page lists what is missing",
    "PS-UNSUP-001": "a limit of Pallasim",
}


def report_of(code):
    """The finding of the kernel that is wrong, and the options of its run."""
    program, options = FOLLOWED[code].wrong or CASES[code.partition(",")[0]][:2]
    for f in found(program, options):
        if f.code == code.partition(",")[0]:
            return f, options
    pytest.fail(f"no {code} was found")


@pytest.mark.parametrize("code", FOLLOWED)
def test_advice_that_is_followed_ends_well(code):
    if code == "PS-TPU-006" and jax.__version_info__ >= (0, 11):
        pytest.skip("the compiler of JAX 0.11 takes bools")
    if code == "PS-MGPU-001, tiles" and jax.__version_info__ >= (0, 11):
        pytest.skip("the compiler of JAX 0.11 chooses how memory lies")
    advice = FOLLOWED[code]
    finding, options = report_of(code)
    assert finding.hint
    said = re.search(advice.says, finding.report)
    assert said, finding.report
    pallasim.findings()
    before = pallasim.launch_count()
    with pallasim.emulate(**{"findings": "collect"} | options | (advice.options(*said.groups()) if advice.options else {})):
        got = jax.block_until_ready(advice.do(*said.groups()))
    assert pallasim.launch_count() > before
    assert pallasim.findings() == []
    np.testing.assert_array_equal(got, advice.want)


def test_an_alias_may_be_declared_instead():
    with pallasim.emulate(findings="collect"):
        np.testing.assert_array_equal(declared_alias(), ONE)
    assert not pallasim.findings()


@pytest.mark.parametrize("code", NO_ADVICE)
def test_reports_that_give_no_advice_do_not_name_what_to_write(code):
    program, options = CASES[code][:2]
    hint = next(f.hint for f in found(program, options) if f.code == code)
    assert not re.search(r"\b(pl|pltpu|plgpu|jnp)\.\w+\(", hint)


def test_every_hint_is_walked():
    """Codes that a program in Python can have; test_lines says why others cannot."""
    followed = {code.partition(",")[0] for code in FOLLOWED}
    assert followed | set(NO_ADVICE) == set(CASES) and not followed & set(NO_ADVICE)
    assert set(test_lines.ELSEWHERE).isdisjoint(followed)
