"""What bounds a GPU's kernels in virtual time: rows of bulk copies, registers, samples of SMs. Figures are those of hw_models/timing."""
from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

import pallasim

S = jax.ShapeDtypeStruct
GPU = "gpu-h100"


def predicted(f, *args, **how):
    return pallasim.predict(f, *args, chip=GPU, sensitivity=False, **how)


def hopper(m, n, k, **config):
    mm = pytest.importorskip("jax.experimental.pallas.ops.gpu.hopper_matmul_mgpu")
    config = mm.TuningConfig(**{"tile_m": 64, "tile_n": 64, "tile_k": 64, "max_concurrent_steps": 4} | config)
    return functools.partial(mm.matmul, config=config, c=None), S((m, k), jnp.float16), S((k, n), jnp.float16)


def product(m, n, k, bm, bn, bk, warps, stages=3, part=lambda x: x):
    def kernel(a_ref, b_ref, o_ref):
        def step(i, acc):
            at = pl.ds(i * bk, bk)
            return acc + part(jnp.dot(a_ref[:, at], b_ref[at, :], preferred_element_type=jnp.float32))

        o_ref[...] = jax.lax.fori_loop(0, k // bk, step, jnp.zeros((bm, bn), jnp.float32)).astype(o_ref.dtype)

    specs = [pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j))]
    f = pl.pallas_call(kernel, grid=(m // bm, n // bn), in_specs=specs, out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
                       out_shape=S((m, n), jnp.float16), compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages))
    return f, S((m, k), jnp.float16), S((k, n), jnp.float16)


# The kernel, and how far a sample may be off: of the grid's 256 programs eight SMs have one, the others two.
SAMPLED = {"persistent": (lambda: hopper(1024, 1024, 1024), 0.005), "clusters": (lambda: hopper(1024, 2048, 512, cluster_dimension=1), 0.01),
           "narrow": (lambda: hopper(2048, 1024, 1024, tile_k=32, max_concurrent_steps=2), 0.005),
           "grid": (lambda: product(1024, 1024, 1024, 64, 64, 64, 4), 0.03)}


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_of_sms_takes_as_long_as_all(name):
    make, off = SAMPLED[name]
    f, *args = make()
    some, every = predicted(f, *args, sample=True), predicted(f, *args)
    assert some.seconds == pytest.approx(every.seconds, rel=off)
    assert some[0].flops == pytest.approx(every[0].flops, rel=0.15)
    assert any("SMs with their share" in note for note in some[0].notes), some[0].notes
    assert not any("SMs with their share" in note for note in every[0].notes)


def test_programs_that_differ_are_all_run():
    def kernel(x_ref, o_ref):
        def step(i, acc):
            return acc + x_ref[pl.ds(i * 64, 64)]

        o_ref[...] = jax.lax.fori_loop(0, pl.program_id(0) + 1, step, jnp.zeros((64,), jnp.float32))

    f = pl.pallas_call(kernel, grid=(200,), in_specs=[pl.BlockSpec((200 * 64,), lambda i: (0,))], out_specs=pl.BlockSpec((64,), lambda i: (i,)),
                       out_shape=S((200 * 64,), jnp.float32), compiler_params=plt.CompilerParams())
    x = S((200 * 64,), jnp.float32)
    assert predicted(f, x, sample=True).seconds == predicted(f, x).seconds


def test_a_last_program_for_which_no_sm_is_left_is_not_lost():
    f, *args = product(133 * 64, 64, 256, 64, 64, 64, 4)
    assert predicted(f, *args, sample=True).seconds == pytest.approx(predicted(f, *args).seconds, rel=0.01)


def test_narrow_rows_cost_bulk_copies_time():
    """Of the same bytes in rows of half the width there are twice as many."""
    def steps(tile_k, slots):
        return predicted(*hopper(2048, 2048, 2048, tile_n=128, tile_k=tile_k, max_concurrent_steps=slots)).seconds

    assert steps(32, 6) > 1.3 * steps(64, 3)


def test_values_that_registers_do_not_hold_go_to_local_memory():
    """128 x 256 sums of float32 by 128 lanes are 256 registers of each; by 256 lanes half. Measured on an H100: 419 and 59 us."""
    four, eight = (predicted(*product(3072, 3072, 1536, 128, 256, 64, warps)) for warps in (4, 8))
    assert four.seconds > 3 * eight.seconds
    note, = (n for n in four[0].notes if "local memory" in n)
    assert "288 registers" in note and "of 255" in note and "128 KiB" in note
    assert not any("local memory" in n for n in eight[0].notes)


def test_a_product_times_one_is_added_where_the_sum_lies():
    """128 x 128 sums of float32 by 128 lanes are 128 registers of each; beside them a product of their size does not fit. tokamax's ragged product
    on an H100, which multiplies by scales that are one: 4.57 ms, predicted 40.6 before that was known, 4.1 since."""
    plain, ones, scaled = (predicted(*product(1024, 1024, 1024, 128, 128, 32, 4, part=p)) for p in (lambda x: x, lambda x: x * 1 * 1, lambda x: x * 3))
    assert ones.seconds == pytest.approx(plain.seconds)
    assert not any("local memory" in n for n in plain[0].notes + ones[0].notes)
    assert any("288 registers" in n for n in scaled[0].notes)


def test_warpgroups_that_pass_registers_on_have_an_sm_alone():
    at = pytest.importorskip("jax.experimental.pallas.ops.gpu.attention_mgpu")
    x = S((1, 1024, 32, 64), jnp.float16)
    f = functools.partial(at.attention, config=at.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2))
    assert predicted(f, x, x, x)[0].resident == 132


def test_an_addition_behind_a_multiplication_is_one_instruction_with_it():
    def many(f):
        def kernel(x_ref, o_ref):
            x = x_ref[...]
            y = jax.lax.fori_loop(0, 64, lambda i, y: f(x, y), x, unroll=True)
            o_ref[...] = y

        spec = pl.BlockSpec((4096,), lambda i: (i,))
        n = S((1 << 19,), jnp.float32)
        return predicted(pl.pallas_call(kernel, grid=(128,), in_specs=[spec], out_specs=spec, out_shape=n, compiler_params=plt.CompilerParams()), n).seconds

    one, both, apart = many(lambda x, y: x * y), many(lambda x, y: x * y + x), many(lambda x, y: (x + y) * x)
    assert one < both < one + 0.5 * (apart - one)


def test_one_load_less_is_under_way_than_there_are_stages():
    times = [predicted(*product(512, 512, 2048, 64, 64, 32, 4, stages)).seconds for stages in (1, 2, 3, 4)]
    assert all(a > b for a, b in itertools.pairwise(times)), times


def steps(module, **sizes):
    """A lesson's kernels at another size: it has its sizes as globals."""
    import importlib
    import pathlib
    import sys

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
    try:
        lesson = importlib.reload(importlib.import_module(module))
    finally:
        sys.path.pop(0)
    for name, value in sizes.items():
        assert hasattr(lesson, name)
        setattr(lesson, name, value)
    return lesson


def test_each_step_of_the_blackwell_lessons_is_faster():
    """JAX's tutorial publishes 269, 219, 206, 199, 193 us of such kernels on a B200 (scripts/blackwell_steps.py has its own ones)."""
    pytest.importorskip("jax.experimental.pallas.mosaic_gpu")
    m, n, k = 4096, 8192, 4096
    shapes = S((m, k), jnp.float16), S((k, n), jnp.float16)
    one = steps("lesson_45_blackwell_matmul", M=m, N=n, K=k, STEPS=k // 64)
    two = steps("lesson_46_blackwell_pairs", M=m, N=n, K=k, SLOTS=4, STEPS=k // 64, TILES=(m // 256) * (n // 256))
    seconds = [pallasim.predict(f, *shapes, chip="gpu-b200", sensitivity=False).seconds for f in (
        one.by_warps, two.pair, functools.partial(two.stays, clusters=74), functools.partial(two.two_groups, clusters=74))]
    assert seconds == sorted(seconds, reverse=True)
    for got, published in zip(seconds, (269e-6, 206e-6, 199e-6, 185e-6)):
        assert abs(got / published - 1) < 0.2, seconds


def test_power_lowers_the_clock_of_a_chip_whose_tensor_cores_never_rest():
    lesson = steps("lesson_46_blackwell_pairs", M=4096, N=8192, K=4096, SLOTS=4, STEPS=64, TILES=512)
    p = pallasim.predict(functools.partial(lesson.stays, clusters=74), S((4096, 4096), jnp.float16), S((4096, 8192), jnp.float16), chip="gpu-b200",
                         sensitivity=False)[0]
    note = next(x for x in p.notes if "of its clock" in x)
    assert "it has 1000 W" in note
    # What moves less takes less energy: the same products in an order that shares blocks are faster, though nothing waits for memory.
    small = steps("lesson_46_blackwell_pairs", M=512, N=512, K=4096, SLOTS=4, STEPS=64, TILES=4)
    p = pallasim.predict(functools.partial(small.stays, clusters=4), S((512, 4096), jnp.float16), S((4096, 512), jnp.float16), chip="gpu-b200", sensitivity=False)[0]
    assert not any("of its clock" in x for x in p.notes)


def test_both_ctas_of_a_pair_multiply():
    m, n, k = 512, 512, 1024
    lesson = steps("lesson_46_blackwell_pairs", M=m, N=n, K=k, STEPS=k // 64, TILES=4)
    p = pallasim.predict(lesson.pair, S((m, k), jnp.float16), S((k, n), jnp.float16), chip="gpu-b200", sensitivity=False)[0]
    assert p.flops == pytest.approx(2 * m * n * k, rel=0.01)


def attend(scale, transposed, heads=64, seq=8192, dim=64, block=128, heads_first=True):
    """Of one block of queries and all keys; one program per block and head: heads are the grid's first axis or its last one."""
    def kernel(q_ref, k_ref, o_ref):
        def step(i, acc):
            k = plt.load(k_ref.at[pl.ds(i * block, block), :])
            k = k * jnp.float16(scale) if scale else k
            dims = (((1,), (0,)), ((), ())) if transposed else (((1,), (1,)), ((), ()))
            return acc + jnp.sum(jax.lax.dot_general(q_ref[...], k.T if transposed else k, dims, preferred_element_type=jnp.float32), axis=1)

        o_ref[...] = jax.lax.fori_loop(0, seq // block, step, jnp.zeros((block,), jnp.float32))

    def at(index):
        return index if heads_first else lambda i, h: index(h, i)

    x = S((heads, seq, dim), jnp.float16)
    grid = (heads, seq // block) if heads_first else (seq // block, heads)
    f = pl.pallas_call(kernel, grid=grid, out_shape=S((heads, seq), jnp.float32),
                       in_specs=[pl.BlockSpec((None, block, dim), at(lambda h, i: (h, i, 0))), pl.BlockSpec((None, seq, dim), at(lambda h, i: (h, 0, 0)))],
                       out_specs=pl.BlockSpec((None, block), at(lambda h, i: (h, i))), compiler_params=plt.CompilerParams(num_warps=4, num_stages=3))
    return f, x, x


def test_arrays_that_no_cache_holds_come_from_memory_as_often_as_programs_far_apart_read_them():
    """Programs are taken up along the first axis, so that heads go through their keys side by side, once per wave; along the last one a head's
    programs are there together."""
    once = 2 * 64 * 8192 * 64 * 2
    p = predicted(*attend(0, False, heads_first=False))[0]
    assert once * 0.9 < p.bytes_read < once * 2  # not once per program, which are 64 times as many bytes of keys
    apart = predicted(*attend(0, False))[0]
    each_wave = once / 2 * (1 + 4096 / apart.resident)  # queries once, keys again and again
    assert each_wave * 0.9 < apart.bytes_read < each_wave * 1.4, apart.bytes_read / each_wave


def test_axes_of_vmap_are_the_slowest():
    """A launch that vmap made takes its programs up as each of those it is made of, one after the other."""
    f, a, b = product(1024, 1024, 1024, 64, 128, 64, 4)
    mapped = predicted(jax.vmap(f), S((32, 1024, 1024), jnp.float16), S((32, 1024, 1024), jnp.float16))[0]
    once = 32 * 2 * 1024 * 1024 * 2
    assert once * 0.9 < mapped.bytes_read < once * 1.3


def test_what_compilers_fold_costs_nothing():
    plain, one, turned = (predicted(*attend(*how))[0].seconds for how in ((0, False), (1, False), (0, True)))
    assert one == pytest.approx(plain) and turned == pytest.approx(plain)
    assert predicted(*attend(2, False))[0].seconds > 1.005 * plain


def test_rows_whose_indices_are_arrays_are_predicted_without_values():
    """Indices and masks are not computed: nothing is said of where the loads go, and they cost what they load."""
    def kernel(x_ref, o_ref):
        row, column = pl.program_id(0), jnp.arange(1024)
        here = column < x_ref.shape[1]
        x = plt.load(x_ref.at[row, column], mask=here, other=-jnp.inf)
        e = jnp.exp(x - jnp.max(x))
        plt.store(o_ref.at[row, column], e / jnp.sum(e), mask=here)

    f = pl.pallas_call(kernel, out_shape=S((512, 1000), jnp.float32), grid=(512,), compiler_params=plt.CompilerParams())
    without, with_values = (predicted(f, S((512, 1000), jnp.float32), values=v)[0] for v in (False, True))
    assert not without.with_values and with_values.with_values
    assert without.seconds == pytest.approx(with_values.seconds, rel=1e-9)


def test_loops_that_follow_each_other_share_what_is_fetched_ahead():
    """As one that has a mask behind one that needs none: each has its stages in shared memory, one after the other."""
    n, block, stages = 2048, 128, 3

    def attend(loops):
        def kernel(a_ref, b_ref, o_ref):
            def step(i, acc):
                at = pl.ds(i * block, block)
                return acc + jnp.dot(a_ref[:, at], b_ref[at, :], preferred_element_type=jnp.float32)

            acc = jnp.zeros((block, block), jnp.float32)
            for k in range(loops):
                acc = jax.lax.fori_loop(k * (n // block // loops), (k + 1) * (n // block // loops), step, acc)
            o_ref[...] = acc.astype(o_ref.dtype)

        specs = [pl.BlockSpec((block, n), lambda i, j: (i, 0)), pl.BlockSpec((n, block), lambda i, j: (0, j))]
        f = pl.pallas_call(kernel, grid=(n // block, n // block), in_specs=specs, out_specs=pl.BlockSpec((block, block), lambda i, j: (i, j)),
                           out_shape=S((n, n), jnp.float16), compiler_params=plt.CompilerParams(num_warps=8, num_stages=stages))
        return predicted(f, S((n, n), jnp.float16), S((n, n), jnp.float16))[0]

    one, two = attend(1), attend(2)
    assert one.resident == two.resident == 132, "one on each SM"
    assert two.seconds == pytest.approx(one.seconds, rel=0.2)


def test_algorithms_of_products_take_as_many_passes_as_they_have():
    from jax.lax import DotAlgorithmPreset as A

    def of(precision):
        def kernel(a_ref, b_ref, o_ref):
            o_ref[...] = jax.lax.fori_loop(0, 64, lambda i, acc: acc + plt.dot(a_ref[...], b_ref[...], precision=precision), jnp.zeros((64, 64)))

        spec = pl.BlockSpec((64, 64), lambda i: (0, 0))
        f = pl.pallas_call(kernel, grid=(132,), in_specs=[spec, spec], out_specs=spec, out_shape=S((64, 64), jnp.float32), compiler_params=plt.CompilerParams())
        x = S((64, 64), jnp.float32)
        return {b.name: b.seconds for b in predicted(f, x, x)[0].bounds}

    tensor = {p: of(p).get("tensor core", 0) for p in (A.TF32_TF32_F32, A.TF32_TF32_F32_X3, A.BF16_BF16_F32_X3, A.BF16_BF16_F32_X9)}
    assert tensor[A.TF32_TF32_F32_X3] == pytest.approx(3 * tensor[A.TF32_TF32_F32])
    assert tensor[A.BF16_BF16_F32_X9] == pytest.approx(3 * tensor[A.BF16_BF16_F32_X3])
    assert "tensor core" not in of(A.F32_F32_F32) and of(A.F32_F32_F32)["SIMT"] > of(A.TF32_TF32_F32)["SIMT"]
