"""Kernels of JAX's own library, unmodified, that see more than their arrays have: blocks that reach over an edge, lanes that a mask leaves, pages that no
request fills. In the default mode and checked they run to their end without a word, and are right. docs/libraries.md names them."""
from __future__ import annotations

import importlib
import re
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pallasim

RNG = np.random.default_rng(20)
GROUPS = jnp.array([100, 37, 119], jnp.int32)
TPU, GPU = "tpu-v5e", "gpu-h100"
CASES = {}


def numbers(*shape):
    return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


def library(name):
    return importlib.import_module(f"jax.experimental.pallas.ops.{name}")


def case(chip, *seen):
    """`seen`: inputs of which blocks reach over an edge (name, block, size), or loads whose mask leaves lanes without a value."""
    def add(program):
        CASES[program.__name__] = program, chip, seen
        return program

    return add


@case(TPU, ("lhs", 128, 200), ("rhs", 128, 200))
def grouped_product_over_a_part_of_a_tile():
    left, right = numbers(256, 200), numbers(3, 200, 128)
    gmm = library("tpu.megablox.gmm").gmm
    return lambda: gmm(left, right, GROUPS, tiling=(64, 128, 128)), jax.lax.ragged_dot(left, right, GROUPS)


@case(TPU, ("rhs", 128, 200))
def grouped_product_into_a_part_of_a_tile():
    left, right = numbers(256, 128), numbers(3, 128, 200)
    gmm = library("tpu.megablox.gmm").gmm
    return lambda: gmm(left, right, GROUPS, tiling=(64, 128, 128)), jax.lax.ragged_dot(left, right, GROUPS)


@case(TPU, ("lhs", 128, 200), ("rhs", 128, 136))
def transposed_grouped_product():
    left, right = numbers(200, 256), numbers(256, 136)
    tgmm = library("tpu.megablox.gmm").tgmm
    ends = [0, 100, 137, 256]
    return lambda: tgmm(left, right, GROUPS, tiling=(64, 128, 128)), jnp.stack([left[:, a:b] @ right[a:b] for a, b in zip(ends, ends[1:])])


@case(TPU, ("q_ref", 16, 40))
def ragged_paged_attention():
    m = library("tpu.ragged_paged_attention.kernel")
    args = (numbers(40, 4, 128), numbers(20, 16, 4, 128), jnp.array([20, 50, 7, 0], jnp.int32), jnp.asarray(RNG.integers(0, 20, (4, 6)), jnp.int32),
            jnp.array([0, 10, 31, 36, 36], jnp.int32), jnp.array([3], jnp.int32))
    run = lambda: m.ragged_paged_attention(*args, num_kv_pages_per_block=2, num_queries_per_block=16, sm_scale=0.1)[:36]  # noqa: E731
    return run, m.ref_ragged_paged_attention(*args, sm_scale=0.1)[:36]


@case(GPU, ("q_ref", 128, 72), ("k_ref", 128, 72), ("v_ref", 128, 72), "mask")
def attention_of_72_columns():
    m = library("gpu.attention")
    q, k, v = (numbers(1, 128, 2, 72) for _ in range(3))
    return lambda: m.mha(q, k, v, segment_ids=None, sm_scale=0.1), m.mha_reference(q, k, v, segment_ids=None, sm_scale=0.1)


@case(GPU, ("q_ref", 128, 72), ("k_ref", 128, 72), ("out_ref", 128, 72), ("do_scaled_ref", 128, 72), "mask")
def gradient_of_attention_of_72_columns():
    """Three kernels: forward, the sums of rows, backward."""
    m = library("gpu.attention")
    q, k, v = (numbers(1, 128, 2, 72) for _ in range(3))
    gradient = lambda f: jax.grad(lambda q: f(q, k, v, segment_ids=None, sm_scale=0.1).sum())(q)  # noqa: E731
    return lambda: gradient(m.mha), gradient(m.mha_reference)


@case(GPU, ("q_ref", 16, 5), "mask")
def decoding_of_five_heads():
    m = library("gpu.decode_attention")
    q, k, v = numbers(2, 5, 64), numbers(2, 128, 64), numbers(2, 128, 64)
    return lambda: m.mqa(q, k, v, k_splits=1, block_k=64), m.mqa_reference(q, k, v)


@case(GPU, ("q_ref", 16, 3), "mask")
def decoding_of_groups_of_three_heads():
    m = library("gpu.decode_attention")
    q, k, v = numbers(2, 6, 64), numbers(2, 256, 2, 64), numbers(2, 256, 2, 64)
    within = dict(start_idx=jnp.array([0, 3], jnp.int32), kv_seq_len=jnp.array([100, 201], jnp.int32))
    return lambda: m.gqa(q, k, v, **within, k_splits=4), m.gqa_reference(q, k, v, **within)


@case(GPU, "other")
def softmax_of_100_columns():
    x = numbers(6, 100)
    return lambda: library("gpu.softmax").softmax(x), jax.nn.softmax(x)


@case(GPU, "mask", "other")
def layer_norm_of_100_columns():
    m = library("gpu.layer_norm")
    x, w, b = numbers(2, 6, 100), numbers(100), numbers(100)
    return lambda: m.layer_norm(x, w, b), m.layer_norm_reference(x, w, b)


@case(GPU, "mask", "other")
def gradient_of_layer_norm_of_100_columns():
    """Three kernels."""
    m = library("gpu.layer_norm")
    x, w, b = numbers(2, 6, 100), numbers(100), numbers(100)
    gradient = lambda f: jax.grad(lambda x: (f(x, w, b) ** 2).sum())(x)  # noqa: E731
    return lambda: gradient(m.layer_norm), gradient(m.layer_norm_reference)


@case(GPU, "mask", "other")
def rms_norm_of_100_columns():
    x, w, b = numbers(2, 6, 100), numbers(100), numbers(100)
    return lambda: library("gpu.rms_norm").rms_norm(x, w, b), x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b


INPUT = re.compile(r'^input "(\S+)" : \w+\[([\d,]+)\] \{.*?block = \[(.*?)\][,}]', re.M)
DIMENSION = re.compile(r"blocked\((\d+)\)|squeezed|\w+\([\d, ]+\)")
MASKED = re.compile(r"= masked_load .*")


def seen_outside(texts):
    """Of kernels: inputs whose last block reaches over an edge, and which sorts of masked loads there are."""
    seen = set()
    for text in texts:
        for name, dims, block in INPUT.findall(text):
            for size, of in zip((int(d) for d in dims.split(",")), DIMENSION.finditer(block)):
                if of[1] and size % int(of[1]):
                    seen.add((name, int(of[1]), size))
        seen |= {"other" if "other = " in load else "mask" for load in MASKED.findall(text)}
    return seen


@pytest.mark.parametrize("name", CASES)
def test_what_is_thrown_away_stops_nobody(name, tmp_path):
    make, chip, wanted = CASES[name]
    run, want = make()
    for options in dict(), dict(detect_races=True), dict(detect_races=True, uninitialized_memory="zero"):
        pallasim.findings()
        with pallasim.emulate(chip, findings="collect", **options):
            np.testing.assert_allclose(run(), want, atol=3e-2, rtol=3e-2)
        assert not pallasim.findings(), [f.report for f in pallasim.findings()]
    with pallasim.emulate(chip):
        pallasim.capture(run, path=tmp_path / "run.capsule")
    with zipfile.ZipFile(tmp_path / "run.capsule") as z:
        assert set(wanted) <= seen_outside(z.read(n).decode() for n in z.namelist() if n.endswith(".psir"))
