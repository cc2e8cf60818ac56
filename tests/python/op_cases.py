"""What every operation is compared with: JAX on the CPU, or NumPy where JAX has no rule or flushes denormals.

`ELEMENTWISE` maps operations of ir/include/pallasim/ir/ops.def to a function and the kinds of dtypes that it takes;
`ARRAYS` lists calls of the other operations. test_ops.py runs them, scripts/docs.py links to them.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax._src.lax import lax as L
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

KINDS = {
    "f": ("float32", "bfloat16", "float16"), "d": ("float64",), "n": ("float8_e4m3fn", "float8_e5m2"),
    "s": ("int8", "int16", "int32"), "u": ("uint8", "uint16", "uint32"), "w": ("int64", "uint64"),
    "4": ("int4", "uint4"), "b": ("bool",), "c": ("complex64",), "r": ("float32",), "i": ("int32", "uint32"),
}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


@dataclasses.dataclass(frozen=True)
class Elementwise:
    call: Callable[..., Any]
    kinds: str
    operands: int = 1
    exact: bool = True      # bit for bit; else within the tolerance of `rtol`
    rtol: float = 0.0       # for f32; narrower types get their own rounding on top
    numpy: Any = None       # reference for denormals, which XLA:CPU flushes
    zeros_equal: bool = False  # the sign of a zero is left open
    low: float | None = None  # operands are in [low, high]
    high: float | None = None


def _approximate(call: Callable[..., Any], kinds: str = "fd", operands: int = 1, rtol: float = 2e-6, **more: Any) -> Elementwise:
    return Elementwise(call, kinds, operands, exact=False, rtol=rtol, **more)


E = Elementwise
ELEMENTWISE: dict[str, Elementwise] = {
    "abs": E(jnp.abs, "fds", numpy=np.abs), "neg": E(lax.neg, "fdsuwc", numpy=np.negative), "sign": E(lax.sign, "fdsuw"),
    "not": E(lax.bitwise_not, "suwb4"), "ceil": E(lax.ceil, "fd"), "floor": E(lax.floor, "fd"),
    "square": E(lax.square, "fdsu", numpy=np.square), "round": E(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), "fd"),
    "sqrt": E(lax.sqrt, "fd"), "rsqrt": _approximate(lax.rsqrt), "cbrt": _approximate(lax.cbrt), "exp": _approximate(lax.exp),
    "exp2": _approximate(lax.exp2), "expm1": _approximate(lax.expm1), "log": _approximate(lax.log), "log1p": _approximate(lax.log1p),
    "logistic": _approximate(lax.logistic), "sin": _approximate(lax.sin, low=-100, high=100), "cos": _approximate(lax.cos, low=-100, high=100),
    "tan": _approximate(lax.tan, rtol=1e-5, low=-100, high=100), "sinh": _approximate(lax.sinh), "cosh": _approximate(lax.cosh),
    "tanh": _approximate(lax.tanh), "asin": _approximate(lax.asin, rtol=1e-5), "acos": _approximate(lax.acos, rtol=1e-5),
    "atan": _approximate(lax.atan), "asinh": _approximate(lax.asinh, rtol=1e-5), "acosh": _approximate(lax.acosh, rtol=1e-5),
    "atanh": _approximate(lax.atanh, rtol=1e-5), "erf": _approximate(lax.erf), "erfc": _approximate(lax.erfc, rtol=1e-5),
    "erf_inv": _approximate(lax.erf_inv, rtol=4e-7), "lgamma": _approximate(lax.lgamma, rtol=1e-4, low=0.1, high=30),
    "digamma": _approximate(lax.digamma, rtol=1e-4, low=0.1, high=30), "bessel_i0e": _approximate(lax.bessel_i0e, rtol=1e-5),
    "bessel_i1e": _approximate(lax.bessel_i1e, rtol=1e-5), "integer_pow": _approximate(lambda x: lax.integer_pow(x, 3), "fds"),
    "clz": E(lax.clz, "suw"), "population_count": E(lax.population_count, "suw"), "is_finite": E(lax.is_finite, "fd"),
    "real": E(lax.real, "c"), "imag": E(lax.imag, "c"), "conj": E(lax.conj, "c"), "stop_gradient": E(lax.stop_gradient, "fsb"),
    "reduce_precision": E(lambda x: lax.reduce_precision(x, 5, 3), "fd"),
    "bitcast_convert": E(lambda x: lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}"), "fnds"),
    "add": E(lax.add, "fdsuw4c", 2, numpy=np.add), "sub": E(lax.sub, "fdsuw4c", 2, numpy=np.subtract),
    "mul": E(lax.mul, "fdsuw4", 2, numpy=np.multiply), "div": E(lax.div, "fdsuw", 2), "rem": E(lax.rem, "suw", 2),
    "max": E(lax.max, "fdsuwb", 2, zeros_equal=True), "min": E(lax.min, "fdsuwb", 2, zeros_equal=True), "pow": _approximate(lax.pow, "fd", 2, 1e-5, low=0, high=8),
    "atan2": _approximate(lax.atan2, "fd", 2), "igamma": _approximate(lax.igamma, "f", 2, 1e-3, low=0.5, high=8),
    "igammac": _approximate(lax.igammac, "f", 2, 1e-3, low=0.5, high=8), "zeta": _approximate(lax.zeta, "f", 2, 1e-3, low=1.5, high=8),
    "polygamma": _approximate(lambda m, x: lax.polygamma(lax.round(m), x), "f", 2, 1e-3, low=1, high=6),
    "nextafter": E(lax.nextafter, "fd", 2, numpy=np.nextafter), "and": E(lax.bitwise_and, "suwb4", 2), "or": E(lax.bitwise_or, "suwb4", 2),
    "xor": E(lax.bitwise_xor, "suwb4", 2), "shift_left": E(lax.shift_left, "suw", 2),
    "shift_right_logical": E(lax.shift_right_logical, "suw", 2), "shift_right_arithmetic": E(lax.shift_right_arithmetic, "suw", 2),
    "mulhi": E(lax.mulhi, "i", 2), "complex": E(lax.complex, "r", 2),
    "eq": E(lax.eq, "fdsuwb4c", 2), "ne": E(lax.ne, "fdsuwb4c", 2), "lt": E(lax.lt, "fdsuwb4", 2), "le": E(lax.le, "fdsuwb4", 2),
    "gt": E(lax.gt, "fdsuwb4", 2), "ge": E(lax.ge, "fdsuwb4", 2),
    "select_n": E(lambda x, y: lax.select(x == x, y, x), "fdnsuwb4", 2),
    "clamp": E(lambda x, y: lax.clamp(jnp.minimum(x, y), x, jnp.maximum(x, y)), "fdsuw", 2),
    "regularized_incomplete_beta": _approximate(lambda a, b, x: lax.betainc(a, b, x / 8), "f", 3, 1e-3, low=0.5, high=7),
    "eq_total": E(lambda x, y: L.eq_to_p.bind(x, y), "fd", 2), "lt_total": E(lambda x, y: L.lt_to_p.bind(x, y), "fds", 2),
    "le_total": E(lambda x, y: L.le_to_p.bind(x, y), "fds", 2),
    "convert": E(lambda x: (x > 0).astype(jnp.int32) + x.astype(jnp.float32).astype(jnp.int32), "fsu4"),
    "copysign": E(lambda x, y: jnp.copysign(x, y), "f", 2),
    "reciprocal": _approximate(lambda x: pl.reciprocal(x, approx=False), "f"),
}


@dataclasses.dataclass(frozen=True)
class Array:
    """One call of an operation on whole arrays. `expected` maps the operands to the results where JAX has none."""

    op: str
    name: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]
    expected: Callable[..., Any] | None = None
    rtol: float = 0.0

    @property
    def id(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op


def _numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.floating) or dtype == ml_dtypes.bfloat16:
        return rng.normal(size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -(2**31)), min(info.max, 2**31 - 1), shape).astype(dtype)


_X = _numbers(4, 6, seed=1)
_SPECIAL = np.array([[3.0, np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-3, -2.0], [0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, 7.0, 7.0]], np.float32)
_I = np.array([[5, -3, 5, 0, 127, -128, 7, 7], [1, 1, 1, -1, -1, 0, 0, 2]], np.int8)
_KEYS2 = np.array([[2, 1, 2, 0, 1, 2, 0, 1], [0, 0, 1, 1, 0, 0, 1, 1]], np.int32)


def _stochastic(x: Any, bits: Any, to: Any) -> Any:
    """Both neighbours of x; the lower one where the random part is above the discarded part."""
    nearest = x.astype(to).astype(np.float64)
    exact = x.astype(np.float64)
    code = x.astype(to).view(np.uint16 if np.dtype(to).itemsize == 2 else np.uint8).astype(np.int64)
    low = np.where(np.abs(nearest) <= np.abs(exact), code, code - 1)
    kind = np.uint16 if np.dtype(to).itemsize == 2 else np.uint8
    lower, upper = low.astype(kind).view(to), (low + 1).astype(kind).view(to)
    gap = np.abs(upper.astype(np.float64)) - np.abs(lower.astype(np.float64))
    part = (np.abs(exact) - np.abs(lower.astype(np.float64))) / gap
    return np.where((bits >> 16).astype(np.float64) < part * 65536, upper, lower)


def _pack(*xs: Any, packed: Any) -> Any:
    bits = np.dtype(packed).itemsize * 8
    kind = np.dtype(f"uint{bits}")
    word = sum(x.astype(packed).view(kind).astype(np.uint64) << np.uint64(bits * i) for i, x in enumerate(xs))
    return word.astype(np.dtype(f"uint{xs[0].dtype.itemsize * 8}"))


def _combine(a: Any, b: Any) -> Any:
    return jnp.where(a[0] >= b[0], a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])


def _reduce_pair(x: Any) -> Any:
    return lax.reduce((x, lax.broadcasted_iota(jnp.int32, x.shape, 1)), (np.float32(-np.inf), np.int32(0)), _combine, (1,))


def _array_cases() -> list[Array]:
    A = Array
    ramp = np.arange(24, dtype=np.int32).reshape(4, 6)
    i4 = (np.arange(16) % 16 - 8).reshape(2, 8).astype(ml_dtypes.int4)
    out = [
        A("constant", "", lambda x: x * np.float32(1.5) + 7, (_X,)),
        A("iota", "", lambda x: x * lax.broadcasted_iota(jnp.float32, x.shape, 0) + lax.broadcasted_iota(jnp.float32, x.shape, 1), (_X,)),
        A("broadcast_in_dim", "", lambda x: lax.broadcast_in_dim(x, (2, 4, 3, 6), (1, 3)), (_X,)),
        A("reshape", "", lambda x: x.reshape(3, 8).T.reshape(2, 12), (_X,)), A("transpose", "", lambda x: x.transpose(2, 0, 1), (_numbers(2, 3, 5),)),
        A("slice", "strided", lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), (_X,)),
        A("dynamic_slice", "clamped", lambda x, i: lax.dynamic_slice(x, (i, jnp.int32(-3)), (2, 3)), (_X, np.int32(9))),
        A("dynamic_update_slice", "clamped", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, jnp.int32(4))), (_X, _numbers(2, 3, seed=2), np.int32(9))),
        A("concatenate", "", lambda x, y: jnp.concatenate([x, y, x], 1), (_X, _numbers(4, 1))),
        A("pad", "", lambda x: lax.pad(x, np.float32(7), ((1, -2, 1), (-1, 2, 2))), (_X,)),
        A("rev", "", lambda x: lax.rev(x, (0, 1)), (_X,)), A("tile", "", lambda x: jnp.tile(x, (2, 1, 3)), (_X,)),
        A("split", "", lambda x: tuple(lax.split(x, (1, 2, 3), 1)), (_X,)),
        A("stack", "", lambda x, y: jnp.stack([x, y], 1), (_X, -_X)), A("unstack", "", lambda x: tuple(jnp.unstack(x, axis=0)), (_X,)),
        A("roll", "static", lambda x: pltpu.roll(x, 2, 1), (_X,)), A("roll", "dynamic", lambda x, s: pltpu.roll(x, s, 0), (_X, np.int32(7))),
        A("roll", "strided", lambda x: pltpu.roll(x, 3, 1, stride=2, stride_axis=0), (_X,)),
        A("roll", "strided-minor", lambda x, s: pltpu.roll(x, s, 0, stride=1, stride_axis=2), (_numbers(3, 2, 5), np.int32(1))),
        A("einshape", "split", lambda x: pltpu.einshape("a(bc)d->(ba)cd", x, b=3), (_numbers(2, 6, 5),)),
        A("einshape", "merge", lambda x: pltpu.einshape("abc->c(ba)", x), (_numbers(2, 3, 5),)),
        A("sort", "special", lambda x: lax.sort(x, dimension=1), (_SPECIAL,)), A("sort", "int8", lambda x: lax.sort(x, dimension=1), (_I,)),
        A("sort", "axis0", lambda x: lax.sort(x, dimension=0), (_X,)), A("argsort", "stable", lambda x: jnp.argsort(x, axis=1), (_SPECIAL,)),
        A("argsort", "descending", lambda x: jnp.argsort(x, axis=1, descending=True), (_KEYS2,)),
        A("sort", "keys", lambda a, b, c: tuple(lax.sort((a, b, c), dimension=1, num_keys=2)), (_KEYS2, -_KEYS2 % 2, np.arange(16).reshape(2, 8).astype(np.float32))),
        A("top_k", "", lambda x: tuple(lax.top_k(x, 3)), (_X,)), A("top_k", "special", lambda x: tuple(lax.top_k(x, 5)), (_SPECIAL,)),
        A("bitcast_tpu", "narrow", lambda x: pltpu.bitcast(x, jnp.int8), (ramp * 77777,)), A("bitcast_tpu", "wide", lambda x: pltpu.bitcast(x, jnp.float32), (_numbers(4, 6, dtype=np.int16),)),
        A("bitcast_tpu", "same", lambda x: pltpu.bitcast(x, jnp.uint32), (_X,)), A("bitcast_tpu", "sub-byte", lambda x: pltpu.bitcast(x, jnp.int8), (i4,)),
        A("bitcast_convert", "narrow", lambda x: lax.bitcast_convert_type(x, jnp.uint8), (_X,)),
        A("bitcast_convert", "wide", lambda x: lax.bitcast_convert_type(x, jnp.int32), (_numbers(3, 2, dtype=np.int16),)),
        A("bitcast_convert", "sub-byte", lambda x: lax.bitcast_convert_type(x, jnp.uint4), (_I,)),
        A("pack_elementwise", "bf16", lambda x, y: pltpu.pack_elementwise([x, y], packed_dtype=jnp.bfloat16), (_X, -_X), lambda *x: _pack(*x, packed=ml_dtypes.bfloat16)),
        A("pack_elementwise", "int8", lambda *x: pltpu.pack_elementwise(list(x), packed_dtype=jnp.int8), (ramp, -ramp, ramp + 1, ramp * 1000), lambda *x: _pack(*x, packed=np.int8)),
        A("unpack_elementwise", "bf16", lambda x: pltpu.unpack_elementwise(x, index=1, packed_dtype=jnp.bfloat16, unpacked_dtype=jnp.float32), (ramp * 77777,),
          lambda x: (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)),
        A("unpack_elementwise", "int8", lambda x: pltpu.unpack_elementwise(x, index=2, packed_dtype=jnp.int8, unpacked_dtype=jnp.int32), (ramp * 77777,),
          lambda x: (x >> 16).astype(np.int8).astype(np.int32)),
        A("gather", "take_along_axis", lambda x, i: jnp.take_along_axis(x, i, axis=1), (_X, np.array([[0, 5], [1, -1], [9, 2], [3, 3]], np.int32))),
        A("gather", "clip", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), (_X, np.array([3, -5, 9, 0], np.int32))),
        A("gather", "fill", lambda x, i: jnp.take(x, i, axis=1, mode="fill"), (_X, np.array([[3, 7], [5, 1]], np.int32))),
        A("gather", "fill-int", lambda x, i: jnp.take(x, i, axis=1, mode="fill"), (ramp, np.array([[3, 7], [5, 1]], np.int32))),
        A("gather", "slices", lambda x, i: lax.gather(x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3), mode="clip"), (_X, np.array([[0, 1], [3, 5]], np.int32))),
        A("scatter", "set", lambda x, i, u: x.at[i].set(u), (_X, np.array([2, 0, 2]), _numbers(3, 6, seed=3))),
        A("scatter", "drop", lambda x, i, u: x.at[i, i // 2].set(u, mode="drop"), (_X, np.array([2, 9]), _numbers(2, seed=3))),
        A("scatter_add", "", lambda x, i, u: x.at[i].add(u), (_X, np.array([1, 1, 3]), _numbers(3, 6, seed=3))),
        A("scatter_mul", "", lambda x, i, u: x.at[i].multiply(u), (_X, np.array([1, 1, 3]), _numbers(3, 6, seed=3))),
        A("scatter_min", "", lambda x, i, u: x.at[:, i].min(u), (_X, np.array([1, 1, 3]), _numbers(4, 3, seed=3))),
        A("scatter_max", "", lambda x, i, u: x.at[:, i].max(u), (ramp, np.array([1, 1, 3]), ramp[:, :3] * 3 - 9)),
        A("scatter_sub", "", lambda x, i, u: x.at[i].subtract(u), (_X, np.array([1, 1, 3]), _numbers(3, 6, seed=3))),
        A("reduce_sum", "", lambda x: jnp.sum(x, (0, 2)), (_numbers(3, 4, 5),), rtol=1e-5), A("reduce_prod", "", lambda x: jnp.prod(x, 1), (_X,), rtol=1e-5),
        A("reduce_max", "", lambda x: jnp.max(x, 1), (_SPECIAL,)), A("reduce_min", "", lambda x: jnp.min(x, 0), (_SPECIAL,)),
        A("reduce_and", "", lambda x: lax.reduce_and(x, (1,)), (ramp | 64,)), A("reduce_or", "", lambda x: lax.reduce_or(x, (0,)), (ramp,)),
        A("reduce_xor", "", lambda x: lax.reduce_xor(x, (1,)), (ramp,)), A("reduce", "pairs", _reduce_pair, (_X,)),
        A("reduce", "all", lambda x: lax.reduce(x, np.int32(1), lambda a, b: a * 3 + b, (0, 1)), (ramp,), lambda x: _fold(x)),
        A("argmax", "nan", lambda x: jnp.argmax(x, 1), (_SPECIAL,)), A("argmin", "nan", lambda x: jnp.argmin(x, 0), (_SPECIAL,)),
        A("cumsum", "", lambda x: lax.cumsum(x, 1), (_X,), rtol=1e-5), A("cumprod", "reverse", lambda x: lax.cumprod(x, 0, reverse=True), (_X,), rtol=1e-5),
        A("cummax", "", lambda x: lax.cummax(x, 1), (_X,)), A("cummin", "", lambda x: lax.cummin(x, 0), (_X,)), A("cumlogsumexp", "", lambda x: lax.cumlogsumexp(x, 1), (_X,), rtol=1e-5),
        A("dot_general", "", lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), (_numbers(2, 3, 4), _numbers(2, 4, 5)), rtol=1e-5),
        A("conv_general_dilated", "plain", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), (_numbers(2, 3, 6, 5), _numbers(4, 3, 3, 2, seed=1)), rtol=1e-5),
        A("conv_general_dilated", "all", lambda x, k: lax.conv_general_dilated(
            x, k, (2, 1), [(1, 2), (-1, 1)], lhs_dilation=(1, 2), rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2),
          (_numbers(2, 9, 7, 4), _numbers(3, 2, 2, 6, seed=1)), rtol=1e-5),
        A("conv_general_dilated", "batch-groups", lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", batch_group_count=2),
          (_numbers(4, 3, 8), _numbers(6, 3, 3, seed=1)), rtol=1e-5),
        A("conv_general_dilated", "int8", lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", preferred_element_type=jnp.int32),
          (_numbers(2, 3, 8, dtype=np.int8), _numbers(4, 3, 3, dtype=np.int8, seed=1))),
        A("conv_general_dilated", "no-window", lambda x, k: lax.conv_general_dilated(x, k, (), []), (_numbers(2, 3), _numbers(4, 3, seed=1)), rtol=1e-5),
        A("stochastic_round", "bf16", lambda x, b: pltpu.stochastic_round(x, b, target_dtype=jnp.bfloat16), (_numbers(8, 16), _numbers(8, 16, dtype=np.uint32)),
          lambda x, b: _stochastic(x, b, ml_dtypes.bfloat16)),
        A("stochastic_round", "f8", lambda x, b: pltpu.stochastic_round(x, b, target_dtype=jnp.float8_e5m2), (_numbers(8, 16), _numbers(8, 16, dtype=np.uint32)),
          lambda x, b: _stochastic(x, b, ml_dtypes.float8_e5m2)),
        A("threefry2x32", "bits", lambda x: jax.random.bits(jax.random.wrap_key_data(x), (3, 5)), (np.array([1, 2], np.uint32),)),
        A("threefry2x32", "split-fold", lambda x: jax.random.key_data(jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(x), 7), 3)), (np.array([1, 2], np.uint32),)),
        A("threefry2x32", "normal", lambda x: jax.random.normal(jax.random.wrap_key_data(x), (64, 128)), (np.array([1, 2], np.uint32),), rtol=4e-7),
        A("threefry2x32", "keys", lambda x: jax.vmap(lambda k: jax.random.bits(k, (3,), jnp.uint16))(jax.random.wrap_key_data(x)), (np.arange(6, dtype=np.uint32).reshape(3, 2),)),
        A("random_seed", "", lambda x: jax.random.key_data(jax.random.key(x)), (np.int32(1234),)),
        A("rng_bit_generator", "rbg", lambda x: jax.random.bits(jax.random.wrap_key_data(x, impl="rbg"), (3, 3), jnp.uint8), (np.arange(4, dtype=np.uint32),)),
        A("optimization_barrier", "", lambda x: lax.optimization_barrier(x) + 1, (_X,)), A("select_n", "cases", lambda x, i: lax.select_n(i, x, -x, x * 2), (_X, ramp % 3)),
        A("cond", "", lambda x, i: lax.switch(i, [lambda v: v, lambda v: -v, lambda v: v * 2], x), (_X, np.int32(7))),
        A("while", "", lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1], (_X,)),
        A("for", "", lambda x: lax.fori_loop(0, 4, lambda i, v: v * 2 + i, x), (_X,)),
        A("for", "scan", lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(6, jnp.float32), x), (_X,)),
    ]
    for name, algorithm in (("philox", lax.RandomAlgorithm.RNG_PHILOX), ("threefry", lax.RandomAlgorithm.RNG_THREE_FRY), ("default", lax.RandomAlgorithm.RNG_DEFAULT)):
        for shape, dtype in (((3, 3), np.uint32), ((2, 4), np.uint32), ((4, 3), np.uint32), ((3, 5), np.uint16), ((7,), np.uint8)):
            text = f"{name}-{'x'.join(map(str, shape))}-{np.dtype(dtype)}"
            out.append(A("rng_bit_generator", text, lambda s, shape=shape, dtype=dtype, algorithm=algorithm: tuple(lax.rng_bit_generator(s, shape, dtype, algorithm=algorithm)),
                         (np.array([1, 2, 2**32 - 2, 4], np.uint32),)))
    return out


def _fold(x: np.ndarray) -> np.ndarray:
    acc = np.int32(1)
    with np.errstate(over="ignore"):
        for v in x.reshape(-1):
            acc = acc * np.int32(3) + v
    return acc


ARRAYS = _array_cases()
