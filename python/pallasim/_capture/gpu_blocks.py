"""A `pallas_call` of blocks on Mosaic GPU, as its compiler makes it (JAX 0.10.2, mosaic_gpu/lowering.py:758-895): a block of threads for each
point of the parallel axes, with scratch of its own, and in it a pipeline over the other axes that copies the blocks."""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from . import jaxver
from .types import Unsupported
from .views import unpack


block_body_p = jaxver.core.Primitive("block_body")  # newer JAX has no jaxpr_call, whose parameters these are
block_body_p.multiple_results = True
block_body_p.def_abstract_eval(lambda *_, **__: ())


def _call(body: Any, refs: Sequence[Any], place: Sequence[Any]) -> None:
    """The kernel at a place of the grid."""
    parts = [jax.tree_util.tree_flatten(unpack(ref) if type(ref).__name__ == "TransformedRef" else ref) for ref in refs]
    ids, tree = jax.tree_util.tree_flatten(list(place))
    block_body_p.bind(*(x for flat, _ in parts for x in flat), *ids, jaxpr=body, ref_treedefs=tuple(t for _, t in parts), program_ids_treedef=tree)


def as_kernel(params: Mapping[str, Any], semantics: Sequence[str]) -> dict[str, Any]:
    """The launch as parameters of `mpmd_map`. `semantics`: of each axis of the grid, "" where the call says nothing of it. Raises Unsupported for
    what the compiler does not take."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    gm, body, compiler = params["grid_mapping"], params["jaxpr"], params["compiler_params"]
    if gm.num_dynamic_grid_bounds:
        raise Unsupported("dynamic grid bounds on Mosaic GPU")
    if gm.num_index_operands:
        raise Unsupported("scalar prefetch on Mosaic GPU")
    parallel = [s in ("", "parallel") for s in semantics]
    names = [f"axis {i} of the grid" if n is None else n for i, n in enumerate(jaxver.grid_names(gm))]
    axes = {n: size for n, size, p in zip(names, gm.grid, parallel, strict=True) if p}
    mesh = plgpu.Mesh(grid=tuple(axes.values()), grid_names=tuple(axes))
    avals = [plgpu.GMEM(bm.array_aval.shape, bm.array_aval.dtype).get_ref_aval() for bm in gm.block_mappings]
    with jaxver.named_axes(axes):
        jaxpr, consts = jaxver.trace(_launch(gm, body, compiler, parallel, tuple(axes)), avals, "kernel")
    if consts:
        raise Unsupported("a kernel of blocks on Mosaic GPU that closes over arrays")
    jaxpr = _named(jaxpr, body, len(avals))
    if compiler is not None:
        compiler = dataclasses.replace(compiler, dimension_semantics=None)  # the mesh says it
    return {"jaxprs": (jaxpr,), "meshes": (mesh,), "compiler_params": compiler, "name": params.get("name"), "external_meshes": (),
            "input_output_aliases": dict(params.get("input_output_aliases") or ()), "out_avals": params["out_avals"], "cost_estimate": None,
            "debug": False, "interpret": False, "metadata": None}


def user_axes(gm: Any, of_grid: Sequence[Any]) -> list[Any]:
    """What program_id and num_programs count: those that vmap added are none of the kernel's."""
    return [x for i, x in enumerate(of_grid) if i not in gm.vmapped_dims]


def _named(jaxpr: Any, body: Any, operands: int) -> Any:
    """With the kernel's own names of its arguments: `operands` refs, the others are scratch."""
    info = body.debug_info
    names = info.arg_names if len(info.arg_names or ()) == len(body.invars) else ("",) * len(body.invars)

    def scoped(eqn: Any) -> Any:
        if eqn.primitive.name != "run_scoped":
            return eqn
        inner, _ = jaxver.open_jaxpr(eqn.params["jaxpr"])
        return eqn.replace(params=eqn.params | {"jaxpr": inner.replace(debug_info=inner.debug_info._replace(arg_names=names[operands:], result_paths=()))})

    return jaxpr.replace(eqns=[scoped(e) for e in jaxpr.eqns], debug_info=info._replace(arg_names=names[:operands], result_paths=()))


def _launch(gm: Any, body: Any, compiler: Any, parallel: Sequence[bool], names: Sequence[str]) -> Any:
    """What a block of threads does, a function of the operands' refs."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    primitives = jaxver.module("pallas", load=True)
    scratch = [_scratch(v.aval) for v in body.invars[len(body.invars) - len(gm.scratch_avals) :]]
    steps = tuple(size for size, p in zip(gm.grid, parallel) if not p)

    def launch(*refs: Any) -> tuple[()]:
        own = [jax.lax.axis_index(n) for n in names]

        def point(at: Sequence[Any]) -> list[Any]:
            a, b = iter(own), iter(at)
            return [next(a) if p else next(b) for p in parallel]

        def in_scratch(*scratch_refs: Any) -> None:
            specs = [_spec(bm, point) for bm in gm.block_mappings]
            plgpu.emit_pipeline(lambda at, *blocks: _call(body, [*blocks, *scratch_refs], user_axes(gm, point(at))), grid=steps,
                                in_specs=specs[: gm.num_inputs], out_specs=specs[gm.num_inputs :],
                                max_concurrent_steps=getattr(compiler, "max_concurrent_steps", 1))(*refs)

        primitives.run_scoped(in_scratch, *scratch)
        return ()

    return launch


def _spec(bm: Any, point: Any) -> Any:
    from jax.experimental.pallas import mosaic_gpu as plgpu

    jaxpr, consts = jaxver.open_jaxpr(bm.index_map_jaxpr)
    return plgpu.BlockSpec(bm.block_shape, lambda *at: jax.core.eval_jaxpr(jaxpr, consts, *point(at)),
                           memory_space=bm.transformed_block_aval.memory_space, transforms=bm.transforms or ())


def _scratch(aval: Any) -> Any:
    """What run_scoped is asked for to get a ref of this type."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    kind = type(aval).__name__
    if kind == "WGMMAAbstractAccumulatorRef":
        return plgpu.ACC(aval.shape, aval.dtype)
    if kind == "AbstractTMEMRef":
        return plgpu.TMEM(aval.shape, aval.dtype, layout=aval.layout, collective=aval.collective)
    core = jaxver.module("pallas_core", load=True)
    space = plgpu.GMEM if aval.memory_space in (None, core.MemorySpace.DEFAULT) else aval.memory_space
    return core.MemoryRef(jax.core.ShapedArray(aval.shape, aval.dtype), space)
