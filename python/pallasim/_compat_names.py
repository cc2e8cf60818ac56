"""Names that Pallas does not have, today or earlier: what is written instead."""
from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from typing import Any

# Names that texts invent. What is not here is looked for in the other modules of Pallas, in jax.numpy, and among similar names.
INSTEAD = {
    "block_id": "pl.program_id(axis)",
    "block_idx": "pl.program_id(axis)",
    "blockIdx": "pl.program_id(axis)",
    "thread_id": "pl.program_id(axis): a program has no threads of its own",
    "threadIdx": "pl.program_id(axis): a program has no threads of its own",
    "num_blocks": "pl.num_programs(axis)",
    "grid_size": "pl.num_programs(axis)",
    "grid_dim": "pl.num_programs(axis)",
    "syncthreads": "nothing: a program runs by itself; programs of a TPU's grid follow each other, GPU threads meet at "
        "plgpu.barrier_arrive and barrier_wait",
    "sync_threads": "nothing: a program runs by itself; GPU threads meet at plgpu.barrier_arrive and barrier_wait",
    "shared_memory": "scratch_shapes=[pltpu.VMEM(shape, dtype)], or plgpu.SMEM(shape, dtype)",
    "alloc": "scratch_shapes=[pltpu.VMEM(shape, dtype)], or pl.run_scoped",
    "scratch": "scratch_shapes=[pltpu.VMEM(shape, dtype)]",
    "for_loop": "jax.lax.fori_loop(start, stop, body, init), or pl.loop",
    "fori_loop": "jax.lax.fori_loop(start, stop, body, init)",
    "range": "jax.lax.fori_loop(start, stop, body, init), or pl.loop",
    "cond": "jax.lax.cond, or @pl.when(condition)",
    "if_": "@pl.when(condition)",
    "constexpr": "a Python value: static arguments are closed over",
    "matmul": "jnp.dot(a, b, preferred_element_type=jnp.float32)",
    "async_load": "pltpu.make_async_copy(src, dst, sem).start(), or plgpu.copy_gmem_to_smem",
    "dma_start": "pltpu.make_async_copy(src, dst, sem).start()",
    "dma_wait": "pltpu.make_async_copy(src, dst, sem).wait()",
    "prefetch": "pltpu.make_async_copy(src, dst, sem).start(), or PrefetchScalarGridSpec",
    "prefetch_scalar_grid_spec": "pltpu.PrefetchScalarGridSpec",
    "device_id": "jax.lax.axis_index(name)",
    "GMEM": "plgpu.GMEM, or pl.ANY",
    "DRAM": "pltpu.HBM, or pl.ANY",
    "TransposeTransform": "plgpu.transpose_ref(ref, permutation)",
    "Scratch": "pltpu.VMEM(shape, dtype)",
    "jit": "jax.jit around the function that calls pl.pallas_call",
}
# Keyword arguments that pallas_call never had.
ARGUMENTS = {
    "block_shape": "in_specs=[pl.BlockSpec(block_shape, index_map)]",
    "block_specs": "in_specs= and out_specs=",
    "block_size": "in_specs=[pl.BlockSpec(block_shape, index_map)]",
    "inputs": "the arrays go to the function that pallas_call returns",
    "outputs": "out_shape=",
    "out_shapes": "out_shape=",
    "output_shape": "out_shape=",
    "out_dtype": "out_shape=jax.ShapeDtypeStruct(shape, dtype)",
    "scratch": "scratch_shapes=",
    "num_programs": "grid=",
    "grid_size": "grid=",
    "input_specs": "in_specs=",
    "output_specs": "out_specs=",
    "aliases": "input_output_aliases=",
    "num_scalar_prefetch": "grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=...)",
    "static_argnums": "functools.partial(kernel, value)",
}
_MODULES = {"pl": "jax.experimental.pallas", "pltpu": "jax.experimental.pallas.tpu", "plgpu": "jax.experimental.pallas.mosaic_gpu",
            "pltriton": "jax.experimental.pallas.triton"}


def _public(module: Any) -> list[str]:
    return [n for n in vars(module) if not n.startswith("_")]


def instead(short: str, name: str) -> str:
    """What stands for `short.name`, in words; empty where nothing does."""
    if name in INSTEAD:
        return INSTEAD[name]
    modules = {s: importlib.import_module(path) for s, path in _MODULES.items()}
    for other, module in modules.items():
        if other != short and name in vars(module):
            return f"{other}.{name}"
    import jax.numpy as jnp

    if hasattr(jnp, name):
        return f"jnp.{name}"
    for candidates, prefix in ((_public(modules[short]), short), *((_public(m), s) for s, m in modules.items() if s != short)):
        if close := difflib.get_close_matches(name, candidates, 1, 0.75):
            return f"{prefix}.{close[0]}"
    return ""


def refuse(short: str, before: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """A module's `__getattr__`: JAX's own first, then an AttributeError that says what to write."""

    def missing(name: str) -> Any:
        try:
            if before is not None:
                return before(name)
        except AttributeError:
            pass
        text = f"{_MODULES[short]} has no '{name}', today or in an older version"
        if not name.startswith("__") and (write := instead(short, name)):
            text += f"; write {write}"
        raise AttributeError(text, name=name)

    return missing


def refuse_arguments(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for keyword arguments that a function does not have, and never had."""
    known = list(known)
    for name in given:
        if name in known:
            continue
        write = ARGUMENTS.get(name) or next((f"{c}=" for c in difflib.get_close_matches(name, known, 1, 0.6)), "")
        raise TypeError(f"{function} has no argument '{name}', today or in an older version" + (f"; write {write}" if write else ""))
