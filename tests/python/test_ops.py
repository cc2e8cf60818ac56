"""Every elementwise operation against JAX on this machine: every dtype that JAX accepts, shape classes, special values.

One kernel per dtype runs all operations of op_cases.py. Narrow floats are compared with the operation in f32, rounded once.
"""
from __future__ import annotations

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import pallasim
from op_cases import COMPLEX, DTYPES, ELEMENTWISE, NARROW_FLOATS, REFUSED, dtype_of
from op_compare import bits, difference, is_nan, sample, subnormal, tolerance

# Shape classes: scalars, nothing, one element, odd, rank 4 with a one, a row of tiles.
SHAPES = [(), (0, 3), (1,), (2, 1, 33), (2, 3, 1, 4), (8, 128)]
ROW = (3, 1, 50)  # an operand that is broadcast to (3, 7, 50) in the kernel
N = sum(int(np.prod(s)) for s in SHAPES) + 3 * 7 * 50


@functools.cache
def accepted(dtype: str) -> tuple[str, ...]:
    """The operations that JAX's type rules admit for a dtype."""
    out = []
    for op, case in ELEMENTWISE.items():
        try:
            jax.eval_shape(case.call, *[jax.ShapeDtypeStruct((2,), dtype_of(dtype))] * case.operands)
            out.append(op)
        except (TypeError, ValueError, NotImplementedError):
            pass
    return tuple(out)


@functools.cache
def reference(ops: tuple[str, ...]):
    """All results of several operations in one compilation; called again for each narrow type that goes through f32."""
    def call(*operands):
        return [ELEMENTWISE[op].call(*xs) for op, xs in zip(ops, operands)]

    return jax.jit(call)


@np.errstate(all="ignore")
def expectations(dtype: str, ops: list[str], operands: dict[str, list[np.ndarray]]) -> dict[str, np.ndarray]:
    through_f32 = [op for op in ops if dtype in (*NARROW_FLOATS, "float32") and not ELEMENTWISE[op].native]
    native = tuple(op for op in ops if op not in through_f32)
    out = dict(zip(native, reference(native)(*[operands[op] for op in native])))
    if through_f32:
        every = tuple(op for op in accepted("float32") if not ELEMENTWISE[op].native)
        missing = [np.ones(N, np.float32)] * 3
        wide = [[x.astype(np.float32) for x in operands[op]] if op in through_f32 else missing[: ELEMENTWISE[op].operands] for op in every]
        for op, r in zip(every, reference(every)(*wide)):
            out[op] = np.asarray(r).astype(dtype_of(dtype)) if r.dtype == np.float32 else r
    for op in ops:
        case = ELEMENTWISE[op]
        other = case.codes if dtype in NARROW_FLOATS else case.integers if dtype.lstrip("u") in ("int2", "int4") else None
        if other is not None:
            out[op] = other(*operands[op])
    return {op: np.asarray(out[op]) for op in ops}


@np.errstate(all="ignore")
def left_open(dtype: str, op: str, operands: list[np.ndarray], got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Elements where XLA:CPU does not say what the operation means: what it flushes, and the sign of a zero."""
    skip = subnormal(expected) | subnormal(got)
    for x in operands:
        skip = skip | subnormal(x)
    if op == "reduce_precision" and dtype == "float16":  # goes through f32 there, whose exponents are wider
        skip |= np.abs(operands[0].astype(np.float64)) < 2.0**-14
    if dtype == "float8_e8m0fnu" and not ELEMENTWISE[op].exact:  # has no zero, which a small error turns into a number
        g, e = got.astype(np.float32), expected.astype(np.float32)
        skip |= (np.isnan(g) & (e < 1e-5)) | (np.isnan(e) & (g < 1e-37))
    if dtype.endswith("fnuz") and op in ("lt_total", "le_total"):  # their one NaN has no sign; XLA takes its code for -0
        skip |= is_nan(operands[0]) | is_nan(operands[1])
    return skip | ((got == 0) & (expected == 0)) if ELEMENTWISE[op].zeros_equal else skip


def pieces(x):
    """The flat elements x as arrays of all shape classes; the last is broadcast by the kernel."""
    out, at = [], 0
    for s in [*SHAPES, (3, 7, 50)]:
        n = int(np.prod(s))
        out.append(x[at : at + n].reshape(s))
        at += n
    return out


def make_operands(dtype: str, op: str) -> list[np.ndarray]:
    case, rng = ELEMENTWISE[op], np.random.default_rng(ELEMENTWISE[op].operands * 7 + len(dtype))
    bounds = case.domain or (None, None)
    bounds = bounds if isinstance(bounds[0], tuple) else [bounds] * case.operands
    xs = [sample(rng, dtype_of(dtype), N, *b) for b in bounds]
    for x in xs[1:]:  # comparisons see equal operands too
        np.copyto(x, xs[0], where=rng.random(N) < 0.2)
    row = pieces(xs[0])[-1]
    row[...] = row[:, :1, :]
    return xs


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise(emulated, dtype):
    with jax.enable_x64("64" in dtype and dtype != "complex64" or dtype == "complex128"):
        ops = [op for op in accepted(dtype) if dtype not in REFUSED.get(op, ((),))[0]]
        operands = {op: make_operands(dtype, op) for op in ops}
        expected = expectations(dtype, ops, operands)
        # Operations with the same domain share their refs.
        domains, refs = {}, []
        for op in ops:
            key = (ELEMENTWISE[op].operands, ELEMENTWISE[op].domain)
            if key not in domains:
                domains[key] = len(refs)
                for i, x in enumerate(operands[op]):
                    refs += [p[:, :1] if i == 0 and p.shape == (3, 7, 50) else p for p in pieces(x)]
        classes = len(SHAPES) + 1

        def kernel(*all_refs):
            ins, outs = all_refs[: len(refs)], iter(all_refs[len(refs) :])
            for op in ops:
                case = ELEMENTWISE[op]
                at = domains[case.operands, case.domain]
                for c in range(classes):
                    xs = [ins[at + i * classes + c][...] for i in range(case.operands)]
                    if c == classes - 1:
                        xs[0] = jnp.broadcast_to(xs[0], (3, 7, 50))
                    next(outs)[...] = case.call(*xs)

        shapes = [jax.ShapeDtypeStruct(p.shape, p.dtype) for op in ops for p in pieces(expected[op])]
        got = emulated(pl.pallas_call(kernel, out_shape=shapes), *[jnp.asarray(r) for r in refs])
        wrong = []
        for i, op in enumerate(ops):
            case = ELEMENTWISE[op]
            e = expected[op]
            assert np.any(bits(e)), f"an expectation of zeros proves nothing: {op}"
            g = np.concatenate([x.reshape(-1) for x in got[i * classes : (i + 1) * classes]])
            assert [x.shape for x in got[i * classes : (i + 1) * classes]] == [*SHAPES, (3, 7, 50)]
            if dtype.startswith("complex") and case.rtol_complex is not None and e.dtype.kind in "cf":
                r = case.rtol_complex * (1 if dtype == "complex64" else 1e-6)
                within = (r, r)
            else:
                within = None if case.exact else tolerance(e.dtype, case.rtol, case.rtol64)
            skip = left_open(dtype, op, operands[op], g, e)
            wrong.append((op, difference(g, e, within, skip)))
            if case.numpy is not None and skip.any():
                with np.errstate(all="ignore"):
                    wrong.append((op + " of denormals", difference(g[skip], case.numpy(*[x[skip] for x in operands[op]]).astype(e.dtype), None)))
        wrong = [f"{op}: {text}" for op, text in wrong if text]
        assert not wrong, "\n".join([f"{len(wrong)} operations on {dtype}", *wrong])
        assert len(ops) >= 10


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(emulated, dtype):
    """From a dtype to all others, special values and (of 8 bits and less) all values."""
    with jax.enable_x64(True):
        x = sample(np.random.default_rng(5), dtype_of(dtype), 2048)
        targets = [d for d in DTYPES if not (dtype in COMPLEX and d not in COMPLEX)]  # complex to real is a warning in JAX
        wide = x.astype(np.float32) if dtype == "float4_e2m1fn" else x  # XLA:CPU takes its largest value for an overflow
        with np.errstate(all="ignore"):
            expected = [np.asarray(e) for e in jax.jit(lambda x: [x.astype(dtype_of(d)) for d in targets])(wide)]

        def kernel(x_ref, *outs):
            for d, out in zip(targets, outs):
                out[...] = x_ref[...].astype(dtype_of(d))

        got = emulated(pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(e.shape, e.dtype) for e in expected]), jnp.asarray(x))
        def open_to(d, e):
            """What XLA:CPU flushes, and NaN as f4e2m1fn, which is a zero of either sign."""
            skip = subnormal(x) | subnormal(e) | (is_nan(x) if d == "float4_e2m1fn" else False)
            return skip | ((x != 0) & (np.abs(x) < 2.0**-126)) if dtype == "float64" and d == "float8_e8m0fnu" else skip

        wrong = [(d, difference(g, e, None, open_to(d, e))) for d, g, e in zip(targets, got, expected)]
        assert all(np.any(bits(e)) for e in expected)
        assert not [w for w in wrong if w[1]], "\n".join(f"{dtype} to {d}: {text}" for d, text in wrong if text)


@pytest.mark.parametrize("op", REFUSED)
def test_what_is_refused_is_refused_by_name(op):
    for dtype in REFUSED[op][0]:
        with jax.enable_x64("64" in dtype or dtype == "complex128"):
            x = jnp.ones((4,), dtype_of(dtype))
            shape = jax.eval_shape(ELEMENTWISE[op].call, *[x] * ELEMENTWISE[op].operands)
            f = pl.pallas_call(lambda x, o: o.__setitem__(..., ELEMENTWISE[op].call(*[x[...]] * ELEMENTWISE[op].operands)), out_shape=shape)
            with pallasim.emulate(), pytest.raises(Exception, match=f"'{op}'|unsupported: {op}"):
                f(x)


def test_every_elementwise_operation_has_a_row():
    table = (pathlib.Path(__file__).parents[2] / "ir" / "include" / "pallasim" / "ir" / "ops.def").read_text()
    names = set(re.findall(r'^OP\(\w+, "(\w+)", Elementwise,', table, re.M))
    assert set(ELEMENTWISE) | {"log2"} == names
