"""Inline Mosaic GPU bodies that compute: element by element from arrays and from scalars, and single elements of refs."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.mosaic import gpu as mgpu
from jax.experimental.pallas import mosaic_gpu as plgpu
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, math, memref

import pallasim
from test_hopper_cluster import kernel, load, numbers

LAYOUT = plgpu.Layout.WGMMA


def elementwise(function: Callable[..., Any], out_dtype: Any, *arrays: np.ndarray) -> np.ndarray:
    """An inline body that is `function` of arrays in registers."""
    dims = arrays[0].shape

    def body(*refs: Any) -> None:
        *ins, o_ref = refs

        @plgpu.inline_mgpu(arg_types=(LAYOUT,) * len(ins), return_type=plgpu.ShapeDtypeStruct(dims, out_dtype, layout=LAYOUT))
        def compute(_: Any, *xs: Any) -> Any:
            return function(*xs)

        o_ref[...] = compute(*(load(r, LAYOUT) for r in ins))

    before = pallasim.launch_count()
    with pallasim.emulate("gpu-h100"):
        out = np.asarray(kernel(body, jax.ShapeDtypeStruct(dims, out_dtype))(*arrays))
    assert pallasim.launch_count() == before + 1
    return out


X, Y = numbers(64, 32), numbers(32, 64).T - 500
I, J = numbers(64, 32, dtype=np.int32) - 500, numbers(32, 64, dtype=np.int32).T


@pytest.mark.parametrize(("function", "want", "args"), [
    (lambda x, y: x * y + 3.0 - x, lambda x, y: x * y + 3 - x, (X, Y)),
    (lambda x, y: -(x / y).max(x), lambda x, y: -np.maximum(x / y, x), (X, Y)),
    (lambda x, y: (x < y).select(x, y + y), lambda x, y: np.where(x < y, x, y + y), (X, Y)),
    (lambda x, y: (x & y) | (x ^ 5), lambda x, y: (x & y) | (x ^ 5), (I, J)),
    (lambda x, y: (x * y).max(x - y), lambda x, y: np.maximum(x * y, x - y), (I, J)),
    (lambda x, y: (x >= y).select(y, x), lambda x, y: np.where(x >= y, y, x), (I, J)),
], ids=range(6))
def test_elementwise_bodies(function: Any, want: Any, args: Any) -> None:
    np.testing.assert_array_equal(elementwise(function, args[0].dtype, *args), want(*args))


def test_unsigned_numbers_keep_their_order() -> None:
    x, y = (a.astype(np.uint32) * 4_000_000 for a in (J, J[::-1]))
    np.testing.assert_array_equal(elementwise(lambda x, y: (x < y).select(x, y).max(y // 3), np.uint32, x, y), np.maximum(np.where(x < y, x, y), y // 3))


def test_conversions_and_functions() -> None:
    f32 = lambda: ir.F32Type.get()  # noqa: E731
    np.testing.assert_array_equal(elementwise(lambda x: x.astype(f32()) * 0.5, np.float32, J), (J * 0.5).astype(np.float32))
    np.testing.assert_allclose(elementwise(lambda x: (x * 0.001).exp(), np.float32, X), np.exp(X * np.float32(0.001)), rtol=1e-6)


def test_what_moves_elements_is_refused_by_name() -> None:
    """Equal registers at other positions are another array."""
    def rolled(x: Any) -> Any:
        moved = np.roll(x.registers, 1, axis=0) if x.registers.shape[0] > 1 else np.roll(x.registers.reshape(-1), 1).reshape(x.registers.shape)
        return mgpu.FragmentedArray(_registers=moved, _layout=x.layout, _is_signed=x.is_signed)

    for function in (rolled, lambda x: x + x.reduce("add", 1).broadcast_in_dim(X.shape, (0,), x.layout)):
        with pytest.raises(pallasim.KernelError, match="PS-UNSUP-001.*inline_mgpu") as e:
            elementwise(function, np.float32, X)
        assert "register_lowering" in str(e.value)


def test_parts_that_are_computed_in_different_ways_are_refused() -> None:
    def mixed(x: Any) -> Any:
        registers = x.registers.copy()
        registers.flat[0] = arith.addf(registers.flat[0], registers.flat[0])
        return mgpu.FragmentedArray(_registers=registers, _layout=x.layout, _is_signed=None)

    with pytest.raises(pallasim.KernelError, match="parts of a result in different ways"):
        elementwise(mixed, np.float32, X)


def test_scalars_and_single_elements() -> None:
    """Elements of a ref are read and written in the order of the body; what was read is used."""
    def body(x_ref: Any, o_ref: Any) -> None:
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(), plgpu.RefType(), plgpu.Layout.WG_SPLAT),
                           return_type=plgpu.ShapeDtypeStruct((), jnp.int32, layout=plgpu.Layout.WG_SPLAT))
        def step(_: Any, x: Any, o: Any, i: Any) -> Any:
            at = arith.index_cast(ir.IndexType.get(), i.registers.item())
            first = memref.load(x, [at])
            memref.store(arith.muli(first, first), o, [at])
            again = memref.load(o, [at])
            memref.store(arith.addi(again, mgpu.c(1, again.type)), o, [at])
            return mgpu.FragmentedArray.splat(arith.subi(again, first), (), is_signed=True)

        for i in range(4):
            o_ref[4 + i] = step(x_ref, o_ref, jnp.int32(i))

    x = np.asarray([3, -4, 5, 60_000], np.int32)
    with pallasim.emulate("gpu-h100"):
        out = np.asarray(kernel(body, jax.ShapeDtypeStruct((8,), np.int32))(x))
    np.testing.assert_array_equal(out, np.concatenate([x * x + 1, x * x - x]))


def test_functions_of_scalars() -> None:
    def body(x_ref: Any, o_ref: Any) -> None:
        @plgpu.inline_mgpu(arg_types=(plgpu.Layout.WG_SPLAT,), return_type=plgpu.ShapeDtypeStruct((8, 128), jnp.float32, layout=plgpu.Layout.WG_SPLAT((8, 128))))
        def fill(_: Any, value: Any) -> Any:
            v = value.registers.item()
            return mgpu.FragmentedArray.splat(math.sqrt(arith.mulf(v, arith.addf(v, mgpu.c(1.0, v.type)))), (8, 128))

        o_ref[...] = plgpu.layout_cast(fill(x_ref[...]), plgpu.Layout.WG_STRIDED((8, 128), vec_size=2))

    with pallasim.emulate("gpu-h100"):
        out = np.asarray(kernel(body, jax.ShapeDtypeStruct((8, 128), np.float32))(np.float32(8)))
    np.testing.assert_array_equal(out, np.full((8, 128), np.sqrt(np.float32(72))))


def test_elements_that_a_thread_chooses_are_refused() -> None:
    def body(o_ref: Any) -> None:
        @plgpu.inline_mgpu(arg_types=(plgpu.RefType(),))
        def store(_: Any, o: Any) -> None:
            at = mgpu.utils.thread_idx()
            memref.store(at, o, [arith.index_cast(ir.IndexType.get(), at)])
        store(o_ref)

    with pallasim.emulate("gpu-h100"), pytest.raises(pallasim.KernelError, match="PS-UNSUP-001.*inline_mgpu"):
        kernel(body, jax.ShapeDtypeStruct((128,), np.int32))()


