"""`interpret=` in all its forms and JAX's interpreter switches, inside `emulate` and outside."""
from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as tpu_interpreter
from jax._src.pallas.mosaic_gpu.interpret import interpret_pallas_call as gpu_interpreter
from jax._src.pallas.mosaic_gpu.interpret import params as gpu_params
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu

import pallasim

X = jnp.arange(1, 9, dtype=jnp.float32)
GPU = gpu_params.InterpretGPUParams


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def double(x, **kw):
    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **kw)(x)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("interpret", [False, True, pltpu.InterpretParams(), GPU(), pallasim.Params()], ids=lambda i: type(i).__name__ + str(bool(i)))
def test_no_interpret_argument_leads_out_of_the_block(emulated, same, interpret, wrap):
    same(emulated(wrap(lambda x: double(x, interpret=interpret)), X), 2 * np.asarray(X))


@pytest.mark.parametrize("switch", [tpu_interpreter.force_tpu_interpret_mode, gpu_params.force_gpu_interpret_mode])
def test_jaxs_context_managers(emulated, same, switch):
    def f(x):
        with switch():
            return double(x)

    same(emulated(f, X), 2 * np.asarray(X))
    with switch():
        same(emulated(double, X), 2 * np.asarray(X))


def test_jaxs_global_switch(emulated, same):
    tpu_interpreter.set_tpu_interpret_mode()
    try:
        same(emulated(double, X), 2 * np.asarray(X))
    finally:
        tpu_interpreter.set_tpu_interpret_mode(None)


def test_the_block_wins_where_jaxs_switch_is_reset_inside(emulated, same):
    def f(x):
        with tpu_interpreter.force_tpu_interpret_mode(None):
            return double(x)

    same(emulated(f, X), 2 * np.asarray(X))


def test_nothing_compiled_under_another_switch_is_found(same):
    """One jitted function through every switch in turn; only what runs inside the block is ours."""
    f = jax.jit(double)
    begin = pallasim.launch_count()
    for _ in range(2):
        with tpu_interpreter.force_tpu_interpret_mode():
            same(f(X), 2 * np.asarray(X))
        assert pallasim.launch_count() == begin
        with pallasim.emulate(), tpu_interpreter.force_tpu_interpret_mode():
            same(f(X), 2 * np.asarray(X))
        assert pallasim.launch_count() == begin + 1
        with pallasim.emulate():
            same(f(X), 2 * np.asarray(X))
        assert pallasim.launch_count() == begin + 2
        with pytest.raises(ValueError, match="interpret mode"):
            f(X)
        begin = pallasim.launch_count()


def test_another_thread_is_outside_the_block(same):
    import concurrent.futures

    with pallasim.emulate("tpu-v5p"), concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pltpu.get_tpu_info().num_cores == 2
        with pytest.raises(ValueError, match="interpret mode"):
            pool.submit(double, X).result()
        with pytest.raises(ValueError):
            pool.submit(pltpu.get_tpu_info).result()


def test_an_interpreted_call_outside_is_jaxs_own(same):
    begin = pallasim.launch_count()
    with pallasim.emulate():
        double(X).block_until_ready()
    same(double(X, interpret=pltpu.InterpretParams()), 2 * np.asarray(X))
    same(double(X, interpret=True), 2 * np.asarray(X))
    assert pallasim.launch_count() == begin + 1


# --- the meaning of JAX's options -----------------------------------------------------------------------------------
def scratch_kernel(o_ref, t_ref):
    o_ref[...] = t_ref[...]


@pytest.mark.parametrize("fill, of_float, of_int", [("nan", np.nan, -2**31), ("most", np.nan, 2**31 - 1), ("zero", 0, 0)])
def test_what_fresh_memory_holds(fill, of_float, of_int):
    for dtype, wanted in ((jnp.float32, of_float), (jnp.int32, of_int)):
        with pallasim.emulate("tpu-v5e", uninitialized_memory=fill):
            out = pl.pallas_call(scratch_kernel, out_shape=jax.ShapeDtypeStruct((8, 128), dtype), scratch_shapes=[pltpu.VMEM((8, 128), dtype)])()
        np.testing.assert_array_equal(out, np.full((8, 128), wanted, dtype))


@pytest.mark.parametrize("make", [pltpu.InterpretParams, GPU])
@pytest.mark.parametrize("fill", ["nan", "zero"])
def test_uninitialized_memory(emulated, make, fill):
    f = pl.pallas_call(scratch_kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                       scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)], interpret=make(uninitialized_memory=fill))
    out = emulated(lambda: f())
    assert np.isnan(out).all() if fill == "nan" else not np.any(out)


def skipping_kernel(x_ref, n_ref, o_ref, count_ref):
    y = jnp.dot(x_ref[...], x_ref[...])
    o_ref[...] = jnp.where(n_ref[0] > 2, y, jnp.sin(y)) * 0.0
    count_ref[0] = n_ref[0] + (y[0, 0] > 1e30).astype(jnp.int32)


def test_skip_floating_point_ops(same):
    """Against JAX's own interpreter: floats are inf, integers and control flow are computed."""
    shapes = (jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32))
    f = pl.pallas_call(skipping_kernel, out_shape=shapes, interpret=pltpu.InterpretParams(skip_floating_point_ops=True))
    args = (jnp.ones((8, 8), jnp.float32), jnp.asarray([5], jnp.int32))
    want = f(*args)
    begin = pallasim.launch_count()
    with pallasim.emulate():
        got = f(*args)
    assert pallasim.launch_count() == begin + 1
    for a, b in zip(got, want):
        same(a, b)
    assert np.all(np.isinf(np.asarray(got[0]))) and int(got[1][0]) == 6


def claims_parallel(o_ref, total_ref):
    total_ref[0] = pl.program_id(0)
    o_ref[...] = jnp.full((8, 128), total_ref[0], jnp.int32)


def claim(semantics, interpret):
    return pl.pallas_call(
        claims_parallel, grid=(4,), out_shape=jax.ShapeDtypeStruct((32, 128), jnp.int32),
        out_specs=pl.BlockSpec((8, 128), lambda i: (i // 4, 0)), scratch_shapes=[pltpu.SMEM((1,), jnp.int32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)), interpret=interpret)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("semantics, raced", [("parallel", True), ("arbitrary", False)])
def test_detect_races_is_followed_and_jaxs_place_for_races_answers(semantics, raced, cores):
    pallasim.findings()
    with pallasim.emulate("tpu-v5e"):
        claim(semantics, pltpu.InterpretParams(detect_races=True, num_cores_or_threads=cores))().block_until_ready()
    found = [f for f in pallasim.findings() if f.code != "PS-OUT-001"]  # most of the output is nobody's
    assert bool(found) == raced
    assert tpu_interpreter.races.races_found is (raced and cores > 1)  # on one core a false claim is a finding, not a race
    if raced:
        f = found[0]
        assert f.code == "PS-PAR-001" and f.file == inspect.getsourcefile(claims_parallel)
        assert "o_ref[...] =" in f.text and f.line > 0 and f.also


def test_races_of_jaxs_interpreter_are_its_own_again():
    with pallasim.emulate("tpu-v5e"):
        claim("parallel", pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2))().block_until_ready()
    assert tpu_interpreter.races.races_found is True
    double(jnp.ones((8, 128), jnp.float32), interpret=pltpu.InterpretParams(detect_races=True)).block_until_ready()
    assert type(tpu_interpreter.races).__name__ == "RaceDetectionState" and tpu_interpreter.races.races_found is False


@pytest.mark.parametrize("raced", [True, False])
def test_get_races_of_the_gpu_interpreter_answers_for_programs_that_run_at_once(raced):
    def kernel(o_ref):
        o_ref[pl.ds(0 if raced else 16 * pl.program_id(0), 16)] = jnp.full((16,), pl.program_id(0), jnp.int32)

    pallasim.findings()
    with pallasim.emulate("gpu-h100"):
        pl.pallas_call(kernel, grid=(4,), out_shape=jax.ShapeDtypeStruct((64,), jnp.int32), compiler_params=plgpu.CompilerParams(),
                       interpret=GPU(detect_races=True))().block_until_ready()
    assert gpu_interpreter.get_races().races_found is raced
    assert [f.code for f in pallasim.findings()][:1] == (["PS-PAR-002"] if raced else [])


# --- the grid -------------------------------------------------------------------------------------------------------
def count_kernel(n_ref, o_ref, seen_ref):
    @pl.when(n_ref[0] < 0)
    def _():
        seen_ref[0] = 0

    o_ref[...] = jnp.full(o_ref.shape, 4 * pl.program_id(0) + pl.program_id(1) + n_ref[0], jnp.int32)


def counted(interpret, **kw):
    params = pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    f = pl.pallas_call(
        count_kernel, grid=(4, 4), out_shape=jax.ShapeDtypeStruct((32, 512), jnp.int32), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)), scratch_shapes=[pltpu.SMEM((1,), jnp.int32)], compiler_params=params,
        interpret=interpret, **kw)
    return f(jnp.asarray([7], jnp.int32))


def recorder(points):
    def record(token, point, core):
        points.append((*(int(i) for i in point), int(core)))
        return token

    return record


@pytest.mark.parametrize("seed, cores", [(12345, 1), (12345, 2), (7, 4), (0, 3)])
def test_grid_points_come_in_the_order_of_jaxs_interpreter(same, seed, cores):
    """The recorder's calls are those of JAX's own interpreter, core by core."""
    def run(points):
        params = pltpu.InterpretParams(random_seed=seed, num_cores_or_threads=cores, grid_point_recorder=recorder(points))
        return jax.jit(lambda: counted(params))().block_until_ready()

    theirs, ours = [], []
    want, before = run(theirs), pallasim.launch_count()
    with pallasim.emulate("tpu-v5e"):
        got = run(ours)
    jax.effects_barrier()
    assert pallasim.launch_count() == before + 1
    by_core = lambda points: sorted(points, key=lambda p: p[2])  # noqa: E731
    assert len(ours) == 16 and by_core(ours) == by_core(theirs)
    assert len({p[2] for p in ours}) == -(-4 // -(-4 // cores))
    same(got, want)


def test_a_recorder_of_ours_sees_every_launch(same):
    points = []
    with pallasim.emulate(grid_point_recorder=recorder(points)):
        f = jax.jit(lambda: counted(False))
        same(f(), f())
    jax.effects_barrier()
    assert points == [(i, j, 0) for i in range(4) for j in range(4)] * 2


# --- what JAX's TPU interpreter refuses -----------------------------------------------------------------------------
def in_hbm(load, store, interpret):
    def kernel(x_ref, o_ref):
        store(o_ref, load(x_ref) * 2)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[pl.BlockSpec(memory_space=pltpu.HBM)],
                          interpret=interpret)(jnp.ones((8, 128)))


@pytest.mark.parametrize("load, name", [(lambda r: r[...], "get_p"), (pltpu.load, "load_p")], ids=["get", "load"])
def test_loads_from_hbm_are_refused_where_jaxs_interpreter_is_asked_for(same, load, name):
    def store(ref, value):
        ref[...] = value

    with pallasim.emulate():
        with pytest.raises(ValueError, match=f"(?s)PS-TPU-005.*a load from .*, which is in HBM.*test_interpret.py.*{name}: ") as e:
            in_hbm(load, store, pltpu.InterpretParams())
        assert isinstance(e.value, pallasim.RefusedError) and e.value.finding.file == __file__
        same(in_hbm(load, store, True), np.full((8, 128), 2, np.float32))
    with pallasim.emulate(rules=False):
        same(in_hbm(load, store, pltpu.InterpretParams()), np.full((8, 128), 2, np.float32))


@pytest.mark.parametrize("allowed", [False, True])
def test_hbm_in_run_scoped(same, allowed):
    def kernel(x_ref, o_ref):
        def through(hbm):
            pltpu.sync_copy(x_ref, hbm)
            pltpu.sync_copy(hbm, o_ref)

        pl.run_scoped(through, pltpu.HBM(x_ref.shape, x_ref.dtype))

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), interpret=pltpu.InterpretParams(allow_hbm_allocation_in_run_scoped=allowed))
    with pallasim.emulate():
        if allowed:
            same(f(X), X)
        else:
            with pytest.raises(ValueError, match="(?s)PS-TPU-003.*Cannot allocate HBM in `run_scoped`: float32"):
                f(X)


def test_a_bound_of_a_parallel_axis_is_a_number(same):
    def f(n, semantics, interpret):
        return pl.pallas_call(double_kernel, grid=(n,), out_shape=jax.ShapeDtypeStruct((4, 128), jnp.float32), interpret=interpret,
                              in_specs=[pl.BlockSpec((1, 128), lambda i: (i, 0))], out_specs=pl.BlockSpec((1, 128), lambda i: (i, 0)),
                              compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)))(jnp.ones((4, 128)))

    run = jax.jit(f, static_argnums=(1, 2))
    with pallasim.emulate():
        with pytest.raises(jax.errors.ConcretizationTypeError, match="(?s)PS-TPU-002.*grid axis 0, which is parallel") as e:
            run(4, "parallel", pltpu.InterpretParams())
        assert isinstance(e.value, pallasim.KernelError)
        for semantics, interpret in (("arbitrary", pltpu.InterpretParams()), ("parallel", True)):
            same(run(4, semantics, interpret), np.full((4, 128), 2, np.float32))


@pytest.mark.parametrize("index_map", [lambda i, j: (j, 0), lambda i, j: (j // 1 % 4, 0)], ids=["linear", "computed"])
def test_blocks_are_not_revisited_in_jaxs_interpreter(index_map):
    def f(interpret, order):
        return pl.pallas_call(lambda o_ref: o_ref.__setitem__(..., jnp.full(o_ref.shape, pl.program_id(0), jnp.float32)), grid=(2, 4),
                              out_shape=jax.ShapeDtypeStruct((4, 128), jnp.float32), out_specs=pl.BlockSpec((1, 128), order), interpret=interpret)()

    with pytest.raises(pallasim.KernelError, match=r"(?s)PS-OUT-002.*Revisited block at \(0, 0\) of output 0 in iteration \(1, 0\)"), pallasim.emulate():
        jax.block_until_ready(f(pltpu.InterpretParams(), index_map))
    with pallasim.emulate():
        np.testing.assert_array_equal(f(True, index_map)[:, 0], 1)
        np.testing.assert_array_equal(f(pltpu.InterpretParams(), lambda i, j: (2 * i + j // 2, 0))[:, 0], [0, 0, 1, 1])
    pallasim.findings()
    with pallasim.emulate("tpu-v5e", rules=False, detect_races=True):
        jax.block_until_ready(f(True, index_map))
    assert [(d.code, d.severity) for d in pallasim.findings()] == [("PS-OUT-002", "warning")]


def test_a_masked_store_outside_names_itself():
    def kernel(x_ref, o_ref):
        pltpu.store(o_ref.at[pl.ds(jnp.int32(4), 8)], x_ref[...], mask=x_ref[...] > 0)

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), interpret=pltpu.InterpretParams())
    with pytest.raises(pallasim.KernelError, match="Out-of-bounds masked swap: index 8 is outside dimension 0 of o_ref"), pallasim.emulate():
        jax.block_until_ready(f(jnp.ones((8, 128))))


def test_options_of_jaxs_gpu_interpreter_make_kernels_of_mosaic_gpu():
    f = pl.pallas_call(skipping_kernel, out_shape=(jax.ShapeDtypeStruct((8, 8), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32)),
                       interpret=GPU(skip_floating_point_ops=True))
    with pallasim.emulate(), pallasim.Recording() as recording:
        jax.block_until_ready(f(jnp.ones((8, 8), jnp.float32), jnp.asarray([5], jnp.int32)))
    (launch,) = recording.launches
    assert "machine = mosaic_gpu" in launch["module"]
