"""Operations on whole arrays against JAX on this machine: movement and folds on every dtype and shape class, and the calls of array_cases.py.

One kernel per dtype runs all movements and folds, one kernel runs a dozen of the other calls.
"""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from array_cases import ARRAYS, FOLDS, MOVES, SHAPES
from op_cases import DTYPES, NARROW_FLOATS, dtype_of
from op_compare import bits, difference, sample, subnormal, tolerance


def run(emulated, calls, operands):
    """Results of calls[i](*operands[i]), all in one kernel: every operand is read whole, every result written whole."""
    trees = [jax.eval_shape(f, *xs) for f, xs in zip(calls, operands)]
    shapes = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in jax.tree.leaves(trees)]
    flat = [x for xs in operands for x in xs]

    def kernel(*refs):
        ins, outs = iter(refs[: len(flat)]), iter(refs[len(flat) :])
        for f, xs in zip(calls, operands):
            for v in jax.tree.leaves(f(*[next(ins)[...] for _ in xs])):
                next(outs)[...] = v

    got = iter(emulated(pl.pallas_call(kernel, out_shape=shapes), *[jnp.asarray(x) for x in flat]))
    return [[next(got) for _ in jax.tree.leaves(t)] for t in trees]


def x64(dtype):
    return jax.enable_x64(dtype in ("int64", "uint64", "float64", "complex128"))


def inputs(dtype, small=False):
    rng = np.random.default_rng(len(dtype))
    if small and dtype.startswith("complex"):
        return [(rng.uniform(0.9, 1.1, s) * np.exp(6j * rng.random(s))).astype(dtype) for s in SHAPES]
    if not small or np.dtype(dtype_of(dtype)).kind in "iub":
        return [sample(rng, dtype_of(dtype), 1024)[: int(np.prod(s))].reshape(s) for s in SHAPES]
    return [(rng.normal(size=s) + 0.5).astype(dtype_of(dtype)) for s in SHAPES]


def report(names, got, expected, within, skip=lambda g, e: False):
    wrong = []
    for name, g, e, w in zip(names, got, expected, within):
        wrong += [f"{name}: {text}" for a, b in zip(g, e, strict=True) if (text := difference(a, b, w, skip(a, b)))]
    assert any(np.any(bits(x)) for e in expected for x in e), "an expectation of zeros proves nothing"
    assert not wrong, "\n".join([f"{len(wrong)} results", *wrong])


@functools.cache
def moves_of(dtype):
    """Expectations of all movements on all shapes, for the elements of one width."""
    calls = [(name, f, s) for name, (f, fits) in MOVES.items() for s in range(len(SHAPES)) if fits(SHAPES[s])]
    return calls, jax.jit(lambda xs: [f(xs[s]) for _, f, s in calls])


@pytest.mark.parametrize("dtype", DTYPES)
def test_movement(emulated, dtype):
    xs = inputs(dtype)
    width = dtype_of(dtype).itemsize
    with jax.enable_x64(width >= 8):
        raw = dtype if width > 8 else f"uint{8 * width}"
        calls, reference = moves_of(raw)
        expected = [[np.asarray(e).view(dtype_of(dtype))] for e in reference([x.view(raw) for x in xs])]
        got = run(emulated, [f for _, f, _ in calls], [(xs[s],) for *_, s in calls])
        report([f"{name} of {SHAPES[s]}" for name, _, s in calls], got, expected, [None] * len(calls))


@functools.cache
def folds_of(calls):
    return jax.jit(lambda xs: [FOLDS[n].call(x) for (n, _), x in zip(calls, xs)])


def wider(dtype):
    """The type that XLA:CPU computes the expectation in, or none."""
    small = dtype.lstrip("u") in ("int2", "int4")
    return "float32" if dtype in NARROW_FLOATS else dtype.rstrip("24") + "8" if small else None


@pytest.mark.parametrize("dtype", DTYPES)
def test_fold(emulated, dtype):
    """Special values for exact folds; a few small numbers for sums and products."""
    wide = wider(dtype)
    calls = tuple((n, s) for n, f in FOLDS.items() if dtype in f.dtypes for s in range(len(SHAPES))
                  if SHAPES[s] and (0 not in SHAPES[s] or f.empty and not (wide and f.bound)))
    special, small = inputs(dtype), inputs(dtype, small=True)
    xs = [(special if FOLDS[n].exact and FOLDS[n].nan else small)[s] for n, s in calls]
    with x64(dtype):
        expected = [np.asarray(e) for e in folds_of(calls)([x.astype(wide or x.dtype) for x in xs])]
        expected = [[e.astype(dtype_of(dtype)) if e.dtype == wide else e] for e in expected]
        got = run(emulated, [FOLDS[n].call for n, _ in calls], [(x,) for x in xs])
        within = [None if FOLDS[n].exact else (1e-5, 1e-4) if dtype == "complex64" else (1e-12, 1e-12) if dtype == "complex128"
                  else tolerance(dtype_of(dtype), 1e-5, 1e-12) for n, _ in calls]
        report([f"{n} of {SHAPES[s]}" for n, s in calls], got, expected, within, lambda g, e: subnormal(g) | subnormal(e) | ((g == 0) & (e == 0)))


BATCH = 12
BATCHES = [ARRAYS[i : i + BATCH] for i in range(0, len(ARRAYS), BATCH)]


@pytest.mark.parametrize("cases", BATCHES, ids=lambda cases: f"{cases[0].id}..{cases[-1].id}")
def test_array(emulated, cases):
    operands = [[jnp.asarray(x) for x in case.operands] for case in cases]
    compiled = jax.jit(lambda xs: [None if case.expected else case.call(*x) for case, x in zip(cases, xs)])(operands)
    expected = [[np.asarray(e) for e in jax.tree.leaves(case.expected(*case.operands) if case.expected else made)] for case, made in zip(cases, compiled)]
    for case, e in zip(cases, expected):
        assert any(np.any(bits(x)) for x in e), f"an expectation of zeros proves nothing: {case.id}"
    got = run(emulated, [case.call for case in cases], operands)
    report([case.id for case in cases], got, expected, [(case.rtol, case.rtol * 1e-2) if case.rtol else None for case in cases])
