"""An access is reported at its own line, whoever uses what it gave: values are used lines later, in loops, under `when`, by helpers.

`KINDS` has a kernel for each finding about an access and each machine that has it; `WAYS` says where the value is read and where it is used.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton
from test_lines import ANY, call, found, on_warpgroup

SHAPE = (64, 128)
X = jnp.ones(SHAPE, jnp.float32)
F32 = jnp.float32
VMEM = pltpu.VMEM(SHAPE, F32)


# -- where a value is read, and where it is used -----------------------------------------------------------------------------------
# `ref`: what is read wrongly; `out`: where the value goes; `between`: what the kernel does after the read, a wait for example.
def two_lines_later(ref, out, between):
    v = ref[...]  # here
    between()
    out[...] = v + 1


def ten_lines_later(ref, out, between):
    v = ref[...]  # here
    between()
    a = jnp.abs(v)
    b = a * 2
    c = b + v
    d = jnp.maximum(c, 0)
    e = d.T
    f = e * 0.5
    g = f.T
    h = jnp.where(g > 1, g, v)
    out[...] = h


def in_a_sum(ref, out, between):
    v = ref[...]  # here
    between()
    total = jnp.sum(v, axis=0, keepdims=True)
    out[...] = jnp.broadcast_to(total, out.shape)


def in_a_loop(ref, out, between):
    def trip(_, total):
        v = ref[...]  # here
        scaled = v * 2
        return total + scaled

    total = jax.lax.fori_loop(0, 3, trip, jnp.zeros(out.shape, out.dtype))
    between()
    out[...] = total


def under_when(ref, out, between):
    @pl.when(jax.lax.axis_size is not None)
    def _():
        v = ref[...]  # here
        between()
        out[...] = v + 1


def load(ref):
    return ref[...]  # here


def by_a_helper(ref, out, between):
    v = load(ref)
    between()
    out[...] = v + 1


def by_name(ref, out, between):
    del between
    out[...] = ref[...] * 2  # here


WAYS = [two_lines_later, ten_lines_later, in_a_sum, in_a_loop, under_when, by_a_helper, by_name]


def nothing():
    pass


# -- the kernels -------------------------------------------------------------------------------------------------------------------
def copy_in_flight(way):
    def kernel(x_ref, o_ref, buf, sem):
        copy = pltpu.make_async_copy(x_ref, buf, sem)
        copy.start()
        way(buf, o_ref, copy.wait)
        if way is by_name:
            copy.wait()

    return call(kernel, X, out_shape=X, in_specs=[ANY], scratch_shapes=[VMEM, pltpu.SemaphoreType.DMA])


def nobody_wrote(way):
    def kernel(x_ref, o_ref, buf):
        way(buf, o_ref, nothing)
        o_ref[...] += x_ref[...]

    return call(kernel, X, out_shape=X, scratch_shapes=[VMEM])


def partly_written(way):
    def kernel(x_ref, o_ref, buf):
        buf[0:8, :] = x_ref[0:8, :]
        way(buf, o_ref, nothing)

    return call(kernel, X, out_shape=X, scratch_shapes=[VMEM])


def carried(way):
    def kernel(x_ref, o_ref, last):
        @pl.when(pl.program_id(0) == 0)
        def _():
            last[...] = x_ref[...]

        way(last, o_ref, nothing)

    rows = pl.BlockSpec(SHAPE, lambda i: (i, 0))
    x = jnp.ones((4 * SHAPE[0], SHAPE[1]), F32)
    return call(kernel, x, out_shape=x, grid=(4,), in_specs=[rows], out_specs=rows, scratch_shapes=[VMEM],
                compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))


def aliased(way):
    def kernel(x_ref, o_ref, p_ref):
        o_ref[...] = x_ref[...] * 2
        way(x_ref, p_ref, nothing)

    return call(kernel, X, out_shape=(X, X), input_output_aliases={0: 0})


def programs_share(way):
    def kernel(x_ref, o_ref, p_ref):
        way(o_ref, p_ref.at[pl.program_id(0)], nothing)
        o_ref[...] = x_ref[...]

    return call(kernel, X, out_shape=(X, jnp.ones((4, *SHAPE), F32)), grid=(4,), compiler_params=pltriton.CompilerParams())


def bulk_copy_in_flight(way):
    def kernel(x_ref, o_ref, smem, barrier):
        plgpu.copy_gmem_to_smem(x_ref, smem, barrier)
        way(smem, o_ref, lambda: plgpu.barrier_wait(barrier))
        if way is by_name:
            plgpu.barrier_wait(barrier)

    return on_warpgroup(kernel, plgpu.SMEM(SHAPE, F32), plgpu.Barrier(), x=X)


def warpgroups_race(way):
    def kernel(x_ref, o_ref, smem):
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _():
            smem[...] = x_ref[...]

        @pl.when(wg == 1)
        def _():
            way(smem, o_ref, nothing)

    return on_warpgroup(kernel, plgpu.SMEM(SHAPE, F32), x=X, num_threads=2, thread_name="wg")


def subcores_race(way):
    from jax.experimental.pallas import tpu_sc as plsc

    mesh = plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1)
    x = jnp.arange(16, dtype=F32)

    def kernel(x_hbm, o_hbm, mine, other):
        s = jax.lax.axis_index("s")
        pltpu.sync_copy(x_hbm, mine)
        way(other, mine, nothing)
        pltpu.sync_copy(mine, o_hbm.at[s])

    return pl.kernel(kernel, jax.ShapeDtypeStruct((16, 16), F32), mesh=mesh,
                     scratch_types=[pltpu.VMEM((16,), F32), pltpu.VMEM((16,), F32)])(x)


TPU = {"machine": "tpu-v5p", "detect_races": True}
GENERIC = {"machine": "generic", "detect_races": True}
TRITON = {"machine": "gpu-h100", "detect_races": True}
KINDS = {
    "PS-RACE-001 tpu": (copy_in_flight, TPU),
    "PS-RACE-001 gpu": (bulk_copy_in_flight, TRITON), "PS-RACE-002 gpu": (warpgroups_race, TRITON),
    "PS-UNINIT-001 tpu": (nobody_wrote, TPU), "PS-UNINIT-001 generic": (nobody_wrote, GENERIC | {"kernels_for": "tpu"}),
    "PS-UNINIT-001 sparsecore": (subcores_race, TPU),
    "PS-UNINIT-003 tpu": (partly_written, TPU), "PS-PAR-001 tpu": (carried, TPU | {"machine": "tpu-v5e"}), "PS-ALIAS-001 generic": (aliased, GENERIC),
    "PS-PAR-002 triton": (programs_share, TRITON),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "plain"])
def test_a_read_is_reported_where_it_is_read(kind, way, fuse):
    program, options = KINDS[kind]
    findings = [f for f in found(lambda: program(way), options | {"fuse": fuse}) if f.code == kind.split()[0]]
    assert findings, found(lambda: program(way), options)
    assert all(f.file == __file__ and "# here" in f.text for f in findings), "\n".join(f.report for f in findings)


# -- stores: the line is that of the store, wherever the value was made ------------------------------------------------------------------
MADE = {
    "product": lambda x: jnp.dot(x, x.T),
    "operation": lambda x: jnp.exp(x) + 1,
    "arranged": lambda x: jnp.concatenate([x[:, :64], x[:, :64]], axis=1),
    "sum": lambda x: jnp.broadcast_to(jnp.sum(x, axis=0, keepdims=True), x.shape),
}
SQUARE = jnp.ones((128, 128), F32)


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("made", MADE)
def test_a_store_is_reported_where_it_is_made(made, fuse):
    def kernel(x_ref, y_hbm, o_ref, buf, sem):
        buf[...] = x_ref[...]
        copy = pltpu.make_async_copy(buf, y_hbm, sem)
        copy.start()
        v = MADE[made](x_ref[...])
        o_ref[...] = x_ref[...]
        buf[...] = v  # here
        copy.wait()

    def program():
        return call(lambda x_ref, o_ref, y_hbm, buf, sem: kernel(x_ref, y_hbm, o_ref, buf, sem), SQUARE, out_shape=(SQUARE, SQUARE),
                    out_specs=(pl.BlockSpec(memory_space=pltpu.VMEM), ANY), scratch_shapes=[pltpu.VMEM((128, 128), F32), pltpu.SemaphoreType.DMA])

    findings = [f for f in found(program, TPU | {"fuse": fuse}) if f.code == "PS-RACE-001"]
    assert findings and all(f.file == __file__ and "# here" in f.text for f in findings), "\n".join(f.report for f in findings)


@pytest.mark.parametrize("fuse", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("made", [m for m in MADE if m != "arranged"])  # Triton concatenates nothing
def test_a_store_that_programs_share(made, fuse):
    def kernel(x_ref, o_ref):
        v = MADE[made](x_ref[...])
        w = x_ref[...] * 2
        o_ref[...] = v  # here
        del w

    def program():
        return call(kernel, SQUARE, out_shape=SQUARE, grid=(4,), compiler_params=pltriton.CompilerParams())

    findings = [f for f in found(program, TRITON | {"fuse": fuse}) if f.code == "PS-PAR-002"]
    assert findings and all(f.file == __file__ and "# here" in f.text for f in findings), "\n".join(f.report for f in findings)
