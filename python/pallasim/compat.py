"""Older spellings of Pallas: texts and kernels of earlier JAX versions run as they are written.

    with pallasim.compat.old_spellings(), pallasim.emulate():
        y = old_program(x)                  # pl.load(...), pltpu.TPUCompilerParams(...), BlockSpec(index_map, shape), ...

Inside the block the older names exist in `jax.experimental.pallas` and its backends, and today's functions accept older
arguments as well; each use of an older spelling gives a DeprecationWarning that says what it is today. Outside, JAX is
untouched. A module that is imported inside may say `from jax.experimental.pallas import load`. The names are JAX's, so
the block changes them for all threads of the process.

docs/compat.md lists the spellings. What an operation does is not changed, and whether it runs is the emulator's matter.
"""
from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _compat_names, _compat_slices

_DROPPED = object()


def _older(old: str, today: str) -> None:
    # Three frames up: the caller of the function whose spelling is old.
    warnings.warn(f"{old} is an older spelling; today: {today}", DeprecationWarning, stacklevel=3)


# --- memory access ------------------------------------------------------------------------------------------------------
def load(ref: Any, idx: Any = None, *, mask: Any = None, other: Any = None, memory_space: Any = None, **hints: Any) -> Any:
    """`pl.load(ref, idx, mask=, other=)`: `ref[idx]`, elements where the mask is false read as `other`.

    `memory_space` says where the value should live; a value is the same anywhere.
    """
    from jax._src.pallas import primitives

    _older("pl.load(ref, idx)", "ref[idx], or pltriton.load(ref.at[idx], mask=..., other=...)")
    return primitives.load(ref, idx, mask=mask, other=other, **hints)


def store(ref: Any, idx: Any, val: Any, *, mask: Any = None, memory_space: Any = None, **hints: Any) -> None:
    """`pl.store(ref, idx, val, mask=)`: `ref[idx] = val` where the mask is true. A ref lies where it lies: `memory_space` says nothing."""
    from jax._src.pallas import primitives

    _older("pl.store(ref, idx, val)", "ref[idx] = val, or pltriton.store(ref.at[idx], val, mask=...)")
    primitives.store(ref, idx, val, mask=mask, **hints)


def swap(ref: Any, idx: Any, val: Any, *, mask: Any = None, **hints: Any) -> Any:
    """`pl.swap(ref, idx, val, mask=)`: writes `val` and returns what was there."""
    from jax._src.pallas import primitives

    _older("pl.swap(ref, idx, val)", "old = ref[idx]; ref[idx] = val")
    return primitives.swap(ref, idx, val, mask=mask, **hints)


def _triton(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        from jax.experimental.pallas import triton

        _older(f"pl.{name}", f"jax.experimental.pallas.triton.{name}")
        return getattr(triton, name)(*args, **kwargs)

    call.__name__ = name
    return call


def _atomic(name: str) -> Callable[..., Any]:
    def call(ref: Any, *args: Any, mask: Any = None) -> Any:
        from jax.experimental.pallas import triton

        _older(f"pl.atomic_{name}", f"jax.experimental.pallas.triton.atomic_{name}")
        if not 1 <= len(args) <= 2:
            raise TypeError(f"pl.atomic_{name}(ref, idx, val) or (ref, val), not {1 + len(args)} arguments")
        idx, val = args if len(args) == 2 else ((), args[0])
        return getattr(triton, f"atomic_{name}")(ref, idx, val, mask=mask)

    call.__name__ = f"atomic_{name}"
    return call


def atomic_cas(ref: Any, *args: Any) -> Any:
    """`pl.atomic_cas(ref, cmp, val)`, and `(ref, idx, cmp, val)`: the ref has one element."""
    from . import _compat_atomic

    _older("pl.atomic_cas", "jax.experimental.pallas.triton.atomic_cas of a ref of shape ()")
    return _compat_atomic.compare_and_swap(ref, *args)


_ATOMIC = ("add", "max", "min", "and", "or", "xor", "xchg")
_TRITON = ("max_contiguous", "dot", "approx_tanh", "debug_barrier", "elementwise_inline_asm")


def repeat(x: Any, repeats: int, axis: int) -> Any:
    """`pltpu.repeat`: `repeats` copies of the array, one after the other along `axis`."""
    import jax.numpy as jnp

    _older("pltpu.repeat", "jnp.concatenate([x] * n, axis)")
    return jnp.concatenate([x] * repeats, axis)


# --- block specs --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Unblocked:
    """`indexing_mode=pl.Unblocked(padding)`: index maps that return offsets of elements; today `pl.Element` dimensions."""

    padding: Any = None


class _Construct(type):
    """A class whose calls construct today's class from older arguments, and whose instances are those of today's."""

    original: type
    translate: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = cls.translate(*args, **kwargs)
        return cls.original(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)


def _construct(original: type, translate: Callable[..., Any]) -> type:
    return _Construct(original.__name__, (), {"original": original, "translate": staticmethod(translate), "__doc__": original.__doc__})


def _block_spec(*args: Any, indexing_mode: Any = None, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of today's BlockSpec: the shape first, then the index map; element offsets as `pl.Element`."""
    from jax.experimental import pallas as pl

    if args and callable(args[0]) and (len(args) == 1 or not callable(args[1])):
        warnings.warn("BlockSpec(index_map, block_shape) is an older spelling; today: BlockSpec(block_shape, index_map)", DeprecationWarning, stacklevel=3)
        args = (args[1] if len(args) > 1 else kwargs.pop("block_shape", None), args[0], *args[2:])
    if indexing_mode is not None and isinstance(indexing_mode, Unblocked):
        warnings.warn("indexing_mode=pl.Unblocked() is an older spelling; today: pl.Element(size) in block_shape", DeprecationWarning, stacklevel=3)
        shape = args[0] if args else kwargs.pop("block_shape")
        padding = indexing_mode.padding or [(0, 0)] * len(shape)
        args = (tuple(b if b is None else pl.Element(b, tuple(p)) for b, p in zip(shape, padding)), *args[1:])
    return args, kwargs


def _grid_spec(*args: Any, scratch_specs: Any = None, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if scratch_specs is not None:
        warnings.warn("GridSpec(scratch_specs=) is an older spelling; today: GridSpec(scratch_shapes=)", DeprecationWarning, stacklevel=3)
        kwargs["scratch_shapes"] = scratch_specs
    if _is_block_spec(kwargs.get("in_specs")):
        warnings.warn("a bare in_specs=BlockSpec(...) is an older spelling; today: in_specs=[BlockSpec(...)]", DeprecationWarning, stacklevel=3)
        kwargs["in_specs"] = [kwargs["in_specs"]]
    return args, kwargs


def _is_block_spec(spec: Any) -> bool:
    from jax.experimental import pallas as pl

    return isinstance(spec, _original("BlockSpec", pl))


def _barrier(num_threads: int | None = None, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if num_threads is not None:
        warnings.warn("plgpu.Barrier(num_threads=) is an older spelling; today: plgpu.Barrier(num_arrivals=)", DeprecationWarning, stacklevel=3)
        kwargs["num_arrivals"] = num_threads
    return (), kwargs


@dataclasses.dataclass(frozen=True)
class PipelineParams:
    """`pallas_call(pipeline_params=PipelineParams(num_stages=n))`: today `BlockSpec(..., pipeline_mode=pl.Buffered(n))`.

    JAX never had it; texts use it. `num_stages` is the number of buffers per block; `prefetch` how many blocks are fetched
    ahead, one less (True: one). The pipeline of a TPU's `pallas_call` has two buffers at most: more are two there. Raises
    ValueError where the two contradict each other.
    """

    num_stages: int | None = None
    prefetch: int | bool | None = None

    @property
    def buffers(self) -> int:
        ahead = None if self.prefetch is None else int(self.prefetch) + 1
        if ahead is not None and self.num_stages not in (None, ahead):
            raise ValueError(f"PipelineParams(num_stages={self.num_stages}, prefetch={self.prefetch}): "
                             f"{self.num_stages} stages fetch {self.num_stages - 1} blocks ahead")
        return ahead if ahead is not None else 2 if self.num_stages is None else self.num_stages


# --- launches -----------------------------------------------------------------------------------------------------------
def _backend_params(backend: str) -> Any:
    """The class of compiler parameters that chooses a backend today."""
    from jax.experimental.pallas import mosaic_gpu, tpu, triton

    classes = {"mosaic": tpu, "mosaic_tpu": tpu, "tpu": tpu, "triton": triton, "mosaic_gpu": mosaic_gpu}
    if backend not in classes:
        raise ValueError(f"backend='{backend}': there are {', '.join(classes)}")
    return classes[backend].CompilerParams


def _compiler_params(given: Any, options: dict[str, Any]) -> Any:
    """Today's compiler parameters from a backend's name, parameters of older epochs, and dictionaries of them."""
    backend = options.pop("backend", None)
    fields = {name: options.pop(name) for name in ("dimension_semantics", "num_warps", "num_stages") if name in options}
    if isinstance(given, Mapping):  # {"mosaic": {...}}, {"triton": {...}}
        if len(given) > 1:
            raise ValueError(f"compiler_params for several backends ({', '.join(given)}); keep one")
        for name, values in given.items():
            backend, fields = name, {**values, **fields}
        given = None
    if fields and given is None and backend is None:
        backend = "mosaic" if "dimension_semantics" in fields else "triton"
    if backend is not None:
        cls = _backend_params(backend)
        if given is not None and not isinstance(given, cls):
            raise ValueError(f"backend='{backend}' contradicts compiler_params of {type(given).__module__}")
        given = cls() if given is None else given
    return dataclasses.replace(given, **fields) if fields else given


def _buffered(specs: Any, count: int) -> Any:
    """The block specs with `count` buffers, where they do not say a number themselves."""
    import jax
    from jax.experimental import pallas as pl

    block_spec = _original("BlockSpec", pl)

    def one(spec: Any) -> Any:
        if isinstance(spec, block_spec) and spec.pipeline_mode is None and spec.block_shape is not None:
            return dataclasses.replace(spec, pipeline_mode=pl.Buffered(count))
        return spec

    return jax.tree.map(one, specs, is_leaf=lambda s: isinstance(s, block_spec))


_ARGUMENTS = {  # of pallas_call, and what they are today
    "dimension_semantics": "compiler_params=pltpu.CompilerParams(dimension_semantics=...)",
    "num_warps": "compiler_params=pltriton.CompilerParams(num_warps=...)",
    "num_stages": "compiler_params=pltriton.CompilerParams(num_stages=...)",
    "backend": "the class of compiler_params",
    "pipeline_params": "BlockSpec(..., pipeline_mode=pl.Buffered(n))",
    "scratch_specs": "scratch_shapes=",
}


def pallas_call(kernel: Callable[..., None], *args: Any, **options: Any) -> Any:
    """`pl.pallas_call` with the arguments of older epochs.

    `dimension_semantics=`, `num_warps=`, `num_stages=`, `backend=` and dictionaries as `compiler_params` become today's
    compiler parameters; `pipeline_params=` the buffers of the block specs; a bare block spec as `in_specs` is that of every
    operand. Arrays among the arguments are the call's operands: `jax.vmap(partial(pl.pallas_call, kernel,
    out_shape=...))(x)` calls the kernel at once. Raises TypeError for an argument that pallas_call never had.
    """
    from jax.experimental import pallas as pl

    original = _original("pallas_call", pl)
    _compat_names.refuse_arguments("pallas_call", options, [*inspect.signature(original).parameters, *_ARGUMENTS])
    if "out_shape" not in options:
        if not args:
            raise TypeError("pallas_call needs out_shape")
        options["out_shape"], *rest = args
        args = tuple(rest)
    for name, today in _ARGUMENTS.items():
        if name in options:
            _older(f"pallas_call({name}=)", today)
    if isinstance(options.get("compiler_params"), Mapping):
        _older("compiler_params={...}", "pltpu.CompilerParams(...), pltriton.CompilerParams(...) or plgpu.CompilerParams(...)")
    if _is_block_spec(options.get("in_specs")):
        _older("a bare in_specs=BlockSpec(...)", "in_specs=[BlockSpec(...)]")
    _translate(options)
    call = _call_with_specs(original, kernel, options)
    if not args:
        return call
    _older("pallas_call(kernel, ...) called with arrays", "pallas_call(kernel, ...)(arrays)")
    return call(*args)


def _translate(options: dict[str, Any]) -> None:
    """The options of pallas_call as they are today, but for a bare block spec."""
    if (scratch := options.pop("scratch_specs", None)) is not None:
        options["scratch_shapes"] = scratch
    pipeline = options.pop("pipeline_params", None)
    options["compiler_params"] = _compiler_params(options.get("compiler_params"), options)
    if pipeline is not None:
        buffers = pipeline.buffers
        if buffers > 2 and _is_for_tpu(options["compiler_params"]):
            warnings.warn(f"PipelineParams: {buffers} buffers per block are two here: the pipeline of a TPU's pallas_call has no more",
                          UserWarning, stacklevel=4)
            buffers = 2
        for name in ("in_specs", "out_specs"):
            if name in options:
                options[name] = _buffered(options[name], buffers)


def _is_for_tpu(compiler_params: Any) -> bool:
    from . import _context
    from ._capture.module import choose_machine

    active = _context.active()
    return choose_machine(compiler_params, [], "" if active is None else active.ir_machine) == "tpu"


def _call_with_specs(original: Callable[..., Any], kernel: Callable[..., None], options: dict[str, Any]) -> Callable[..., Any]:
    """The call; a bare block spec is that of every operand, whose number the call knows."""
    spec = options.get("in_specs")
    if not _is_block_spec(spec):
        return original(kernel, **options)

    def call(*operands: Any) -> Any:
        return original(kernel, **options | {"in_specs": [spec] * len(operands)})(*operands)

    return call


def triton_call(kernel: Callable[..., None] | None = None, *args: Any, **options: Any) -> Any:
    """`plgpu.triton_call(kernel, out_shape=, grid=, num_warps=, num_stages=)`, which JAX never had; texts use it, also as a
    decorator: `@triton_call(out_shape=..., grid=...)`."""
    _older("triton_call", "pl.pallas_call(..., compiler_params=pltriton.CompilerParams(...))")

    def called(kernel: Callable[..., None]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return pallas_call(kernel, *args, backend="triton", **options)

    return called if kernel is None else called(kernel)


def gpu_kernel(*args: Any, **options: Any) -> Any:
    """`plgpu.kernel(body, out_shape=, scratch_shapes=, grid=)` without names of the axes: they are "x", "y", "z", or "axis0", ..."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    for old, today in (("out_shape", "out_type"), ("scratch_shapes", "scratch_types")):
        if old in options:
            _older(f"plgpu.kernel({old}=)", f"{today}=")
            options[today] = options.pop(old)
    for sizes, names, three in (("grid", "grid_names", "xyz"), ("cluster", "cluster_names", "uvw")):
        if options.get(sizes) and names not in options:
            _older(f"plgpu.kernel({sizes}=) without {names}", f"{names}=(...)")
            count = len(options[sizes])
            options[names] = tuple(three[:count]) if count <= 3 else tuple(f"axis{i}" for i in range(count))
    return _original("kernel", plgpu)(*args, **options)


def kernel(*args: Any, **options: Any) -> Any:
    """`pl.kernel(body, out_shape=, scratch_shapes=)`; today `out_type=` and `scratch_types=`."""
    from jax.experimental import pallas as pl

    for old, today in (("out_shape", "out_type"), ("scratch_shapes", "scratch_types")):
        if old in options:
            _older(f"pl.kernel({old}=)", f"{today}=")
            options[today] = options.pop(old)
    return _original("kernel", pl)(*args, **options)


def copy_gmem_to_smem(*args: Any, partitioned_axis: int | None = None, **options: Any) -> None:
    """`plgpu.copy_gmem_to_smem(..., partitioned_axis=)`; today `leader_tracked=plgpu.CopyPartition.PARTITIONED(axis)`."""
    from jax.experimental.pallas import mosaic_gpu as plgpu

    if partitioned_axis is not None:
        _older("copy_gmem_to_smem(partitioned_axis=)", "leader_tracked=plgpu.CopyPartition.PARTITIONED(axis)")
        options["leader_tracked"] = plgpu.CopyPartition.PARTITIONED(partitioned_axis)
    _original("copy_gmem_to_smem", plgpu)(*args, **options)


# --- switching on and off -----------------------------------------------------------------------------------------------
_saved: list[tuple[Any, str, Any]] = []
_depth = 0


def _original(name: str, module: Any) -> Any:
    """What the module had before the block."""
    for owner, key, value in _saved:
        if owner is module and key == name:
            return value
    return getattr(module, name)


def _put(module: Any, name: str, value: Any) -> None:
    _saved.append((module, name, vars(module).get(name, _DROPPED)))
    setattr(module, name, value)


def _renamed(cls: type, old: str, today: str) -> type:
    def translate(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        warnings.warn(f"{old} is an older spelling; today: {today}", DeprecationWarning, stacklevel=3)
        return args, kwargs

    return _construct(cls, translate)


_MOVED_TO_PL = ("delay", "run_scoped", "semaphore_signal", "semaphore_wait", "semaphore_read", "DeviceIdType", "CostEstimate", "MemoryRef",
                "ds", "when", "HOST")


def _patch() -> None:
    import jax
    from jax._src.state import indexing
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import mosaic_gpu as plgpu
    from jax.experimental.pallas import tpu as pltpu
    from jax.experimental.pallas import triton as pltriton

    for name, value in (("load", load), ("store", store), ("swap", swap), ("atomic_cas", atomic_cas), *((f"atomic_{n}", _atomic(n)) for n in _ATOMIC),
                        *((n, _triton(n)) for n in _TRITON), ("pallas_call", pallas_call), ("kernel", kernel), ("GridSpec", _construct(pl.GridSpec, _grid_spec)),
                        ("BlockSpec", _construct(pl.BlockSpec, _block_spec)), ("Unblocked", Unblocked), ("unblocked", Unblocked())):
        _put(pl, name, value)

    # An enumeration of TPU spaces lacks `ANY` today.
    spaces = types.SimpleNamespace(ANY=pl.ANY, **{s.name: s for s in pltpu.MemorySpace})
    for name, value in (("TPUCompilerParams", _renamed(pltpu.CompilerParams, "pltpu.TPUCompilerParams", "pltpu.CompilerParams")),
                        ("TPUInterpretParams", _renamed(pltpu.InterpretParams, "pltpu.TPUInterpretParams", "pltpu.InterpretParams")),
                        ("TPUMemorySpace", spaces), ("KernelType", pltpu.CoreType), ("ANY", pl.ANY), ("repeat", repeat),
                        ("PrefetchScalarGridSpec", _construct(pltpu.PrefetchScalarGridSpec, _grid_spec)),
                        *((n, getattr(pl, n)) for n in _MOVED_TO_PL if hasattr(pl, n))):
        _put(pltpu, name, value)

    gpu_params = _renamed(plgpu.CompilerParams, "plgpu.GPUCompilerParams", "plgpu.CompilerParams")
    for name, value in (("GPUCompilerParams", gpu_params), ("GPUMesh", _renamed(plgpu.Mesh, "plgpu.GPUMesh", "plgpu.Mesh")), ("TileTransform", plgpu.TilingTransform),
                        ("tcgen05_commit", plgpu.tcgen05_commit_arrive), ("Barrier", _construct(plgpu.Barrier, _barrier)),
                        ("copy_gmem_to_smem", copy_gmem_to_smem), ("triton_call", triton_call), ("kernel", gpu_kernel), ("GPUMemorySpace", plgpu.MemorySpace),
                        ("GPUBlockSpec", plgpu.BlockSpec), ("wait_barrier", plgpu.barrier_wait)):
        _put(plgpu, name, value)

    triton_params = _renamed(pltriton.CompilerParams, "TritonCompilerParams", "pltriton.CompilerParams")
    for name, value in (("TritonCompilerParams", triton_params), ("GPUCompilerParams", triton_params), ("triton_call", triton_call)):
        _put(pltriton, name, value)

    pipelines = types.ModuleType("jax.experimental.pallas.pipelines")
    pipelines.PipelineParams = PipelineParams  # type: ignore[attr-defined]
    for name, module in (("gpu", pltriton), ("pipelines", pipelines)):
        _put(pl, name, module)
        sys.modules[f"jax.experimental.pallas.{name}"] = module
    for name in ("mutable_array", "array_ref"):
        _put(jax, name, jax.new_ref)
    _put(indexing.Slice, "from_slice", classmethod(_compat_slices.from_slice(indexing.Slice.from_slice.__func__, _traced_bounds)))
    for short, module in (("pl", pl), ("pltpu", pltpu), ("plgpu", plgpu), ("pltriton", pltriton)):
        _put(module, "__getattr__", _compat_names.refuse(short, vars(module).get("__getattr__")))


def _traced_bounds() -> None:
    import jax

    frame, level = sys._getframe(1), 2  # the first one that is neither ours nor JAX's
    own = tuple(m.__file__.rpartition("/")[0] + "/" for m in (jax, sys.modules[__name__]))  # type: ignore[union-attr]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    warnings.warn("ref[start:stop] with traced bounds is an older spelling; today: ref[pl.ds(start, size)]", DeprecationWarning, stacklevel=level)


def _unpatch() -> None:
    while _saved:
        module, name, value = _saved.pop()
        if value is _DROPPED:
            delattr(module, name)
        else:
            setattr(module, name, value)
    for name in ("gpu", "pipelines"):
        sys.modules.pop(f"jax.experimental.pallas.{name}", None)


def enable() -> None:
    """Older spellings from now on; `disable()` ends that. Calls nest."""
    global _depth
    _depth += 1
    if _depth == 1:
        _patch()


def disable() -> None:
    """Undoes one `enable()`."""
    global _depth
    if _depth == 0:
        raise RuntimeError("older spellings are not enabled")
    _depth -= 1
    if _depth == 0:
        _unpatch()


@contextlib.contextmanager
def old_spellings() -> Iterator[None]:
    """`with pallasim.compat.old_spellings(): ...`"""
    enable()
    try:
        yield
    finally:
        disable()
