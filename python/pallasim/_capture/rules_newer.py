"""Primitives of JAX 0.11 and 0.12 that operations of older ones express; what says nothing here is left out by name."""
from __future__ import annotations

from typing import Any

from . import jaxver
from .accounts import takes
from .attrs import ints
from .rules_gpu import with_refs
from .rules_lax import convolution
from .types import Unsupported
from .views import Operands
from .writer import Rule, Writer


def reduction(op: str) -> Rule:
    """plgpu.sum and the like; how many accumulators the compiler takes is a question of speed."""

    @takes("axes", ignores="accumulator_ilp")
    def rule(w: Writer, eqn: Any) -> None:
        w.emit(op, [w.read(eqn.invars[0])], f" {{axes = {ints(eqn.params['axes'])}}}", eqn.outvars)

    return rule


@takes("tree", ignores="optimized")
def store(w: Writer, eqn: Any) -> None:
    """plgpu.store: a swap whose old value nobody gets."""
    ops = Operands(w)
    base, rest = ops.first_ref(eqn.invars[0], eqn.params["tree"].unflatten(eqn.invars[2:]))
    ops.add(eqn.invars[1])
    view = ops.view_of(base, rest)
    w.emit("store", ops.names, f" {{view = {view}}}" if view else "", ())


def both(first: Rule, second: Rule) -> Rule:
    """Two operations with the operands and parameters of one primitive."""

    @takes(rest=True)
    def rule(w: Writer, eqn: Any) -> None:
        first(w, eqn)
        second(w, eqn)

    return rule


@takes()
def mma(w: Writer, eqn: Any) -> None:
    """acc + a @ b, in registers."""
    acc, a, b = (w.read(v) for v in eqn.invars)
    out = w.type(eqn.outvars[0].aval)
    product = w.emit1("dot_general", [a, b], " {lhs_contract = [1], rhs_contract = [0], lhs_batch = [], rhs_batch = []}", out)
    w.emit("add", [acc, product], "", eqn.outvars)


_plain_load = with_refs("async_load_tmem", "ref", "ref", "tree")
_REDUCTIONS = {"max": ("reduce_max", False), "min": ("reduce_min", False), "absmax": ("reduce_max", True), "absmin": ("reduce_min", True)}


class _Part:
    """An equation with some of its results and parameters, for the rule of a simpler primitive."""

    def __init__(self, eqn: Any, outvars: Any, invars: Any = None, **params: Any) -> None:
        self.primitive, self.invars, self.outvars = eqn.primitive, eqn.invars if invars is None else invars, outvars
        self.params = params


@takes("tree reduce")
def async_load_tmem(w: Writer, eqn: Any) -> None:
    """A load, and in newer JAX a reduction of what it gives along the last dimension."""
    p = eqn.params
    _plain_load(w, _Part(eqn, eqn.outvars[:1], tree=p["tree"]))
    reduction = p.get("reduce")
    if reduction is None and len(eqn.outvars) == 1:
        return
    if reduction not in _REDUCTIONS:
        raise Unsupported(f"async_load_tmem with the reduction {reduction!r}")
    op, magnitude = _REDUCTIONS[reduction]
    loaded, aval = w.env[eqn.outvars[0]], eqn.outvars[0].aval
    if magnitude:
        loaded = w.emit1("abs", [loaded], "", w.type(aval))
    w.emit(op, [loaded], f" {{axes = {ints((len(aval.shape) - 1,))}}}", eqn.outvars[1:])


@takes("dimension_numbers padding window_strides lhs_dilation rhs_dilation feature_group_count batch_group_count precision",
       ignores="preferred_element_type", only={"window_reversal": ((), [])})
def conv(w: Writer, eqn: Any) -> None:
    """pltpu.conv: lax's convolution, added to an accumulator where one is given."""
    params = {k: v for k, v in eqn.params.items() if k != "window_reversal"}
    out = eqn.outvars
    convolution(w, _Part(eqn, out, eqn.invars[:2], **params))
    if len(eqn.invars) > 2:
        w.emit("add", [w.read(eqn.invars[2]), w.env[out[0]]], "", out)


@takes("memory_space")
def has_memory_space(w: Writer, eqn: Any) -> None:
    """ANY is HBM here: nothing moves an operand nearer to the core before the kernel runs."""
    import numpy as np

    space = w.module.memory(eqn.params["memory_space"])[0]
    w.env[eqn.outvars[0]] = w.constant(np.asarray(space in ("hbm", "any"), np.bool_))


@takes("n")
def wait_gmem_to_smem(w: Writer, eqn: Any) -> None:
    raise Unsupported("wait_gmem_to_smem: copies by cp.async, of GPUs before Hopper")


def rules() -> dict[Any, Rule]:
    tree = "transforms_treedef"
    out: dict[str, Rule] = {f"gpu.reduce_{n}_p": reduction(f"reduce_{n}") for n in ("sum", "max", "min", "prod")}
    out |= {
        "gpu.store_p": store, "gpu.mma_p": mma, "gpu.async_load_tmem_p": async_load_tmem, "gpu.wait_gmem_to_smem_p": wait_gmem_to_smem,
        "gpu.barrier_arrive_and_wait_p": both(with_refs("barrier_arrive", "barrier", "barrier", tree),
                                              with_refs("barrier_wait", "barrier", "barrier", tree)),
        "tpu.conv_p": conv, "tpu.has_memory_space_p": has_memory_space,
    }
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}
