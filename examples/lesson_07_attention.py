"""Lesson 7: attention in blocks never holds the matrix of scores.

    .venv/bin/python examples/lesson_07_attention.py

Each grid point has a block of queries and walks over the keys. It keeps, per query, the greatest score so far, the sum
of the exponentials relative to it, and the weighted sum of the values; when the maximum grows, the old sums shrink.

Older texts read a block with `pl.load(k_ref, (pl.ds(start, size), slice(None)))`. Today a ref is indexed:
`k_ref[pl.ds(start, size), :]`. `pallasim.compat` makes the old form run.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

SEQ, HEAD, BLOCK_Q, BLOCK_K = 256, 64, 64, 32


def attention_kernel(q_ref, k_ref, v_ref, o_ref):
    q = q_ref[...] * (1 / np.sqrt(HEAD)).astype(np.float32)

    def one_block(j, carry):
        out, greatest, total = carry
        rows = pl.ds(j * BLOCK_K, BLOCK_K)
        scores = q @ k_ref[rows, :].T
        new_greatest = jnp.maximum(greatest, scores.max(axis=1))
        shrink = jnp.exp(greatest - new_greatest)
        weights = jnp.exp(scores - new_greatest[:, None])
        out = out * shrink[:, None] + weights @ v_ref[rows, :]
        return out, new_greatest, total * shrink + weights.sum(axis=1)

    start = jnp.zeros((BLOCK_Q, HEAD), jnp.float32), jnp.full(BLOCK_Q, -jnp.inf), jnp.zeros(BLOCK_Q)
    out, _, total = jax.lax.fori_loop(0, SEQ // BLOCK_K, one_block, start)
    o_ref[...] = out / total[:, None]


def attention(q, k, v):
    queries = pl.BlockSpec((BLOCK_Q, HEAD), lambda i: (i, 0))
    everything = pl.BlockSpec((SEQ, HEAD), lambda i: (0, 0))
    return pl.pallas_call(
        attention_kernel,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(SEQ // BLOCK_Q,),
        in_specs=[queries, everything, everything],
        out_specs=queries,
    )(q, k, v)


def reference(q, k, v):
    scores = q @ k.T / np.sqrt(HEAD)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)


def main():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((SEQ, HEAD), dtype=np.float32) for _ in range(3))
    with pallasim.emulate(detect_races=True):
        out = np.asarray(attention(q, k, v))
    traffic = pallasim.last_run()["traffic"]
    want = reference(*(a.astype(np.float64) for a in (q, k, v)))
    np.testing.assert_allclose(out, want, atol=2e-6)
    assert np.abs(out).max() > 0.1
    print(f"attention over {SEQ} keys: largest error {np.abs(out - want).max():.1e}")

    print()
    print("What a grid point holds:")
    for name, shape in [("q_ref", (BLOCK_Q, HEAD)), ("a block of k", (BLOCK_K, HEAD)), ("a block of v", (BLOCK_K, HEAD)), ("scores", (BLOCK_Q, BLOCK_K)), ("out, so far", (BLOCK_Q, HEAD))]:
        print(f"  {name:14} {shape[0]:3} x {shape[1]:3}  {4 * shape[0] * shape[1] >> 10:3} KiB")
    print(f"  the whole matrix of scores would be {SEQ} x {SEQ}, {4 * SEQ * SEQ >> 10} KiB, and grows with the square.")
    print("What it reads for that:")
    for t in traffic:
        print(f"  {t['name']:6} {t['bytes_read'] >> 10:4} KiB read {t['bytes_written'] >> 10:4} KiB written")
    # Every block of queries reads all keys and values once.
    blocks = SEQ // BLOCK_Q
    assert [t["bytes_read"] for t in traffic[:3]] == [q.nbytes, blocks * k.nbytes, blocks * v.nbytes]


if __name__ == "__main__":
    main()
