"""Mosaic GPU primitives: refs with transforms as `view($k, [...])` attributes."""
from __future__ import annotations

import itertools
from typing import Any

from . import jaxver
from .accounts import takes
from .attrs import attr, bool_text, quote, symbol
from .rules_lax import simple
from .rules_memory import get, plain, sem_signal, sem_wait
from .types import Unsupported
from .views import Operands, view_value
from .writer import Rule, Writer, attr_list


def _is_ref(atom: Any) -> bool:
    return hasattr(getattr(atom, "aval", None), "inner_aval")


def with_refs(op: str, layout: str, flat: str, *trees: str, axes: tuple[str, ...] = (), ignores: tuple[str, ...] = (), guarded: bool = False) -> Rule:
    """Primitives whose operands are `layout` (one word each; "x?" is present when parameter "has"), followed by the
    flattened transforms named by `flat` in order; `trees` are the parameters that unflatten them, `ignores` those that say nothing here.
    `guarded`: a predicate (newer JAX) is a condition around the operation."""
    names = layout.split()
    owners = flat.split()

    @takes(rest=True)
    def rule(w: Writer, eqn: Any) -> None:
        p = eqn.params
        present = [n.rstrip("?") for n in names if not n.endswith("?") or _present(p, n[:-1])]
        atoms = dict(zip(present, eqn.invars))
        rest = list(eqn.invars[len(present):])
        transforms: dict[str, Any] = {}
        for owner, tree in zip(owners, trees):
            treedef = p.get(tree)
            if treedef is None:
                continue
            n = treedef.num_leaves
            transforms[owner] = treedef.unflatten(rest[:n])
            rest = rest[n:]
        if eqn.params.get("has_barrier") is False:
            raise Unsupported(f"{op} without a barrier: copies by cp.async, of GPUs before Hopper")
        ops = Operands(w)
        items: list[tuple[str, str | None]] = []
        for n in present:
            atom = atoms[n]
            items.append((n, ops.ref(atom, transforms.get(n, ()) or ()) if _is_ref(atom) else ops.add(atom)))
        condition = w.read(rest.pop()) if guarded and p.get("has_user_predicate") else None
        for i, atom in enumerate(rest):
            items.append(("predicate" if len(rest) == 1 else f"extra{i}", ops.add(atom)))
        for k, v in p.items():
            if k in trees or k in ignores or k in ("has_user_predicate", "has_barrier"):  # the operand left over is the predicate
                continue
            text = _axes(w, v) if k in axes else attr(v)
            if text is not None:
                items.append((k, text))
        if condition is None:
            w.emit(op, ops.names, attr_list(items), eqn.outvars)
            return
        loc = w.loc
        head, types = w.open_op("cond", [condition], "", eqn.outvars)
        w.open_region(head, [])
        head = w.close_region([])
        w.open_region(head, [])
        w.loc = loc
        w.emit(op, ops.names, attr_list(items), ())
        w.close_op(w.close_region([]), types, loc)

    return rule


def _present(params: Any, name: str) -> bool:
    return {
        "barrier": params.get("arrive"), "a_scale": params.get("scaled"), "b_scale": params.get("scaled"),
        "a_sparse_metadata": params.get("sparse"),
    }.get(name, True)


def _axes(w: Writer, value: Any) -> str | None:
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else (value,)
    texts = [str(v) if isinstance(v, int) else _axes(w, v) if isinstance(v, (tuple, list)) else quote(w.axis_name(v)) for v in values]
    return "[" + ", ".join(map(str, texts)) + "]"


@takes("tree", ignores="optimized")
def load(w: Writer, eqn: Any) -> None:
    """A read; which instructions it becomes is a question of speed, and its layout is a cast of its own."""
    get(w, eqn)


@takes("args_tree")
def signal_parallel(w: Writer, eqn: Any) -> None:
    refs, transforms, incs, devices = eqn.params["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    signals = []
    for ref, t, inc, device in zip(refs, transforms, incs, devices):
        text = f"{ops.ref(ref, t)}, {ops.add(inc)}"
        if device is not None:
            where, kind, _ = w.device_id(ops, device, "mesh")
            text += f", {where}, {symbol(kind)}"
        signals.append(f"signal({text})")
    w.emit("gpu_sem_signal_parallel", ops.names, f" {{signals = [{', '.join(signals)}]}}", ())


@takes("args_tree collective_axes")
def signal_multicast(w: Writer, eqn: Any) -> None:
    w.module.facts.add("communicates")
    ref, transforms, value = eqn.params["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    items = [("sem", ops.ref(ref, transforms)), ("inc", ops.add(value)), ("collective_axes", _axes(w, eqn.params["collective_axes"]))]
    w.emit("gpu_sem_signal_multicast", ops.names, attr_list(items), ())


@takes("args_tree atomic_type", ignores="optimized")
def atomic_store(w: Writer, eqn: Any) -> None:
    ref, transforms, value = eqn.params["args_tree"].unflatten(eqn.invars)
    ops = Operands(w)
    items = [("ref", ops.ref(ref, transforms)), ("value", ops.add(value)), ("kind", symbol(eqn.params["atomic_type"]))]
    w.emit("gpu_atomic_store", ops.names, attr_list(items), ())


def counted(op: str, flag: str = "") -> Rule:
    """A wait for all but n groups: n is an operand, or a parameter in newer JAX."""

    @takes(f"n {flag}")
    def rule(w: Writer, eqn: Any) -> None:
        operands = [w.read(v) for v in eqn.invars] or [w.i32(int(eqn.params["n"]))]
        value = eqn.params.get(flag)
        w.emit(op, operands, attr_list([(flag, None if value is None else bool_text(value))]), eqn.outvars)

    return rule


@takes("action n")
def set_max_registers(w: Writer, eqn: Any) -> None:
    n = eqn.invars[0] if eqn.invars else eqn.params["n"]  # newer JAX has it as a parameter
    count = str(int(jaxver.literal_array(n))) if isinstance(n, jaxver.Literal) else str(n) if isinstance(n, int) else "none"
    w.emit("set_max_registers", [], attr_list([("n", count), ("action", symbol(eqn.params["action"]))]), ())


@takes("mgpu_fn flat_arg_types flat_ret_ty pytree_ref_transforms pytree_args", ignores="pytree_ret_ty")
def inline_mgpu(w: Writer, eqn: Any) -> None:
    from . import rules_inline  # few kernels have one, and what reads it is much

    rules_inline.inline_mgpu(w, eqn)


@takes("jaxpr ref_treedefs program_ids_treedef")
def jaxpr_call(w: Writer, eqn: Any) -> None:
    """A pipeline body: refs with transforms become views, program ids are bound. What a ref's tiles make of it the body says again."""
    p = eqn.params
    jaxpr, _ = jaxver.open_jaxpr(p["jaxpr"])
    flat, names, at = list(eqn.invars), [], 0
    for treedef in p["ref_treedefs"]:
        ref = treedef.unflatten(flat[at : at + treedef.num_leaves])
        at += treedef.num_leaves
        base, transforms = ref if isinstance(ref, tuple) else (ref, ())
        names.append(view_value(w, base, tuple(transforms)))
        if tiles := tuple(itertools.takewhile(lambda t: type(t).__name__ != "NDIndexer", transforms)):
            w.tiled_blocks[names[-1]] = base, tuple(transforms), tiles
    ids = p["program_ids_treedef"].unflatten(flat[at:])
    w.program_ids.append(tuple(None if i is None else w.read_index(i) for i in ids))
    out = w.inline(jaxpr, names, debug=False)
    w.program_ids.pop()
    for var, name in zip(eqn.outvars, out):
        w.env[var] = name


def rules() -> dict[Any, Rule]:
    t = "_transforms_tree"
    out: dict[str, Rule] = {
        "gpu.copy_smem_to_gmem_p": with_refs("copy_smem_to_gmem", "src dst", "src dst", "src_transforms_treedef", "dst_transforms_treedef"),
        "gpu.copy_gmem_to_smem_p": with_refs("copy_gmem_to_smem", "src dst barrier", "src dst barrier", "src_transforms_treedef",
                                             "dst_transforms_treedef", "barrier_transforms_treedef", axes=("collective_axes",)),
        "pallas.jaxpr_call_p": jaxpr_call, "blocks.block_body_p": jaxpr_call,
        "gpu.async_prefetch_p": with_refs("async_prefetch", "ref", "ref", "ref_transforms_treedef", axes=("collective_axes",)),
        "gpu.async_store_smem_p": with_refs("async_store_smem", "value ref barrier cluster_idx", "ref barrier", "ref_transforms_treedef",
                                            "barrier_transforms_treedef", axes=("cluster_dim",)),
        "gpu.async_store_tmem_p": with_refs("async_store_tmem", "ref value", "ref", "tree"),
        "gpu.wait_load_tmem_p": plain("wait_load_tmem"),
        "gpu.commit_tmem_p": plain("commit_tmem"), "gpu.commit_smem_p": plain("commit_smem"), "gpu.commit_group_p": plain("commit_group"),
        "gpu.wait_smem_to_gmem_p": counted("wait_smem_to_gmem", "wait_read_only"),
        "gpu.barrier_arrive_p": with_refs("barrier_arrive", "barrier", "barrier", "transforms_treedef", guarded=True),
        "gpu.barrier_wait_p": with_refs("barrier_wait", "barrier", "barrier", "transforms_treedef"),
        "gpu.barrier_test_p": with_refs("barrier_test", "barrier", "barrier", "transforms_treedef"),
        "gpu.wgmma_ref_p": with_refs("wgmma_ref", "acc a b", "acc a b", "acc" + t, "a" + t, "b" + t),
        "gpu.wgmma_p": with_refs("wgmma", "acc a b", "acc a b", "acc" + t, "a" + t, "b" + t),
        "gpu.wgmma_wait_p": counted("wgmma_wait"),
        "gpu.wgmma_accumulator_deref_p": simple("wgmma_accumulator_deref"),
        "gpu.wgmma_accumulator_store_p": plain("wgmma_accumulator_store"),
        "gpu.tcgen05_mma_p": with_refs(
            "tcgen05_mma", "acc a b accumulate barrier? a_scale? b_scale? a_sparse_metadata?",
            "acc a b barrier a_scale b_scale a_sparse_metadata", "acc" + t, "a" + t, "b" + t, "barrier" + t, "a_scale" + t, "b_scale" + t,
            "a_sparse_metadata" + t, axes=("collective_axis",)),
        "gpu.tcgen05_commit_arrive_p": with_refs("tcgen05_commit_arrive", "barrier", "barrier", "barrier" + t, axes=("collective_axis",), guarded=True),
        "gpu.load_p": load,
        "gpu.atomic_store_p": atomic_store,
        "gpu.semaphore_signal_p": sem_signal("gpu_sem_signal"), "gpu.semaphore_wait_p": sem_wait("gpu_sem_wait"),
        "gpu.semaphore_signal_parallel_p": signal_parallel, "gpu.semaphore_signal_multicast_p": signal_multicast,
        "gpu.multimem_store_p": with_refs("multimem_store", "value ref", "ref", "transforms_tree", axes=("collective_axes",)),
        "gpu.multimem_load_reduce_p": with_refs("multimem_load_reduce", "ref", "ref", "tree", axes=("collective_axes",)),
        "gpu.try_cluster_cancel_p": with_refs("try_cluster_cancel", "result barrier", "result barrier", "result" + t, "barrier" + t,
                                              axes=("collective_axes",)),  # before JAX 0.11: all ask together
        "gpu.query_cluster_cancel_p": with_refs("query_cluster_cancel", "result", "result", "transforms_tree", axes=("grid_names",)),
        "gpu.griddepcontrol_wait_p": plain("griddep_wait"), "gpu.griddepcontrol_launch_dependents_p": plain("griddep_launch_dependents"),
        "gpu.set_max_registers_p": set_max_registers,
        "gpu.print_layout_p": with_refs("print_layout", "value", "value", "transforms_tree"),
        "gpu.inline_mgpu_p": inline_mgpu,
        "gpu_core.layout_cast_p": simple("layout_cast"),
    }
    for n in ("copy_scales", "copy_smem", "copy_sparse_metadata"):
        full = f"async_{n}_to_tmem"
        out[f"gpu.{full}_p"] = with_refs(full, "smem tmem", "smem tmem", "smem_tree", "tmem_tree", axes=("collective_axis",))
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}
