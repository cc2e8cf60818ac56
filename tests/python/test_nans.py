"""`nans="report"`: the first operation that makes NaN or infinity from finite numbers, by the kernel's own line."""
from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from causes.mosaic import kernel_of
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))


def on_tpu(kernel, *args, dtype=jnp.float32, shape=None, **options):
    x = args[0]
    options = {"grid": (x.shape[0] // 8,), "in_specs": [BLOCK] * len(args), "out_specs": BLOCK} | options
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape or x.shape, dtype), **options)(*args)


def on_triton(kernel, *args, dtype=jnp.float32):
    row = pl.BlockSpec((None, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=(args[0].shape[0],), in_specs=[row] * len(args), out_specs=row, out_shape=jax.ShapeDtypeStruct(args[0].shape, dtype),
                          compiler_params=pltriton.CompilerParams(num_warps=4))(*args)


def on_warpgroup(kernel, *args, dtype=jnp.float32):
    return kernel_of(kernel, jax.ShapeDtypeStruct(args[0].shape, dtype))(*args)


MACHINES = {"tpu": ("tpu-v5e", on_tpu), "triton": ("gpu-h100", on_triton), "mosaic": ("gpu-h100", on_warpgroup)}


def found(f, *args, machine="tpu-v5e", **options):
    """The result, and the findings about values."""
    pallasim.findings()
    before = pallasim.launch_count()
    with pallasim.emulate(machine, **{"nans": "report", "findings": "collect"} | options):
        y = np.asarray(jax.block_until_ready(f(*args)))
    assert pallasim.launch_count() > before
    return y, [f for f in pallasim.findings() if f.code.startswith("PS-NAN")]


def line_of(kernel, mark="# here"):
    lines, first = inspect.getsourcelines(kernel)
    return first + next(i for i, line in enumerate(lines) if mark in line)


def ones(value=1.0, rows=16, dtype=jnp.float32):
    return jnp.full((rows, 128), value, dtype)


# One element of `x` is `odd`; the kernel's marked line makes something of it that is not finite.
def exp(x_ref, o_ref):
    x = x_ref[...]
    p = jnp.exp(x)  # here
    o_ref[...] = p / (p + 1.0)


def zero_by_zero(x_ref, o_ref):
    d = x_ref[...] - 1.0
    q = d / d  # here
    o_ref[...] = q + 1.0


def log(x_ref, o_ref):
    o_ref[...] = jnp.log(x_ref[...]) * 2.0  # here


def root(x_ref, o_ref):
    r = lax.rsqrt(x_ref[...])  # here
    o_ref[...] = r - r


def square(x_ref, o_ref):
    o_ref[...] = (x_ref[...] * x_ref[...]).astype(jnp.float32)  # here


ELEMENTWISE = {
    "exp": (exp, 89.5, "PS-NAN-002", "exp makes inf of finite numbers: exp(89.5) = inf"),
    "0/0": (zero_by_zero, 1.0, "PS-NAN-001", "div makes NaN of finite numbers: div(0, 0) = nan"),
    "log(0)": (log, 0.0, "PS-NAN-002", "log makes -inf of finite numbers: log(0) = -inf"),
    "log(-1)": (log, -1.0, "PS-NAN-001", "log makes NaN of finite numbers: log(-1) = nan"),
    "rsqrt(-4)": (root, -4.0, "PS-NAN-001", "rsqrt makes NaN of finite numbers: rsqrt(-4) = nan"),
    "1e30**2": (square, 1e30, "PS-NAN-002", "makes inf of finite numbers"),
}


@pytest.mark.parametrize("where", MACHINES)
@pytest.mark.parametrize("case", ELEMENTWISE)
def test_the_first_maker_is_named(case, where):
    kernel, odd, code, message = ELEMENTWISE[case]
    machine, call = MACHINES[where]
    x = ones(2.0).at[11, 5].set(odd)
    y, findings = found(lambda x: call(kernel, x), x, machine=machine)
    (f,) = findings
    assert f.code == code and f.severity == "warning" and message in f.message, f.report
    assert (f.file, f.line) == (__file__, line_of(kernel)) and "# here" in f.text, f.report
    element = {"tpu": "(3, 5) of its f32[8, 128]", "triton": "(5) of its f32[128]", "mosaic": "(11, 5) of its f32[16, 128]"}[where]
    assert any(n.replace("(5,)", "(5)") == f"element {element}" for n in f.numbers), f.numbers
    assert f.grid_point == {"tpu": (1,), "triton": (11,), "mosaic": None}[where], f.report
    assert not np.isfinite(y[11, 5]) and np.isfinite(np.delete(y.ravel(), 11 * 128 + 5)).all()


@pytest.mark.parametrize("where", MACHINES)
def test_results_and_finite_kernels_are_the_same(where):
    machine, call = MACHINES[where]
    x = jnp.linspace(0.5, 3, 16 * 128).reshape(16, 128)
    for kernel in (exp, log, root, square):
        y, findings = found(lambda x, k=kernel: call(k, x), x, machine=machine)
        assert not findings
        with pallasim.emulate(machine, nans="off"):
            np.testing.assert_array_equal(y, np.asarray(call(kernel, x)))


def test_what_comes_of_it_is_not_listed():
    def kernel(x_ref, o_ref):
        x = jnp.exp(x_ref[...])  # here
        y = x - x
        o_ref[...] = jnp.sqrt(y) + jnp.sum(x, axis=1, keepdims=True) * y

    y, (f,) = found(lambda x: on_tpu(kernel, x), ones(100.0))
    assert f.code == "PS-NAN-002" and f.line == line_of(kernel) and f.grid_point == (0,)
    assert "the first of 1024 such elements" in f.numbers[0] and np.isnan(y).all()


def test_elements_of_infinite_operands_are_not_makers_and_their_neighbours_are():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    x = ones().at[0, 0].set(jnp.inf).at[0, 1].set(jnp.nan).at[0, 2].set(-3e38)
    _, (f,) = found(lambda x: on_tpu(kernel, x), x)
    assert f.message == "mul makes -inf of finite numbers: mul(-3e+38, 2) = -inf" and f.numbers == ("element (0, 2) of its f32[8, 128]",)


def test_masks_are_silent():
    """-inf as a constant, its maximum, its exponential and the division are what attention kernels do."""
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        seen = lax.broadcasted_iota(jnp.int32, x.shape, 1) <= lax.broadcasted_iota(jnp.int32, x.shape, 0)
        s = jnp.where(seen, x, -jnp.inf)
        m = jnp.maximum(jnp.full((8, 1), -jnp.inf), s.max(axis=1, keepdims=True))
        p = jnp.exp(s - m)
        o_ref[...] = p / p.sum(axis=1, keepdims=True)

    y, findings = found(lambda x: on_tpu(kernel, x), ones())
    assert not findings and np.isfinite(y).all() and (y > 0).any()


def test_a_row_that_is_masked_everywhere():
    def kernel(x_ref, o_ref):
        s = jnp.where(lax.broadcasted_iota(jnp.int32, (8, 128), 0) != 3, x_ref[...], -jnp.inf)
        m = s.max(axis=1, keepdims=True)
        o_ref[...] = jnp.exp(s - m)  # here

    y, (f,) = found(lambda x: on_tpu(kernel, x), ones())
    assert f.code == "PS-NAN-003" and f.line == line_of(kernel) and "sub(-inf, -inf) = nan" in f.message
    assert f.numbers[0].startswith("element (3, 0)") and "mask" in f.hint and np.isnan(y[3]).all() and np.isfinite(y[:3]).all()


def test_infinity_less_itself_is_no_finding_of_its_own_where_a_kernel_made_it():
    def kernel(x_ref, o_ref):
        x = x_ref[...] * 1e38  # here
        o_ref[...] = x - x

    _, (f,) = found(lambda x: on_tpu(kernel, x), ones(10.0))
    assert f.code == "PS-NAN-002" and f.line == line_of(kernel)


def test_reductions():
    def total(x_ref, o_ref):
        s = jnp.sum(x_ref[...], axis=1, keepdims=True)  # here
        o_ref[...] = jnp.broadcast_to(s, (8, 128))

    x = ones().at[9].set(1e37)
    _, (f,) = found(lambda x: on_tpu(total, x), x)
    assert f.message == "reduce_sum makes inf of finite numbers: reduce_sum(128 numbers from 1e+37 to 1e+37) = inf"
    assert f.line == line_of(total) and f.grid_point == (1,) and f.numbers == ("element (1,) of its f32[8]",), f.report
    # A row with an infinity of the input's own, and its neighbour without.
    y, (f,) = found(lambda x: on_tpu(total, x), x.at[9, 3].set(jnp.inf).at[11].set(2e37))
    assert f.numbers == ("element (3,) of its f32[8]",) and np.isinf(y[9]).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums(reverse):
    def kernel(x_ref, o_ref):
        o_ref[...] = lax.cumsum(x_ref[...], axis=1, reverse=reverse)  # here

    x = ones().at[2, 4].set(3e38).at[2, 6].set(3e38).at[2, 126 if not reverse else 1].set(jnp.nan)
    _, (f,) = found(lambda x: on_tpu(kernel, x), x, machine="generic")
    first = 6 if not reverse else 2  # elements are looked at in their order
    assert f.code == "PS-NAN-002" and f.numbers[0].startswith(f"element (2, {first}) of its") and f.line == line_of(kernel), f.report


@pytest.mark.parametrize("bad", [None, "lhs", "rhs"])
def test_products(bad):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)  # here

    x, y = ones(rows=8).at[3].set(1e38), jnp.ones((128, 128)).at[:, 7].set(2.0).at[0, 9].set(1e10)
    if bad == "lhs":
        x = x.at[5, 0].set(jnp.inf)
    if bad == "rhs":
        y = y.at[0, 0].set(jnp.nan)
    whole = pl.BlockSpec((128, 128), lambda i: (0, 0))
    _, (f,) = found(lambda x, y: on_tpu(kernel, x, y, in_specs=[BLOCK, whole]), x, y)
    assert f.code == "PS-NAN-002" and f.line == line_of(kernel), f.report
    row, column = (3, 0) if bad != "rhs" else (3, 1)
    assert f.numbers[0].startswith(f"element ({row}, {column}) of its f32[8, 128]"), f.numbers
    assert "128 numbers from 1e+38 to 1e+38, 128 numbers from 1 to" in f.message, f.message


@pytest.mark.parametrize("to, most", [(jnp.float16, "65504"), (jnp.float8_e5m2, "57344")])
def test_conversions(to, most):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(to).astype(jnp.float32)  # here

    _, (f,) = found(lambda x: on_tpu(kernel, x), ones(dtype=jnp.float32).at[4, 2].set(1e6), machine="generic")
    name = {"float16": "f16", "float8_e5m2": "f8e5m2"}[np.dtype(to).name]
    assert f.message == f"convert to {name} makes inf of finite numbers: convert(1000000) = inf" and f.line == line_of(kernel)
    assert most in f.hint


def test_bfloat16_and_integers_overflow():
    def kernel(x_ref, n_ref, o_ref):
        b = x_ref[...].astype(jnp.bfloat16)  # bf16
        h = n_ref[...].astype(jnp.float16)  # f16
        o_ref[...] = b.astype(jnp.float32) + h.astype(jnp.float32)

    x, n = ones(rows=8).at[0, 0].set(3.4e38), jnp.ones((8, 128), jnp.int32).at[2, 2].set(70000)
    _, findings = found(lambda x, n: on_tpu(kernel, x, n), x, n, machine="generic")
    assert [(f.code, f.line) for f in findings] == [("PS-NAN-002", line_of(kernel, "# bf16")), ("PS-NAN-002", line_of(kernel, "# f16"))]
    assert "convert(70000) = inf" in findings[1].message


def test_loops_and_scalars():
    def kernel(x_ref, o_ref):
        def body(i, carry):
            return carry * 10.0  # here

        o_ref[...] = x_ref[...] + lax.fori_loop(0, 60, body, x_ref[0, 0])

    _, (f,) = found(lambda x: on_tpu(kernel, x), ones())
    assert f.code == "PS-NAN-002" and f.line == line_of(kernel) and f.message.startswith("mul makes inf of finite numbers: mul("), f.report
    assert "e+38, 10) = inf" in f.message and f.numbers == () and f.grid_point == (0,)


def test_carries_that_are_arrays():
    def kernel(x_ref, o_ref, acc_ref):
        acc_ref[...] = x_ref[...]

        @pl.loop(0, 8)
        def _(i):
            acc_ref[...] += acc_ref[...] * 1e5  # here

        o_ref[...] = acc_ref[...]

    _, findings = found(lambda x: on_tpu(kernel, x, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)]), ones())
    assert findings and findings[0].code == "PS-NAN-002" and {f.line for f in findings} == {line_of(kernel)}


@pytest.mark.parametrize("workers", [1, 4])
def test_the_first_grid_point(workers):
    """Whoever runs it: parts of a grid say what the grid in one piece would."""
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...])  # here

    x = ones(rows=64).at[40:].set(100.0)
    _, (f,) = found(lambda x: on_tpu(kernel, x), x, machine="generic", workers=workers)
    assert f.grid_point == (5,) and f.line == line_of(kernel)


def test_two_makers_are_two_findings_in_their_order():
    def kernel(x_ref, o_ref):
        a = jnp.exp(x_ref[...] * 100.0)  # one
        b = jnp.log(x_ref[...] - 1.0)  # two
        o_ref[...] = a + b

    _, findings = found(lambda x: on_tpu(kernel, x), ones())
    assert [(f.code, f.line) for f in findings] == [("PS-NAN-002", line_of(kernel, "# one")), ("PS-NAN-002", line_of(kernel, "# two"))]
    assert [f.grid_point for f in findings] == [(0,), (0,)]  # once for each operation, not for each grid point


def test_wgmma():
    def kernel(a_ref, b_ref, o_ref, a, b, barrier):
        plgpu.copy_gmem_to_smem(a_ref, a, barrier)
        plgpu.copy_gmem_to_smem(b_ref, b, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc):
            for _ in range(2):
                plgpu.wgmma(acc, a, b)  # here
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 128), jnp.float32))

    def call(a, b):
        tiles = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
        return kernel_of(kernel, jax.ShapeDtypeStruct((64, 128), jnp.float32), [
            plgpu.SMEM((64, 64), jnp.bfloat16, transforms=tiles), plgpu.SMEM((64, 128), jnp.bfloat16, transforms=tiles),
            plgpu.Barrier(num_arrivals=2)])(a, b)

    a, b = jnp.ones((64, 64), jnp.bfloat16), jnp.ones((64, 128), jnp.bfloat16)
    y, findings = found(call, a, b, machine="gpu-h100")
    assert not findings and (y == 128).all()
    y, (f,) = found(call, a.at[7].set(1e19), b.at[:, 11].set(1e19), machine="gpu-h100")  # 64e38 at once; the second adds to infinity
    assert f.code == "PS-NAN-002" and f.line == line_of(kernel) and f.numbers == ("element (7, 11) of its f32[64, 128]",), f.report
    assert np.isinf(y[7, 11]) and np.isfinite(np.delete(y.ravel(), 7 * 128 + 11)).all()


def test_threads_are_named():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...] * lax.axis_index("wg").astype(jnp.float32))  # here

    def call(x):
        return kernel_of(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), num_threads=2, thread_name="wg")(x)

    _, (f,) = found(call, ones(100.0), machine="gpu-h100")
    assert "1" in f.thread and f.line == line_of(kernel), f.report


def test_a_finding_can_be_an_error():
    with pytest.raises(pallasim.KernelError, match="exp makes inf") as e, pallasim.emulate("tpu-v5e", nans=True, findings="raise"):
        jax.block_until_ready(on_tpu(exp, ones(100.0)))
    assert e.value.finding.code == "PS-NAN-002"


def test_looking_at_accumulators_is_no_race():
    def kernel(x_ref, o_ref, a, barrier):
        plgpu.copy_gmem_to_smem(x_ref, a, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc):
            for _ in range(3):
                plgpu.wgmma(acc, a, a)
            plgpu.wgmma_wait(0)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), jnp.float32))

    tiles = plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)
    call = kernel_of(kernel, jax.ShapeDtypeStruct((64, 64), jnp.float32),
                     [plgpu.SMEM((64, 64), jnp.bfloat16, transforms=tiles), plgpu.Barrier()])
    with pallasim.emulate("gpu-h100", detect_races=True, nans="report", findings="raise"):
        assert (np.asarray(call(jnp.ones((64, 64), jnp.bfloat16))) == 192).all()


@pytest.mark.parametrize("value, text", [(True, "nans=report"), ("report", "nans=report"), (False, ""), ("off", "")])
def test_it_is_also_a_switch(value, text):
    assert pallasim.Params(nans=value).text() == text


def test_with_checks_nothing_is_counted_twice():
    """Looking at values is no access of the kernel's."""
    def accesses(**options):
        with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect", fuse=False, **options):
            jax.block_until_ready(on_tpu(square, ones()))
        return [(t.name, t.reads, t.writes) for t in pallasim.runs()[-1].traffic]

    assert accesses(nans="report") == accesses() != []


def test_complex_numbers_and_gathers():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * x_ref[...]  # here

    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.complex64))
    _, (f,) = found(call, jnp.ones(8, jnp.complex64).at[3].set(1e30 + 1j), machine="generic")
    assert f.line == line_of(kernel) and f.numbers == ("element (3,) of its c64[8]",) and "1e+30+1j" in f.message

    def taken(x_ref, i_ref, o_ref):
        o_ref[...] = jnp.take_along_axis(x_ref[...], i_ref[...], axis=0, mode="fill")  # here

    call = pl.pallas_call(taken, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    y, (f,) = found(call, jnp.ones(8), jnp.arange(8, dtype=jnp.int32).at[2].set(9), machine="generic")
    assert f.code == "PS-NAN-001" and f.line == line_of(taken) and "fill" in f.hint and np.isnan(y[2])


# Integers: what the operation gives, in Python's own, and whether all of it fits.
INTEGERS = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "sub": (lambda x, y: x - y, lambda x, y: x - y),
    "mul": (lambda x, y: x * y, lambda x, y: x * y),
    "neg": (lambda x, y: -x, lambda x, y: -x),
    "reduce_sum": (lambda x, y: jnp.broadcast_to(jnp.sum(x, 1, keepdims=True, dtype=x.dtype), x.shape), lambda x, y: x.sum(1)),
    "cumsum": (lambda x, y: lax.cumsum(x, 1), lambda x, y: np.cumsum(x, 1)),
}


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int16, jnp.int32])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_that_do_not_fit(name, dtype):
    ours, exact = INTEGERS[name]

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = ours(x_ref[...], y_ref[...])

    rng = np.random.default_rng(len(name))
    most = 2 ** (8 * jnp.dtype(dtype).itemsize - 1) - 1
    for scale in (3, 100, 181, most // 2, most):
        scale = min(scale, most)
        x, y = (rng.integers(-scale, scale + 1, (8, 128)) for _ in range(2))
        x[0, 0] = -most - 1 if scale == most else x[0, 0]
        _, findings = found(lambda: on_tpu(kernel, jnp.asarray(x, dtype), jnp.asarray(y, dtype), dtype=dtype), machine="generic")
        wide = np.asarray(exact(x.astype(object), y.astype(object)))
        bad = int(((wide > most) | (wide < -most - 1)).sum())
        assert [f.code for f in findings] == ["PS-NAN-004"] * bool(bad), (scale, bad)
        if bad:
            assert f"{name} leaves i{8 * jnp.dtype(dtype).itemsize}: {name}(" in findings[0].message
            assert ("such elements" in findings[0].report) == (bad > 1) and (bad == 1 or f"the first of {bad} such" in findings[0].report)


@pytest.mark.parametrize("most", [4000, 5000])
def test_an_integer_product_that_does_not_fit(most):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...].T, preferred_element_type=jnp.int32) + jnp.zeros((8, 8), jnp.int32)  # here

    x = jnp.full((8, 128), most, jnp.int32)
    y, findings = found(lambda: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 8), jnp.int32))(x, x), machine="generic")
    fits = 128 * most * most < 2**31
    assert [f.code for f in findings] == ["PS-NAN-004"] * (not fits)
    assert fits == (most == 4000) and (y[0, 0] == 128 * most * most) == fits
    if findings:
        assert findings[0].line == line_of(kernel) and f"= {128 * most * most}" in findings[0].message


def test_unsigned_integers_wrap():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 3

    y, findings = found(lambda: on_tpu(kernel, jnp.full((8, 128), 2**31, jnp.uint32), dtype=jnp.uint32))
    assert findings == [] and y[0, 0] == 3 * 2**31 % 2**32
