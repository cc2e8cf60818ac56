"""Kernels under construction: values with what is known of them, refs, and statements that can be taken away again."""
from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any

DTYPES = {"f32": "jnp.float32", "bf16": "jnp.bfloat16", "i32": "jnp.int32", "u32": "jnp.uint32", "i16": "jnp.int16", "i8": "jnp.int8",
          "bool": "jnp.bool_"}
FLOATS = ("f32", "bf16")
INTS = ("i32", "u32", "i16", "i8")
EXACT_BITS = {"f32": 22, "bf16": 7}  # bits of a value that no rounding touches, two spare


@dataclasses.dataclass(frozen=True)
class Value:
    """A name in scope. Floats: multiples of 2^-q, at most m in size, exact unless a rounding operation was in their past."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    q: int = 0
    m: float = 1.0
    exact: bool = True

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclasses.dataclass(frozen=True)
class Ref:
    """A ref in scope. Whatever is stored keeps to q and m, so that whatever is read does."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    q: int
    m: float
    exact: bool
    writable: bool = True


@dataclasses.dataclass
class Line:
    """One statement. `defines`: name -> (shape, dtype) that a constant can stand in for."""

    text: str
    defines: dict[str, tuple[tuple[int, ...], str]] = dataclasses.field(default_factory=dict)
    pinned: bool = False  # without it the kernel would have no one meaning


@dataclasses.dataclass
class Block:
    """A function or another suite: its head, its statements and the last line (a return), "" where there is none."""

    head: str
    body: list[Any]
    last: str = ""
    pinned: bool = False


@dataclasses.dataclass
class Group:
    """Statements that only make sense together; `defines` as in Line."""

    nodes: list[Any]
    defines: dict[str, tuple[tuple[int, ...], str]] = dataclasses.field(default_factory=dict)


def render(nodes: list[Any], indent: str = "    ") -> list[str]:
    out: list[str] = []
    for n in nodes:
        if isinstance(n, Line):
            out.append(indent + n.text)
        elif isinstance(n, Group):
            out += render(n.nodes, indent)
        else:
            out += [indent + h for h in n.head.split("\n")]
            inner = render(n.body, indent + "    ")
            if n.last:
                inner.append(indent + "    " + n.last)
            out += inner or [indent + "    pass"]
    return out


def constant(shape: tuple[int, ...], dtype: str) -> str:
    """What stands in for a value that the shrinker takes away."""
    return f"jnp.ones({shape}, {DTYPES[dtype]})"


def smaller(nodes: list[Any]) -> list[list[Any]]:
    """Kernels with some statements less, or with constants for them, the largest pieces first."""
    found: list[tuple[float, list[Any]]] = []
    for length in (len(nodes) // 2, len(nodes) // 4):
        for i in range(0, len(nodes), length) if length > 1 else ():
            kept = [n for n in nodes[i : i + length] if pinned(n)]
            if len(kept) < len(nodes[i : i + length]):
                found.append((1.5 * length, nodes[:i] + kept + nodes[i + length :]))
    for i, n in enumerate(nodes):
        before, after = nodes[:i], nodes[i + 1 :]
        size = len(render([n]))
        defines = getattr(n, "defines", None) or {}
        if not pinned(n):
            found.append((size, before + after))
        if defines and not pinned(n) and not (isinstance(n, Line) and n.text.endswith(tuple(constant(*d) for d in defines.values()))):
            found.append((size, before + [Line(f"{k} = {constant(*d)}", {k: d}) for k, d in defines.items()] + after))
        if isinstance(n, Block) and not n.pinned:
            if not n.last and not any(isinstance(b, Line) and b.pinned for b in n.body):  # its statements without the condition
                found.append((1, before + n.body + after))
            found += [(size / 2, before + [dataclasses.replace(n, body=b)] + after) for b in smaller(n.body)]
        elif isinstance(n, Group):
            found += [(size / 2, before + [dataclasses.replace(n, nodes=b)] + after) for b in smaller(n.nodes)]
    return [nodes for _, nodes in sorted(found, key=lambda f: -f[0])]


def pinned(node: Any) -> bool:
    return bool(getattr(node, "pinned", False))


def without_unused(nodes: list[Any]) -> list[Any]:
    """Without the assignments and functions whose names occur nowhere else."""
    while True:
        words = collections.Counter(re.findall(r"\w+", "\n".join(render(nodes))))
        kept = _used(nodes, words)
        if len(render(kept)) == len(render(nodes)):
            return nodes
        nodes = kept


def _used(nodes: list[Any], words: Any) -> list[Any]:
    out = []
    for n in nodes:
        names = list(getattr(n, "defines", None) or {})
        if names and not pinned(n) and isinstance(n, Line) and all(words[x] <= 1 for x in names):
            continue
        if isinstance(n, Block):
            n = dataclasses.replace(n, body=_used(n.body, words))
        elif isinstance(n, Group):
            n = dataclasses.replace(n, nodes=_used(n.nodes, words))
        out.append(n)
    return out


@dataclasses.dataclass
class Operand:
    """An array of the call: data are made from `low`, `high` (whole numbers) times 2^-q, or are a permutation."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str = "random"
    low: int = -8
    high: int = 8
    q: int = 0


@dataclasses.dataclass
class Kernel:
    """A call: `inputs` in the order of the kernel's arguments, `params` the text of pallas_call's other arguments."""

    seed: int
    inputs: list[Operand]
    outputs: list[tuple[tuple[int, ...], str, bool]]  # shape, dtype, exact
    args: list[str]
    body: list[Any]
    params: str
    vmap: bool = False
    tpu_only: bool = False

    def text(self) -> str:
        """A module with `kernel` and `call(*arrays, **options of pallas_call)`."""
        shapes = ", ".join(f"jax.ShapeDtypeStruct({s}, {DTYPES[d]})" for s, d, _ in self.outputs)
        head = ["import jax", "import jax.numpy as jnp", "from jax import lax", "from jax.experimental import pallas as pl",
                "from jax.experimental.pallas import tpu as pltpu", "", ""]
        lines = [f"def kernel({', '.join(self.args)}):", *(render(self.body) or ["    pass"]), "", "", "def call(*arrays, **options):",
                 f"    return pl.pallas_call(kernel, out_shape=[{shapes}],", f"                          {self.params}, **options)(*arrays)", ""]
        return "\n".join(head + lines)
