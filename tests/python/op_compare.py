"""Special values per dtype, and comparisons that take any NaN for any NaN and leave out what XLA:CPU flushes."""
from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

ROUNDING = {"bfloat16": 2**-7, "float16": 2**-9}


def is_integer(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iub" or "int" in np.dtype(dtype).name


def sample(rng: np.random.Generator, dtype: np.dtype, n: int, low: float | None = None, high: float | None = None) -> np.ndarray:
    """n elements in random order: all values of a narrow type, else the special ones and random ones, n >= 256."""
    if dtype.name == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.kind == "c":
        part = np.dtype(f"float{dtype.itemsize * 4}")
        return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype) * part.type(2)
    if low is not None:
        return rng.uniform(low, high, n).astype(dtype)
    if is_integer(dtype):
        info = jnp.iinfo(dtype)
        wide = np.uint64 if dtype.name == "uint64" else np.int64
        special = np.array([int(info.min), int(info.max), 0, 1, *([3] if info.max >= 3 else []), *([-1] if info.min < 0 else [])], wide)
        x = rng.integers(int(info.min), int(info.max), n, endpoint=True, dtype=wide)
        x = np.where(rng.random(n) < 0.5, x, rng.integers(0, min(70, int(info.max)), n).astype(wide))
        x[: len(special)] = special
        if info.bits <= 8:
            x[: 1 << info.bits] = np.arange(int(info.min), int(info.max) + 1)
        return rng.permutation(x.astype(dtype))
    info = jnp.finfo(dtype)
    if info.bits <= 8:
        codes = np.arange(n, dtype=np.int64) % (1 << info.bits)
        return rng.permutation(codes.astype(np.uint8)).view(dtype)
    tiny, small = float(info.tiny), float(info.smallest_subnormal)
    x = (rng.normal(size=n) * 3).astype(np.float64)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, float(info.max), float(info.min), tiny, -tiny, small, -small * 3, 0.5, 1.5, 2.5]
    x[: len(special)] = special
    with np.errstate(all="ignore"):
        return rng.permutation(x.astype(dtype))


def bits(x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x)
    return x.view(np.uint8).reshape(*x.shape, x.dtype.itemsize) if x.size else x


@np.errstate(all="ignore")
def is_nan(x: np.ndarray) -> np.ndarray:
    if is_integer(x.dtype):
        return np.zeros(x.shape, bool)
    return np.isnan(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))


@np.errstate(all="ignore")
def subnormal(x: np.ndarray) -> np.ndarray:
    """XLA:CPU flushes these."""
    if x.dtype.name not in ("float32", "float64", "bfloat16", "float8_e8m0fnu"):
        return np.zeros(x.shape, bool)
    v = np.abs(x.astype(np.float64))
    return (v > 0) & (v < float(np.finfo("float64" if x.dtype == np.float64 else "float32").tiny))


def tolerance(dtype: np.dtype, rtol: float, rtol64: float) -> tuple[float, float]:
    """rtol and atol: the function's own error, and the rounding of a narrow type."""
    if dtype.name == "float64":
        return rtol64, rtol64 * 1e-2
    if dtype.itemsize == 1 and not is_integer(dtype):  # neighbours of a format with few bits
        info = jnp.finfo(dtype)
        return 2.0**-info.nmant, 0.0 if dtype == ml_dtypes.float8_e8m0fnu else float(info.smallest_subnormal)
    r = max(rtol, ROUNDING.get(dtype.name, 0))
    return r, r * 1e-2


@np.errstate(all="ignore")
def difference(got: np.ndarray, expected: np.ndarray, within: tuple[float, float] | None, skip: np.ndarray | bool = False) -> str:
    """Says where got differs from expected: bit for bit, or beyond (rtol, atol). Empty where it does not."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    if not got.size:
        return ""
    if within is None or is_integer(got.dtype):
        good = (bits(got) == bits(expected)).all(-1) | (is_nan(got) & is_nan(expected))
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        good = np.isclose(got.astype(wide), expected.astype(wide), rtol=within[0], atol=within[1], equal_nan=True)
    bad = ~(good | skip)
    return f"{bad.sum()} of {bad.size} differ, among them {got[bad][:3]} for {expected[bad][:3]} at {np.argwhere(bad)[0]}" if bad.any() else ""
