"""JAX's own TPU kernels, unmodified and without an `interpret` argument, against their references."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu import example_kernel, flash_attention, matmul, megablox
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention, util
from jax.experimental.pallas.ops.tpu.random import philox, threefry
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

MACHINE = "tpu-v5e"


def normal(seed, shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def test_example_kernel(emulated, same):
    x = normal(0, (8, 128))
    same(emulated(example_kernel.double, x, machine=MACHINE), 2 * np.asarray(x))


def test_matmul(emulated, same):
    x, y = normal(0, (256, 384)), normal(1, (384, 128))
    got = emulated(functools.partial(matmul.matmul, block_shape=(128, 128), block_k=128), x, y, machine=MACHINE)
    same(got, (np.asarray(x, np.float64) @ np.asarray(y, np.float64)).astype(np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(emulated, same, causal):
    q, k, v = (normal(i, (1, 2, 256, 64)) for i in range(3))
    weight = normal(3, q.shape)
    sizes = flash_attention.BlockSizes(**{name: 128 for name in (
        "block_q", "block_k_major", "block_k", "block_q_major_dkv", "block_k_major_dkv", "block_k_dkv", "block_q_dkv",
        "block_k_major_dq", "block_k_dq", "block_q_dq")}, block_b=1)

    def loss(f, *args):
        return jnp.sum(f(*args) * weight)

    f = functools.partial(flash_attention.flash_attention, causal=causal, block_sizes=sizes)
    reference = functools.partial(flash_attention.mha_reference, ab=None, segment_ids=None, causal=causal)
    same(emulated(f, q, k, v, machine=MACHINE), np.asarray(reference(q, k, v)), rtol=2e-5, atol=2e-5)
    got = emulated(jax.grad(functools.partial(loss, f), (0, 1, 2)), q, k, v, machine=MACHINE)
    for a, e in zip(got, jax.grad(functools.partial(loss, reference), (0, 1, 2))(q, k, v)):
        same(a, np.asarray(e), rtol=2e-4, atol=2e-4)


def test_grouped_matmul(emulated, same):
    sizes = jnp.array([100, 28, 0, 128], jnp.int32)
    lhs, rhs = normal(0, (256, 128)), normal(1, (4, 128, 256))

    def reference(a, b):
        return jax.lax.ragged_dot(a, b, sizes)

    def f(a, b):
        return megablox.gmm(a, b, sizes, preferred_element_type=jnp.float32)

    same(emulated(f, lhs, rhs, machine=MACHINE), np.asarray(reference(lhs, rhs)), rtol=1e-4, atol=1e-4)
    got = emulated(jax.grad(lambda *xs: f(*xs).sum(), (0, 1)), lhs, rhs, machine=MACHINE)
    for a, e in zip(got, jax.grad(lambda *xs: reference(*xs).sum(), (0, 1))(lhs, rhs)):
        same(a, np.asarray(e), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_paged_attention(emulated, same, kv_heads):
    batch, pages, page, dim = 2, 4, 16, 128
    lengths = jnp.array([37, 64], jnp.int32)
    tables = jnp.asarray(np.random.default_rng(0).permutation(batch * pages).reshape(batch, pages), jnp.int32)
    k, v = (normal(i, (kv_heads, batch * pages, page, dim), jnp.bfloat16).astype(jnp.float32) for i in range(2))  # the kernel rounds
    q = normal(2, (batch, 4, dim)) * 0.1
    got = emulated(functools.partial(paged_attention, pages_per_compute_block=2), q, k, v, lengths, tables, machine=MACHINE)
    flat = [x[:, tables].reshape(kv_heads, batch, pages * page, dim).swapaxes(0, 1) for x in (k, v)]
    same(got, np.asarray(util.grouped_query_attention_reference(q, *flat, lengths)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mask", [masks.CausalMask((256, 256)), masks.LocalMask((256, 256), (64, 32), 0)], ids=["causal", "local"])
def test_splash_attention(emulated, same, mask):
    q, k, v = (normal(i, (2, 256, 64)) for i in range(3))
    weight = normal(3, q.shape)
    sizes = splash.BlockSizes(**{name: 128 for name in (
        "block_q", "block_kv", "block_kv_compute", "block_q_dkv", "block_kv_dkv", "block_kv_dkv_compute", "block_q_dq", "block_kv_dq")})
    f = splash.make_splash_mha_single_device(masks.MultiHeadMask([mask, mask]), block_sizes=sizes)
    dense = jnp.asarray(mask[:, :])

    def reference(q, k, v):
        logits = jnp.where(dense, jnp.einsum("hqd,hkd->hqk", q, k), -jnp.inf)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(logits, -1), v)

    same(emulated(f, q, k, v, machine=MACHINE), np.asarray(reference(q, k, v)), rtol=1e-4, atol=1e-4)
    got = emulated(jax.grad(lambda *xs: jnp.sum(f(*xs) * weight), (0, 1, 2)), q, k, v, machine=MACHINE)
    for a, e in zip(got, jax.grad(lambda *xs: jnp.sum(reference(*xs) * weight), (0, 1, 2))(q, k, v)):
        same(a, np.asarray(e), rtol=1e-3, atol=1e-3)


def test_threefry_bits_are_those_of_jax(emulated, same):
    key = jax.random.key(7)
    bits = emulated(lambda k: threefry.plthreefry_random_bits(k, 32, (1024, 256)), jax.random.key_data(key), machine=MACHINE)
    with jax.threefry_partitionable(True):
        same(bits, np.asarray(jax.random.bits(key, (1024, 256), jnp.uint32)))


def test_philox_bits_of_two_calls_agree(emulated, same):
    key = jnp.array([1, 2], jnp.uint32)
    bits = emulated(lambda k: philox.philox_random_bits(k, 32, (256, 256)), key, machine=MACHINE)
    assert abs(np.unpackbits(np.asarray(bits).view(np.uint8)).mean() - 0.5) < 0.01
    same(emulated(lambda k: philox.philox_random_bits(k, 32, (256, 256)), key, machine=MACHINE), np.asarray(bits))
