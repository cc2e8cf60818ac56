"""What a kernel computes and moves, counted from its jaxpr and its index maps: nothing runs.

Flops and transcendentals are those of floating-point values. Both are bounds where control flow decides: of branches the one that computes
most counts, of loops of unknown length one turn.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ._capture import jaxver

MOST_POINTS = 1 << 20  # of a grid whose index maps are evaluated

_ONE = frozenset("add sub mul div max min neg abs sign floor ceil round sqrt square rem clamp select_n integer_pow add_any".split())
_TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log2 log1p logistic tanh sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erf erfc erf_inv rsqrt cbrt pow "
    "lgamma digamma".split())
_PER_INPUT = frozenset("reduce_sum reduce_prod reduce_max reduce_min argmax argmin cumsum cumprod cummax cummin cumlogsumexp reduce_and reduce_or "
                       "mosaic_gpu_reduce_sum mosaic_gpu_reduce_max mosaic_gpu_reduce_min mosaic_gpu_reduce_prod".split())


@dataclasses.dataclass(frozen=True)
class Count:
    """`at_most`: a branch may compute less. `at_least`: a loop may turn more often."""

    flops: int = 0
    transcendentals: int = 0
    at_most: bool = False
    at_least: bool = False

    def __add__(self, other: Count) -> Count:
        return Count(self.flops + other.flops, self.transcendentals + other.transcendentals, self.at_most or other.at_most,
                     self.at_least or other.at_least)

    def times(self, n: int) -> Count:
        return dataclasses.replace(self, flops=n * self.flops, transcendentals=n * self.transcendentals)


def of_jaxpr(jaxpr: Any) -> Count:
    """Of one run of an open or closed jaxpr."""
    total = Count()
    for eqn in jaxver.open_jaxpr(jaxpr)[0].eqns:
        total += _of_equation(eqn)
    return total


def _of_equation(eqn: Any) -> Count:
    name, p = eqn.primitive.name, eqn.params
    if name == "cond":
        return _of_branches([of_jaxpr(b) for b in p["branches"]])
    if name == "scan":
        return of_jaxpr(p["jaxpr"]).times(int(p["length"])) if isinstance(p["length"], int) else _unknown(of_jaxpr(p["jaxpr"]))
    if name == "while":
        return _unknown(of_jaxpr(p["cond_jaxpr"]) + of_jaxpr(p["body_jaxpr"]))
    inner = jaxver.sub_jaxprs(eqn)
    if name in ("reduce", "pallas_call") or not inner:
        return Count() if name == "pallas_call" else _of_operation(eqn, name)
    turns, known = _turns(name, p)
    count = sum((of_jaxpr(j) for j in inner), Count()).times(turns)
    return count if known else _unknown(count)


def _unknown(count: Count) -> Count:
    return dataclasses.replace(count, at_least=count.flops + count.transcendentals > 0 or count.at_least)


def _of_branches(branches: list[Count]) -> Count:
    flops, transcendentals = max(b.flops for b in branches), max(b.transcendentals for b in branches)
    differ = any((b.flops, b.transcendentals) != (flops, transcendentals) for b in branches)
    return Count(flops, transcendentals, differ or any(b.at_most for b in branches), any(b.at_least for b in branches))


def _turns(name: str, p: Any) -> tuple[int, bool]:
    """How often the jaxprs of an equation run, and whether that is known."""
    if name == "emit_pipeline":
        grid = p["grid_mapping"].grid
        known = [int(n) for n in grid if isinstance(n, int)]
        return math.prod(known), len(known) == len(grid)
    meshes = p.get("meshes") or ((p["mesh"],) if p.get("mesh") is not None else ())
    if name in ("core_map", "mpmd_map"):
        return math.prod(int(n) for m in meshes[:1] for n in m.shape.values()), True
    return 1, name != "parallel_loop"


def _of_operation(eqn: Any, name: str) -> Count:
    outs = [v.aval for v in eqn.outvars if hasattr(v.aval, "shape")]
    if not outs or not any(jaxver.is_float(a.dtype) for a in outs if hasattr(a, "dtype") and isinstance(a.dtype, np.dtype)):
        if name not in ("dot_general", "conv_general_dilated"):
            return Count()
    if name == "dot_general":
        (contract, _), _ = eqn.params["dimension_numbers"]
        return Count(2 * _size(outs[0]) * math.prod(eqn.invars[0].aval.shape[d] for d in contract))
    if name in ("conv_general_dilated", "conv"):
        kernel = eqn.invars[1].aval
        return Count(2 * _size(outs[0]) * _size(kernel) // max(1, kernel.shape[eqn.params["dimension_numbers"].rhs_spec[0]]))
    if name == "mma":
        return Count(2 * _size(outs[0]) * eqn.invars[1].aval.shape[1])
    if name in _TRANSCENDENTAL:
        return Count(0, _size(outs[0]))
    if name in _ONE:
        return Count(_size(outs[0]))
    return Count(_size(eqn.invars[0].aval)) if name in _PER_INPUT else Count()


def _size(aval: Any) -> int:
    return math.prod(int(d) for d in aval.shape)


def bits(dtype: Any) -> int:
    """Of an element where arrays lie."""
    import jax.numpy as jnp

    try:
        return int((jnp.finfo if jaxver.is_float(dtype) else jnp.iinfo)(dtype).bits)
    except (TypeError, ValueError):
        return 8 * np.dtype(dtype).itemsize


# --- traffic --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Moved:
    """One operand. blocks: how often a block of it is fetched or written back, one after another of the same place counting once; bytes: in
    all, without padding. None: not known before the kernel runs, and `why`."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    block: tuple[int, ...] | None
    blocks: int | None
    bytes: int | None
    why: str = ""


def traffic(grid_mapping: Any, names: Sequence[str], in_order: bool) -> list[Moved]:
    """Per operand of a pallas_call. `in_order`: the grid's steps follow each other and share windows; else each point fetches its own."""
    return [_moved(grid_mapping, bm, name, i, in_order) for i, (bm, name) in enumerate(zip(grid_mapping.block_mappings, names, strict=True))]


def _moved(grid_mapping: Any, bm: Any, name: str, i: int, in_order: bool) -> Moved:
    array = getattr(bm.array_aval, "inner_aval", bm.array_aval)
    shape = tuple(int(d) if isinstance(d, int) else -1 for d in array.shape)
    kind = "input" if i < grid_mapping.num_inputs else "output"
    facts = (name, kind, shape, str(array.dtype))
    space = _space(bm)
    if space in ("any", "hbm") or not isinstance(array.dtype, np.dtype):
        return Moved(*facts, None, None, None, "the kernel's own copies move it" if isinstance(array.dtype, np.dtype) else "no array of numbers")
    block = tuple(None if type(b).__name__ == "Squeezed" or b is None else int(getattr(b, "block_size", b)) for b in bm.block_shape)
    shown = tuple(1 if b is None else b for b in block)
    places = _places(grid_mapping, bm)
    if isinstance(places, str):
        return Moved(*facts, shown, None, None, places)
    if in_order and len(places):
        places = places[np.r_[True, np.any(places[1:] != places[:-1], axis=1)]]
    elements = np.ones(len(places), np.int64)
    for d, (b, kind_of) in enumerate(zip(shown, bm.block_shape)):
        start = places[:, d].astype(np.int64) * (1 if type(kind_of).__name__ == "Element" else b)
        elements *= np.clip(shape[d] - start, 0, b)
    return Moved(*facts, shown, len(places), int(elements.sum()) * bits(array.dtype) // 8)


def _space(bm: Any) -> str:
    from ._capture.types import Unsupported, space_text

    try:
        return space_text(bm.transformed_block_aval.memory_space)[0]
    except Unsupported:
        return "any"


def _places(grid_mapping: Any, bm: Any) -> np.ndarray | str:
    """Block indices per grid point in the grid's order, or why they are not known."""
    import jax
    import jax.numpy as jnp

    if not all(isinstance(n, int) for n in grid_mapping.grid):
        return "the grid is not known before the kernel runs"
    if any(type(b).__name__ == "BoundedSlice" for b in bm.block_shape) or not all(isinstance(d, int) for d in bm.array_aval.shape):
        return "the blocks have sizes of run time"
    points = math.prod(grid_mapping.grid)
    if points > MOST_POINTS:
        return f"the grid has more than {MOST_POINTS} points"
    jaxpr, consts = jaxver.open_jaxpr(bm.index_map_jaxpr)
    rank = len(grid_mapping.grid)
    if any(v in set(jaxpr.invars[rank:]) for e in jaxpr.eqns for v in _variables(e.invars)) or jaxpr.effects:
        return "the index map reads prefetched values"
    coordinates = np.stack([c.reshape(-1) for c in np.indices(grid_mapping.grid, np.int32)], 1) if rank else np.zeros((1, 0), np.int32)
    with jax.ensure_compile_time_eval():
        extra = [None] * (len(jaxpr.invars) - rank)
        index = jax.vmap(lambda point: jnp.stack([jnp.asarray(v, jnp.int32) for v in jaxver.core.eval_jaxpr(
            jaxpr, consts, *[point[i] for i in range(rank)], *extra)]) if jaxpr.outvars else jnp.zeros((0,), jnp.int32))
        return np.asarray(index(jnp.asarray(coordinates)))


def _variables(atoms: Any) -> Iterator[Any]:
    return (a for a in atoms if not isinstance(a, jaxver.Literal))
