"""Random Pallas kernels that have one meaning: every block written before it is read, every index inside, every store of
many elements to places that differ."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kernel_ops import Expressions, fits
from kernel_tree import DTYPES, INTS, Block, Group, Line, Ref, Value


class Statements(Expressions):
    """Statements with effects and control flow."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.depth = 0
        self.pure = False  # inside functions that may not touch refs

    def suite(self, head: str, write: Callable[[], str], size: int) -> Block:
        """A nested suite with its own scope: `size` statements, then the last line that `write` makes."""
        out, env, refs = self.out, len(self.env), len(self.refs)
        self.out, self.depth = [], self.depth + 1
        self.statements(size)
        last = write()
        block = Block(head, self.out, last)
        self.out, self.depth = out, self.depth - 1
        del self.env[env:], self.refs[refs:]
        return block

    def statements(self, n: int) -> None:
        for _ in range(n):
            self.statement()

    def statement(self) -> None:
        r = self.rng
        stores = [] if self.pure else [self.store, self.store, self.in_place, self.masked, self.swapped, self.accumulate, self.guarded, self.load]
        nested = [self.counted, self.counted, self.while_, self.cond, self.switch, self.function] + ([] if self.local else [self.scan])
        if not self.pure:
            nested.append(self.scoped)
        x = r.random()
        if x < 0.45 or (self.pure and self.depth > 2):
            self.operation()
        elif x < 0.75 and stores:
            r.choice(stores)()
        elif self.depth < 2:
            r.choice(nested)()
        else:
            self.operation()

    # --- refs
    def target(self, need: Callable[[Ref], bool] = lambda f: True) -> Ref | None:
        found = [f for f in self.refs if f.writable and need(f)]
        return self.rng.choice(found) if found else None

    def text_for(self, v: Value, ref: Ref) -> str:
        """A value as the ref takes it."""
        if not v.is_float:
            return v.name
        return self.normal(v, ref.dtype, ref.q, ref.m)

    def place(self, ref: Ref) -> tuple[str, tuple[int, ...]]:
        """Part of a ref: the text of its index, its shape."""
        r = self.rng
        if not ref.shape:
            return "...", ()
        n = ref.shape[0]
        rest = ref.shape[1:]
        way = 4 if self.local else r.randrange(5)
        if way == 0 and n >= 4:
            k = r.choice([d for d in (n // 2, n // 4) if d >= 1])
            start = self.scalar_index(n - k + 1) if (n - k + 1) & (n - k) == 0 else str(r.randrange(n - k + 1))
            have = self.known((), "i32")
            if have and r.random() < 0.6:
                start = f"({r.choice(have).name} & {n - k - 1 if (n - k) & (n - k - 1) == 0 else 0})"
            return f"pl.ds({start}, {k})", (k, *rest)
        if way == 1:
            return self.scalar_index(n), rest
        if way == 2 and rest:
            return f"..., {self.scalar_index(ref.shape[-1])}", ref.shape[:-1]
        if way == 3 and n >= 4 and r.random() < 0.5:
            return f"pl.ds({r.randrange(2)}, {n // 2}, 2)", (n // 2, *rest)
        return "...", ref.shape

    def load(self) -> None:
        ref = self.rng.choice(self.refs)
        index, shape = self.place(ref)
        self.assign(f"{ref.name}[{index}]", shape, ref.dtype, ref.q, ref.m, ref.exact)

    def store(self) -> None:
        if ref := self.target():
            index, shape = self.place(ref)
            v = self.value(shape, ref.dtype, exact=ref.exact)
            if v.exact or not ref.exact:
                self.out.append(Line(f"{ref.name}[{index}] = {self.text_for(v, ref)}"))

    def accumulate(self) -> None:
        if ref := self.target(lambda f: f.dtype != "bool"):
            index, shape = self.place(ref)
            v = self.value(shape, ref.dtype, exact=ref.exact)
            if ref.dtype in INTS:
                op = self.rng.choice(["+=", "-=", "*=", "^="])
                self.out.append(Line(f"{ref.name}[{index}] {op} {v.name}"))
            elif v.exact or not ref.exact:
                old = Value(f"({ref.name}[{index}] + {v.name})", shape, ref.dtype, max(ref.q, v.q), ref.m + v.m, v.exact and ref.exact)
                if fits(ref.dtype, old.q, old.m) or not old.exact:
                    self.out.append(Line(f"{ref.name}[{index}] = {self.normal(old, ref.dtype, ref.q, ref.m)}"))

    def in_place(self) -> None:
        """A ref written from itself, its elements in other places."""
        r = self.rng
        ref = self.target(lambda f: len(f.shape) >= 1 and f.shape[0] >= 4)
        if ref is None or self.local:
            return
        n, name = ref.shape[0], ref.name
        way = r.randrange(6)
        if way < 2:
            p = self.permutation(n).name
            self.out.append(Line(r.choice([f"{name}[{p}] = {name}[...]", f"{name}[...] = {name}[{p}]", f"{name}[{p}] = {name}[{n - 1} - {p}]"])))
        elif way == 2:
            k = r.randrange(1, n)
            self.out.append(Line(r.choice([f"{name}[{k}:] = {name}[:{n - k}]", f"{name}[:{n - k}] = {name}[{k}:]"])))
        elif way == 3:
            a, b = r.sample(range(n), 2)
            t = self.assign(f"{name}[{a}]", ref.shape[1:], ref.dtype, ref.q, ref.m, ref.exact)
            self.out += [Line(f"{name}[{a}] = {name}[{b}]"), Line(f"{name}[{b}] = {t.name}")]
        elif way == 4 and len(ref.shape) == 2:
            self.out.append(Line(f"{name}[...] = {name}[...].reshape({ref.shape[::-1]}).T" if ref.dtype != "bool" else f"{name}[...] = ~{name}[...]"))
        else:
            self.out.append(Line(f"{name}[...] = jnp.roll({name}[...], {r.randrange(1, n)}, axis=0)"))

    def masked(self) -> None:
        """Masked loads and stores; the mask and the value may come from the ref that is written."""
        r = self.rng
        ref = self.target(lambda f: len(f.shape) >= 1 and f.dtype != "bool")
        if ref is None:
            return
        k = r.randrange(0, 3) if ref.shape[0] >= 4 and not self.local else 0
        shape = (ref.shape[0] - k, *ref.shape[1:])
        at = f"{ref.name}.at[{r.choice([0, k])}:{ref.shape[0]}]" if not k else f"{ref.name}.at[{k}:{ref.shape[0]}]"
        mask = f"{ref.name}[0:{shape[0]}] > {r.choice([0, 1, 2])}" if ref.exact and r.random() < 0.5 else None
        m = self.assign(mask, shape, "bool") if mask else self.value(shape, "bool")
        if r.random() < 0.3:
            v = self.assign(f"jnp.where({m.name}, pltpu.load({at}, mask={m.name}), 0)", shape, ref.dtype, ref.q, ref.m, ref.exact)
            return
        if r.random() < 0.4:
            self.out.append(Line(f"pltpu.store({at}, {ref.name}[0:{shape[0]}], mask={m.name})"))
            return
        v = self.value(shape, ref.dtype, exact=ref.exact)
        if v.exact or not ref.exact:
            self.out.append(Line(f"pltpu.store({at}, {self.text_for(v, ref)}, mask={m.name})"))

    def swapped(self) -> None:
        """The old value is read, then the ref is written, then the old value is used."""
        if ref := self.target():
            index, shape = self.place(ref)
            old = self.assign(f"{ref.name}[{index}]", shape, ref.dtype, ref.q, ref.m, ref.exact)
            v = self.value(shape, ref.dtype, exact=ref.exact)
            if v.exact or not ref.exact:
                self.out.append(Line(f"{ref.name}[{index}] = {self.text_for(v, ref)}"))
            if other := self.target(lambda f: f.shape == shape and f.dtype == ref.dtype and f.exact <= ref.exact):
                self.out.append(Line(f"{other.name}[...] = {self.text_for(old, other)}"))

    def predicate(self) -> str:
        v = self.value((), "bool")
        ids = [x for x in self.known((), "i32") if x.name.startswith("p")]
        if ids and self.rng.random() < 0.4:
            i = self.rng.choice(ids).name
            return self.rng.choice([f"{i} == 0", f"{i} > 0", f"({i} == 0) != {v.name}", f"({i} == 0) & {v.name}", f"({i} != 1) | {v.name}",
                                    f"jnp.logical_not({i} == 0)", f"lax.eq({i}, 0) ^ {v.name}"])
        return v.name

    def guarded(self) -> None:
        p, f = self.predicate(), self.name("w")
        self.out.append(self.suite(f"@pl.when({p})\ndef {f}():", lambda: "", self.rng.randint(1, 3)))

    # --- control flow
    def carries(self, n: int) -> tuple[list[Value], list[Value]]:
        """Initial values and the names that a body gives to the carried ones."""
        r = self.rng
        init, inner = [], []
        for _ in range(n):
            dtype, shape = r.choice(self.dtypes), r.choice([(), (), *self.shapes])
            v = self.value(shape, dtype)
            q, m = (2, 32.0) if dtype == "f32" else (1, 32.0)
            init.append(v)
            inner.append(Value(self.name("c"), shape, dtype, q, m, v.exact))
        return init, inner

    def init_texts(self, init: list[Value], inner: list[Value]) -> list[str]:
        return [self.normal(v, c.dtype, c.q, c.m) if v.is_float else v.name for v, c in zip(init, inner)]

    def next_values(self, inner: list[Value]) -> list[str]:
        """What a body carries on, within the bounds of the carried values."""
        r = self.rng
        out = []
        for c in inner:
            same = [d for d in inner if (d.shape, d.dtype, d.exact) == (c.shape, c.dtype, c.exact)]
            if r.random() < 0.3:
                out.append(r.choice(same).name)
                continue
            v = self.value(c.shape, c.dtype, exact=c.exact)
            if c.dtype in INTS:
                out.append(r.choice([v.name, f"{c.name} + {v.name}", f"{c.name} + 1", f"{c.name} * 3 - {v.name}"]))
            elif c.dtype == "bool":
                out.append(r.choice([v.name, f"~{c.name}", f"{c.name} ^ {v.name}"]))
            elif v.exact or not c.exact:
                total = Value(f"({c.name} + {v.name})", c.shape, c.dtype, max(c.q, v.q), c.m + v.m, v.exact and c.exact)
                use = r.choice([v, total]) if fits(c.dtype, total.q, total.m) or not total.exact else v
                out.append(self.normal(use, c.dtype, c.q, c.m))
            else:
                out.append(c.name)
        return out

    def results(self, inner: list[Value]) -> list[Value]:
        out = [Value(self.name(), c.shape, c.dtype, c.q, c.m, c.exact) for c in inner]
        return out

    def emit(self, nodes: list[Any], results: list[Value]) -> None:
        self.out.append(Group(nodes, {v.name: (v.shape, v.dtype) for v in results}))
        self.env += results

    def counted(self) -> None:
        r = self.rng
        if r.random() < 0.4:
            return self.decay()
        init, inner = self.carries(r.randint(1, 4))
        texts = self.init_texts(init, inner)
        low, high = r.choice([(0, 2), (0, 3), (1, 4), (0, 1)])
        top = f"({r.choice(have).name} & 3)" if (have := self.known((), "i32")) and r.random() < 0.3 else str(high)
        f, i = self.name("body"), self.name("k")
        head = f"def {f}({i}, c):\n    {', '.join(c.name for c in inner)}, = c"
        self.env.append(Value(i, (), "i32"))
        self.env += inner
        block = self.suite(head, lambda: f"return ({', '.join(self.next_values(inner))},)", r.randint(1, 4))
        del self.env[-len(inner) - 1 :]
        out = self.results(inner)
        extra = ", unroll=2" if top.isdigit() and r.random() < 0.15 else ""
        self.emit([block, Line(f"{', '.join(v.name for v in out)}, = lax.fori_loop({low}, {top}, {f}, ({', '.join(texts)},){extra})")], out)

    def decay(self) -> None:
        """A sum with a scale that shrinks: the order of uses and updates of a scalar carry matters."""
        r = self.rng
        shape = r.choice(self.shapes)
        x = self.value(shape, "f32", exact=True)
        if not x.exact:
            return
        x = self.assign(self.normal(x, "f32", 1, 8.0), shape, "f32", 1, 8.0)
        s = self.value((), "f32", exact=True)
        s0 = self.normal(s, "f32", 1, 4.0) if s.exact else "jnp.float32(1)"
        f, n = self.name("body"), r.randint(2, 4)
        scale, acc, old = self.name("c"), self.name("c"), self.name("v")
        add, halve = f"{acc} = {acc} + {x.name} * {scale}", f"{scale} = {scale} * 0.5"
        lines = r.choice([
            [add, halve], [halve, add], [f"{old} = {scale}", halve, add, f"{acc} = {acc} + {old}"],
            [f"{old} = lax.optimization_barrier({scale})", halve, f"{acc} = {acc} + {old}"],
            [f"{old} = jnp.broadcast_to({scale}, {shape})", halve, f"{acc} = {acc} * {r.choice([1, 1, 0.5])} + {old} + {x.name}"],
            [f"{old} = {x.name} * {scale}", halve, f"{acc} = lax.fori_loop(0, 2, lambda j, a: a + {old}, {acc})"],
            [f"{old} = {x.name} - {scale}", add, halve, f"{acc} = jnp.maximum({acc}, {old})"]])
        body: list[Any] = [Line(t) for t in lines]
        order = r.random() < 0.5
        carried = f"{acc}, {scale}" if order else f"{scale}, {acc}"
        block = Block(f"def {f}(i, c):\n    {carried} = c", body, f"return {carried}")
        zero = f"jnp.zeros({shape}, jnp.float32)"
        a = Value(self.name(), shape, "f32", 2 + 2 * n, 72.0 * n)
        b = Value(self.name(), (), "f32", 1 + n, 4.0)
        names, init = (f"{a.name}, {b.name}", f"({zero}, {s0})") if order else (f"{b.name}, {a.name}", f"({s0}, {zero})")
        self.emit([block, Line(f"{names} = lax.fori_loop(0, {n}, {f}, {init})")], [a, b])

    def while_(self) -> None:
        r = self.rng
        init, inner = self.carries(r.randint(1, 3))
        texts = self.init_texts(init, inner)
        f, g, k, n = self.name("body"), self.name("more"), self.name("k"), r.randint(1, 4)
        names = ", ".join(c.name for c in inner)
        flags = [j for j, c in enumerate(inner) if c.dtype == "bool" and not c.shape]
        stop = f" & c[{1 + flags[0]}]" if flags and r.random() < 0.5 else ""
        self.env.append(Value(k, (), "i32"))
        self.env += inner
        block = self.suite(f"def {f}(c):\n    {k}, {names}, = c", lambda: f"return ({k} + 1, {', '.join(self.next_values(inner))})", r.randint(1, 3))
        del self.env[-len(inner) - 1 :]
        out = self.results(inner)
        count = Value(self.name(), (), "i32")
        self.emit([Block(f"def {g}(c):", [], f"return (c[0] < {n}){stop}"), block,
                   Line(f"{count.name}, {', '.join(v.name for v in out)} = lax.while_loop({g}, {f}, (jnp.int32(0), {', '.join(texts)}))")], [count, *out])

    def scan(self) -> None:
        r = self.rng
        shape = r.choice([s for s in self.shapes if s] or [(4,)])
        dtype = r.choice([d for d in self.dtypes if d != "bool"])
        xs = self.value(shape, dtype)
        init, inner = self.carries(r.randint(1, 2))
        texts = self.init_texts(init, inner)
        f = self.name("body")
        x = Value(self.name("x"), shape[1:], dtype, xs.q, xs.m, xs.exact)
        y: list[Value] = []
        self.env.append(x)
        self.env += inner

        def last() -> str:
            y.append(self.value(shape[1:], dtype))
            return f"return ({', '.join(self.next_values(inner))},), {y[0].name}"

        block = self.suite(f"def {f}(c, {x.name}):\n    {', '.join(c.name for c in inner)}, = c", last, r.randint(1, 3))
        del self.env[-len(inner) - 1 :]
        out = self.results(inner)
        ys = Value(self.name(), shape, dtype, y[0].q, y[0].m, y[0].exact)
        extra = ", reverse=True" if r.random() < 0.3 else ""
        self.emit([block, Line(f"({', '.join(v.name for v in out)},), {ys.name} = lax.scan({f}, ({', '.join(texts)},), {xs.name}{extra})")], [*out, ys])

    def branches(self, n: int) -> tuple[list[str], list[Any], list[Value]]:
        """Functions of no arguments with results of the same types."""
        r = self.rng
        kinds = [(r.choice([(), *self.shapes]), r.choice(self.dtypes)) for _ in range(r.randint(1, 3))]
        names, blocks = [], []
        bounds = [[0, 1.0, True] for _ in kinds]

        def last() -> str:
            texts = []
            for (shape, dtype), b in zip(kinds, bounds):
                v = self.value(shape, dtype)
                texts.append(v.name)
                b[:] = [max(b[0], v.q), max(b[1], v.m), b[2] and v.exact]
            return f"return ({', '.join(texts)},)"

        for _ in range(n):
            f = self.name("branch")
            names.append(f)
            blocks.append(self.suite(f"def {f}():", last, r.randint(1, 3)))
        return names, blocks, [Value(self.name(), s, d, *b) for (s, d), b in zip(kinds, bounds)]

    def cond(self) -> None:
        p = self.predicate()
        names, blocks, out = self.branches(2)
        self.emit([*blocks, Line(f"{', '.join(v.name for v in out)}, = lax.cond({p}, {', '.join(names)})")], out)

    def switch(self) -> None:
        index = self.value((), "i32").name
        names, blocks, out = self.branches(self.rng.randint(2, 4))
        self.emit([*blocks, Line(f"{', '.join(v.name for v in out)}, = lax.switch({index} & 3, [{', '.join(names)}])")], out)

    def function(self) -> None:
        """A jitted function of values."""
        r = self.rng
        given = [self.value(r.choice([(), *self.shapes]), r.choice(self.dtypes)) for _ in range(r.randint(1, 3))]
        inner = [Value(self.name("a"), v.shape, v.dtype, v.q, v.m, v.exact) for v in given]
        f, env, pure, refs = self.name("inner"), self.env, self.pure, self.refs
        self.env, self.pure, self.refs = list(inner), True, []
        result: list[Value] = []

        def last() -> str:
            result.append(self.rng.choice(self.env))
            return f"return {result[0].name}"

        block = self.suite(f"@jax.jit\ndef {f}({', '.join(v.name for v in inner)}):", last, r.randint(1, 4))
        self.env, self.pure, self.refs = env, pure, refs
        v = result[0]
        out = Value(self.name(), v.shape, v.dtype, v.q, v.m, v.exact)
        self.emit([block, Line(f"{out.name} = {f}({', '.join(v.name for v in given)})")], [out])

    def scoped(self) -> None:
        """A scratch ref of a scope; a value leaves it."""
        r = self.rng
        shape, dtype = r.choice(self.shapes), r.choice([d for d in self.dtypes if d != "bool"])
        if not shape:
            return
        v = self.value(shape, dtype, exact=True)
        if not v.exact:
            return
        ref = Ref(self.name("t"), shape, dtype, 2 if dtype == "f32" else 1, 32.0, True)
        f = self.name("scope")
        self.refs.append(ref)
        first = Line(f"{ref.name}[...] = {self.text_for(v, ref)}", pinned=True)
        block = self.suite(f"def {f}({ref.name}):", lambda: f"return {ref.name}[...]", r.randint(1, 4))
        block.body.insert(0, first)
        self.refs.remove(ref)
        out = Value(self.name(), shape, dtype, ref.q, ref.m, True)
        self.emit([block, Line(f"{out.name} = pl.run_scoped({f}, pltpu.VMEM({shape}, {DTYPES[dtype]}))")], [out])
