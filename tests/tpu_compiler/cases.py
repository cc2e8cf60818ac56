"""Kernels that the TPU's compiler is asked about: `FAMILIES` maps a name to cases, each a name and what makes the function and its operands.

Operations on every dtype, conversions and products of every pair, forms of blocks and slices, and the kernels of other tests.
"""
from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "python"), str(TESTS / "mutants"), str(TESTS / "judge")]

import array_cases  # noqa: E402
import op_cases  # noqa: E402

Made = tuple[Callable[..., Any], list[Any]]
Case = tuple[str, Callable[[], Made]]

TILES = (64, 128)  # whole tiles of every dtype
VECTOR = tuple(d for d in op_cases.DTYPES if op_cases.dtype_of(d).itemsize * 8 <= 32 and not d.startswith("complex"))
SCALAR = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "bfloat16", "float16", "float32")
SOME = ("bool", "int4", "int8", "int16", "int32", "uint8", "uint32", "float8_e5m2", "float8_e4m3fn", "bfloat16", "float32")
SHAPES = ((8, 128), (64, 256), (5, 7), (2, 16, 128), (2, 3, 1, 4))


def shape(dims: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(dims, op_cases.dtype_of(dtype) if isinstance(dtype, str) else dtype)


def values(f: Callable[..., Any], *operands: Any, scalars: bool = False) -> Made:
    """A kernel that stores f of its operands; as scalars, in SMEM."""
    out = jax.eval_shape(f, *[jax.ShapeDtypeStruct((), x.dtype) for x in operands] if scalars else operands)
    several = isinstance(out, tuple | list)
    out = list(out) if several else [out]
    n = len(operands)

    def kernel(*refs: Any) -> None:
        if scalars:
            refs[n][0] = f(*[r[0] for r in refs[:n]])
            return
        got = f(*[r[...] for r in refs[:n]])
        for ref, v in zip(refs[n:], got if several else [got]):
            ref[...] = v

    kw: dict[str, Any] = {}
    if scalars:
        kw = {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)] * n, "out_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)]}
        out = [jax.ShapeDtypeStruct((1,), out[0].dtype)]
    return pl.pallas_call(kernel, out_shape=out, **kw), list(operands)


def elementwise() -> Iterator[Case]:
    for dtype in VECTOR:
        for op, case in op_cases.ELEMENTWISE.items():
            yield f"{op} {dtype}", lambda case=case, dtype=dtype: values(case.call, *[shape(TILES, dtype)] * case.operands)


def scalar() -> Iterator[Case]:
    for dtype in SCALAR:
        for op, case in op_cases.ELEMENTWISE.items():
            yield f"{op} {dtype}", lambda case=case, dtype=dtype: values(case.call, *[shape((1,), dtype)] * case.operands, scalars=True)


def convert() -> Iterator[Case]:
    for a in VECTOR:
        for b in VECTOR:
            yield f"{a} to {b}", lambda a=a, b=b: values(lambda x: x.astype(op_cases.dtype_of(b)), shape(TILES, a))


def arrays() -> Iterator[Case]:
    for op, (call, fits) in array_cases.MOVES.items():
        for dtype in SOME:
            for dims in SHAPES:
                if fits(dims):
                    yield f"{op} {dtype}{list(dims)}", lambda call=call, dtype=dtype, dims=dims: values(call, shape(dims, dtype))
    for op, fold in array_cases.FOLDS.items():
        for dtype in SOME:
            if dtype in fold.dtypes:
                for dims in SHAPES:
                    yield f"{op} {dtype}{list(dims)}", lambda fold=fold, dtype=dtype, dims=dims: values(fold.call, shape(dims, dtype))
    for a in array_cases.ARRAYS:
        yield a.id, lambda a=a: values(a.call, *[jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in a.operands])


def dot() -> Iterator[Case]:
    for a in SOME:
        for b in SOME:
            for r in ("float32", "int32", "bfloat16"):
                yield f"{a} by {b} into {r}", lambda a=a, b=b, r=r: values(
                    lambda x, y: lax.dot(x, y, preferred_element_type=op_cases.dtype_of(r)), shape((128, 128), a), shape((128, 128), b))
    for n in range(4):
        for dtype in ("float32", "bfloat16"):
            sides = ((n & 1,), (n >> 1,))
            yield f"sides {sides} {dtype}", lambda sides=sides, dtype=dtype: values(
                lambda x, y: lax.dot_general(x, y, (sides, ((), ())), preferred_element_type=jnp.float32), shape((128, 128), dtype), shape((128, 128), dtype))
    for m, k, n in ((8, 128, 128), (1, 128, 128), (8, 64, 128), (8, 128, 64), (5, 7, 9), (256, 512, 384)):
        for dtype in ("float32", "bfloat16", "int8"):
            yield f"{m}x{k}x{n} {dtype}", lambda m=m, k=k, n=n, dtype=dtype: values(
                lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32 if dtype == "int8" else jnp.float32), shape((m, k), dtype), shape((k, n), dtype))


def _blocked(array: tuple[int, ...], block: tuple[int, ...], dtype: str) -> Made:
    def copy(x: Any, o: Any) -> None:
        o[...] = x[...]

    spec = pl.BlockSpec(block, lambda *g: g)
    grid = tuple(pl.cdiv(n, b) for n, b in zip(array, block))
    return pl.pallas_call(copy, out_shape=shape(array, dtype), grid=grid, in_specs=[spec], out_specs=spec), [shape(array, dtype)]


def blocks() -> Iterator[Case]:
    sizes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((64, 256), (8, 128)), ((64, 256), (4, 128)), ((64, 256), (16, 128)), ((64, 256), (32, 128)), ((64, 256), (8, 64)), ((64, 256), (64, 64)), ((64, 256), (64, 256)),
        ((64, 256), (1, 256)), ((60, 200), (8, 128)), ((60, 200), (60, 200)), ((60, 200), (12, 200)), ((4, 64, 256), (1, 8, 128)), ((4, 64, 256), (1, 32, 256)),
        ((512,), (128,)), ((512,), (512,)), ((512,), (256,)), ((1024,), (1024,)), ((1000,), (128,)), ((2048,), (1024,)), ((5,), (5,)), ((8, 8), (8, 8)))
    for dtype in ("float32", "bfloat16", "int8", "int16", "bool", "float8_e5m2", "int4"):
        for array, block in sizes:
            yield f"{dtype}{list(array)} by {list(block)}", lambda a=array, b=block, dtype=dtype: _blocked(a, b, dtype)


def _sliced(index: Any, dtype: str, dims: tuple[int, ...], store: bool) -> Made:
    part = jax.eval_shape(lambda x: x[index(jnp.int32(0))], shape(dims, dtype))

    def kernel(i: Any, x: Any, o: Any) -> None:
        if store:
            o[...] = jnp.zeros_like(o)
            o[index(i[0])] = x[...]
        else:
            o[...] = x[index(i[0])]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
    out, given = (shape(dims, dtype), part) if store else (part, shape(dims, dtype))
    return pl.pallas_call(kernel, out_shape=out, in_specs=specs), [shape((1,), "int32"), given]


_INDICES: dict[str, Callable[[Any], Any]] = {
    "a row": lambda i: (3,), "a row of run time": lambda i: (i,), "eight rows": lambda i: pl.ds(8, 8), "rows 3 to 11": lambda i: pl.ds(3, 8),
    "eight rows of run time": lambda i: pl.ds(i, 8), "rows by a multiple": lambda i: pl.ds(pl.multiple_of(i, 8), 8), "every second row": lambda i: pl.ds(0, 16, 2),
    "128 columns": lambda i: (slice(None), pl.ds(128, 128)), "columns 3 to 131": lambda i: (slice(None), pl.ds(3, 128)), "64 columns": lambda i: (slice(None), pl.ds(64, 64)),
    "columns of run time": lambda i: (slice(None), pl.ds(i, 128)), "columns by a multiple": lambda i: (slice(None), pl.ds(pl.multiple_of(i, 128), 128)),
    "a column": lambda i: (slice(None), 5), "a column of run time": lambda i: (slice(None), i), "an element": lambda i: (3, 5), "an element of run time": lambda i: (i, i),
    "every second column": lambda i: (slice(None), pl.ds(0, 64, 2)), "five rows": lambda i: pl.ds(0, 5), "rows and columns": lambda i: (pl.ds(8, 16), pl.ds(128, 128))}


def slices() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16", "int8", "int16", "bool", "float8_e5m2"):
        for name, index in _INDICES.items():
            for store in (False, True):
                yield f"{'store' if store else 'load'} {name} {dtype}", lambda index=index, dtype=dtype, store=store: _sliced(index, dtype, (64, 256), store)


def _copied(index: Any, dtype: str, dims: tuple[int, ...]) -> Made:
    part = jax.eval_shape(lambda x: x[index(jnp.int32(0))], shape(dims, dtype))

    def kernel(i: Any, x: Any, o: Any, vmem: Any, sem: Any) -> None:
        pltpu.async_copy(x.at[index(i[0])], vmem, sem).wait()
        o[...] = vmem[...]

    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.HBM)]
    return pl.pallas_call(kernel, out_shape=part, in_specs=specs, scratch_shapes=[pltpu.VMEM(part.shape, part.dtype), pltpu.SemaphoreType.DMA]), [shape((1,), "int32"), shape(dims, dtype)]


def copies() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16", "int8"):
        for name, index in _INDICES.items():
            if "second" not in name and "element" not in name:
                yield f"{name} {dtype}", lambda index=index, dtype=dtype: _copied(index, dtype, (64, 256))


def kernels() -> Iterator[Case]:
    for path in sorted((TESTS / "mutants" / "kernels").glob("*.py")):
        if path.stem != "__init__" and 'MACHINE = "tpu' in path.read_text(encoding="utf-8"):
            module = importlib.import_module(f"kernels.{path.stem}")
            yield path.stem, lambda module=module: (module.run, list(module.inputs(np.random.default_rng(0))))


def generated(count: int = 300) -> Iterator[Case]:
    """Random kernels of the judge, which have nothing of a TPU in mind."""
    import jax_kernels
    import kernel_build

    def make(seed: int) -> Made:
        kernel = kernel_build.kernel_of(seed)
        call = jax_kernels.load(kernel.text(), seed)
        return jax.vmap(call) if kernel.vmap else call, [jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype) for x in jax_kernels.arrays(kernel)]

    for seed in range(count):
        yield f"seed {seed}", lambda seed=seed: make(seed)


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "kernels": kernels, "blocks": blocks, "slices": slices, "copies": copies, "dot": dot, "elementwise": elementwise, "scalar": scalar, "arrays": arrays,
    "convert": convert, "generated": generated}
