"""The text of captured kernels: canonical, deterministic, complete."""
from __future__ import annotations

import re
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

F32 = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)


def text(kernel, *shapes, out=(8, 128), machine="generic", **kw):
    f = pl.pallas_call(kernel, out_shape=F32(out), **kw)
    [t] = pallasim.capture_text(f, *[jnp.zeros(s, jnp.float32) for s in shapes], machine=machine)
    pallasim.check(t)
    assert pallasim.fmt(t) == t
    return t


def body(t):
    """The operations, without locations."""
    lines = t.split("\nbody", 1)[1].split("\nloc", 1)[0].splitlines()[1:-1]
    return [line.strip().rpartition(" @")[0] or line.strip() if " @" in line else line.strip() for line in lines]


def test_quickstart_is_the_golden_text():
    def add_vectors_kernel(x_ref, y_ref, o_ref):
        x, y = x_ref[...], y_ref[...]
        o_ref[...] = x + y

    t = text(add_vectors_kernel, (8,), (8,), out=(8,))
    assert t.split("loc 0")[0].splitlines()[:5] == [
        "pallasim-ir 1", 'module "add_vectors_kernel" {machine = generic}', 'input "x_ref" : f32[8] {space = any}',
        'input "y_ref" : f32[8] {space = any}', 'output "o_ref" : f32[8] {space = any}']
    assert body(t) == ["%3 = get %0 : f32[8]", "%4 = get %1 : f32[8]", "%5 = add %3, %4 : f32[8]", "store %2, %5", "yield"]
    assert 'text = "o_ref[...] = x + y"' in t and t.count("loc ") == len({x for x in t.splitlines() if x.startswith("loc ")})


def test_same_kernel_same_text():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...]) + lax.fori_loop(0, 3, lambda i, c: c + i, 0)

    assert text(kernel, (8, 128)) == text(kernel, (8, 128))


def test_views():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[0, :] = x_ref[i, :]
        o_ref[pl.ds(4, 2), :] = x_ref[pl.ds(i, 2), :]
        o_ref[6, pl.ds(0, 64, stride=2)] = x_ref[7, 64:]
        o_ref[...] = x_ref[...]

    views = [line.partition("view = ")[2].rstrip("}") for line in body(text(kernel, (8, 128), grid=(1,))) if "view = " in line]
    assert [v.partition("]")[0] + "]" for v in views] == [
        "[index($1, slice(0, 128))]", "[index(0, slice(0, 128))]", "[index(slice($1, 2), slice(0, 128))]",
        "[index(slice(4, 2), slice(0, 128))]", "[index(7, slice(64, 64))]", "[index(6, slice(0, 64, 2))]"]


def test_unused_swap_is_a_store_and_used_swap_stays():
    def kernel(x_ref, o_ref):
        old = pltpu_swap(o_ref, x_ref[...])
        o_ref[...] = old

    def pltpu_swap(ref, value):
        from jax._src.state import primitives

        return primitives.ref_swap(ref, ..., value)

    ops = [line.split(" = ")[-1].split()[0] for line in body(text(kernel, (8, 128)))]
    assert ops == ["get", "swap", "store", "yield"]


def test_constants_are_shared_within_their_region():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0 + 2.0

        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = x_ref[...] * 2.0 * 3.0

        o_ref[0, :] = o_ref[0, :] * 3.0

    t = text(kernel, (8, 128), grid=(2,))
    assert t.count("constant {value = f32 0x40000000}") == 1
    assert t.count("constant {value = f32 0x40400000}") == 2  # one in the region, one after it


def test_grid_blocks_scratch_params_and_aliases():
    def kernel(x_ref, o_ref, acc_ref):
        acc_ref[...] = x_ref[...]
        o_ref[...] = acc_ref[...]

    t = text(kernel, (16, 128), out=(16, 128), grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
             out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)],
             input_output_aliases={0: 0}, compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",), collective_id=7))
    lines = t.splitlines()
    assert re.sub(', jax = \"[^\"]*\"', '', lines[1]) == 'module "kernel" {machine = tpu, params = {dimension_semantics = [parallel], collective_id = 7}, collective_id = 7}'
    assert lines[2] == "grid {size = 2, semantics = parallel}"
    assert lines[3].startswith('input "x_ref" : f32[16,128] {space = vmem, block = [blocked(8), blocked(128)]} (%0: i32[]) {')
    assert 'scratch "acc_ref" : ref<f32[8,128], vmem>' in lines and "alias {input = 0, output = 0}" in lines


def test_vmapped_axis_is_marked():
    f = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=F32((8,)), grid=(1,))
    [t] = pallasim.capture_text(jax.vmap(f), jnp.zeros((3, 8)))
    assert "grid {size = 3, vmapped = true}" in t and "grid {size = 1}" in t and "[squeezed, blocked(8)]" in t


def test_copies_and_semaphores():
    def kernel(x_ref, o_ref, sem):
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(0, 4)], o_ref.at[pl.ds(4, 4)], sem)
        copy.start()
        copy.wait()

    t = text(kernel, (8, 128), in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pl.ANY),
             scratch_shapes=[pltpu.SemaphoreType.DMA(())], machine="tpu-v5e")
    start = next(line for line in body(t) if line.startswith("dma_start"))
    assert start == ("dma_start %0, %1, %2 {src = view($0, [index(slice(0, 4), slice(0, 128))]), "
                     "dst = view($1, [index(slice(4, 4), slice(0, 128))]), dst_sem = view($2, [])}")
    assert 'scratch "sem" : ref<dma_sem[], semaphore>' in t


def test_platform_switch_is_resolved():
    def kernel(x_ref, o_ref):
        o_ref[...] = lax.platform_dependent(x_ref[...], tpu=lambda v: v + 1, cuda=lambda v: v + 2, default=lambda v: v + 3)

    for machine, bits, options in (("tpu-v5e", "0x3f800000", {}), ("gpu-h100", "0x40000000", {"compiler_params": pltriton.CompilerParams()})):
        t = text(kernel, (8, 128), machine=machine, **options)
        assert f"constant {{value = f32 {bits}}}" in t and "cond" not in t


def test_core_map_kernel():
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=2)

    @jax.jit
    def f(x):
        @pl.kernel(out_type=F32((2, 8, 128)), mesh=mesh)
        def kernel(x_ref, o_ref):
            i = lax.axis_index("core")
            pltpu.sync_copy(x_ref.at[i], o_ref.at[i])

        return kernel(x)

    [t] = pallasim.capture_text(f, jnp.zeros((2, 8, 128), jnp.float32), machine="tpu-v5p")
    pallasim.check(t)
    assert pallasim.fmt(t) == t
    assert 'mesh "tensorcore" {kind = tensorcore, axes = [axis("core", 2)]}' in t and 'axis_index {axis = "core"}' in t


def test_array_constants():
    table = np.arange(6, dtype=np.int32).reshape(2, 3)

    def kernel(o_ref):
        o_ref[...] = (lax.iota(jnp.int32, 3)[None] * jnp.ones((2, 3), jnp.int32)).astype(jnp.float32)

    t = text(kernel, out=(2, 3))
    assert "iota {axis = 0} : i32[3]" in t and table.size == 6


def test_prints_are_kept():
    def kernel(x_ref, o_ref):
        pl.debug_print("x={}", x_ref[0, 0])
        o_ref[...] = x_ref[...]

    t = text(kernel, (8, 128))
    assert 'debug_print %' in t and '{format = "x={}", placeholders = true}' in t


def test_debug_checks_are_kept_where_jax_enables_them():
    def kernel(x_ref, o_ref):
        pl.debug_check(x_ref[0, 0] > 0, "must be positive")
        o_ref[...] = x_ref[...]

    said = '{message = "must be positive"'
    assert said not in text(kernel, (8, 128))
    with pl.enable_debug_checks(True):
        assert said in text(kernel, (8, 128))
