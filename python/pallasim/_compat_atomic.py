"""`pl.atomic_cas(ref, idx, cmp, val)` of older texts: today's takes a ref of shape () alone, theirs one with one element of any rank.

The operation is one of ours, captured as `atomic_cas` with a view (_capture/rules_memory.py).
"""
from __future__ import annotations

import math
from typing import Any

from jax import tree_util
from jax._src import core
from jax._src.state import primitives as state_primitives
from jax._src.state import types as state

atomic_cas_at_p = core.Primitive("atomic_cas_at")


@atomic_cas_at_p.def_effectful_abstract_eval
def _type_of(*avals: Any, args_tree: Any) -> tuple[core.ShapedArray, set[Any]]:
    ref, _, cmp, val = args_tree.unflatten(avals)
    if not ref.dtype == cmp.dtype == val.dtype or cmp.shape or val.shape:
        raise ValueError(f"pl.atomic_cas: cmp and val are scalars of the ref's type {ref.dtype}, not {cmp.str_short()} and {val.str_short()}")
    return core.ShapedArray((), ref.dtype), {state.ReadEffect(0), state.WriteEffect(0)}


def compare_and_swap(ref: Any, *args: Any) -> Any:
    """`(ref, cmp, val)` or `(ref, idx, cmp, val)`."""
    import jax.numpy as jnp
    from jax.experimental.pallas import triton

    if not 2 <= len(args) <= 3:
        raise TypeError(f"pl.atomic_cas(ref, cmp, val) or (ref, idx, cmp, val), not {1 + len(args)} arguments")
    *index, cmp, val = args
    if math.prod(ref.shape) != 1:
        raise TypeError(f"pl.atomic_cas takes a ref of one element, and this one has shape {ref.shape}: give the call a block of shape () for it")
    cmp, val = (x if hasattr(x, "dtype") else jnp.asarray(x, ref.dtype) for x in (cmp, val))
    if not ref.shape and not isinstance(ref, state.TransformedRef):
        return triton.atomic_cas(ref, cmp, val)
    idx = index[0] if index and index[0] is not ... else ()
    idx = idx if isinstance(idx, tuple) else (idx,)
    base, transforms = state_primitives.get_ref_and_transforms(ref, idx + (0,) * (len(ref.shape) - len(idx)), "atomic_cas")
    if ref.shape and transforms[-1].get_indexer_shape():
        raise TypeError(f"pl.atomic_cas: the index {idx} names no single element")
    flat, tree = tree_util.tree_flatten((base, transforms, cmp, val))
    return atomic_cas_at_p.bind(*flat, args_tree=tree)
