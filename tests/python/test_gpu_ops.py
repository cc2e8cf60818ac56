"""JAX's own Triton kernels, unmodified, against their references: forward and backward, whole blocks and edge blocks."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.gpu import attention, decode_attention, layer_norm, paged_attention, rms_norm, softmax

MACHINE = "gpu-h100"


@pytest.fixture
def check(emulated, same):
    """`check(f, reference, *args)`: outputs agree, and so do gradients of a weighted sum of them where asked."""

    def run(f, reference, *args, tol, grads=()):
        same(emulated(f, *args, machine=MACHINE), np.asarray(reference(*args)), rtol=tol, atol=tol)
        if not grads:
            return
        out = jax.eval_shape(reference, *args)
        weight = jax.random.normal(jax.random.key(99), out.shape, out.dtype)

        def loss(g, *xs):
            return jnp.sum((g(*xs) * weight).astype(jnp.float32))

        expected = jax.grad(functools.partial(loss, reference), grads)(*args)
        actual = emulated(jax.grad(functools.partial(loss, f), grads), *args, machine=MACHINE)
        for a, e in zip(actual, expected):
            same(a, np.asarray(e), rtol=5 * tol, atol=5 * tol)

    return run


def normal(seed, shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


# Blocks of 32 reach beyond an array of 24.
@pytest.mark.parametrize("causal,head_dim,segments", [(False, 32, False), (True, 24, False), (True, 32, True)])
def test_attention(check, causal, head_dim, segments):
    shape = (2, 64, 2, head_dim)
    q, k, v = (normal(i, shape, jnp.float16) for i in range(3))
    ids = jnp.repeat(jnp.arange(2, dtype=jnp.int32), 32)[None].repeat(2, 0) if segments else None
    sizes = attention.BlockSizes(block_q=32, block_k=32, block_q_dkv=32, block_kv_dkv=32, block_q_dq=32, block_kv_dq=32)
    check(lambda q, k, v: attention.mha(q, k, v, ids, causal=causal, block_sizes=sizes),
          lambda q, k, v: attention.mha_reference(q, k, v, ids, causal=causal).astype(q.dtype), q, k, v, tol=0.02, grads=(0, 1, 2))


@pytest.mark.parametrize("n", [128, 200])
def test_layer_norm(check, n):
    x, w, b = normal(0, (2, 8, n)), normal(1, (n,)), normal(2, (n,))
    check(layer_norm.layer_norm, layer_norm.layer_norm_reference, x, w, b, tol=1e-4, grads=(0, 1, 2))


@pytest.mark.parametrize("n", [128, 200])
def test_rms_norm(check, n):
    x, w, b = normal(0, (2, 8, n)), normal(1, (n,)), normal(2, (n,))
    check(rms_norm.rms_norm, rms_norm.rms_norm_reference, x, w, b, tol=1e-4, grads=(0, 1, 2))


@pytest.mark.parametrize("shape,dtype", [((4, 128), jnp.float32), ((3, 5, 100), jnp.float32), ((4, 72), jnp.bfloat16)])
def test_softmax(check, shape, dtype):
    check(softmax.softmax, functools.partial(jax.nn.softmax, axis=-1), normal(0, shape, dtype), tol=1e-5 if dtype == jnp.float32 else 1e-2)


@pytest.mark.parametrize("ranged", [False, True])
def test_decode_attention(check, ranged):
    start, end = (jnp.array([3, 0]), jnp.array([40, 64])) if ranged else (None, None)
    q, k, v = normal(0, (2, 4, 32)), normal(1, (2, 64, 32)), normal(2, (2, 64, 32))
    options = {"start_idx": start, "kv_seq_len": end}
    check(functools.partial(decode_attention.mqa, block_k=16, k_splits=2, **options),
          functools.partial(decode_attention.mqa_reference, **options), q, k, v, tol=2e-3)
    k, v = normal(1, (2, 64, 2, 32)), normal(2, (2, 64, 2, 32))
    check(functools.partial(decode_attention.gqa, block_k=16, k_splits=2, **options),
          functools.partial(decode_attention.gqa_reference, **options), q, k, v, tol=2e-3)


@pytest.mark.parametrize("cap", [None, 20.0])
def test_paged_attention(check, cap):
    pages, page, heads, dim, per_sequence = 24, 8, 2, 32, 8
    q = normal(0, (2, 4, dim))
    k_pages, v_pages = normal(1, (heads, pages, page, dim)), normal(2, (heads, pages, page, dim))
    table = jax.random.permutation(jax.random.key(3), pages)[: 2 * per_sequence].reshape(2, per_sequence)
    lengths = jnp.array([13, 64], jnp.int32)

    def reference(q, k_pages, v_pages):
        k, v = (jnp.swapaxes(p[:, table].reshape(heads, 2, per_sequence * page, dim), 0, 1).swapaxes(1, 2) for p in (k_pages, v_pages))
        return paged_attention.paged_attention_reference(q, k, v, lengths, attn_logits_soft_cap=cap)

    check(lambda q, k, v: paged_attention.paged_attention(q, k, v, table, lengths, block_h=16, pages_per_compute_block=2, k_splits=2,
                                                          attn_logits_soft_cap=cap), reference, q, k_pages, v_pages, tol=2e-3)
