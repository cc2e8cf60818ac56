"""Operations on whole arrays: `MOVES` and `FOLDS` run on every dtype and shape class, `ARRAYS` are calls with operands of their own.

test_array_ops.py runs them; scripts/docs.py links to the names.
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
from jax.experimental.pallas import tpu as pltpu

from op_cases import COMPLEX, FLOATS, INTS

# Shape classes: a scalar, nothing, one element, rank 4 with a one, odd, a row of tiles.
SHAPES = ((), (0, 3), (1,), (2, 3, 1, 4), (5, 7), (8, 128))


def _zero(x: Any) -> Any:
    """All bits zero; e8m0 has no number 0."""
    return lax.bitcast_convert_type(jnp.zeros((), np.uint8), x.dtype) if x.dtype == ml_dtypes.float8_e8m0fnu else jnp.zeros((), x.dtype)


def _update(x: Any) -> Any:
    return x[tuple(slice(0, max(d - 1, 0)) for d in x.shape)]


def _at() -> Any:
    """Indices -1, 2, 0, 3: wrapped, and clipped or dropped where out of range."""
    return lax.iota(np.int32, 4) * 3 % 5 - 1

# Operations that only move elements, for x of any dtype and a shape for which the row says yes: the same for all types of one
# width, so JAX computes the expectation on the bits.
MOVES: dict[str, tuple[Callable[[Any], Any], Callable[[tuple[int, ...]], bool]]] = {
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (2, *x.shape, 3), tuple(range(1, x.ndim + 1))), lambda s: True),
    "reshape": (lambda x: lax.reshape(x, (1, x.size, 1)), lambda s: True),
    "transpose": (lambda x: lax.transpose(x, tuple(range(x.ndim))[::-1]), lambda s: len(s) > 1),
    "slice": (lambda x: lax.slice(x, [min(1, d) for d in x.shape], x.shape, [2] * x.ndim), lambda s: len(s) > 0),
    "dynamic_slice": (lambda x: lax.dynamic_slice(x, [jnp.int32(9)] + [jnp.int32(-3)] * (x.ndim - 1), [max(d - 1, 0) for d in x.shape]), lambda s: len(s) > 0),
    "dynamic_update_slice": (lambda x: lax.dynamic_update_slice(lax.rev(x, (0,)), _update(x), [jnp.int32(1)] * x.ndim), lambda s: len(s) > 0),
    "concatenate": (lambda x: lax.concatenate([x, lax.rev(x, (0,)), x], x.ndim - 1), lambda s: len(s) > 0),
    "pad": (lambda x: lax.pad(x, _zero(x), [(1, 0, 1)] * (x.ndim - 1) + [(-1, 2, 0)]), lambda s: len(s) > 0),
    "rev": (lambda x: lax.rev(x, tuple(range(0, x.ndim, 2))), lambda s: len(s) > 0),
    "tile": (lambda x: jnp.tile(x, (2,) * x.ndim), lambda s: len(s) > 0),
    "repeat": (lambda x: jnp.repeat(x, 3, axis=0), lambda s: len(s) > 0),
    "split": (lambda x: lax.split(x, (1, x.shape[-1] - 1), x.ndim - 1)[1], lambda s: len(s) > 0),
    "stack": (lambda x: jnp.stack([x, x], axis=x.ndim // 2), lambda s: True),
    "unstack": (lambda x: jnp.unstack(x, axis=0)[-1], lambda s: len(s) > 0 and s[0] > 0),
    "roll": (lambda x: jnp.roll(x, 2, axis=-1), lambda s: len(s) > 0),
    "gather": (lambda x: jnp.take(x, _at(), axis=0, mode="clip"), lambda s: len(s) > 0 and 0 not in s),
    "scatter": (lambda x: x.at[_at()].set(jnp.broadcast_to(x[-1:], (4, *x.shape[1:])), mode="drop"), lambda s: len(s) > 0 and 0 not in s),
    "select_n": (lambda x: lax.select(lax.broadcasted_iota(jnp.int32, x.shape, 0) % 2 == 0, x, lax.rev(x, (0,))), lambda s: len(s) > 0),
    "optimization_barrier": (lambda x: lax.optimization_barrier(x), lambda s: True),
}


@dataclasses.dataclass(frozen=True)
class Fold:
    """An operation that computes along an axis. Narrow floats are compared with the fold in f32, integers of 2 and 4 bits with that in 8."""

    call: Callable[[Any], Any]
    dtypes: tuple[str, ...]
    exact: bool = True
    empty: bool = True   # defined for no elements
    bound: bool = False  # of no elements it is the type's own bound, which a wider type does not tell
    nan: bool = True     # narrow NaNs lose their sign in f32


_REAL = ("bool", *INTS, *FLOATS)
_NUMBER = (*INTS, *FLOATS, *COMPLEX)
_BITS = ("bool", *INTS[2:6], *INTS[8:])  # JAX refuses those of 2 and 4 bits
FOLDS: dict[str, Fold] = {
    "reduce_sum": Fold(lambda x: lax.reduce_sum_p.bind(x, axes=(0,), out_sharding=None), _NUMBER, exact=False),
    "reduce_prod": Fold(lambda x: lax.reduce_prod_p.bind(x, axes=(x.ndim - 1,), out_sharding=None), _NUMBER, exact=False),
    "reduce_max": Fold(lambda x: lax.reduce_max_p.bind(x, axes=(x.ndim - 1,), out_sharding=None), _REAL, bound=True),
    "reduce_min": Fold(lambda x: lax.reduce_min_p.bind(x, axes=(0,), out_sharding=None), _REAL, bound=True),
    "reduce_and": Fold(lambda x: lax.reduce_and(x, (0,)), _BITS), "reduce_or": Fold(lambda x: lax.reduce_or(x, (x.ndim - 1,)), _BITS),
    "reduce_xor": Fold(lambda x: lax.reduce_xor(x, (0,)), _BITS),
    "argmax": Fold(lambda x: lax.argmax(x, x.ndim - 1, np.int32), _REAL, empty=False),
    "argmin": Fold(lambda x: lax.argmin(x, 0, np.int32), _REAL, empty=False),
    "cumsum": Fold(lambda x: lax.cumsum(x, 0), _NUMBER, exact=False), "cumprod": Fold(lambda x: lax.cumprod(x, x.ndim - 1, reverse=True), _NUMBER, exact=False),
    "cummax": Fold(lambda x: lax.cummax(x, 0), (*INTS, *FLOATS)), "cummin": Fold(lambda x: lax.cummin(x, x.ndim - 1, reverse=True), (*INTS, *FLOATS)),
    "cumlogsumexp": Fold(lambda x: lax.cumlogsumexp(x, 0), FLOATS, exact=False),
    "sort": Fold(lambda x: lax.sort(x, dimension=x.ndim - 1), (*_REAL, *COMPLEX)),
    "top_k": Fold(lambda x: lax.top_k(x, min(2, x.shape[-1]))[1], _REAL, nan=False),
    "dot_general": Fold(lambda x: lax.dot_general(x, x, (((0,), (0,)), ((), ()))), _NUMBER, exact=False),
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


def _bytes(*dims: int) -> np.ndarray:
    """All values of int8, the least one among them."""
    return (np.arange(np.prod(dims)) * 37 % 256 - 128).astype(np.int8).reshape(dims)


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
        A("top_k", "int4", lambda x: tuple(lax.top_k(x, 3)), (i4,), lambda x: (x[:, :-4:-1], np.full((2, 3), [7, 6, 5], np.int32))),  # XLA:CPU has none
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
        A("dot_general", "bytes", lambda x, y: lax.dot(x, y, preferred_element_type=np.int32), (_bytes(48, 64), _bytes(64, 80))),
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
