"""What is undefined, followed: silent where it is thrown away, reported at the line that read it where it reaches an output or decides something."""
from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

F32, I32 = jnp.float32, jnp.int32
SHAPE = (16, 128)
X = jnp.asarray(np.random.default_rng(3).standard_normal(SHAPE), F32)
LONG = jnp.asarray(np.random.default_rng(4).standard_normal((100, 128)), F32)
TPU, GPU, GENERIC = "tpu-v5e", "gpu-h100", "generic"
VMEM = pltpu.VMEM(SHAPE, F32)


def call(kernel, *args, out=X, **options):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(out.shape, out.dtype), **options)(*(args or (X,)))


def half(ref, x_ref):
    """Half of the rows are written."""
    ref[0:8, :] = x_ref[0:8, :]


def with_half(body, **options):
    def kernel(x_ref, o_ref, ref):
        half(ref, x_ref)
        body(x_ref, o_ref, ref)

    return call(kernel, scratch_shapes=[VMEM], **options)


def first_rows(shape=SHAPE, n=8):
    return jax.lax.broadcasted_iota(I32, shape, 0) < n


# -- silent: what is undefined is thrown away ------------------------------------------------------------------------------------
def chosen_away():
    def body(x_ref, o_ref, ref):
        o_ref[...] = jnp.where(first_rows(), ref[...], 0) + 1

    return with_half(body), jnp.where(first_rows(), X, 0) + 1


def chosen_away_late():
    def body(x_ref, o_ref, ref):
        v = jnp.exp(ref[...] * 2).T.T
        o_ref[...] = jnp.where(first_rows(), v, x_ref[...])

    return with_half(body), jnp.where(first_rows(), jnp.exp(X * 2), X)


def truth_settled():
    def body(x_ref, o_ref, ref):
        o_ref[...] = jnp.where(first_rows() & (ref[...] > 0), x_ref[...], 0)

    return with_half(body), jnp.where(first_rows() & (X > 0), X, 0)


def times_nothing():
    def body(x_ref, o_ref, ref):
        o_ref[...] = (ref[...].astype(I32) * first_rows().astype(I32)).astype(F32)

    return with_half(body), jnp.where(first_rows(), X, 0).astype(I32).astype(F32)


def rows_of_a_product():
    def body(x_ref, o_ref, ref):
        p = jnp.dot(ref[...], x_ref[...].T @ x_ref[...], preferred_element_type=F32)
        o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[0:8, :] = p[0:8, :]

    return with_half(body), None


def rows_moved():
    def body(x_ref, o_ref, ref):
        v = pltpu.roll(ref[...], 8, 0)  # the rows that were written are the last ones now
        w = jnp.concatenate([v[8:], v[8:]], axis=0)
        o_ref[...] = w.reshape(8, 2, 128).reshape(SHAPE)

    return with_half(body), jnp.concatenate([X[:8], X[:8]])


def prefix_sums():
    def body(x_ref, o_ref, ref):
        s = jnp.cumsum(ref[...], axis=0)
        o_ref[...] = jnp.where(first_rows(), s, 0)

    return with_half(body), None


def edge_of_an_array():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...])

    rows = pl.BlockSpec((64, 128), lambda i: (i, 0))
    return call(kernel, LONG, out=LONG, grid=2, in_specs=[rows], out_specs=rows), jnp.exp(LONG)


def edge_left_out_of_a_sum():
    def kernel(x_ref, o_ref):
        row = jax.lax.broadcasted_iota(I32, (64, 128), 0) + 64 * pl.program_id(0)
        o_ref[...] = jnp.broadcast_to(jnp.sum(jnp.where(row < 100, x_ref[...], 0), axis=0, keepdims=True), (8, 128))

    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    out = call(kernel, LONG, out=X, grid=2, in_specs=[spec], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))
    return out, None


def accumulator_set_at_the_first_point():
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    out = call(kernel, out=X[:8], grid=2, in_specs=[rows], out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), scratch_shapes=[pltpu.VMEM((8, 128), F32)])
    return out, X[:8] + X[8:]


def copied_along():
    def kernel(x_ref, o_ref, a_ref, b_ref, sem):
        half(a_ref, x_ref)
        pltpu.make_async_copy(a_ref, b_ref, sem).start()
        pltpu.make_async_copy(a_ref, b_ref, sem).wait()
        o_ref[...] = jnp.where(first_rows(), b_ref[...], 0)

    return call(kernel, scratch_shapes=[VMEM, VMEM, pltpu.SemaphoreType.DMA]), jnp.where(first_rows(), X, 0)


def scalar_chosen_away():
    def kernel(x_ref, o_ref, count_ref):
        count_ref[0] = 3
        n = jnp.where(x_ref[0, 0] == x_ref[0, 0], count_ref[0], count_ref[1])
        o_ref[...] = x_ref[...] * n.astype(F32)

    return call(kernel, scratch_shapes=[pltpu.SMEM((2,), I32)]), X * 3


def masked_both_ways():
    def kernel(x_ref, o_ref):
        at = 64 * pl.program_id(0) + jnp.arange(64)
        v = pltriton.load(x_ref.at[at], mask=at < 100)
        pltriton.store(o_ref.at[at], v * 2, mask=at < 100)

    return call(kernel, LONG[:, 0], out=LONG[:, 0], grid=2, compiler_params=pltriton.CompilerParams()), LONG[:, 0] * 2


def masked_and_replaced():
    def kernel(x_ref, o_ref):
        at = jnp.arange(128)
        v = pltriton.load(x_ref.at[at], mask=at < 100)
        o_ref[...] = jnp.broadcast_to(jnp.sum(jnp.where(at < 100, v, 0)), (128,))

    return call(kernel, LONG[:, 0], out=X[0], compiler_params=pltriton.CompilerParams()), None


def mask_of_padding():
    """Beyond the array's edge nobody knows what the mask takes: what it would store there nobody sees."""
    def kernel(x_ref, o_ref):
        o_ref[...] = -x_ref[...]
        pltpu.store(o_ref, x_ref[...], mask=x_ref[...] > 0)

    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    return call(kernel, LONG, out=LONG, grid=2, in_specs=[spec], out_specs=spec), jnp.abs(LONG)


SILENT = {(f, chip) for f in (chosen_away, chosen_away_late, truth_settled, times_nothing, rows_of_a_product, rows_moved,
                              edge_of_an_array, edge_left_out_of_a_sum, accumulator_set_at_the_first_point, copied_along, scalar_chosen_away,
                              mask_of_padding)
          for chip in (TPU, GENERIC)} | {(masked_both_ways, GPU), (masked_and_replaced, GPU), (prefix_sums, GENERIC)}


# -- found, at the line `# here` ---------------------------------------------------------------------------------------------------
def all_of_it():
    def body(x_ref, o_ref, ref):
        o_ref[...] = ref[...]  # here

    return with_half(body)


def two_lines_on():
    def body(x_ref, o_ref, ref):
        v = ref[...]  # here
        w = jnp.maximum(v, 0).T
        o_ref[...] = w.T

    return with_half(body)


def summed_up():
    def body(x_ref, o_ref, ref):
        v = ref[...]  # here
        o_ref[...] = jnp.broadcast_to(jnp.sum(v, axis=0, keepdims=True), SHAPE)

    return with_half(body)


def contracted():
    def body(x_ref, o_ref, ref):
        v = ref[...]  # here
        o_ref[...] = x_ref[:, 0:16] @ v

    return with_half(body)


def largest():
    def body(x_ref, o_ref, ref):
        v = ref[...]  # here
        o_ref[...] = jnp.broadcast_to(jnp.argmax(v, axis=0).astype(F32)[None], SHAPE)

    return with_half(body)


def taken_by_a_mask():
    def body(x_ref, o_ref, ref):
        o_ref[...] = x_ref[...]
        taken = ref[...] > 0  # here
        pltpu.store(o_ref, -x_ref[...], mask=taken)

    return with_half(body)


def by_a_copy():
    def kernel(x_ref, o_ref, a_ref, b_ref, sem):
        half(a_ref, x_ref)
        pltpu.sync_copy(a_ref, b_ref)
        o_ref[...] = b_ref[...]  # here

    return call(kernel, scratch_shapes=[VMEM, VMEM, pltpu.SemaphoreType.DMA])


def in_a_scope():
    def kernel(x_ref, o_ref):
        def inner(ref):
            ref[0:8, :] = x_ref[0:8, :]
            o_ref[...] = ref[...]  # here

        pl.run_scoped(inner, VMEM)

    return call(kernel)


def by_elements():
    def kernel(x_ref, o_ref, ref):
        half(ref, x_ref)

        def trip(i, _):
            o_ref[pl.ds(i, 1), :] = ref[pl.ds(i, 1), :]  # here
            return _

        jax.lax.fori_loop(0, 16, trip, None)

    return call(kernel, scratch_shapes=[VMEM])


def edge_summed_up():
    def kernel(x_ref, o_ref):
        v = x_ref[...]  # here
        o_ref[...] = jnp.broadcast_to(jnp.sum(v, axis=0, keepdims=True), (8, 128))

    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    return call(kernel, LONG, out=X, grid=2, in_specs=[spec], out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)))


def lanes_summed_up():
    def kernel(x_ref, o_ref):
        at = jnp.arange(128)
        v = pltriton.load(x_ref.at[at], mask=at < 100)  # here
        o_ref[...] = jnp.broadcast_to(jnp.sum(v), (128,))

    return call(kernel, LONG[:, 0], out=X[0], compiler_params=pltriton.CompilerParams())


def lanes_kept():
    def kernel(x_ref, o_ref):
        at = jnp.arange(128)
        o_ref[...] = pltriton.load(x_ref.at[at], mask=at < 100) + 1  # here

    return call(kernel, LONG[:, 0], out=X[0], compiler_params=pltriton.CompilerParams())


def shared_memory():
    def kernel(x_ref, o_ref, smem):
        smem[0:8] = x_ref[0:8]
        o_ref[...] = smem[...]  # here

    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(SHAPE, F32), scratch_types=[plgpu.SMEM(SHAPE, F32)])(X)


REACHES = {(f, chip) for f in (all_of_it, two_lines_on, summed_up, contracted, largest, taken_by_a_mask, by_a_copy, in_a_scope, by_elements, edge_summed_up)
           for chip in (TPU, GENERIC)} | {(lanes_summed_up, GPU), (lanes_kept, GPU), (shared_memory, GPU)}


def counted(use):
    def kernel(x_ref, o_ref, count_ref):
        o_ref[...] = x_ref[...]
        use(x_ref, o_ref, count_ref)

    return call(kernel, scratch_shapes=[pltpu.SMEM((2,), I32)])


def a_branch():
    def use(x_ref, o_ref, count_ref):
        @pl.when(count_ref[0] > 3)  # here
        def _():
            o_ref[...] = -x_ref[...]

    return counted(use)


def trips():
    def use(x_ref, o_ref, count_ref):
        def trip(_, c):
            o_ref[...] += 1.0
            return c

        jax.lax.fori_loop(0, count_ref[0], trip, None)  # here

    return counted(use)


def a_place():
    def use(x_ref, o_ref, count_ref):
        i = jnp.clip(count_ref[1], 0, 8)
        o_ref[0:8, :] = x_ref[pl.ds(i, 8), :]  # here

    return counted(use)


def a_signal():
    def kernel(x_ref, o_ref, count_ref, sem):
        o_ref[...] = x_ref[...]
        pl.semaphore_signal(sem, jnp.maximum(count_ref[0], 1))  # here
        pl.semaphore_wait(sem, 1)

    return call(kernel, scratch_shapes=[pltpu.SMEM((2,), I32), pltpu.SemaphoreType.REGULAR])


DECIDES = {a_branch, trips, a_place, a_signal}


def names(cases):
    return {"argvalues": sorted(cases, key=str), "ids": lambda v: getattr(v, "__name__", v)}


def run(program, chip):
    before = pallasim.launch_count()
    pallasim.findings()
    with pallasim.emulate(chip, detect_races=True, findings="collect"):
        out = jax.block_until_ready(program())
    assert pallasim.launch_count() == before + 1 and pallasim.last_run()["checked"]
    return out, pallasim.findings()


def line_of(program):
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, text in enumerate(lines) if "# here" in text)


@pytest.mark.parametrize("program, chip", **names(SILENT))
def test_what_is_thrown_away_is_no_finding(program, chip):
    (out, expected), found = run(program, chip)
    assert not found, "\n".join(map(str, found))
    assert np.isfinite(np.asarray(out)).all()
    if expected is not None:
        np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=2e-6)


@pytest.mark.parametrize("program, chip", **names(REACHES))
def test_what_reaches_an_output_is_found_where_it_was_read(program, chip):
    _, found = run(program, chip)
    (finding,) = found
    assert finding.code in ("PS-UNINIT-003", "PS-UNINIT-001"), str(finding)
    assert finding.line == line_of(program), str(finding)


@pytest.mark.parametrize("program", sorted(DECIDES, key=str), ids=lambda v: v.__name__)
def test_what_decides_something_stops_the_kernel(program):
    with pytest.raises(Exception, match="PS-UNINIT-004") as e:
        run(program, TPU)
    assert f":{line_of(program)}" in str(e.value)
