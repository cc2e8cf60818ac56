"""What predictions leave out, of the trips of long loops and of the steps of long grids: said, and as if all were run."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt
from time_lines import drawn

import pallasim

S = jax.ShapeDtypeStruct
TPU = "tpu-v5e"
GPU = "gpu-h100"


def predicted(f, *args, chip=TPU, **kwargs):
    kwargs.setdefault("sensitivity", False)
    return pallasim.predict(f, *args, chip=chip, **kwargs)


def triton_matmul(m, n, k, block=64):
    def kernel(a_ref, b_ref, o_ref):
        def step(i, acc):
            at = pl.ds(i * block, block)
            return acc + plt.dot(a_ref[:, at], b_ref[at, :])

        acc = jax.lax.fori_loop(0, k // block, step, jnp.zeros((block, block), jnp.float32))
        o_ref[...] = acc.astype(o_ref.dtype)

    specs = [pl.BlockSpec((block, k), lambda i, j: (i, 0)), pl.BlockSpec((k, block), lambda i, j: (0, j))]
    f = pl.pallas_call(kernel, grid=(m // block, n // block), in_specs=specs, out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
                       out_shape=S((m, n), jnp.float16), compiler_params=plt.CompilerParams(num_stages=3))
    return f, S((m, k), jnp.float16), S((k, n), jnp.float16)


def rows_by_hand(rows, trips):
    """A ring of two slots over HBM, in a loop."""
    def kernel(x_ref, o_ref, slots, sems):
        def copy(i):
            return pltpu.make_async_copy(x_ref.at[pl.ds(i * rows, rows)], slots.at[i % 2], sems.at[i % 2])

        copy(0).start()
        o_ref[...] = jnp.zeros_like(o_ref)

        def step(i, _):
            @pl.when(i + 1 < trips)
            def _():
                copy(i + 1).start()

            copy(i).wait()
            o_ref[...] += jnp.exp(slots[i % 2])

        jax.lax.fori_loop(0, trips, step, None)

    f = pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)], out_shape=S((rows, 512), jnp.float32),
                       scratch_shapes=[pltpu.VMEM((2, rows, 512), jnp.float32), pltpu.SemaphoreType.DMA((2,))])
    return f, S((rows * trips, 512), jnp.float32)


LONG = {"triton": (GPU, lambda: triton_matmul(256, 256, 16384)), "ring": (TPU, lambda: rows_by_hand(64, 200)),
        "deep": (GPU, lambda: triton_matmul(64, 64, 65536))}


@pytest.mark.parametrize("name", ["triton", "ring", "deep"])
def test_trips_that_are_not_run_are_said_and_right(name):
    chip, make = LONG[name]
    some, all_ = predicted(*make(), chip=chip)[0], predicted(*make(), chip=chip, waves=0)[0]
    assert any("of the trips of loops" in n for n in some.notes) and not any("of the trips of loops" in n for n in all_.notes)
    assert some.seconds == pytest.approx(all_.seconds, rel=0.01)
    for what in ("flops", "bytes_read", "bytes_written"):
        assert getattr(some, what) == pytest.approx(getattr(all_, what), rel=1e-6), what
    assert some.bound == all_.bound and {b.name for b in some.bounds} == {b.name for b in all_.bounds}
    both = {b.name: b.seconds for b in all_.bounds}
    assert all(b.seconds == pytest.approx(both[b.name], rel=0.02) for b in some.bounds)
    lines = {(s.line): s.seconds for s in all_.lines}
    assert all(s.seconds == pytest.approx(lines[s.line], abs=0.02 * all_.seconds) for s in some.lines)


def grid_matmul(n, block):
    """Sums begin and end along the last axis: the other two are alike."""
    def kernel(a_ref, b_ref, o_ref, sum_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = sum_ref[...].astype(o_ref.dtype)

    of = functools.partial(pl.BlockSpec, (block, block))
    f = pl.pallas_call(kernel, grid=(n // block,) * 3, in_specs=[of(lambda i, j, k: (i, k)), of(lambda i, j, k: (k, j))],
                       out_specs=of(lambda i, j, k: (i, j)), out_shape=S((n, n), jnp.bfloat16), scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)])
    return f, S((n, n), jnp.bfloat16), S((n, n), jnp.bfloat16)


def rows(kernel, n, *scratch, **params):
    """Blocks of 64 rows, the last one in part, n of them."""
    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    x = S((64 * n - 40, 128), jnp.float32)
    return pl.pallas_call(kernel, grid=(n,), in_specs=[spec], out_specs=spec, out_shape=x, scratch_shapes=scratch,
                          compiler_params=pltpu.CompilerParams(**params)), x


def by_threes(x_ref, o_ref, slots, sems):
    """The step's number says which slot it takes."""
    slot = jax.lax.rem(pl.program_id(0), 3)
    copy = pltpu.make_async_copy(x_ref, slots.at[slot], sems.at[slot])
    copy.start()
    copy.wait()
    o_ref[...] = slots[slot] * 2


def sums(x_ref, o_ref):
    o_ref[...] = jax.lax.fori_loop(0, 16, lambda i, acc: acc + jnp.exp(x_ref[...]), jnp.zeros((64, 128), jnp.float32))


GRIDS = {
    "rows": lambda: rows(lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.exp(x_ref[...])), 500),
    "two cores": lambda: rows(lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.exp(x_ref[...])), 501, dimension_semantics=("parallel",)),
    "slots": lambda: rows(by_threes, 400, pltpu.VMEM((3, 64, 128), jnp.float32), pltpu.SemaphoreType.DMA((3,))),
    "loops": lambda: rows(sums, 200),
    "two axes": lambda: grid_matmul(4096, 128),
}


@pytest.mark.parametrize("chip", ["tpu-v5e", "tpu-v5p"])
@pytest.mark.parametrize("name", GRIDS)
def test_steps_of_long_grids_that_are_not_run_are_said_and_right(name, chip):
    some, all_ = predicted(*GRIDS[name](), chip=chip)[0], predicted(*GRIDS[name](), chip=chip, waves=0)[0]
    notes = [n for n in some.notes if "along axis" in n and "were run" in n]
    assert len(notes) == 1 and notes[0].count("along axis") == (2 if name == "two axes" else 1)
    assert not any("were run" in n for n in all_.notes)
    assert some.seconds == pytest.approx(all_.seconds, rel=0.003)
    for what in ("flops", "bytes_read", "bytes_written"):
        assert getattr(some, what) == pytest.approx(getattr(all_, what), rel=0.003), what
    assert some.bound == all_.bound and [b.name for b in some.bounds] == [b.name for b in all_.bounds]
    lines = {s.line: s.seconds for s in all_.lines}
    assert all(s.seconds == pytest.approx(lines[s.line], abs=0.01 * all_.seconds) for s in some.lines)


def causal(x_ref, o_ref):
    @pl.when(pl.program_id(0) > 100)
    def _():
        o_ref[...] = jnp.exp(jnp.exp(x_ref[...]))


def counted(x_ref, o_ref, n_ref):
    """Memory that steps write says what later ones do."""
    n_ref[0] += 1

    @pl.when(n_ref[0] > 100)
    def _():
        o_ref[...] = jnp.exp(jnp.exp(x_ref[...]))


def longer(x_ref, o_ref):
    """A trip more at each step: a hundredth of what the first ones take."""
    n = 100 + pl.program_id(0)
    o_ref[...] = jax.lax.fori_loop(0, n, lambda i, acc: acc + jnp.exp(x_ref[...]), jnp.zeros((64, 128), jnp.float32))


@pytest.mark.parametrize("make", [lambda: rows(causal, 300), lambda: rows(counted, 300, pltpu.SMEM((1,), jnp.int32)), lambda: rows(longer, 200)],
                         ids=["by number", "by memory", "by trips"])
def test_grids_whose_steps_differ_are_run(make):
    some, all_ = (predicted(*make(), chip=TPU, waves=w)[0] for w in (3, 0))
    assert some.seconds == all_.seconds and not any("were run" in n for n in some.notes)


def test_the_time_line_says_which_steps_of_a_grid_it_leaves_out(tmp_path):
    path = tmp_path / "run.perfetto-trace"
    f, *x = GRIDS["rows"]()
    some = pallasim.predict(f, *x, chip=TPU, sensitivity=False, trace=str(path))
    slices, tracks = drawn(path)
    marks = [s for s in slices if s.endswith("steps along axis 0 left out")]
    assert len(marks) == 1 and 450 < (left := int(marks[0].split()[0])) < 490
    assert f"left out: {left} steps along an axis of the grid, which take as long as those before and behind them" in tracks
    every = pallasim.predict(f, *x, chip=TPU, sensitivity=False, trace=str(path), waves=0)
    assert every.seconds == pytest.approx(some.seconds, rel=1e-3) and not any("left out" in s for s in drawn(path)[0])


def test_persistent_loops_leave_out_tiles_and_steps():
    mm = pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    config = mm.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2)
    x = S((2048, 4096), jnp.float16), S((4096, 4096), jnp.float16)
    some, all_ = (predicted(functools.partial(mm.matmul, config=config, c=None), *x, chip=GPU, waves=w)[0] for w in (3, 0))
    assert any("around them" in n for n in some.notes) and some.seconds == pytest.approx(all_.seconds, rel=0.03)
    assert some.flops == pytest.approx(all_.flops, rel=1e-4) == pytest.approx(2 * 2048 * 4096 * 4096, rel=1e-3)


def test_loops_whose_trips_differ_are_run():
    """Each program's loop is as long as its number says."""
    def kernel(x_ref, o_ref):
        n = (pl.program_id(0) + 1) * 16
        o_ref[...] = jax.lax.fori_loop(0, n, lambda i, acc: acc + jnp.exp(x_ref[pl.ds(i * 64, 64)]), jnp.zeros(64, jnp.float32))

    f = pl.pallas_call(kernel, grid=(8,), in_specs=[pl.BlockSpec((8192,), lambda i: (0,))], out_specs=pl.BlockSpec((64,), lambda i: (i,)),
                       out_shape=S((512,), jnp.float32), compiler_params=plt.CompilerParams())
    some, all_ = (predicted(f, S((8192,), jnp.float32), chip=GPU, waves=w)[0] for w in (3, 0))
    assert some.seconds == all_.seconds and not any("of the trips of loops" in n for n in some.notes)


def test_the_time_line_says_which_trips_it_leaves_out(tmp_path):
    def long_kernel(x_ref, o_ref):
        def trip(i, carry):
            o_ref[...] = o_ref[...] * 0.5 + x_ref[...]
            return carry

        o_ref[...] = jnp.zeros_like(x_ref)
        jax.lax.fori_loop(0, 5000, trip, 0)

    x = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    f = pl.pallas_call(long_kernel, out_shape=x)
    path = tmp_path / "run.perfetto-trace"
    some = pallasim.predict(f, x, chip="tpu-v5e", sensitivity=False, trace=str(path))
    slices, tracks = drawn(path)
    marks = [s for s in slices if s.endswith("trips left out")]
    assert len(marks) == 1
    left = int(marks[0].split()[0])
    assert 4900 < left < 5000 and len(slices) < 20 * (5000 - left)
    assert f"left out: {left} trips of loops, which take as long as those before and behind them" in tracks
    assert some.seconds == pallasim.predict(f, x, chip="tpu-v5e", sensitivity=False).seconds
    every = pallasim.predict(f, x, chip="tpu-v5e", sensitivity=False, trace=str(path), waves=0)
    assert every.seconds == pytest.approx(some.seconds, rel=1e-3)
    slices, tracks = drawn(path)
    assert len(slices) > 5000 and not any("left out" in t for t in (*slices, *tracks))
    page = pallasim.predict(f, x, chip="tpu-v5e", sensitivity=False, report=True).page
    assert "long_kernel" in page._launches[0] and "trips" not in page._launches[0], "a page has all of them"
