"""pallasim.check: legality per chip, memory, traffic and cost of kernels that do not run."""
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] = jnp.exp(acc_ref[...]).astype(o_ref.dtype)


def matmul(x, y, block=256, cost=None, **options):
    n = x.shape[0] // block
    return pl.pallas_call(
        matmul_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(n, n, n),
        in_specs=[pl.BlockSpec((block, block), lambda i, j, k: (i, k)), pl.BlockSpec((block, block), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
        cost_estimate=cost, **options)(x, y)


X = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
BLOCK = 256 * 256


def only(check):
    (kernel,) = check.kernels
    return kernel


def test_nothing_runs_and_everything_is_counted():
    before = pallasim.launch_count()
    cost = pl.CostEstimate(flops=2 * 1024 ** 3, transcendentals=64 * BLOCK, bytes_accessed=3 * 2 * 1024 ** 2)
    k = only(pallasim.check(jax.jit(lambda x, y: matmul(x, y, cost=cost) + 1), X, X, chips=["tpu-v5e"]))
    assert pallasim.launch_count() == before
    assert k.ok and (k.kernel, k.chip, k.machine, k.grid) == ("matmul_kernel", "tpu-v5e", "tpu", (4, 4, 4))
    (vmem,) = k.memories
    assert vmem.space == "vmem" and vmem.bytes == 3 * 2 * 2 * BLOCK + 4 * BLOCK and vmem.capacity == 128 << 20 and vmem.fits == ()
    assert {b.name: (b.copies, b.bytes) for b in vmem.buffers} == {
        "x_ref": (2, 2 * BLOCK), "y_ref": (2, 2 * BLOCK), "o_ref": (2, 2 * BLOCK), "acc_ref": (1, 4 * BLOCK)}
    # x changes at every step, y too, the output once per (i, j).
    assert [(m.name, m.blocks, m.bytes) for m in k.traffic] == [
        ("x_ref", 64, 64 * 2 * BLOCK), ("y_ref", 64, 64 * 2 * BLOCK), ("o_ref", 16, 16 * 2 * BLOCK)]
    flops, exps, moved = k.costs
    assert flops.counted == 64 * (2 * 256 ** 3 + BLOCK) and not flops.differs  # the sum with the accumulator counts
    assert exps.counted == 64 * BLOCK == exps.declared
    assert moved.counted == 144 * 2 * BLOCK and moved.differs  # the estimate counts every array once


def test_memory_that_does_not_fit_and_what_would():
    big = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16)
    k = only(pallasim.check(lambda x, y: matmul(x, y, 2048), big, big, chips=["tpu-v4"]))
    assert not k.ok and [r.code for r in k.remarks] == ["PS-MEM-001"]
    (vmem,) = k.memories
    assert vmem.capacity == 16 << 20 and vmem.bytes == (3 * 2 * 2 + 4) * 2048 ** 2
    assert any("nothing" in w for w in vmem.fits)  # the accumulator alone is all of it
    k = only(pallasim.check(lambda x, y: matmul(x, y, 1024), big, big, chips=["tpu-v4"]))
    assert k.ok
    limited = pltpu.CompilerParams(vmem_limit_bytes=15 << 20)
    k = only(pallasim.check(lambda x, y: matmul(x, y, 1024, compiler_params=limited), big, big, chips=["tpu-v4"]))
    assert not k.ok and k.memories[0].capacity == 15 << 20
    assert "one copy of x_ref (pipeline_mode=pl.Buffered(1)): 14680064 bytes" in k.memories[0].fits

    def one_copy(x, y):  # as it says
        spec = pl.BlockSpec((1024, 1024), lambda i, j, k: (i, k), pipeline_mode=pl.Buffered(1))
        return pl.pallas_call(
            matmul_kernel, out_shape=big, grid=(4, 4, 4), in_specs=[spec, pl.BlockSpec((1024, 1024), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((1024, 1024), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((1024, 1024), jnp.float32)],
            compiler_params=limited)(x, y)

    k = only(pallasim.check(one_copy, big, big, chips=["tpu-v4"]))
    assert k.ok and k.memories[0].bytes == 14680064


def test_what_a_chips_compiler_refuses_has_its_line():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...])

    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    report = pallasim.check(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x, chips=["tpu-v5e", "generic"])
    refused, legal = report.kernels
    assert not report.ok and legal.ok and legal.chip == "generic"
    assert [(r.code, r.severity, r.text, r.file) for r in refused.remarks] == [("PS-TPU-003", "error", "o_ref[...] = jnp.sort(x_ref[...])", __file__)]
    assert f"{__file__}:{refused.remarks[0].line}" in str(report) and "matmul" not in str(report)


def test_text_json_and_notebook_say_the_same():
    report = pallasim.check(matmul, X, X, chips=["tpu-v5e", "tpu-7x"])
    data = json.loads(report.json())
    assert data["ok"] is True and [k["chip"] for k in data["kernels"]] == ["tpu-v5e", "tpu-7x"]
    assert data["kernels"][0]["memories"][0]["bytes"] == report.kernels[0].memories[0].bytes
    assert "VMEM: 1,048,576 of 134,217,728 bytes" in str(report) and "matmul_kernel on tpu-7x: nothing refuses it" in str(report)
    assert report._repr_html_().count("<details") == 2 and "1,048,576" in report._repr_html_()
    assert str(pallasim.check(lambda x: x + 1, X, chips=["tpu-v5e"])) == "no Pallas kernel"


def test_edges_prefetched_indices_loops_and_branches():
    def rows(x_ref, o_ref):
        def body(i, total):
            return total + x_ref[i] * 2

        o_ref[...] = jax.lax.fori_loop(0, 8, body, jnp.zeros((128,), jnp.float32))

    x = jax.ShapeDtypeStruct((20, 128), jnp.float32)
    f = lambda x: pl.pallas_call(rows, grid=(3,), out_shape=jax.ShapeDtypeStruct((3, 128), jnp.float32),  # noqa: E731
                                 in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))], out_specs=pl.BlockSpec((None, 128), lambda i: (i, 0)))(x)
    k = only(pallasim.check(f, x, chips=["generic"]))
    assert [(m.blocks, m.bytes) for m in k.traffic] == [(3, 20 * 128 * 4), (3, 3 * 128 * 4)]  # the last block is cut
    assert k.costs[0].counted == 3 * 8 * 2 * 128 and k.costs[0].declared is None and not k.costs[0].differs

    def chosen(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i, ids: (ids[i], 0))],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, ids: (i, 0)))
    x = jax.ShapeDtypeStruct((32, 128), jnp.float32)
    k = only(pallasim.check(lambda i, x: pl.pallas_call(chosen, grid_spec=spec, out_shape=x)(i, x), jax.ShapeDtypeStruct((4,), jnp.int32), x, chips=["tpu-v5e"]))
    assert [(m.name, m.blocks) for m in k.traffic] == [("x_ref", None), ("o_ref", 4)] and "prefetched" in k.traffic[0].why
    assert k.costs[2].counted is None

    def waits(x_ref, o_ref):
        o_ref[...] = jax.lax.while_loop(lambda v: v[0, 0] < 100, lambda v: v * 2, x_ref[...])

    k = only(pallasim.check(lambda x: pl.pallas_call(waits, out_shape=x)(x), x, chips=["generic"]))
    assert k.costs[0].bound == "at least" and k.costs[0].counted == 32 * 128


def test_kernels_of_a_program_that_chooses_by_chip():
    def add(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    f = lambda x: pl.pallas_call(add if jax.default_backend() == "tpu" else double, out_shape=x)(x)  # noqa: E731
    x = jnp.ones((8, 128))
    assert [k.kernel for k in pallasim.check(f, x, chips=["tpu-v5e", "gpu-h100"]).kernels] == ["add", "double"]
    with pallasim.emulate("tpu-v6e"):
        assert [k.chip for k in pallasim.check(f, x).kernels] == ["tpu-v6e"]
    assert {k.chip for k in pallasim.check(f, x).kernels} == {n for n, m in pallasim.MACHINES.items() if m.ir_machine == "tpu"}
    with pytest.raises(ValueError, match="unknown machine 'tpu-v9'"):
        pallasim.check(f, x, chips=["tpu-v9"])


def test_a_kernel_for_other_machines():
    params = pltpu.CompilerParams()
    f = lambda x: pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=x, compiler_params=params)(x)  # noqa: E731
    k = only(pallasim.check(f, X, chips=["gpu-h100"]))
    assert not k.ok and k.remarks[0].code == "PS-CHIP-001" and k.remarks[0].message == "a TPU kernel, which gpu-h100 does not run"


def test_counted_traffic_is_that_of_a_run():
    """Bytes that the modelled pipeline moves for the same kernel."""
    x = np.arange(64 * 256, dtype=np.float32).reshape(64, 256)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    f = lambda x: pl.pallas_call(kernel, grid=(4, 2), out_shape=x, in_specs=[pl.BlockSpec((16, 128), lambda i, j: (i, j))],  # noqa: E731
                                 out_specs=pl.BlockSpec((16, 128), lambda i, j: (i, j)))(x)
    k = only(pallasim.check(f, jnp.asarray(x), chips=["tpu-v5e"]))
    with pallasim.emulate("tpu-v5e", detect_races=True):
        jax.block_until_ready(f(jnp.asarray(x)))
    ran = {t["name"]: (t["bytes_read"], t["bytes_written"]) for t in pallasim._core.last_run()["traffic"]}
    assert ran["x_ref"][0] == k.traffic[0].bytes and ran["o_ref"][1] == k.traffic[1].bytes


@pytest.mark.parametrize("name", ["chip", "machine"])
def test_a_chip_by_another_argument_is_told_how_to_write_it(name):
    with pytest.raises(TypeError, match=r"chips=\['tpu-v5e'\]"):
        pallasim.check(lambda x: x, jax.ShapeDtypeStruct((8,), jnp.float32), **{name: "tpu-v5e"})


def test_the_time_is_that_of_predict():
    k, g = pallasim.check(matmul, X, X, chips=["tpu-v5e", "generic"]).kernels
    assert k.time.seconds == pallasim.predict(matmul, X, X, chip="tpu-v5e", sensitivity=False).seconds
    (line,) = [x for x in str(k).splitlines() if "time predicted" in x]
    assert line == f"  time predicted: {k.time.seconds * 1e6:.3g} us, bound by {k.time.bound}, next {k.time.next}" and line.strip() in k._repr_html_()
    assert g.time is None and "time" not in str(g).replace("run time", "")


def test_where_the_time_cannot_be_told_is_said_why():
    def body(n_ref, x_ref, o_ref):
        # Trips of the loop in the middle are all run.
        middle = lambda v: jax.lax.fori_loop(0, 300000, lambda j, w: jax.lax.fori_loop(0, 100, lambda k, u: u + 1, w), v)  # noqa: E731
        o_ref[...] = jax.lax.fori_loop(0, n_ref[0] + 1000, lambda i, v: middle(v), x_ref[...])

    smem, block = pl.BlockSpec(memory_space=pltpu.SMEM), jax.ShapeDtypeStruct((8, 128), jnp.float32)
    n = jax.ShapeDtypeStruct((1,), jnp.int32)
    long = only(pallasim.check(pl.pallas_call(body, in_specs=[smem, pl.BlockSpec()], out_shape=block), n, block, chips=["tpu-v5e"]))
    assert long.ok and long.time is None and "time not predicted: it takes more than 2,000,000 steps" in str(long)


def test_what_jax_does_not_lower_is_an_error_with_its_line():
    from jax.experimental.pallas import mosaic_gpu as plgpu

    def scoped(x_ref, o_ref):
        def body(tile):
            tile[...] = x_ref[...]
            o_ref[...] = tile[...]

        pl.run_scoped(body, plgpu.SMEM((64, 64), jnp.float32))  # of each of two threads

    def turned(x_ref, o_ref):
        o_ref[...] = x_ref[...].T  # rows and columns

    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    f = plgpu.kernel(scoped, out_type=x, num_threads=2, thread_name="wg")
    (k,) = pallasim.check(f, x, chips="gpu-h100").kernels
    assert not k.ok and "of each of two threads" in k.remarks[-1].text and k.remarks[-1].code == "PS-MGPU-005", str(k)
    (k,) = pallasim.check(plgpu.kernel(turned, out_type=x), x, chips="gpu-h100").kernels  # no rule here knows it
    assert not k.ok and "rows and columns" in k.remarks[-1].text, str(k)
    assert f"the lowering of JAX {jax.__version__} refuses it: NotImplementedError: Unimplemented primitive" in k.remarks[-1].message
    fine = plgpu.kernel(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_type=x)
    assert pallasim.check(fine, x, chips="gpu-h100").ok
