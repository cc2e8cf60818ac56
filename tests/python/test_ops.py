"""Every operation against JAX on this machine: dtypes, shapes, special values. The cases are in op_cases.py."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from op_cases import ARRAYS, ELEMENTWISE, KINDS, Array, dtype_of

SHAPES = [(), (0, 3), (2, 1, 33), (2, 3, 1, 4), (8, 128)]
ROUNDING = {"bfloat16": 2**-7, "float16": 2**-9, "float64": 1e-12}


def kernel_call(f, *args):
    """f inside a kernel: every operand is read whole, every result written whole."""
    shapes = jax.eval_shape(f, *args)
    leaves, tree = jax.tree.flatten(shapes)

    def kernel(*refs):
        values = jax.tree.leaves(f(*[r[...] for r in refs[: len(args)]]))
        for ref, v in zip(refs[len(args):], values):
            ref[...] = v

    out = pl.pallas_call(kernel, out_shape=tuple(jax.ShapeDtypeStruct(s.shape, s.dtype) for s in leaves))
    return lambda *xs: out(*xs)


def values(rng, dtype, shape, low, high):
    n = int(np.prod(shape))
    kind = np.dtype(dtype).kind
    if dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if low is not None:
        return rng.uniform(low, high, shape).astype(dtype)
    if kind in "iu" or "int" in dtype.name:
        info = jnp.iinfo(dtype)
        wide = np.uint64 if dtype.name == "uint64" else np.int64
        special = np.array([int(info.min), int(info.max), 0, 1, 3, *([-1] if info.min < 0 else [])], wide)
        x = rng.integers(int(info.min), int(info.max), n, endpoint=True, dtype=wide)
        x = np.where(rng.random(n) < 0.5, x, rng.integers(0, min(70, int(info.max)), n).astype(wide))
        x[: len(special)] = special[:n]
        return rng.permutation(x.astype(dtype)).reshape(shape)
    if kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    info = jnp.finfo(dtype)
    x = (rng.normal(size=n) * 3).astype(np.float64)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, float(info.max), float(info.min), float(info.tiny), -float(info.tiny),
               float(info.smallest_subnormal), -float(info.smallest_subnormal) * 3, 0.5, 1.5, 2.5]
    with np.errstate(all="ignore"):
        x[: len(special)] = special[:n]
        return rng.permutation(x.astype(dtype)).reshape(shape)


def bits(x):
    x = np.ascontiguousarray(x)
    return x.view(np.uint8).reshape(*x.shape, x.dtype.itemsize) if x.size else x


def is_nan(x):
    return np.isnan(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)) if x.dtype.kind not in "iub" and "int" not in x.dtype.name else np.zeros(x.shape, bool)


def subnormal(x):
    """XLA:CPU flushes these."""
    if x.dtype.kind in "iubc" or "int" in x.dtype.name:
        return np.zeros(x.shape, bool)
    v = np.abs(x.astype(np.float64))
    return (v > 0) & (v < float(jnp.finfo(x.dtype).tiny)) if x.dtype.name in ("float32", "float64", "bfloat16", "float16") else np.zeros(x.shape, bool)


def compare(got, expected, rtol, skip):
    """Bit for bit (any NaN equals any NaN), or within rtol of the dtype."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    if not rtol:
        nan = is_nan(got) & is_nan(expected)
        bad = (bits(got) != bits(expected)).any(-1) & ~nan & ~skip if got.size else np.zeros(got.shape, bool)
        assert not bad.any(), f"{got[bad][:4]} for {expected[bad][:4]}"
        return
    wide = np.float64
    tolerance = max(rtol, ROUNDING.get(got.dtype.name, 0) if got.dtype.name != "float64" else 0)
    with np.errstate(all="ignore"):
        near = np.isclose(got.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance * 1e-2, equal_nan=True)
    assert (near | skip).all(), f"{got[~near & ~skip][:4]} for {expected[~near & ~skip][:4]}"


CASES = [(op, d) for op, case in ELEMENTWISE.items() for k in case.kinds for d in KINDS[k]]


@pytest.mark.parametrize("op,dtype", CASES, ids=[f"{o}-{d}" for o, d in CASES])
def test_elementwise(emulated, op, dtype):
    case = ELEMENTWISE[op]
    rng = np.random.default_rng(len(op) * 131 + len(dtype))
    with jax.enable_x64(dtype.endswith("64") and dtype != "complex64"):
        shapes = SHAPES if not dtype.endswith("4") or dtype.endswith("64") else [(1,), (3, 5), (8, 128)]
        groups = [[np.array(values(rng, dtype_of(dtype), s, case.low, case.high)) for _ in range(case.operands)] for s in shapes]
        for g in groups:  # comparisons see equal operands too
            for x in g[1:]:
                np.copyto(x, g[0], where=rng.random(x.shape) < 0.2)
        f = lambda *flat: tuple(case.call(*flat[i : i + case.operands]) for i in range(0, len(flat), case.operands))  # noqa: E731
        flat = [jnp.asarray(x) for g in groups for x in g]
        wide = jnp.float32 if not case.exact and dtype in ("bfloat16", "float16") else None  # JAX rounds in between
        expected = [np.asarray(e.astype(dtype)) for e in jax.jit(f)(*[x.astype(wide) for x in flat])] if wide else [np.asarray(e) for e in jax.jit(f)(*flat)]
        assert any(np.any(bits(e)) for e in expected), "an expectation of zeros proves nothing"
        got = emulated(kernel_call(f, *flat), *flat)
        for group, g, e in zip(groups, got, expected):
            skip = subnormal(e) | subnormal(np.asarray(g))
            for x in group:
                skip = skip | subnormal(x)
            skip_zeros = (g == 0) & (e == 0) if case.zeros_equal else False
            compare(g, e, 0 if case.exact else case.rtol, skip | skip_zeros)
            if case.numpy is not None and dtype in ("float32", "float64") and skip.any():
                with np.errstate(all="ignore"):
                    compare(np.asarray(g)[skip], case.numpy(*[x[skip] for x in group]), 0, False)


@pytest.mark.parametrize("case", ARRAYS, ids=lambda c: c.id)
def test_array(emulated, case: Array):
    args = [jnp.asarray(x) for x in case.operands]
    got = emulated(kernel_call(case.call, *args), *args)
    expected = case.expected(*case.operands) if case.expected else jax.jit(case.call)(*args)
    expected = [np.asarray(e) for e in jax.tree.leaves(expected)]
    assert any(np.any(bits(e)) for e in expected), "an expectation of zeros proves nothing"
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        compare(g, e, case.rtol, np.zeros(e.shape, bool))
