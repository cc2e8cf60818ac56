"""A whole kernel from a seed: grid, blocks, operands, initial stores, statements."""
from __future__ import annotations

import random
from typing import Any

from kernel_gen import Statements
from kernel_tree import DTYPES, FLOATS, INTS, Block, Kernel, Line, Operand, Ref, Value


class Builder(Statements):
    """Makes one kernel. Axis 0 of the grid moves along dimension 0 of blocked arrays; axis 1 comes back to the same blocks."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.seed = seed
        r = self.rng
        self.rows, self.columns = r.choice([4, 8]), r.choice([4, 8, 16])
        self.shapes = [(self.rows, self.columns), (self.rows, self.columns), (self.columns,), (self.rows,), ()]
        self.dtypes = ["f32", "i32", *r.sample(["bool", "bf16", "u32", "i16", "i8"], r.randint(0, 2))]
        self.grid: tuple[int, ...] = r.choice([(), (), (2,), (3,), (4,), (2, 2), (2, 3), (3, 2)])
        self.prefetch = bool(self.grid) and r.random() < 0.25
        self.local = bool(self.grid) and not self.prefetch and r.random() < 0.2
        # Only a scratch that is not always cleared ties the rows of the grid together.
        self.apart = len(self.grid) == 2 and not self.local and r.random() < 0.4
        self.beyond = r.randrange(1, self.rows)  # rows of the last block that no array has
        if self.local:  # every array ends in the same place, where the grid ends; rows stay rows
            self.columns = 16
            self.shapes = [(self.rows, 16), (self.rows, 16), (self.rows,), ()]
        self.inputs: list[Operand] = []
        self.specs: dict[str, str] = {}
        self.maps: dict[str, str] = {}

    # --- operands
    def blocked(self, name: str, shape: tuple[int, ...], output: bool) -> tuple[int, ...]:
        """Chooses a block for an operand whose block has `shape`; returns the shape of the array."""
        r = self.rng
        args = ", ".join(["i", "k"][: len(self.grid)] + (["p"] if self.prefetch else []))
        zeros = ", ".join("0" for _ in shape)
        if not self.grid or (r.random() < 0.25 and not self.local and not (output and self.apart)):
            self.maps[name] = "whole"
            self.specs[name] = f"pl.BlockSpec({shape}, lambda {args}: ({zeros},))" if self.grid else "pl.BlockSpec()"
            return shape
        steps = self.grid[0]
        where = "i" if self.local else r.choice(["i", f"{steps - 1} - i", *(["p[i]"] * 3 if self.prefetch else [])])
        if not output and not self.local and len(self.grid) == 2 and r.random() < 0.4:
            where, steps = f"i * {self.grid[1]} + k", steps * self.grid[1]
        extent = shape[0] * steps - (self.beyond if self.local else 0)
        rest = "".join(", 0" for _ in shape[1:])
        self.maps[name] = where
        if not self.local and where != "p[i]" and r.random() < 0.2:  # a dimension of its own, squeezed
            self.specs[name] = f"pl.BlockSpec({(None, *shape)}, lambda {args}: ({where}, {zeros},))"
            return (steps, *shape)
        self.specs[name] = f"pl.BlockSpec({shape}, lambda {args}: ({where}{rest},))"
        return (extent, *shape[1:])

    def operand(self, shape: tuple[int, ...], dtype: str) -> Ref:
        name = f"x{len(self.inputs)}_ref"
        q, m = (2, 8.0) if dtype == "f32" else (1, 8.0)
        self.inputs.append(Operand(name, self.blocked(name, shape, False), dtype, q=q))
        return Ref(name, shape, dtype, q, m, True, writable=False)

    def first(self, axes: int) -> str:
        """The condition of the first visit, in one of its spellings; `axes`: all of the grid's, or the last one alone."""
        r = self.rng
        ids = [f"pl.program_id({a})" for a in range(len(self.grid))][-axes:]
        spell = [lambda p: f"({p} == 0)", lambda p: f"({p} < 1)", lambda p: f"jnp.logical_not({p} > 0)", lambda p: f"({p} <= 0)",
                 lambda p: f"lax.eq({p}, 0)", lambda p: f"~({p} != 0)"]
        return " & ".join(r.choice(spell)(p) for p in ids)

    def initial(self, name: str, text: str, axes: int) -> Any:
        """A store before everything else: in each step (axes 0), or in the first that sees the block."""
        if axes <= 0:
            return Line(f"{name}[...] = {text}", pinned=True)
        f = self.name("first")
        if self.rng.random() < 0.15:
            return (Block(f"def {f}():", [Line(f"{name}[...] = {text}")], pinned=True),
                    Line(f"lax.cond({self.first(axes)}, {f}, lambda: None)", pinned=True))
        return Block(f"@pl.when({self.first(axes)})\ndef {f}():", [Line(f"{name}[...] = {text}")], pinned=True)

    def start(self, ref: Ref, axes: int) -> None:
        r = self.rng
        given = [f for f in self.refs if not f.writable and f.shape == ref.shape and f.dtype == ref.dtype and f.m <= ref.m and f.q <= ref.q]
        text = f"{r.choice(given).name}[...]" if given and r.random() < 0.6 else f"jnp.full({ref.shape}, {r.choice([0, 1, 2])}, {DTYPES[ref.dtype]})"
        made = self.initial(ref.name, text, axes)
        self.out += list(made) if isinstance(made, tuple) else [made]

    # --- the kernel
    def build(self) -> Kernel:
        r = self.rng
        arrays = [s for s in self.shapes if s]
        inputs = [self.operand(r.choice(arrays), r.choice(self.dtypes)) for _ in range(r.randint(1, 3))]
        inputs[0] = inputs[0] if inputs[0].dtype != "bool" else self.operand(arrays[0], "i32")
        outputs, shapes, aliases, hidden = [], [], {}, set()
        for j in range(r.randint(1, 2)):
            dtype = r.choice([d for d in self.dtypes if d != "bool"])
            name, shape, exact = f"o{j}_ref", r.choice(arrays[:2] + arrays), dtype != "f32" or r.random() < 0.75
            source = [n for n, f in enumerate(inputs) if f.name not in hidden and f.dtype == dtype and self.maps[f.name] in ("i", "whole")]
            if source and r.random() < 0.35:
                n = r.choice(source)
                f = inputs[n]
                op = next(i for i, o in enumerate(self.inputs) if o.name == f.name)
                shape, whole = f.shape, self.inputs[op].shape
                self.specs[name], self.maps[name] = self.specs[f.name], self.maps[f.name]
                aliases[op + self.prefetch] = j
                hidden.add(f.name)
            else:
                whole = self.blocked(name, shape, True)
            q, m = (2, 32.0) if dtype == "f32" else (1, 32.0)
            outputs.append(Ref(name, shape, dtype, q, m, exact))
            shapes.append((whole, dtype, exact))
        scratch = []
        for j in range(r.choice([0, 0, 1, 2]) or self.apart):
            dtype = r.choice([d for d in self.dtypes if d != "bool"])
            scratch.append(Ref(f"s{j}_ref", r.choice(arrays), dtype, 2 if dtype == "f32" else 1, 32.0, True))
        self.body(inputs, outputs, scratch, hidden, aliases)
        return self.finish(inputs, outputs, scratch, shapes, aliases)

    def body(self, inputs: list[Ref], outputs: list[Ref], scratch: list[Ref], hidden: set[str], aliases: dict[int, int]) -> None:
        r = self.rng
        for a in range(len(self.grid)):
            v = Value(f"p{a}", (), "i32")
            self.out.append(Line(f"{v.name} = pl.program_id({a})", pinned=True))
            self.env.append(v)
        self.refs = [f for f in inputs if f.name not in hidden]
        for f in self.refs:
            if r.random() < 0.8:
                self.assign(f"{f.name}[...]", f.shape, f.dtype, f.q, f.m)
        names = [o.name for o in self.inputs]
        back = {j: names[i - self.prefetch] for i, j in aliases.items()}
        for j, ref in enumerate(outputs):
            revisited = len(self.grid) if self.maps[ref.name] == "whole" else len(self.grid) - 1
            if j in back:
                if revisited == 0 and r.random() < 0.3:  # read once before anything is written
                    self.assign(f"{back[j]}[...]", ref.shape, ref.dtype, ref.q, 8.0)
                made = self.initial(ref.name, f"{back[j]}[...]", revisited)
                self.out += list(made) if isinstance(made, tuple) else [made]
            else:
                self.start(ref, revisited if r.random() < 0.8 else 0)
        for ref in scratch:
            if len(self.grid) == 2 and not self.local and r.random() < (0.8 if self.apart else 0.3) and ref.dtype != "bf16":
                self.restarted(ref)
            else:
                self.start(ref, len(self.grid) if self.grid and not self.apart and r.random() < 0.6 else 0)
        self.refs += outputs + scratch
        self.statements(r.randint(3, 9))
        for ref in scratch:
            self.reveal(ref)
        for ref in outputs:
            self.observe(ref)

    def reveal(self, ref: Ref) -> None:
        """What is left in a scratch, as values that an output can take."""
        v = self.assign(f"{ref.name}[...]", ref.shape, ref.dtype, ref.q, ref.m)
        if self.local or v.dtype == "bf16":
            return
        top = self.assign(f"jnp.max({v.name})", (), v.dtype, v.q, v.m)
        if v.is_float:
            self.assign(f"jnp.floor({top.name}).astype(jnp.int32)", (), "i32")
        else:
            self.assign(f"({top.name} & 15).astype(jnp.float32)", (), "f32", 0, 16.0)

    def observe(self, ref: Ref) -> None:
        """Makes an output depend on what was computed."""
        r = self.rng
        fine = [v for v in self.env if v.shape in (ref.shape, ()) and v.dtype != "bool" and (v.exact or not ref.exact)
                and (v.is_float == (ref.dtype in FLOATS))]
        results = fine[-6:] + r.sample(fine[:-6], min(2, len(fine[:-6]))) if fine else [self.value(ref.shape, ref.dtype, exact=True)]
        r.shuffle(results)
        for k, v in enumerate(results):
            if not v.is_float:
                self.out.append(Line(f"{ref.name}[...] = {ref.name}[...] * 5 + {v.name}.astype({DTYPES[ref.dtype]})"))
            elif v.exact or not ref.exact:
                text = f"{self.normal(v, ref.dtype, ref.q, ref.m)}"
                if v.dtype != ref.dtype:
                    text = f"({text}).astype({DTYPES[ref.dtype]})"
                if ref.dtype == "bf16":  # few bits: sums of two would be rounded
                    text = f"jnp.where({ref.name}[...] > {k}, -{ref.name}[...], {text})"
                else:
                    text = f"jnp.clip({text} - {ref.name}[...], -32.0, 32.0)"
                self.out.append(Line(f"{ref.name}[...] = {text}"))
        if not results or self.seed % 2:
            self.out.append(Line(f"{ref.name}[...] = {ref.name}[...] + jnp.full({ref.shape}, 1, {DTYPES[ref.dtype]})" if ref.dtype in INTS
                                 else f"{ref.name}[...] = jnp.where({ref.name}[...] == 0, jnp.full({ref.shape}, 1, {DTYPES[ref.dtype]}), {ref.name}[...])"))

    def restarted(self, ref: Ref) -> None:
        """A scratch that is cleared in some steps, at the latest in the first; a flag per row of the grid says in which."""
        r = self.rng
        name = f"x{len(self.inputs)}_ref"
        self.inputs.append(Operand(name, (self.grid[0],), "i32", "flags"))
        self.specs[name] = f"pl.BlockSpec({(self.grid[0],)}, lambda {', '.join(['i', 'k', *(['p'] if self.prefetch else [])])}: (0,))"
        self.maps[name] = "whole"
        flag, f = self.name("flag"), self.name("first")
        self.out.append(Line(f"{flag} = {name}[pl.program_id(0)] != 0", {flag: ((), "bool")}, pinned=True))
        condition = r.choice([f"(p1 == 0) != {flag}", f"(p1 == 0) ^ {flag}", f"((p1 == 0) & ~{flag}) | ((p1 > 0) & {flag})"])
        self.out.append(Block(f"@pl.when({condition})\ndef {f}():", [Line(f"{ref.name}[...] = jnp.full({ref.shape}, 1, {DTYPES[ref.dtype]})")], pinned=True))
        v = self.value(ref.shape, ref.dtype, exact=True)
        if v.exact and v.is_float:
            self.out.append(Line(f"{ref.name}[...] = jnp.clip({ref.name}[...] + {self.normal(v, ref.dtype, ref.q, 8.0)}, -32.0, 32.0)"))
        elif not v.is_float:
            self.out.append(Line(f"{ref.name}[...] += {v.name}"))

    def finish(self, inputs: list[Ref], outputs: list[Ref], scratch: list[Ref], shapes: Any, aliases: dict[int, int]) -> Kernel:
        r = self.rng
        in_specs = ", ".join(self.specs[o.name] for o in self.inputs)
        out_specs = ", ".join(self.specs[f.name] for f in outputs)
        memory = ", ".join(f"pltpu.VMEM({f.shape}, {DTYPES[f.dtype]})" for f in scratch)
        args = [o.name for o in self.inputs] + [f.name for f in outputs] + [f.name for f in scratch]
        operands = list(self.inputs)
        if self.prefetch:
            args.insert(0, "p_ref")
            operands.insert(0, Operand("p_ref", (self.grid[0],), "i32", "permutation"))
            params = (f"grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid={self.grid},\n                              in_specs=[{in_specs}],\n"
                      f"                              out_specs=[{out_specs}], scratch_shapes=[{memory}])")
        else:
            grid = f"grid={self.grid}, " if self.grid else ""
            params = f"{grid}in_specs=[{in_specs}],\n                          out_specs=[{out_specs}], scratch_shapes=[{memory}]"
        if aliases:
            params += f", input_output_aliases={aliases}"
        return Kernel(self.seed, operands, shapes, args, self.out, params, vmap=r.random() < 0.15)


def kernel_of(seed: int) -> Kernel:
    """The kernel of a seed, always the same one."""
    return Builder(seed).build()
