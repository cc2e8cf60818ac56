"""Operations alone, and kernels of several, whose schedules bundles.py asks for."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F32, BF16, I32, I16, I8, F8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int16, jnp.int8, jnp.float8_e4m3fn


@dataclasses.dataclass
class Operation:
    """name: of the operation in the IR. suffix: of its operands' type; none: 32 bits. minus: operations that the probe does as well. kind: "lanes" passes
    between lanes. scale: registers of the result per register that cost is counted by."""

    name: str
    suffix: str
    f: Callable[..., Any]
    types: list[Any]
    minus: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    without: dict[str, float] = dataclasses.field(default_factory=dict)
    kind: str = "elements"
    scale: float = 1


def _floats() -> dict[str, tuple[Callable[..., Any], int]]:
    one = dict(neg=lambda x: -x, abs=jnp.abs, exp=jnp.exp, exp2=jnp.exp2, log=jnp.log, log1p=jnp.log1p, tanh=jnp.tanh, logistic=lax.logistic, sqrt=jnp.sqrt,
               rsqrt=lax.rsqrt, sin=jnp.sin, cos=jnp.cos, tan=jnp.tan, erf=lax.erf, floor=jnp.floor, ceil=jnp.ceil, round=lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
               square=lax.square, erf_inv=lax.erf_inv)
    two = dict(add=jnp.add, sub=jnp.subtract, mul=jnp.multiply, max=jnp.maximum, min=jnp.minimum, div=jnp.divide, rem=lax.rem, pow=jnp.power,
               atan2=lax.atan2, nextafter=lax.nextafter)
    return {**{k: (f, 1) for k, f in one.items()}, **{k: (f, 2) for k, f in two.items()}}


def operations() -> Iterator[Operation]:
    for name, (f, n) in _floats().items():
        for suffix, t in (("", F32), ("bf16", BF16)):
            yield Operation(name, suffix, f, [t] * n)
    integers: dict[str, Callable[..., Any]] = dict(add=jnp.add, sub=jnp.subtract, mul=jnp.multiply, max=jnp.maximum, min=jnp.minimum, div=lax.div, rem=lax.rem,
                                                   shift_left=lax.shift_left, shift_right_logical=lax.shift_right_logical, shift_right_arithmetic=lax.shift_right_arithmetic)
    integers["and"], integers["or"], integers["xor"] = jnp.bitwise_and, jnp.bitwise_or, jnp.bitwise_xor
    for name, f in integers.items():
        yield Operation(name, "i32", f, [I32, I32])
        if name in ("add", "sub", "mul"):
            yield Operation(name, "i16", f, [I16, I16])
    for name, f in dict(neg=lambda x: -x, abs=jnp.abs, population_count=lax.population_count, clz=lax.clz).items():
        yield Operation(name, "i32", f, [I32])
    for suffix, t in (("", F32), ("bf16", BF16), ("i32", I32), ("i16", I16)):
        # A comparison, and the choice that it is for: half of it each.
        yield Operation("select", suffix, lambda a, b, c: jnp.where(a > 0, b, c), [t] * 3, scale=0.5)
    casts = dict(f32_bf16=(F32, BF16), bf16_f32=(BF16, F32), i32_f32=(I32, F32), f32_i32=(F32, I32), i8_i32=(I8, I32), i32_i8=(I32, I8), i8_f32=(I8, F32),
                 f32_i8=(F32, I8), i8_bf16=(I8, BF16), f8_f32=(F8, F32), f32_f8=(F32, F8), i32_i16=(I32, I16), i16_i32=(I16, I32), bf16_i32=(BF16, I32),
                 i32_bf16=(I32, BF16))
    for name, (a, b) in casts.items():
        yield Operation("convert", name, lambda x, b=b: x.astype(b), [a])
    yield Operation("reciprocal", "", lambda x: pl.reciprocal(x, approx=True), [F32])
    for name, f in dict(sum=jnp.sum, max=jnp.max, min=jnp.min).items():
        for suffix, t in (("", F32), ("bf16", BF16), ("i32", I32)):
            # By registers that come in; along lanes by what is left of each row of them.
            yield Operation(f"reduce_{name}", suffix, lambda x, f=f: f(x, 0, keepdims=True), [t])
            yield Operation(f"reduce_{name}_lanes", suffix, lambda x, f=f: f(x, 1, keepdims=True), [t], kind="lanes", scale=2)
    for name, g in dict(argmax=jnp.argmax, argmin=jnp.argmin).items():
        yield Operation(f"{name}_lanes", "", lambda x, g=g: g(x, 1, keepdims=True).astype(F32), [F32], kind="lanes", scale=2)
    for suffix, t in (("", F32), ("bf16", BF16)):
        yield Operation("transpose", suffix, lambda x: x.T, [t], kind="lanes")
        yield Operation("roll_lanes", suffix, lambda x: pltpu.roll(x, 3, 1), [t], kind="lanes")
        yield Operation("concatenate_lanes", suffix, lambda x: jnp.concatenate([x[:, 64:], x[:, :64]], 1), [t], kind="lanes")
        yield Operation("broadcast_lanes", suffix, lambda x: jnp.broadcast_to(x[:, :1], x.shape), [t], kind="lanes", scale=2)
    yield Operation("roll", "", lambda x: pltpu.roll(x, 3, 0), [F32])
    yield Operation("threefry2x32", "", lambda x: jax.random.bits(jax.random.wrap_key_data(jnp.zeros((2,), jnp.uint32)), x.shape), [I32])


# --- kernels of several operations ------------------------------------------------------------------------------------
def _softmax(x: Any) -> Any:
    e = jnp.exp(x - jnp.max(x, 1, keepdims=True))
    return e / jnp.sum(e, 1, keepdims=True)


def _layer_norm(x: Any, g: Any, b: Any) -> Any:
    m = jnp.mean(x, 1, keepdims=True)
    v = jnp.mean((x - m) * (x - m), 1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


def _rms_norm(x: Any, g: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1e-6) * g


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _rope(x: Any, c: Any, s: Any) -> Any:
    return x * c + pltpu.roll(x, x.shape[1] // 2, 1) * s


def _quantise(x: Any) -> Any:
    scale = jnp.max(jnp.abs(x), 1, keepdims=True) / 127.0
    return lax.round(x / scale, lax.RoundingMethod.TO_NEAREST_EVEN).astype(I8)


def _online(s: Any, m: Any, l: Any) -> Any:
    new = jnp.maximum(m, jnp.max(s, 1, keepdims=True))
    p = jnp.exp(s - new)
    return p * (l * jnp.exp(m - new) + jnp.sum(p, 1, keepdims=True))


def _adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)


def _causal(x: Any) -> Any:
    r, c = (lax.broadcasted_iota(I32, x.shape, d) for d in (0, 1))
    return jnp.where(r >= c, x, -1e30)


def _hash(x: Any) -> Any:
    x = x ^ lax.shift_right_logical(x, 16)
    x = x * jnp.int32(0x45D9F3B)
    return x ^ lax.shift_right_logical(x, 13)


def _prefix(x: Any) -> Any:
    rows = lax.broadcasted_iota(I32, x.shape, 0)
    for by in (1, 2, 4):
        x = x + jnp.where(rows >= by, pltpu.roll(x, by, 0), 0.0)
    return x


def _entropy(x: Any) -> Any:
    z = x - jnp.max(x, 1, keepdims=True)
    return z - jnp.log(jnp.sum(jnp.exp(z), 1, keepdims=True))


def _polynomial(x: Any) -> Any:
    r = jnp.full_like(x, 0.3)
    for c in (0.1, 0.7, -0.2, 0.9, 0.25, -0.6, 0.8):
        r = r * x + c
    return r


def _dropout(x: Any) -> Any:
    bits = jax.random.bits(jax.random.wrap_key_data(jnp.zeros((2,), jnp.uint32)), x.shape)
    return jnp.where(bits > jnp.uint32(1 << 31), 2 * x, 0.0)


def kernels() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Name, function of arrays, shapes."""
    S = jax.ShapeDtypeStruct

    def wide(x: Any) -> Any:
        return x.astype(F32)

    for rows, cols in ((256, 128), (128, 512), (512, 256)):
        x, one, row, half = S((rows, cols), F32), S((rows, 1), F32), S((1, cols), F32), S((rows, cols), BF16)
        size = f" {rows}x{cols}"
        yield "softmax" + size, _softmax, [x]
        yield "softmax of bf16" + size, lambda a: _softmax(wide(a)).astype(BF16), [half]
        yield "layer norm" + size, _layer_norm, [x, row, row]
        yield "rms norm of bf16" + size, lambda a, g: _rms_norm(wide(a), g).astype(BF16), [half, row]
        yield "rms norm" + size, _rms_norm, [x, row]
        yield "gelu" + size, _gelu, [x]
        yield "gelu in bf16" + size, _gelu, [half]
        yield "gated silu" + size, lambda a, b: a * lax.logistic(a) * b, [x, x]
        yield "gated silu of bf16" + size, lambda a, b: (wide(a) * lax.logistic(wide(a)) * wide(b)).astype(BF16), [half, half]
        yield "rope" + size, _rope, [x, x, x]
        yield "quantise" + size, _quantise, [x]
        yield "dequantise" + size, lambda q, s: (q.astype(F32) * s).astype(BF16), [S((rows, cols), I8), one]
        yield "online softmax" + size, _online, [x, one, one]
        yield "adam" + size, _adam, [x, x, x, x]
        yield "causal mask" + size, _causal, [x]
        yield "hash" + size, _hash, [S((rows, cols), I32)]
        yield "prefix sum" + size, _prefix, [x]
        yield "log softmax" + size, _entropy, [x]
        yield "polynomial" + size, _polynomial, [x]
        yield "polynomial in bf16" + size, _polynomial, [half]
        yield "dropout" + size, _dropout, [x]
        yield "soft cap" + size, lambda a: 30 * jnp.tanh(a / 30), [x]
        yield "swish of sine" + size, lambda a: jnp.sin(a) * lax.logistic(a), [x]
        yield "residual, bias" + size, lambda a, b, c: a + b + c, [x, x, row]
        yield "l2 normalise" + size, lambda a: a / jnp.sqrt(jnp.sum(a * a, 1, keepdims=True)), [x]
        yield "top one" + size, lambda a: jnp.where(a == jnp.max(a, 1, keepdims=True), 1.0, 0.0), [x]
        yield "column sums" + size, lambda a: jnp.sum(a * a, 0, keepdims=True), [x]
        yield "erf gelu" + size, lambda a: 0.5 * a * (1 + lax.erf(a * 0.70710678)), [x]
        yield "log sum exp" + size, lambda a: jnp.log(jnp.sum(jnp.exp(a), 1, keepdims=True)), [x]
        yield "transpose and add" + size, lambda a, b: a.T + b, [x, S((cols, rows), F32)]


# --- products, and attention --------------------------------------------------------------------------------------------
_PRODUCTS = ((128, 128), (256, 256), (512, 512), (1024, 128), (128, 1024), (1024, 1024), (2048, 256))  # of the right operand


def products() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """One product: rows of the left operand x what is summed x columns. The figures of MXUs come from those of the first three with 8 and 512 rows."""
    S = jax.ShapeDtypeStruct
    for name, t, rows, sizes in (("bf16", BF16, (8, 16, 32, 64, 128, 256, 512), _PRODUCTS), ("f32", F32, (8, 32, 128, 512), (*_PRODUCTS[:3], _PRODUCTS[5])),
                                 ("i8", I8, (8, 32, 128, 512), (*_PRODUCTS[:3], _PRODUCTS[5]))):
        out = I32 if t is I8 else F32
        for m in rows:
            for k, n in sizes:
                yield f"product of {name} {m}x{k}x{n}", lambda a, b, out=out: lax.dot(a, b, preferred_element_type=out), [S((m, k), t), S((k, n), t)]


def _scores(q: Any, k: Any) -> Any:
    return lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=F32)


def _weighted(p: Any, v: Any) -> Any:
    return lax.dot(p.astype(v.dtype), v, preferred_element_type=F32)


def _shifted(s: Any) -> Any:
    return jnp.exp(s - jnp.max(s, 1, keepdims=True))


def _attention(q: Any, k: Any, v: Any) -> Any:
    p = _shifted(_scores(q, k))
    return _weighted(p, v) / jnp.sum(p, 1, keepdims=True)


def attention() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Rows of queries x of keys x what a head has; and parts of it."""
    for rows, keys, head in ((128, 128, 128), (256, 512, 128), (512, 512, 64), (512, 512, 128), (1024, 1024, 128)):
        q, kv = jax.ShapeDtypeStruct((rows, head), BF16), jax.ShapeDtypeStruct((keys, head), BF16)
        size = f" {rows}x{keys}x{head}"
        yield "scores" + size, _scores, [q, kv]
        yield "scores, exp" + size, lambda q, k: jnp.exp(_scores(q, k)).astype(BF16), [q, kv]
        yield "scores, shifted exp" + size, lambda q, k: _shifted(_scores(q, k)).astype(BF16), [q, kv]
        yield "scores, exp, weighted" + size, lambda q, k, v: _weighted(jnp.exp(_scores(q, k)), v), [q, kv, kv]
        yield "attention" + size, _attention, [q, kv, kv]


def _over_blocks(n: int, keys: int) -> Callable[..., Any]:
    """Attention over n blocks of keys, one behind the other, as kernels of long sequences have it."""
    def f(q: Any, k: Any, v: Any) -> Any:
        m, l, o = jnp.full((q.shape[0], 1), -1e30, F32), jnp.zeros((q.shape[0], 1), F32), jnp.zeros(q.shape, F32)
        for i in range(n):
            s = _scores(q, k[i * keys:(i + 1) * keys])
            new = jnp.maximum(m, jnp.max(s, 1, keepdims=True))
            p, before = jnp.exp(s - new), jnp.exp(m - new)
            l = before * l + jnp.sum(p, 1, keepdims=True)
            o = before * o + _weighted(p, v[i * keys:(i + 1) * keys])
            m = new
        return o / l

    return f


def blocks() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Of two and three blocks, so that what one more takes is known: rows of queries x of keys in a block x what a head has."""
    for rows in (256, 512, 1024):
        for keys in (256, 512, 1024):
            for head in (64, 128, 256):
                for n in (2, 3):
                    q, kv = jax.ShapeDtypeStruct((rows, head), BF16), jax.ShapeDtypeStruct((n * keys, head), BF16)
                    yield f"attention over {n} blocks {rows}x{keys}x{head}", _over_blocks(n, keys), [q, kv, kv]
