"""emit_pipeline as a primitive: JAX expands it (as its TPU backend does), and the expansion is captured in place."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from . import jaxver
from .accounts import takes
from .types import Unsupported
from .views import view_value
from .writer import Rule, Writer


def _grid_values(sizes: Sequence[Any], values: Iterator[Any]) -> tuple[Any, ...]:
    """Grid extents or offsets with the dynamic ones filled in."""
    is_dynamic = jaxver.module("pallas_core").is_dynamic_dim
    return tuple(next(values) if is_dynamic(s) else s for s in sizes)


def _expand(w: Writer, eqn: Any) -> Any:
    """A jaxpr of the loop nest that the primitive stands for; its inputs are the equation's."""
    own = getattr(jaxver.module("tpu_pipeline"), "emit_pipeline_to_jaxpr", None)
    if own is None:
        return _expand_older(w, eqn)
    axes = [(n, s) for n, s in w.mesh_axes if n not in jaxver.core.get_axis_env().axis_sizes]
    closed = own([v.aval for v in eqn.invars], grid_names=tuple(n for n, _ in axes), grid_sizes=tuple(s for _, s in axes), **eqn.params)
    if closed.consts:
        raise Unsupported("emit_pipeline with captured arrays")
    return closed.jaxpr


def _expand_older(w: Writer, eqn: Any) -> Any:
    """The same up to JAX 0.11, whose expansion is part of its lowering."""
    from jax._src import api_util, linear_util
    from jax._src.interpreters import partial_eval

    core, pallas_core, pipeline = jaxver.core, jaxver.module("pallas_core"), jaxver.module("tpu_pipeline")
    p = dict(eqn.params)
    mapping, body, tree = p.pop("grid_mapping"), p.pop("body_jaxpr"), p.pop("args_tree")
    num_body_consts, num_extra = p.pop("body_consts_len"), p.pop("_num_extra_dynamic")
    offsets = p.pop("_static_grid_offsets")
    registry, is_view = pipeline.tracing_registry, pipeline.is_transformed_ref

    def expanded(*flat: Any) -> tuple[()]:
        values = iter(flat)
        specs = []
        for block in mapping.block_mappings:
            jaxpr, consts = jaxver.open_jaxpr(block.index_map_jaxpr)
            own = [next(values) for _ in consts]
            specs.append(block.replace(index_map_jaxpr=core.ClosedJaxpr(jaxpr, own)).to_block_spec())
        dynamic = iter([next(values) for _ in range(mapping.num_dynamic_grid_bounds + num_extra)])
        grid = _grid_values(mapping.grid, dynamic)
        starts = _grid_values(offsets, dynamic)
        captured = [next(values) for _ in range(num_body_consts)]
        refs, _ = registry.flatten(tree.unflatten(list(values)), is_view)

        def step(indices: Any, *windows: Any) -> Any:
            ids = tuple(i for axis, i in enumerate(indices) if axis not in mapping.vmapped_dims)
            operands, in_tree = registry.flatten((ids, captured, windows))
            return pipeline.pipeline_body_p.bind(*operands, jaxpr=body, in_tree=in_tree, num_inputs=mapping.num_inputs)

        n = mapping.num_inputs
        pipeline._emit_pipeline(step, grid=grid, in_specs=specs[:n], out_specs=specs[n:], _grid_offsets=starts, _explicit_indices=True, **p)(*refs)
        return ()

    avals = [v.aval for v in eqn.invars]
    info = api_util.debug_info("emit_pipeline", expanded, avals, {})
    own_grid = tuple(d for i, d in enumerate(mapping.grid) if i not in mapping.vmapped_dims)
    with contextlib.ExitStack() as stack:
        stack.enter_context(core.extend_axis_env_nd([(n, s) for n, s in w.mesh_axes if n not in core.get_axis_env().axis_sizes]))
        stack.enter_context(pallas_core.tracing_grid_env(own_grid, ()))
        jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(linear_util.wrap_init(expanded, debug_info=info), avals)
    if consts:
        raise Unsupported("emit_pipeline with captured arrays")
    return jaxpr


@takes(rest=True)  # JAX's own expansion gets every parameter
def emit_pipeline(w: Writer, eqn: Any) -> None:
    names = [w.read(v) for v in eqn.invars]
    jaxpr = _expand(w, eqn)
    w.bind(jaxpr.constvars, [])
    w.inline(jaxpr, names, debug=False)


@takes("jaxpr in_tree _explicit_indices", ignores="num_inputs")
def pipeline_body(w: Writer, eqn: Any) -> None:
    """One step: windows become views, program ids are the step's indices. A body may take the step itself as well (newer JAX)."""
    p = eqn.params
    step, consts, refs = p["in_tree"].unflatten(eqn.invars)
    ids = step if type(step) is tuple else step.index  # newer JAX: of an object
    jaxpr, _ = jaxver.open_jaxpr(p["jaxpr"])
    names = [w.read_index(x) for x in jax.tree.leaves(step)] if p.get("_explicit_indices") else []
    for ref in refs:
        base, transforms = (ref.ref, tuple(ref.transforms)) if type(ref).__name__ == "TransformedRef" else (ref, ())
        names.append(view_value(w, base, transforms))
    w.bind(jaxpr.constvars, [w.read(c) for c in consts])
    w.bind(jaxpr.invars, names)
    w.program_ids.append(tuple(w.read_index(i) for i in ids))
    w.run(jaxpr)
    w.program_ids.pop()


def rules() -> dict[Any, Rule]:
    out: dict[str, Rule] = {"tpu_pipeline.emit_pipeline_p": emit_pipeline, "tpu_pipeline.pipeline_body_p": pipeline_body}
    return {prim: rule for path, rule in out.items() if (prim := jaxver.find(path)) is not None}
