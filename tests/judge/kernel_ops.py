"""Expressions: what can be computed from the values in scope, and what is known of the result."""
from __future__ import annotations

import math
import random
from typing import Any

from kernel_tree import DTYPES, EXACT_BITS, FLOATS, INTS, Line, Ref, Value


def fits(dtype: str, q: int, m: float) -> bool:
    """Whether multiples of 2^-q up to m are exact."""
    return math.log2(max(m, 1.0)) + q <= EXACT_BITS[dtype]


class Expressions:
    """Writes assignments into `out`; `env` holds the values in scope, `refs` the refs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.env: list[Value] = []
        self.refs: list[Ref] = []
        self.out: list[Any] = []
        self.shapes: list[tuple[int, ...]] = []  # of arrays that kernels of this program use
        self.dtypes: list[str] = []
        self.local = False  # an element may only depend on those in its place: blocks reach over the edge of an array

    # --- names and choices
    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def assign(self, text: str, shape: Any, dtype: str, q: int = 0, m: float = 1.0, exact: bool = True) -> Value:
        v = Value(self.name(), tuple(shape), dtype, q, m, exact)
        self.out.append(Line(f"{v.name} = {text}", {v.name: (v.shape, v.dtype)}))
        self.env.append(v)
        return v

    def known(self, shape: Any = None, dtype: str | None = None, exact: bool | None = None) -> list[Value]:
        return [v for v in self.env if (shape is None or v.shape == tuple(shape)) and (dtype is None or v.dtype == dtype)
                and (exact is None or v.exact == exact)]

    def value(self, shape: Any, dtype: str, exact: bool = False) -> Value:
        """A value of that type: one in scope, most of the time, or a new one. `exact`: no rounded one."""
        have = [v for v in self.known(shape, dtype) if v.exact or not exact]
        if have and self.rng.random() < 0.85:
            recent = have[-4:] if self.rng.random() < 0.5 else have
            return self.rng.choice(recent)
        return self.make(tuple(shape), dtype)

    def make(self, shape: tuple[int, ...], dtype: str) -> Value:
        """A new exact value, from a ref, another shape or another type."""
        r = self.rng
        ways = ["constant", "iota", "load", "load", "load", "convert", "convert", "convert"]
        way = r.choice(ways)
        if way == "load":
            found = [f for f in self.refs if f.dtype == dtype and f.exact and len(f.shape) >= len(shape) and f.shape[len(f.shape) - len(shape):] == shape
                     and (f.shape == shape or not self.local)]
            if found:
                ref = r.choice(found)
                index = [self.scalar_index(d) for d in ref.shape[: len(ref.shape) - len(shape)]]
                return self.assign(f"{ref.name}[{', '.join(index + ['...']) if shape or not index else ', '.join(index)}]", shape, dtype, ref.q, ref.m)
        if way != "constant":
            if v := self.converted(shape, dtype):
                return v
        if way == "iota" and dtype in ("i32", "f32") and shape:
            axis = r.randrange(len(shape))
            v = self.assign(f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})", shape, "i32")
            return v if dtype == "i32" else self.assign(f"{v.name}.astype(jnp.float32)", shape, dtype, 0, max(shape))
        return self.constant(shape, dtype)

    def constant(self, shape: tuple[int, ...], dtype: str) -> Value:
        r = self.rng
        if dtype == "bool":
            text = str(r.random() < 0.5)
        elif dtype in FLOATS:
            text = str(r.choice([0.5, 1.0, -1.5, 2.0, 3.0, -0.25]))
        else:
            text = str(r.choice([0, 1, 2, 3, 5, 7] + ([-1, -3] if dtype != "u32" else [])))
        return self.assign(f"jnp.full({shape}, {text}, {DTYPES[dtype]})", shape, dtype, 2, 4.0)

    def converted(self, shape: tuple[int, ...], dtype: str) -> Value | None:
        """From a value of another shape or type."""
        r = self.rng
        same = [v for v in self.known(shape, exact=True) if v.dtype != dtype]
        smaller = [v for v in self.known(dtype=dtype, exact=True) if len(v.shape) == len(shape) - 1 and shape]
        larger = [] if self.local else [v for v in self.known(dtype=dtype, exact=True) if len(v.shape) == len(shape) + 1]
        if same and r.random() < 0.5:
            return self.cast(r.choice(same), dtype)
        if smaller and r.random() < 0.6:
            v = r.choice(smaller)
            axes = [a for a in range(len(shape)) if shape[:a] + shape[a + 1 :] == v.shape]
            if axes:
                axis = r.choice(axes)
                index = ", ".join("None" if a == axis else ":" for a in range(len(shape)))
                source = f"{v.name}[{index}]" if v.shape else v.name
                return self.assign(f"jnp.broadcast_to({source}, {shape})", shape, dtype, v.q, v.m)
        if larger:
            v = r.choice(larger)
            axes = [a for a in range(len(v.shape)) if v.shape[:a] + v.shape[a + 1 :] == shape]
            if axes:
                return self.reduced(v, r.choice(axes))
        return None

    def cast(self, v: Value, dtype: str) -> Value | None:
        r = self.rng
        if dtype == "bool":
            return self.assign(f"{v.name} {r.choice(['>', '<=', '!=', '=='])} {r.choice([0, 1, 2])}", v.shape, "bool")
        if dtype in FLOATS:
            source = v
            if v.dtype in INTS:
                source = self.assign(f"{v.name} & 7", v.shape, v.dtype)
                return self.assign(f"{source.name}.astype({DTYPES[dtype]})", v.shape, dtype, 0, 8.0)
            if v.dtype == "bool":
                return self.assign(f"{v.name}.astype({DTYPES[dtype]})", v.shape, dtype, 0, 1.0)
            return self.assign(f"{self.normal(v, dtype, 1, 16.0)}.astype({DTYPES[dtype]})", v.shape, dtype, 1, 16.0)
        if v.is_float:
            whole = self.assign(f"jnp.floor({v.name}).astype(jnp.int32)", v.shape, "i32")
            return whole if dtype == "i32" else self.assign(f"{whole.name}.astype({DTYPES[dtype]})", v.shape, dtype)
        return self.assign(f"{v.name}.astype({DTYPES[dtype]})", v.shape, dtype)

    def reduced(self, v: Value, axis: int) -> Value:
        r = self.rng
        shape = v.shape[:axis] + v.shape[axis + 1 :]
        if v.dtype == "bool":
            return self.assign(f"jnp.{r.choice(['any', 'all'])}({v.name}, axis={axis})", shape, "bool")
        n = v.shape[axis]
        if v.dtype in INTS:
            kind = r.choice(["sum", "max", "min"])
            extra = f", dtype={DTYPES[v.dtype]}" if kind == "sum" else ""
            return self.assign(f"jnp.{kind}({v.name}, axis={axis}{extra})", shape, v.dtype)
        if v.dtype == "f32" and fits("f32", v.q, v.m * n) and r.random() < 0.6:
            return self.assign(f"jnp.sum({v.name}, axis={axis})", shape, v.dtype, v.q, v.m * n, v.exact)
        return self.assign(f"jnp.{r.choice(['max', 'min'])}({v.name}, axis={axis})", shape, v.dtype, v.q, v.m, v.exact)

    # --- indices
    def scalar_index(self, extent: int) -> str:
        """An index of a dimension (a power of two): a number, or a run-time value that cannot leave it."""
        r = self.rng
        have = self.known((), "i32")
        if have and r.random() < 0.6:
            v = r.choice(have)
            return r.choice([f"{v.name} & {extent - 1}", f"lax.rem(jnp.abs({v.name} % 64), jnp.int32({extent}))", f"jnp.clip({v.name}, 0, {extent - 1})"])
        return str(r.randrange(extent))

    def permutation(self, extent: int) -> Value:
        """All indices of a dimension (a power of two), each once."""
        r = self.rng
        base = f"lax.broadcasted_iota(jnp.int32, ({extent},), 0)"
        way = r.randrange(4)
        if way == 0:
            return self.assign(f"{extent - 1} - {base}", (extent,), "i32")
        if way == 1:
            return self.assign(f"{base} ^ {r.randrange(1, extent)}", (extent,), "i32")
        shift = self.scalar_index(extent)
        return self.assign(f"({base} * {r.choice([1, 3, 5])} + ({shift})) & {extent - 1}", (extent,), "i32")

    # --- keeping to bounds
    def normal(self, v: Value, dtype: str, q: int, m: float) -> str:
        """Text of a float forced to multiples of 2^-q up to m; nothing is added where it is one."""
        if not v.exact or (v.q <= q and v.m <= m):
            return v.name if v.m <= m else f"jnp.clip({v.name}, {-m}, {m})"
        rounded = v.name if v.q <= q else f"jnp.floor({v.name} * {2.0 ** q}) * {2.0 ** -q}" if q else f"jnp.floor({v.name})"
        return f"jnp.clip({rounded}, {-m}, {m})"

    # --- operations
    def operation(self) -> Value:
        """One operation on values of a random type."""
        r = self.rng
        dtype = r.choice(self.dtypes)
        shape = r.choice(self.shapes)
        if dtype == "bool":
            return self.logic(shape)
        if r.random() < 0.3 and len(shape) >= 1 and not self.local:
            if v := self.moved(shape, dtype):
                return v
        return self.arithmetic(shape, dtype) if dtype in INTS else self.floating(shape, dtype)

    def logic(self, shape: Any) -> Value:
        r = self.rng
        if r.random() < 0.6:
            dtype = r.choice([d for d in self.dtypes if d != "bool"] or ["i32"])
            a, b = self.value(shape, dtype, exact=True), self.value(shape, dtype, exact=True)
            if a.exact and b.exact:
                return self.assign(f"{a.name} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {b.name}", shape, "bool")
        a, b = self.value(shape, "bool"), self.value(shape, "bool")
        return self.assign(r.choice([f"{a.name} & {b.name}", f"{a.name} | {b.name}", f"{a.name} ^ {b.name}", f"~{a.name}", f"{a.name} != {b.name}",
                                     f"jnp.where({a.name}, {b.name}, ~{b.name})"]), shape, "bool")

    def moved(self, shape: Any, dtype: str) -> Value | None:
        """The elements of a value in other places."""
        r = self.rng
        v = self.value(shape, dtype)
        axis = r.randrange(len(shape))
        n = shape[axis]
        ways = [f"jnp.flip({v.name}, axis={axis})", f"jnp.roll({v.name}, {r.randrange(1, n)}, axis={axis})",
                f"{v.name}.reshape(-1).reshape({shape})"]
        if len(shape) == 2 and dtype != "bool":
            ways += [f"jnp.transpose({v.name}).reshape({shape})", f"{v.name}.reshape({shape[::-1]}).T"]
            half = f"{n // 2}"
            cut = (f"{v.name}[{half}:], {v.name}[:{half}]" if axis == 0 else f"{v.name}[:, {half}:], {v.name}[:, :{half}]")
            ways.append(f"jnp.concatenate([{cut}], axis={axis})")
        return self.assign(r.choice(ways), shape, dtype, v.q, v.m, v.exact)

    def arithmetic(self, shape: Any, dtype: str) -> Value:
        r = self.rng
        a, b = self.value(shape, dtype), self.value(shape, dtype)
        k = r.choice([2, 3, 5, 7])
        ways = [f"{a.name} + {b.name}", f"{a.name} - {b.name}", f"{a.name} * {b.name}", f"jnp.maximum({a.name}, {b.name})",
                f"jnp.minimum({a.name}, {b.name})", f"{a.name} & {b.name}", f"{a.name} | {b.name}", f"{a.name} ^ {b.name}", f"{a.name} // {k}",
                f"{a.name} % {k}", f"{a.name} << {r.randrange(4)}", f"{a.name} >> {r.randrange(4)}", f"~{a.name}", f"{a.name} + {k}",
                f"lax.population_count({a.name})", f"lax.optimization_barrier({a.name})", f"jnp.where({self.value(shape, 'bool').name}, {a.name}, {b.name})"]
        if dtype != "u32":
            ways += [f"-{a.name}", f"jnp.abs({a.name})", f"jnp.clip({a.name}, -{k}, {k})", f"jnp.sign({a.name})"]
        if dtype == "i32" and shape and not self.local:
            ways.append(f"jnp.cumsum({a.name}, axis={r.randrange(len(shape))})")
        return self.assign(r.choice(ways), shape, dtype)

    def floating(self, shape: Any, dtype: str) -> Value:
        r = self.rng
        a, b = self.value(shape, dtype), self.value(shape, dtype)
        exact = a.exact and b.exact
        if dtype == "f32" and r.random() < 0.15:
            return self.rounded(a, b)
        q, m = max(a.q, b.q), max(a.m, b.m)
        c = r.choice([0.5, 0.25, 2.0, -1.5, 3.0])
        ways: list[tuple[str, int, float, bool]] = [
            (f"{a.name} + {b.name}", q, a.m + b.m, exact), (f"{a.name} - {b.name}", q, a.m + b.m, exact),
            (f"{a.name} * {b.name}", a.q + b.q, a.m * b.m, exact), (f"{a.name} * {c}", a.q + 2, a.m * abs(c), a.exact),
            (f"jnp.maximum({a.name}, {b.name})", q, m, exact), (f"jnp.minimum({a.name}, {b.name})", q, m, exact),
            (f"-{a.name}", a.q, a.m, a.exact), (f"lax.optimization_barrier({a.name})", a.q, a.m, a.exact),
            (f"jnp.abs({a.name})", a.q, a.m, a.exact),
            (f"jnp.where({self.value(shape, 'bool').name}, {a.name}, {b.name})", q, m, exact),
            (f"jnp.clip({a.name}, -2.0, 3.5)", max(a.q, 1), 3.5, a.exact)]
        if a.exact:
            ways += [(f"jnp.floor({a.name})", 0, a.m + 1, True), (f"jnp.ceil({a.name})", 0, a.m + 1, True)]
        if len(shape) == 2 and dtype == "f32" and not self.local:
            k = shape[1]
            ways.append((f"jnp.dot({a.name}, {b.name}.T, preferred_element_type=jnp.float32)[:, :1] + {a.name}", a.q + b.q, k * a.m * b.m + a.m, exact))
        if shape and dtype == "f32" and not self.local:
            axis = r.randrange(len(shape))
            ways.append((f"jnp.cumsum({a.name}, axis={axis})", a.q, a.m * shape[axis], a.exact))
        r.shuffle(ways)
        for text, q, m, is_exact in ways:
            if (is_exact and fits(dtype, q, m)) or (not is_exact and m <= 1e3):
                return self.assign(text, shape, dtype, q, m, is_exact)
        v = self.assign(self.normal(a, dtype, 1, 16.0), shape, dtype, 1, 16.0, a.exact)
        return v

    def rounded(self, a: Value, b: Value) -> Value:
        """Operations whose result depends on a library: compared within a tolerance."""
        text = self.rng.choice([f"jnp.exp(jnp.clip({a.name}, -4.0, 2.0))", f"jnp.tanh({a.name})", f"jnp.sin({a.name} * 0.125)",
                                f"jax.nn.sigmoid({a.name} * 0.25)", f"jnp.sqrt(jnp.abs({a.name}) + 1.0) * 0.0625",
                                f"jnp.clip({a.name}, -8.0, 8.0) / (jnp.abs({b.name}) + 1.0)", f"jnp.log1p(jnp.abs({a.name}))"])
        return self.assign(text, a.shape, "f32", 0, 16.0, False)
