"""Kernels whose result here is what their author wants, and on a chip is not, or not always: each with its line, and a twin without it."""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import pallasim

F32 = jnp.float32
X = jnp.arange(64 * 128, dtype=F32).reshape(64, 128)
ANY, SMEM, VMEM = (pl.BlockSpec(memory_space=s) for s in (pl.ANY, pltpu.SMEM, pltpu.VMEM))
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
SHAPE = jax.ShapeDtypeStruct(X.shape, F32)


def shifted(steps: int):
    """The block of the aliased input that the output had some steps before."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return pl.pallas_call(kernel, grid=(8,), in_specs=[pl.BlockSpec((8, 128), lambda i: (jnp.maximum(i - steps, 0), 0))],  # here
                          out_specs=ROWS, out_shape=SHAPE, input_output_aliases={0: 0})(X)


def carried():
    """Blocks of an aliased pair at the same place in each step."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return pl.pallas_call(kernel, grid=(8,), in_specs=[ROWS], out_specs=ROWS, out_shape=SHAPE, input_output_aliases={0: 0})(X)


def window_in_flight(awaited: bool):
    """A copy out of an input's window that the pipeline fetches the next but one block into."""

    def kernel(x_ref, o_ref, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(x_ref, o_ref.at[pl.ds(8 * i, 8)], sem)

        @pl.when((i > 0) & (not awaited))
        def _():
            pltpu.make_async_copy(x_ref, o_ref.at[pl.ds(0, 8)], sem).wait()

        copy.start()  # here

        @pl.when((i == 7) | awaited)
        def _():
            copy.wait()

    return pl.pallas_call(kernel, grid=(8,), in_specs=[ROWS], out_specs=ANY, out_shape=SHAPE, scratch_shapes=[pltpu.SemaphoreType.DMA])(X)


def array_in_flight():
    """A copy of the same rows out of the array that the windows come from."""

    def kernel(x_hbm, x_ref, o_ref, sem):
        i = pl.program_id(0)
        copy = pltpu.make_async_copy(x_hbm.at[pl.ds(8 * i, 8)], o_ref.at[pl.ds(8 * i, 8)], sem)

        @pl.when(i > 0)
        def _():
            pltpu.make_async_copy(x_hbm.at[pl.ds(0, 8)], o_ref.at[pl.ds(0, 8)], sem).wait()

        copy.start()

        @pl.when(i == 7)
        def _():
            copy.wait()

    return pl.pallas_call(kernel, grid=(8,), in_specs=[ANY, ROWS], out_specs=ANY, out_shape=SHAPE, scratch_shapes=[pltpu.SemaphoreType.DMA])(X, X)


def moving_scalars(read: bool):
    """A prefetched scalar that the kernel changes, which an index map reads or does not."""

    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]
        s_ref[jnp.minimum(pl.program_id(0) + 1, 7)] = 0  # here

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(8,), in_specs=[pl.BlockSpec((8, 128), lambda i, s: (s[i] if read else i, 0))], out_specs=pl.BlockSpec((8, 128), lambda i, s: (i, 0)))
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=SHAPE)(jnp.arange(8)[::-1].astype(jnp.int32), X)


def promised(start: int):
    def kernel(i_ref, x_ref, o_ref):
        i = pl.multiple_of(i_ref[0], 8)  # here
        o_ref[...] = x_ref[pl.ds(i, 8), :]

    out = jax.ShapeDtypeStruct((8, 128), F32)
    return pl.pallas_call(kernel, in_specs=[SMEM, VMEM], out_shape=out)(jnp.array([start], jnp.int32), X)


def meeting(what: str):
    """Two lanes for each element, of different values, of the same, or one of them masked."""

    def kernel(x_ref, o_ref):
        i = jnp.arange(128)
        x = x_ref[...] if what != "same" else (i // 2).astype(F32)
        plt.store(o_ref.at[i // 2], x, mask=None if what != "masked" else i % 2 == 0)  # here

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((64,), F32), compiler_params=plt.CompilerParams())(jnp.arange(128, dtype=F32))


def box(start: int):
    def kernel(i_ref, x, o, s, barrier):
        at = i_ref[0]
        plgpu.copy_gmem_to_smem(x.at[pl.ds(at, 64)], s, barrier)  # here
        plgpu.barrier_wait(barrier)
        plgpu.copy_smem_to_gmem(s, o)
        plgpu.wait_smem_to_gmem(0)

    half = jnp.float16
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 64), half), scratch_types=[plgpu.SMEM((64, 64), half), plgpu.Barrier()])(
        jnp.array([start], jnp.int32), jnp.ones((256, 64), half))


def blocks(rows: int, **params):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((rows, 1024), lambda i: (i, 0))  # here
    x = jnp.zeros((8192, 1024), F32)
    return pl.pallas_call(kernel, grid=(8192 // rows,), in_specs=[spec], out_specs=spec, out_shape=x, compiler_params=pltpu.CompilerParams(**params))(x)


def of_an_earlier_launch(rows: int):
    def writes(o_ref):
        o_ref[0:rows] = jnp.ones((rows, 128), F32)

    def reads(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1  # here

    out = jax.ShapeDtypeStruct((8, 128), F32)
    return pl.pallas_call(reads, out_shape=out)(pl.pallas_call(writes, out_shape=out)().block_until_ready())


TPU, GPU = "tpu-v5e", "gpu-h100"
def two_rows(how: str):
    """Two copies on one semaphore, or on two; the first row is used between the waits, or behind both. Of a smaller one no bytes can stand for the other's."""
    rows = 4 if how == "smaller" else 8

    def kernel(x_ref, o_ref, first, second, sems):
        a = pltpu.make_async_copy(x_ref.at[pl.ds(0, 8)], first, sems.at[0])
        b = pltpu.make_async_copy(x_ref.at[pl.ds(8, rows)], second.at[pl.ds(0, rows)], sems.at[1 if how == "two" else 0])
        a.start()
        b.start()
        a.wait()
        if how == "both":
            b.wait()
        o_ref[pl.ds(0, 8)] = first[...]  # here
        if how != "both":
            b.wait()
        o_ref[pl.ds(8, rows)] = second[pl.ds(0, rows)]

    row = pltpu.VMEM((8, 128), F32)
    return pl.pallas_call(kernel, in_specs=[ANY], out_specs=VMEM, out_shape=jax.ShapeDtypeStruct((8 + rows, 128), F32),
                          scratch_shapes=[row, row, pltpu.SemaphoreType.DMA((2,))])(X)


FOUND = {
    "a wait that another copy may have ended": (TPU, functools.partial(two_rows, "one"), "PS-DMA-002"),
    "a fetch one step behind the write-back": (TPU, functools.partial(shifted, 1), "PS-PIPE-002"),
    "a fetch two steps behind the write-back": (TPU, functools.partial(shifted, 2), "PS-PIPE-002"),
    "a window in flight": (TPU, functools.partial(window_in_flight, False), "PS-RACE-001"),
    "scalars of index maps that change": (TPU, functools.partial(moving_scalars, True), "PS-PIPE-001"),
    "a broken promise": (TPU, functools.partial(promised, 3), "PS-PROM-001"),
    "lanes that meet": (GPU, functools.partial(meeting, "different"), "PS-RACE-005"),
    "a box behind its array": (GPU, functools.partial(box, 256), "PS-OOB-003"),
    "a box before its array": (GPU, functools.partial(box, -64), "PS-OOB-003"),
    "more than a kernel gets": (TPU, functools.partial(blocks, 2048), "PS-MEM-002"),
}
SILENT = {
    "copies with a semaphore each": (TPU, functools.partial(two_rows, "two")),
    "copies that are awaited before they are used": (TPU, functools.partial(two_rows, "both")),
    "a copy that is too small to end the wait": (TPU, functools.partial(two_rows, "smaller")),
    "a fetch three steps behind": (TPU, functools.partial(shifted, 3)),
    "blocks at the same place": (TPU, carried),
    "a window that is awaited": (TPU, functools.partial(window_in_flight, True)),
    "an array in flight": (TPU, array_in_flight),
    "scalars that change": (TPU, functools.partial(moving_scalars, False)),
    "a promise that holds": (TPU, functools.partial(promised, 16)),
    "lanes that meet with one value": (GPU, functools.partial(meeting, "same")),
    "lanes that a mask keeps apart": (GPU, functools.partial(meeting, "masked")),
    "a box at the end of its array": (GPU, functools.partial(box, 224)),
    "what a kernel gets": (TPU, functools.partial(blocks, 512)),
    "what it asks for": (TPU, functools.partial(blocks, 2048, vmem_limit_bytes=64 << 20)),
    "all of an earlier launch": (TPU, functools.partial(of_an_earlier_launch, 8)),
}


def run(chip, f):
    pallasim.findings()
    with pallasim.emulate(chip, detect_races=True, findings="collect"):
        out = np.asarray(f())
    assert pallasim.last_run() is not None
    return out, pallasim.findings()


@pytest.mark.parametrize("name", FOUND)
def test_found_at_its_line(name):
    chip, f, code = FOUND[name]
    _, findings = run(chip, f)
    assert [x.code for x in findings] == [code]
    code_object = f.func.__code__
    text = open(__file__).read().splitlines()
    here = next(n for n in range(code_object.co_firstlineno, len(text)) if text[n - 1].endswith("# here"))
    assert findings[0].line == here, findings[0].report
    assert "hint" in findings[0].report


@pytest.mark.parametrize("name", SILENT)
def test_the_twin_is_silent(name):
    chip, f = SILENT[name]
    out, findings = run(chip, f)
    assert [x.code for x in findings] == []
    assert name in ("what a kernel gets", "what it asks for") or out.any()


def test_what_an_earlier_launch_left_undefined():
    _, findings = run(TPU, functools.partial(of_an_earlier_launch, 4))
    assert [x.code for x in findings] == ["PS-OUT-001", "PS-UNINIT-003"]
    assert "kernel writes left undefined in its output o_ref" in findings[1].report
    assert "512 of 1024 elements" in findings[1].report


def test_a_promise_is_told_of_once_and_in_checked_runs_alone():
    pallasim.findings()
    with pallasim.emulate(TPU):
        promised(3)
    assert pallasim.findings() == []


def test_a_box_outside_is_silent_as_the_machine_has_it():
    pallasim.findings()
    with pallasim.emulate(GPU, out_of_bounds="machine"):
        assert not np.asarray(box(256)).any()
    assert pallasim.findings() == []
