"""Reports of memory, outputs, aliases and collective ids name the argument that the user wrote, not the call around it. Each program is a call of many lines,
in which one has the comment `# here`."""
from __future__ import annotations

import functools
import inspect
import linecache

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas import triton as pltriton
from test_lines import found

F32 = jnp.float32
X = jnp.ones((32, 128), F32)
TALL = jnp.ones((4096, 2048), F32)  # 32 MiB
CHECKED = {"machine": "tpu-v5e", "detect_races": True}
CASES = {}


def case(code, **options):
    def add(program):
        CASES[program.__name__] = program, code, {"machine": "tpu-v5e"} | options
        return program

    return add


def copy(x_ref, o_ref, *_):
    o_ref[...] = x_ref[...]


def halves(x_ref, o_ref, *_):
    o_ref[pl.ds(0, 8), :] = x_ref[pl.ds(0, 8), :]


def nothing(*_):
    pass


# --- memory ---------------------------------------------------------------------------------------------------------
@case("PS-MEM-002")
def block_of_an_input():
    return pl.pallas_call(
        halves,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((4096, 1024), lambda i: (0, i)),  # here
        ],
        out_specs=pl.BlockSpec((8, 1024), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((8, 2048), F32),
    )(TALL)


@case("PS-MEM-002")
def block_of_an_output():
    return pl.pallas_call(
        nothing,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((4096, 1024), lambda i: (0, i)),  # here
        out_shape=jax.ShapeDtypeStruct((4096, 2048), F32),
    )(X)


@case("PS-MEM-002")
def second_of_two_inputs():
    return pl.pallas_call(
        lambda x_ref, y_ref, o_ref: halves(y_ref, o_ref),
        grid=(2,),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i: (0, 0)),
            pl.BlockSpec((4096, 1024), lambda i: (0, i)),  # here
        ],
        out_specs=pl.BlockSpec((8, 1024), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((8, 2048), F32),
    )(X, TALL)


@case("PS-MEM-002")
def scratch():
    return pl.pallas_call(
        copy,
        out_shape=X,
        scratch_shapes=[
            pltpu.SMEM((8,), jnp.int32),
            pltpu.VMEM((8192, 1024), F32),  # here
        ],
    )(X)


@case("PS-MEM-001")
def more_scratch_than_there_is():
    return pl.pallas_call(
        copy,
        out_shape=X,
        scratch_shapes=(
            pltpu.VMEM((8, 128), F32),
            pltpu.VMEM((65536, 1024), F32),  # here
        ),
    )(X)


@case("PS-MEM-001")
def scalars():
    return pl.pallas_call(
        copy,
        out_shape=X,
        scratch_shapes=[
            pltpu.SMEM((1 << 20,), jnp.int32),  # here
        ],
    )(X)


@case("PS-MEM-001")
def scope():
    def kernel(x_ref, o_ref):
        pl.run_scoped(lambda big_ref: copy(x_ref, o_ref), pltpu.VMEM((65536, 1024), F32))  # here

    return pl.pallas_call(
        kernel,
        out_shape=X,
    )(X)


@case("PS-MEM-002")
def named_specification():
    block = pl.BlockSpec((4096, 1024), lambda i: (0, i))  # here
    return pl.pallas_call(
        halves,
        grid=(2,),
        in_specs=[block],
        out_specs=pl.BlockSpec((8, 1024), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((8, 2048), F32),
    )(TALL)


@case("PS-MEM-002")
def list_made_before():
    specs = [
        pl.BlockSpec((8, 128), lambda i: (0, 0)),
        pl.BlockSpec((4096, 1024), lambda i: (0, i)),  # here
    ]
    return pl.pallas_call(
        lambda x_ref, y_ref, o_ref: halves(y_ref, o_ref),
        grid=(2,),
        in_specs=specs,
        out_specs=pl.BlockSpec((8, 1024), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((8, 2048), F32),
    )(X, TALL)


@case("PS-MEM-002")
def specification_of_a_grid():
    return pl.pallas_call(
        lambda n_ref, x_ref, o_ref: halves(x_ref, o_ref),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[
                pl.BlockSpec((4096, 1024), lambda i, n: (0, i)),  # here
            ],
            out_specs=pl.BlockSpec((8, 1024), lambda i, n: (0, i)),
        ),
        out_shape=jax.ShapeDtypeStruct((8, 2048), F32),
    )(jnp.zeros(4, jnp.int32), TALL)


@case("PS-MEM-002")
def made_first_and_called_later():
    run = pl.pallas_call(
        copy,
        out_shape=X,
        scratch_shapes=[
            pltpu.VMEM((8192, 1024), F32),  # here
        ],
    )
    y = X + 1
    return run(y)


@case("PS-MEM-002")
def kernel_of_a_partial():
    def fill(x_ref, o_ref, big_ref, *, by):
        o_ref[...] = x_ref[...] * by

    return pl.pallas_call(
        functools.partial(fill, by=2),
        out_shape=X,
        scratch_shapes=[
            pltpu.VMEM((8192, 1024), F32),  # here
        ],
    )(X)


@case("PS-MEM-002")
def under_jit_and_in_a_function():
    @jax.jit
    def f(x):
        return pl.pallas_call(
            copy,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            scratch_shapes=[
                pltpu.VMEM((8192, 1024), F32),  # here
            ],
        )(x) + 1

    return f(X)


@case("PS-MEM-001")
def limit_of_the_kernel():
    return pl.pallas_call(
        copy,
        out_shape=X,
        scratch_shapes=[
            pltpu.VMEM((256, 1024), F32),  # here
        ],
        compiler_params=pltpu.CompilerParams(
            vmem_limit_bytes=1 << 19,
        ),
    )(X)


@case("PS-MEM-001", machine="gpu-h100")
def shared_memory():
    def body(x_ref, o_ref, small, big):
        o_ref[...] = x_ref[...]

    return plgpu.kernel(
        body,
        out_type=X,
        scratch_types=[
            plgpu.SMEM((8, 128), F32),
            plgpu.SMEM((1024, 128), F32),  # here
        ],
    )(X)


@case("PS-MEM-001", machine="gpu-b200")
def tensor_memory():
    def body(x_ref, o_ref, small, first, second):
        o_ref[...] = x_ref[...]

    return plgpu.kernel(
        body,
        out_type=X,
        scratch_types=[
            plgpu.TMEM((128, 32), F32),
            plgpu.TMEM((128, 512), F32),  # here
            plgpu.TMEM((128, 64), F32),
        ],
    )(X)


@case("PS-MEM-001", machine="tpu-7x")
def memory_of_a_subcore():
    def body(x_ref, o_ref, small, big):
        pltpu.sync_copy(x_ref.at[0], small)
        pltpu.sync_copy(small, o_ref.at[0])

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((1, 128), F32),
        mesh=plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1, num_subcores=1),
        scratch_types=[
            pltpu.VMEM((128,), F32),
            pltpu.VMEM((1024, 1024), F32),  # here
        ],
    )(X)


@case("PS-MEM-001", machine="tpu-v5p")
def memory_of_a_core():
    def body(x_ref, o_ref, big):
        pltpu.sync_copy(x_ref, o_ref)

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((32, 128), F32),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=1),
        scratch_types=[
            pltpu.VMEM((65536, 1024), F32),  # here
        ],
    )(X)


# --- outputs --------------------------------------------------------------------------------------------------------
@case("PS-OUT-001", detect_races=True)
def short_grid():
    return pl.pallas_call(
        copy,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),  # here
        out_shape=X,
    )(X)


@case("PS-OUT-001", detect_races=True)
def shape_alone():
    return pl.pallas_call(
        nothing,
        out_shape=jax.ShapeDtypeStruct((32, 128), F32),  # here
    )(X)


@case("PS-OUT-001", detect_races=True)
def second_of_two_outputs():
    return pl.pallas_call(
        copy,
        out_shape=(
            jax.ShapeDtypeStruct((32, 128), F32),
            jax.ShapeDtypeStruct((16, 128), F32),  # here
        ),
    )(X)


@case("PS-OUT-001", detect_races=True)
def second_of_two_blocks():
    return pl.pallas_call(
        lambda x_ref, o_ref, p_ref: (copy(x_ref, o_ref), copy(x_ref, p_ref))[0],
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=[
            pl.BlockSpec((8, 128), lambda i: (i, 0)),
            pl.BlockSpec((8, 128), lambda i: (i // 2, 0)),  # here
        ],
        out_shape=[
            X,
            X,
        ],
    )(X)


@case("PS-OUT-001", machine="tpu-v5p", detect_races=True)
def output_of_cores():
    def body(x_ref, o_ref):
        pltpu.sync_copy(x_ref.at[pl.ds(0, 8)], o_ref.at[pl.ds(0, 8)])

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((32, 128), F32),  # here
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=1),
    )(X)


@case("PS-OUT-001", machine="tpu-7x", detect_races=True)
def output_of_subcores():
    def body(x_ref, o_ref, row):
        pltpu.sync_copy(x_ref.at[0], row)
        pltpu.sync_copy(row, o_ref.at[0])

    return pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((32, 128), F32),  # here
        mesh=plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1, num_subcores=1),
        scratch_types=[pltpu.VMEM((128,), F32)],
    )(X)


@case("PS-OUT-001", machine="gpu-h100", detect_races=True)
def output_of_triton():
    return pl.pallas_call(
        copy,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),  # here
        out_shape=X,
        compiler_params=pltriton.CompilerParams(),
    )(X)


@case("PS-OUT-001", machine="gpu-h100", detect_races=True)
def output_of_warpgroups():
    def body(x_ref, o_ref):
        o_ref[pl.ds(0, 16)] = x_ref[pl.ds(0, 16)]

    return plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((32, 128), F32),  # here
    )(X)


@case("PS-OUT-001", detect_races=True)
def alias_of_a_copy_that_stays():
    return pl.pallas_call(
        nothing,
        grid=(4,),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i: (i, 0)),
            pl.BlockSpec(memory_space=pl.ANY),
        ],
        out_specs=(
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec((8, 128), lambda i: (i, 0)),  # here
        ),
        out_shape=(X, X),
        input_output_aliases={
            1: 0,
        },
    )(X, X + 1)


# --- collective ids, element types ----------------------------------------------------------------------------------
@case("PS-TPU-002")
def id_of_nothing():
    return pl.pallas_call(
        copy,
        out_shape=X,
        compiler_params=pltpu.CompilerParams(
            has_side_effects=True,
            collective_id=3,  # here
        ),
    )(X)


@case("PS-TPU-002")
def id_of_parameters_made_before():
    params = pltpu.CompilerParams(
        collective_id=3,  # here
    )
    return pl.pallas_call(
        copy,
        out_shape=X,
        compiler_params=params,
    )(X)


@case("PS-TPU-004", machine="tpu-v5e")
def wide_scratch():
    with jax.enable_x64(True):
        return pl.pallas_call(
            copy,
            out_shape=jax.ShapeDtypeStruct((8, 128), F32),
            scratch_shapes=[
                pltpu.VMEM((8, 128), F32),
                pltpu.VMEM((8, 128), jnp.complex64),  # here
            ],
        )(X[:8])


# --- blocks ---------------------------------------------------------------------------------------------------------
@case("PS-TPU-001")
def odd_block():
    return pl.pallas_call(
        nothing,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((8, 128), lambda i: (i, 0)),
        ],
        out_specs=pl.BlockSpec((7, 100), lambda i: (i, 0)),  # here
        out_shape=X,
    )(X)


def marked(program):
    lines, first = inspect.getsourcelines(program)
    (at,) = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    return at


@pytest.mark.parametrize("name", CASES)
def test_a_report_names_the_argument(name):
    program, code, options = CASES[name]
    findings = found(program, options)
    f = next((f for f in findings if f.code == code), None)
    assert f is not None, [f.report for f in findings]
    assert (f.file, f.line) == (__file__, marked(program)), f.report
    assert f.text == linecache.getline(__file__, f.line).strip()
