"""Inline bodies and primitives without an operation of ours: by a registered function, by what they emit, or refused by name."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.extend.core import Primitive

import pallasim
from pallasim import _lowerings
from pallasim._capture import inline
from pallasim._capture.inline_values import Constant  # noqa: E402

mgpu = pytest.importorskip("jax.experimental.mosaic.gpu")
from jaxlib.mlir import ir  # noqa: E402
from jaxlib.mlir.dialects import llvm, nvvm  # noqa: E402

X = np.arange(128, dtype=np.float32).reshape(8, 16)


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Each test begins and ends with no registered function."""
    kept = dict(_lowerings._registered)
    _lowerings._registered.clear()
    yield
    _lowerings._registered.clear()
    _lowerings._registered.update(kept)


twice_plus = Primitive("twice_plus")
twice_plus.def_abstract_eval(lambda x, *, n: x)


def call_primitive(n: int) -> jax.Array:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = twice_plus.bind(x_ref[...], n=n)

    with pallasim.emulate("generic"):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype))(X)


def test_a_primitive_of_the_user_runs_by_its_function() -> None:
    with pytest.raises(pallasim.UnsupportedError, match="twice_plus"):
        call_primitive(3)

    @pallasim.register_lowering("twice_plus")
    def function(x: jax.Array, *, n: int) -> jax.Array:
        return 2 * x + n

    before = pallasim.launch_count()
    np.testing.assert_array_equal(call_primitive(3), 2 * X + 3)
    np.testing.assert_array_equal(call_primitive(5), 2 * X + 5)
    assert pallasim.launch_count() == before + 2


def test_a_function_that_does_not_fit_is_refused() -> None:
    pallasim.register_lowering("twice_plus", lambda x, *, n: x[0])
    with pytest.raises(pallasim.UnsupportedError, match=r"twice_plus returns float32\[16\]; the kernel takes float32\[8,16\]"):
        call_primitive(1)
    pallasim.register_lowering("twice_plus", lambda x: x)
    with pytest.raises(pallasim.UnsupportedError, match="registered for twice_plus: TypeError"):
        call_primitive(1)


def test_names_and_functions_are_checked() -> None:
    with pytest.raises(TypeError, match="is a string"):
        pallasim.register_lowering(twice_plus, lambda x: x)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="cannot be called"):
        pallasim.register_lowering("twice_plus", 3)  # type: ignore[type-var]
    with pytest.raises(KeyError):
        pallasim.unregister_lowering("twice_plus")


def call_inline() -> jax.Array:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @plgpu.inline_mgpu(arg_types=(plgpu.Layout.WGMMA, plgpu.RefType()),
                           return_type=plgpu.ShapeDtypeStruct((64, 16), jnp.float32, layout=plgpu.Layout.WGMMA))
        def body(ctx: Any, x: Any, ref: Any) -> Any:
            ctx.await_async_copy(0)
            return x + ref[0]

        o_ref[...] = body(x_ref[...], x_ref)

    x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    with pallasim.emulate("gpu-h100"):
        return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 16), jnp.float32))(x)


def test_an_inline_body_runs_by_its_function() -> None:
    with pytest.raises(pallasim.UnsupportedError, match="body"):
        call_inline()
    pallasim.register_lowering("inline_mgpu.call_inline.<locals>.kernel.<locals>.body", lambda x, ref: x + ref[...] + 1)
    np.testing.assert_array_equal(call_inline(), 2 * np.arange(64 * 16, dtype=np.float32).reshape(64, 16) + 1)


def meaning(body: Any, *args: Any, **types: Any) -> inline.Meaning:
    """What a body means; its arguments are arrays."""
    jaxpr = jax.make_jaxpr(plgpu.inline_mgpu(**types)(body))(*args)
    eqn, = (e for e in jaxpr.jaxpr.eqns if e.primitive.name.startswith("inline"))
    return inline.meaning(eqn.params, [v.aval for v in eqn.invars])


def asm(text: str, *operands: Any, results: str = "!llvm.void") -> None:
    llvm.inline_asm(ir.Type.parse(results), list(operands), text, ",".join(["r"] * len(operands)), has_side_effects=True)


@pytest.mark.parametrize("text, acts", [
    ("bar.sync 3, 256;", [inline.Act("named_barrier_sync", 3, 256)]),
    ("barrier.cta.sync.aligned 0;", [inline.Act("named_barrier_sync", 0)]),
    ("bar.arrive 4, 384; // comes\nbar.sync 5, 384;", [inline.Act("named_barrier_arrive", 4, 384), inline.Act("named_barrier_sync", 5, 384)]),
    ("bar.sync 1, 128;", [inline.Act("fence")]),
    ("fence.proxy.async.shared::cta;", [inline.Act("fence_async")]),
    ("fence.acq_rel.cluster; membar.gl;", [inline.Act("fence"), inline.Act("fence")]),
])
def test_assembly_of_barriers_and_fences_is_read(text: str, acts: list[inline.Act]) -> None:
    assert meaning(lambda ctx: asm(text)) == inline.Meaning(tuple(acts), ())


def test_operations_of_barriers_and_fences_are_read() -> None:
    i32 = ir.IntegerType.get_signless

    def body(ctx: Any) -> None:
        nvvm.barrier(barrier_id=mgpu.c(2, i32(32)), number_of_threads=mgpu.c(256, i32(32)))
        mgpu.commit_shared()

    assert meaning(body).acts == (inline.Act("named_barrier_sync", 2, 256), inline.Act("fence_async"), inline.Act("fence"))


def test_a_barrier_may_be_an_argument() -> None:
    found = meaning(lambda ctx, b: asm("bar.sync $0, 256;", b.registers.item()), jnp.int32(3), arg_types=(plgpu.Layout.WG_SPLAT,))
    assert found.acts == (inline.Act("named_barrier_sync", inline.Argument(0), 256),)


def test_a_constant_result_is_read() -> None:
    kind = plgpu.ShapeDtypeStruct((128,), jnp.float32, layout=plgpu.Layout.WG_SPLAT((128,)))
    found = meaning(lambda ctx: mgpu.FragmentedArray.splat(mgpu.c(2.5, ir.F32Type.get()), (128,)), return_type=kind)
    assert found == inline.Meaning((), (Constant(np.float32(2.5)),))


@pytest.mark.parametrize("body, why", [
    (lambda ctx: asm("mov.u32 r, 3;"), "inline assembly: mov.u32 r, 3"),
    (lambda ctx: asm("bar.sync 1, 100;"), "not whole warps"),
    (lambda ctx: ctx.await_async_copy(0), "launch context"),
    (lambda ctx: 1 / 0, "ZeroDivisionError"),
    (lambda ctx: nvvm.cp_async_bulk_commit_group(), "nvvm.cp.async.bulk.commit.group"),
])
def test_a_body_that_does_more_is_not_read(body: Any, why: str) -> None:
    with pytest.raises(inline.Unreadable, match=why):
        meaning(body)
