"""What every elementwise operation is compared with: one row per operation of ir/include/pallasim/ir/ops.def.

A row says how JAX spells the operation, on how many operands, exactly or within which tolerance, and where a dtype needs more
words. The dtypes are not listed: test_ops.py runs every operation on every dtype that JAX accepts for it, over all shape
classes and special values, and `REFUSED` names what we refuse of that, with the reason. scripts/docs.py links to the rows.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax._src.lax import lax as L
from jax.experimental import pallas as pl

_F8 = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
NARROW_FLOATS = ("float4_e2m1fn", *_F8, "bfloat16", "float16")
FLOATS = (*NARROW_FLOATS, "float32", "float64")
INTS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64))
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTS, *FLOATS, *COMPLEX)


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def width(dtype: Any) -> int:
    """Bits of an element."""
    info = jnp.iinfo if jnp.issubdtype(dtype, np.integer) else jnp.finfo
    return info(dtype).bits


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """`rtol` is for f32; f64 has `rtol64`; complex numbers are compared by the modulus, within `rtol_complex` unless None."""

    call: Callable[..., Any]
    operands: int = 1
    exact: bool = True      # bit for bit on real numbers
    rtol: float = 0.0
    rtol64: float = 1e-12
    rtol_complex: float | None = None  # f32 parts; f64 parts get 1e-6 of it
    numpy: Any = None       # reference for denormals, which XLA:CPU flushes
    native: bool = False    # looks at the type itself: narrow floats are not computed through f32
    codes: Any = None       # reference for narrow floats where XLA:CPU takes all formats for sign and magnitude
    zeros_equal: bool = False  # the sign of a zero is left open
    domain: tuple[Any, ...] | None = None  # operands are in [low, high]; or one such pair per operand
    integers: Callable[..., Any] | None = None  # reference for integers of 2 and 4 bits, which XLA:CPU computes in 8


def _approximate(call: Callable[..., Any], operands: int = 1, rtol: float = 2e-6, **more: Any) -> Elementwise:
    return Elementwise(call, operands, exact=False, rtol=rtol, **{"rtol_complex": 1e-5, **more})


def _unsigned(x: np.ndarray, count: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return count(x.astype(np.int64) & ((1 << width(x.dtype)) - 1)).astype(x.dtype)


E = Elementwise
ELEMENTWISE: dict[str, Elementwise] = {
    "abs": E(lax.abs, numpy=np.abs, rtol_complex=1e-6), "neg": E(lax.neg, numpy=np.negative), "sign": E(lax.sign, rtol_complex=1e-6),
    "not": E(lax.bitwise_not), "ceil": E(lax.ceil), "floor": E(lax.floor), "square": E(lax.square, numpy=np.square, rtol_complex=1e-6),
    "round": E(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    "sqrt": E(lax.sqrt, rtol_complex=1e-6), "rsqrt": _approximate(lax.rsqrt), "cbrt": _approximate(lax.cbrt), "exp": _approximate(lax.exp),
    "exp2": _approximate(lax.exp2), "expm1": _approximate(lax.expm1), "log": _approximate(lax.log), "log1p": _approximate(lax.log1p),
    "logistic": _approximate(lax.logistic), "sin": _approximate(lax.sin, domain=(-100, 100)), "cos": _approximate(lax.cos, domain=(-100, 100)),
    "tan": _approximate(lax.tan, rtol=1e-5, domain=(-100, 100)), "sinh": _approximate(lax.sinh), "cosh": _approximate(lax.cosh),
    "tanh": _approximate(lax.tanh), "asin": _approximate(lax.asin, rtol=1e-5), "acos": _approximate(lax.acos, rtol=1e-5),
    "atan": _approximate(lax.atan), "asinh": _approximate(lax.asinh, rtol=1e-5), "acosh": _approximate(lax.acosh, rtol=1e-5),
    "atanh": _approximate(lax.atanh, rtol=1e-5), "erf": _approximate(lax.erf), "erfc": _approximate(lax.erfc, rtol=1e-5),
    "erf_inv": _approximate(lax.erf_inv, rtol=4e-7), "lgamma": _approximate(lax.lgamma, rtol=1e-4, domain=(0.1, 30)),
    "digamma": _approximate(lax.digamma, rtol=1e-4, domain=(0.3, 30)), "bessel_i0e": _approximate(lax.bessel_i0e, rtol=1e-5),
    "bessel_i1e": _approximate(lax.bessel_i1e, rtol=1e-5), "integer_pow": _approximate(lambda x: lax.integer_pow(x, 3)),
    "clz": E(lax.clz), "population_count": E(lax.population_count, integers=lambda x: _unsigned(x, lambda v: np.bitwise_count(v))), "is_finite": E(lax.is_finite), "real": E(lax.real), "imag": E(lax.imag),
    "conj": E(lax.conj), "stop_gradient": E(lax.stop_gradient), "reduce_precision": E(lambda x: lax.reduce_precision(x, 5, 3), native=True),
    "bitcast_convert": E(lambda x: lax.bitcast_convert_type(x, f"uint{width(x.dtype)}"), native=True),
    "add": E(lax.add, 2, numpy=np.add), "sub": E(lax.sub, 2, numpy=np.subtract), "mul": E(lax.mul, 2, numpy=np.multiply, rtol_complex=1e-6),
    "div": E(lax.div, 2, rtol_complex=1e-6), "rem": E(lax.rem, 2), "max": E(lax.max, 2, zeros_equal=True), "min": E(lax.min, 2, zeros_equal=True),
    "pow": _approximate(lax.pow, 2, 1e-5, domain=(0, 8)), "atan2": _approximate(lax.atan2, 2),
    "igamma": _approximate(lax.igamma, 2, 1e-3, domain=(0.5, 8)), "igammac": _approximate(lax.igammac, 2, 1e-3, domain=(0.5, 8)),
    "zeta": _approximate(lax.zeta, 2, 1e-3, domain=(1.5, 8)),
    "polygamma": _approximate(lambda m, x: lax.polygamma(lax.round(m), x), 2, 1e-3, domain=(1, 6)),
    "nextafter": E(lax.nextafter, 2, numpy=np.nextafter, native=True, codes=np.nextafter), "and": E(lax.bitwise_and, 2), "or": E(lax.bitwise_or, 2),
    "xor": E(lax.bitwise_xor, 2), "shift_left": E(lax.shift_left, 2), "shift_right_logical": E(lax.shift_right_logical, 2),
    "shift_right_arithmetic": E(lax.shift_right_arithmetic, 2), "mulhi": E(lax.mulhi, 2, integers=lambda x, y: (x.astype(int) * y.astype(int) >> width(x.dtype)).astype(x.dtype)), "complex": E(lax.complex, 2),
    "eq": E(lax.eq, 2), "ne": E(lax.ne, 2), "lt": E(lax.lt, 2), "le": E(lax.le, 2), "gt": E(lax.gt, 2), "ge": E(lax.ge, 2),
    "select_n": E(lambda x, y: lax.select(x == x, y, x), 2), "clamp": E(lambda x, y: lax.clamp(lax.min(x, y), x, lax.max(x, y)), 2),
    "regularized_incomplete_beta": _approximate(lax.betainc, 3, 1e-3, domain=((0.5, 7), (0.5, 7), (0, 1))),
    "eq_total": E(lambda x, y: L.eq_to_p.bind(x, y), 2, native=True), "lt_total": E(lambda x, y: L.lt_to_p.bind(x, y), 2, native=True),
    "le_total": E(lambda x, y: L.le_to_p.bind(x, y), 2, native=True), "copysign": E(lambda x, y: jnp.copysign(x, y), 2),
    "reciprocal": _approximate(lambda x: pl.reciprocal(x, approx=False)),
    "convert": E(lambda x: x.astype(jnp.float32), native=True),
}
if hasattr(lax, "log2"):
    ELEMENTWISE["log2"] = _approximate(lax.log2)

# Operation -> dtypes that JAX's type rules admit and that we refuse by name, with the reason.
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "reciprocal": (("bool", *INTS), "1/x of an integer: pl.reciprocal keeps the dtype and JAX's lowerings compute a float"),
    "eq_total": (COMPLEX, "complex numbers have no total order: XLA's verifier refuses the comparison"),
}
