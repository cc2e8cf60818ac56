"""Further families of kernels for scripts/time_truth.py --more: what libraries write beside products and attention."""
from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as plt
from time_truth import triton

S = jax.ShapeDtypeStruct
F16, BF16, F32, I32 = jnp.float16, jnp.bfloat16, jnp.float32, jnp.int32
Made = tuple[Callable[..., Any], tuple[Any, ...]]


# --- rows of an array, one after the other --------------------------------------------------------------------------
def layer_norm(rows: int, cols: int, per: int, warps: int) -> Made:
    def body(x_ref: Any, g_ref: Any, b_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(F32)
        mean = jnp.mean(x, axis=-1, keepdims=True)
        d = x - mean
        var = jnp.mean(d * d, axis=-1, keepdims=True)
        o_ref[...] = (d * jax.lax.rsqrt(var + 1e-5) * g_ref[...][None] + b_ref[...][None]).astype(o_ref.dtype)

    spec, vec = pl.BlockSpec((per, cols), lambda i: (i, 0)), pl.BlockSpec((cols,), lambda i: (0,))
    return (triton(body, S((rows, cols), F16), (rows // per,), [spec, vec, vec], spec, warps),
            (S((rows, cols), F16), S((cols,), F32), S((cols,), F32)))


def rms_norm(rows: int, cols: int, warps: int) -> Made:
    def body(x_ref: Any, g_ref: Any, o_ref: Any) -> None:
        x = x_ref[...].astype(F32)
        o_ref[...] = (x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g_ref[...][None]).astype(o_ref.dtype)

    spec = pl.BlockSpec((1, cols), lambda i: (i, 0))
    return (triton(body, S((rows, cols), BF16), (rows,), [spec, pl.BlockSpec((cols,), lambda i: (0,))], spec, warps),
            (S((rows, cols), BF16), S((cols,), F32)))


def log_sum_exp(rows: int, cols: int, block: int, warps: int) -> Made:
    """A row block by block, with a maximum that runs along."""
    def body(x_ref: Any, o_ref: Any) -> None:
        def step(i: Any, carry: Any) -> Any:
            top, total = carry
            x = x_ref[0, pl.ds(i * block, block)].astype(F32)
            new = jnp.maximum(top, jnp.max(x))
            return new, total * jnp.exp(top - new) + jnp.sum(jnp.exp(x - new))

        top, total = jax.lax.fori_loop(0, cols // block, step, (jnp.float32(-1e30), jnp.float32(0)))
        o_ref[0] = top + jnp.log(total)

    return (triton(body, S((rows,), F32), (rows,), [pl.BlockSpec((1, cols), lambda i: (i, 0))], pl.BlockSpec((1,), lambda i: (i,)), warps),
            (S((rows, cols), F16),))


def cumulative(rows: int, cols: int, warps: int) -> Made:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.cumsum(x_ref[...], axis=-1)

    spec = pl.BlockSpec((1, cols), lambda i: (i, 0))
    return triton(body, S((rows, cols), F32), (rows,), [spec], spec, warps), (S((rows, cols), F32),)


# --- elements -------------------------------------------------------------------------------------------------------
def gated(rows: int, cols: int, bm: int, bn: int, warps: int, kind: str) -> Made:
    """silu(x) * y, or a bias and the gelu of tanh."""
    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        x, y = x_ref[...].astype(F32), y_ref[...].astype(F32)
        if kind == "silu":
            r = x * jax.nn.sigmoid(x) * y
        else:
            x += y[None]
            r = 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
        o_ref[...] = r.astype(o_ref.dtype)

    spec = pl.BlockSpec((bm, bn), lambda i, j: (i, j))
    other = spec if kind == "silu" else pl.BlockSpec((bn,), lambda i, j: (j,))
    return (triton(body, S((rows, cols), BF16), (rows // bm, cols // bn), [spec, other], spec, warps),
            (S((rows, cols), BF16), S((rows, cols) if kind == "silu" else (cols,), BF16)))


def transposed(rows: int, cols: int, bm: int, bn: int, warps: int) -> Made:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...].T

    return (triton(body, S((cols, rows), F16), (rows // bm, cols // bn), [pl.BlockSpec((bm, bn), lambda i, j: (i, j))],
                   pl.BlockSpec((bn, bm), lambda i, j: (j, i)), warps), (S((rows, cols), F16),))


def embedding(table: int, cols: int, tokens: int, per: int, warps: int) -> Made:
    def body(i_ref: Any, t_ref: Any, o_ref: Any) -> None:
        at = i_ref[...]
        o_ref[...] = plt.load(t_ref.at[at[:, None], jnp.arange(cols)[None]])

    names = np.random.default_rng(tokens).integers(0, table, tokens).astype(np.int32)
    return (triton(body, S((tokens, cols), F16), (tokens // per,), [pl.BlockSpec((per,), lambda i: (i,)), pl.BlockSpec(memory_space=pl.ANY)],
                   pl.BlockSpec((per, cols), lambda i: (i, 0)), warps), (names, S((table, cols), F16)))


def histogram(n: int, bins: int, block: int, warps: int) -> Made:
    def body(i_ref: Any, o_ref: Any) -> None:
        plt.atomic_add(o_ref, (i_ref[...],), jnp.ones((block,), I32))

    at = np.random.default_rng(n).integers(0, bins, n).astype(np.int32)
    return (triton(body, S((bins,), I32), (n // block,), [pl.BlockSpec((block,), lambda i: (i,))], pl.BlockSpec(memory_space=pl.ANY), warps), (at,))


# --- products -------------------------------------------------------------------------------------------------------
def product_loop(a_ref: Any, b_ref: Any, k: int, bk: int, bm: int, bn: int, first: Any = 0, acc: Any = F32) -> Any:
    def step(i: Any, c: Any) -> Any:
        at = pl.ds(first + i * bk, bk)
        return c + jnp.dot(a_ref[:, at], b_ref[at, :], preferred_element_type=acc)

    return jax.lax.fori_loop(0, k // bk, step, jnp.zeros((bm, bn), acc))


def epilogue(m: int, n: int, k: int, bm: int, bn: int, bk: int, warps: int, stages: int) -> Made:
    """A product of bf16 with a bias and a gelu behind it."""
    def body(a_ref: Any, b_ref: Any, c_ref: Any, o_ref: Any) -> None:
        x = product_loop(a_ref, b_ref, k, bk, bm, bn) + c_ref[...].astype(F32)[None]
        o_ref[...] = (0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))).astype(o_ref.dtype)

    return (triton(body, S((m, n), BF16), (m // bm, n // bn),
                   [pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j)), pl.BlockSpec((bn,), lambda i, j: (j,))],
                   pl.BlockSpec((bm, bn), lambda i, j: (i, j)), warps, stages), (S((m, k), BF16), S((k, n), BF16), S((n,), BF16)))


def int8_product(m: int, n: int, k: int, bm: int, bn: int, bk: int, warps: int, stages: int) -> Made:
    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        o_ref[...] = product_loop(a_ref, b_ref, k, bk, bm, bn, acc=I32)

    return (triton(body, S((m, n), I32), (m // bm, n // bn), [pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j))],
                   pl.BlockSpec((bm, bn), lambda i, j: (i, j)), warps, stages), (S((m, k), jnp.int8), S((k, n), jnp.int8)))


def batched(batch: int, m: int, n: int, k: int, bm: int, bn: int, bk: int, warps: int, stages: int) -> Made:
    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        o_ref[...] = product_loop(a_ref, b_ref, k, bk, bm, bn).astype(o_ref.dtype)

    return (triton(body, S((batch, m, n), F16), (batch, m // bm, n // bn),
                   [pl.BlockSpec((None, bm, k), lambda b, i, j: (b, i, 0)), pl.BlockSpec((None, k, bn), lambda b, i, j: (b, 0, j))],
                   pl.BlockSpec((None, bm, bn), lambda b, i, j: (b, i, j)), warps, stages), (S((batch, m, k), F16), S((batch, k, n), F16)))


def split_k(m: int, n: int, k: int, bm: int, bn: int, bk: int, parts: int, warps: int, stages: int) -> Made:
    """Parts of k meet in atomic additions; what the output holds before is not cleared, which takes no other time."""
    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        acc = product_loop(a_ref, b_ref, k // parts, bk, bm, bn, first=pl.program_id(2) * (k // parts))
        rows, cols = pl.program_id(0) * bm + jnp.arange(bm), pl.program_id(1) * bn + jnp.arange(bn)
        plt.atomic_add(o_ref, (rows[:, None], cols[None]), acc)

    return (triton(body, S((m, n), F32), (m // bm, n // bn, parts), [pl.BlockSpec((bm, k), lambda i, j, p: (i, 0)), pl.BlockSpec((k, bn), lambda i, j, p: (0, j))],
                   pl.BlockSpec(memory_space=pl.ANY), warps, stages), (S((m, k), F16), S((k, n), F16)))


# --- attention ------------------------------------------------------------------------------------------------------
def online(q: Any, k_ref: Any, v_ref: Any, first: Any, last: Any, bk: int, scale: float, rows: int, dim: int, mask: Any = None) -> Any:
    def step(i: Any, carry: Any) -> Any:
        acc, top, total = carry
        at = pl.ds(i * bk, bk)
        s = jax.lax.dot_general(q, k_ref[at, :], (((1,), (1,)), ((), ())), preferred_element_type=F32) * (scale * 1.4426950408889634)
        if mask is not None:
            s = jnp.where(mask(i * bk), s, -1e30)
        new = jnp.maximum(top, jnp.max(s, axis=1))
        old, p = jnp.exp2(top - new), jnp.exp2(s - new[:, None])
        v = v_ref[at, :]
        return acc * old[:, None] + jnp.dot(p.astype(v.dtype), v, preferred_element_type=F32), new, total * old + jnp.sum(p, axis=1)

    return jax.lax.fori_loop(first, last, step, (jnp.zeros((rows, dim), F32), jnp.full((rows,), -1e30, F32), jnp.zeros((rows,), F32)))


def decode(batch: int, heads: int, group: int, seq: int, dim: int, splits: int, bk: int, warps: int, stages: int) -> Made:
    """A token's queries, `group` of them (at least 16) per head of keys, against parts of the keys; sums of the parts are the caller's."""
    part = seq // splits

    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any, t_ref: Any, l_ref: Any) -> None:
        s = pl.program_id(1)
        acc, top, total = online(q_ref[...], k_ref, v_ref, s * (part // bk), (s + 1) * (part // bk), bk, 1 / math.sqrt(dim), group, dim)
        o_ref[...], t_ref[...], l_ref[...] = acc.astype(o_ref.dtype), top, total

    kv = pl.BlockSpec((None, seq, dim), lambda h, s: (h, 0, 0))
    n = batch * heads
    outs = [pl.BlockSpec((None, None, group, dim), lambda h, s: (h, s, 0, 0))] + [pl.BlockSpec((None, None, group), lambda h, s: (h, s, 0))] * 2
    return (triton(body, [S((n, splits, group, dim), F16), S((n, splits, group), F32), S((n, splits, group), F32)], (n, splits),
                   [pl.BlockSpec((None, group, dim), lambda h, s: (h, 0, 0)), kv, kv], outs, warps, stages),
            (S((n, group, dim), F16), S((n, seq, dim), F16), S((n, seq, dim), F16)))


def causal(heads: int, seq: int, dim: int, bq: int, bk: int, warps: int, stages: int) -> Made:
    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        i = pl.program_id(1)

        def mask(first: Any) -> Any:
            return (i * bq + jnp.arange(bq))[:, None] >= (first + jnp.arange(bk))[None]

        acc, _, total = online(q_ref[...], k_ref, v_ref, 0, pl.cdiv((i + 1) * bq, bk), bk, 1 / math.sqrt(dim), bq, dim, mask)
        o_ref[...] = (acc / total[:, None]).astype(o_ref.dtype)

    whole, part = pl.BlockSpec((None, seq, dim), lambda h, i: (h, 0, 0)), pl.BlockSpec((None, bq, dim), lambda h, i: (h, i, 0))
    x = S((heads, seq, dim), F16)
    return triton(body, x, (heads, seq // bq), [part, whole, whole], part, warps, stages), (x, x, x)


def mosaic_causal(batch: int, seq: int, heads: int, dim: int, **config: Any) -> Made:
    from jax.experimental.pallas.ops.gpu import attention_mgpu as at

    x = S((batch, seq, heads, dim), F16)
    return functools.partial(at.attention, config=at.TuningConfig(**config, causal=True)), (x, x, x)


# --- Mosaic GPU -----------------------------------------------------------------------------------------------------
def mosaic(body: Any, out: Any, blocks: int, scratch: Any = ()) -> Callable[..., Any]:
    """plgpu.kernel as JAX 0.10 or later JAX spell its arguments."""
    newer = "out_type" in inspect.signature(plgpu.kernel).parameters
    names = ("out_type", "scratch_types") if newer else ("out_shape", "scratch_shapes")
    return plgpu.kernel(body, grid=(blocks,), grid_names=("i",), **dict(zip(names, (out, scratch))))


def mosaic_elementwise(rows: int, cols: int, bm: int, bn: int, steps: int) -> Made:
    """Rows of tiles per block, through the pipeline of plgpu.emit_pipeline."""
    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        i = jax.lax.axis_index("i")

        def tile(_: Any, x: Any, y: Any, o: Any) -> None:
            o[...] = x[...] * y[...] + x[...]

        spec = plgpu.BlockSpec((bm, bn), lambda j: (i, j))
        plgpu.emit_pipeline(tile, grid=(cols // bn,), in_specs=[spec, spec], out_specs=[spec], max_concurrent_steps=steps)(x_ref, y_ref, o_ref)

    return (mosaic(body, S((rows, cols), F32), rows // bm),
            (S((rows, cols), F32), S((rows, cols), F32)))


def mosaic_row_sum(rows: int, cols: int, bm: int, bn: int, steps: int) -> Made:
    def body(x_ref: Any, o_ref: Any, kept: Any) -> None:
        i = jax.lax.axis_index("i")

        def tile(_: Any, x: Any, acc: Any) -> Any:
            return acc + jnp.sum(plgpu.load(x, (), layout=plgpu.Layout.WGMMA), axis=1)

        acc = plgpu.emit_pipeline(tile, grid=(cols // bn,), in_specs=[plgpu.BlockSpec((bm, bn), lambda j: (i, j))], max_concurrent_steps=steps,
                                  init_carry=plgpu.layout_cast(jnp.zeros((bm,), F32), plgpu.Layout.WGMMA.reduce(1)))(x_ref)
        kept[...] = acc
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(kept, o_ref.at[pl.ds(i * bm, bm)])
        plgpu.wait_smem_to_gmem(0)

    return (mosaic(body, S((rows,), F32), rows // bm, [plgpu.SMEM((bm,), F32)]),
            (S((rows, cols), F32),))


def mosaic_ragged(groups: int, m: int, n: int, k: int, **config: Any) -> Made:
    from jax.experimental.pallas.ops.gpu import ragged_dot_mgpu as rd

    cuts = np.sort(np.random.default_rng(m).integers(0, m + 1, groups - 1))
    sizes = np.diff(np.concatenate([[0], cuts, [m]])).astype(np.int32)
    names = set(inspect.signature(rd.ragged_dot).parameters)
    config = {a: v for a, v in config.items() if a in names}
    return (lambda s, a, b: rd.ragged_dot(a, b, group_sizes=s, **config)), (sizes, S((m, k), F16), S((groups, k, n), F16))


def more(one: Any, seed: int) -> Iterator[Any]:
    """Problems and configurations of these families that nobody has chosen."""
    rng = np.random.default_rng(seed)

    def any_of(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    def size(unit: int, least: int, most: int) -> int:
        return unit * int(rng.integers(least, most))

    for _ in range(12):
        shape = {"rows": size(256, 4, 100), "cols": any_of(512, 1024, 2048, 4096, 8192)}
        yield from one("triton layer norm", layer_norm, shape, {"per": any_of(1, 1, 2, 4), "warps": any_of(2, 4, 8)})
        yield from one("triton rms norm", rms_norm, shape, {"warps": any_of(1, 4, 8)})
        yield from one("triton log sum exp", log_sum_exp, {"rows": size(256, 2, 40), "cols": any_of(4096, 8192, 32768)},
                       {"block": any_of(512, 1024, 4096), "warps": any_of(2, 4, 8)})
        yield from one("triton cumulative", cumulative, shape, {"warps": any_of(2, 4, 8)})
        kind = any_of("silu", "gelu")
        yield from one(f"triton {kind}", functools.partial(gated, kind=kind), {"rows": size(256, 4, 60), "cols": any_of(1024, 2048, 4096)},
                       {"bm": any_of(1, 4, 16), "bn": any_of(256, 512, 1024), "warps": any_of(4, 8)})
        yield from one("triton transposed", transposed, {"rows": size(256, 4, 32), "cols": size(256, 4, 32)},
                       {"bm": any_of(32, 64, 128), "bn": any_of(32, 64), "warps": any_of(4, 8)})
        yield from one("triton embedding", embedding, {"table": any_of(4096, 32768, 131072), "cols": any_of(256, 1024, 4096), "tokens": size(256, 4, 64)},
                       {"per": any_of(1, 4), "warps": any_of(4, 8)})
        yield from one("triton histogram", histogram, {"n": size(65536, 8, 200), "bins": any_of(64, 1024, 65536)}, {"block": any_of(256, 1024), "warps": any_of(4, 8)})
        yield from one("mosaic elementwise", mosaic_elementwise, {"rows": size(128, 132, 400) // 128 * 128, "cols": any_of(512, 1024, 4096)},
                       {"bm": any_of(64, 128), "bn": any_of(64, 128), "steps": any_of(2, 3)})
        yield from one("mosaic row sum", mosaic_row_sum, {"rows": size(128, 66, 400), "cols": any_of(512, 1024, 4096)},
                       {"bm": any_of(64, 128), "bn": 64, "steps": any_of(2, 3, 4)})
    for family, make in (("epilogue", epilogue), ("int8 matmul", int8_product), ("batched matmul", batched), ("split k", split_k)):
        for _ in range(2):
            shape = {"m": size(256, 2, 12), "n": size(256, 2, 12), "k": size(256, 4, 16)}
            if make is batched:
                shape = {"batch": any_of(8, 16, 32), "m": size(128, 2, 9), "n": size(256, 1, 5), "k": size(128, 1, 9)}
            if make is split_k:
                shape = {"m": size(128, 1, 5), "n": size(256, 1, 5), "k": size(2048, 2, 9)}
            for _ in range(8):
                bm = any_of(64, 128)
                config = {"bm": bm, "bn": any_of(64, 128, 256), "bk": any_of(32, 64), "warps": 4 if bm == 64 else any_of(4, 8), "stages": any_of(2, 3, 4)}
                yield from one(f"triton {family}", make, shape, config | ({"parts": any_of(2, 4, 8)} if make is split_k else {}))
    for _ in range(3):
        shape = {"batch": any_of(1, 4, 16, 64), "heads": any_of(2, 4, 8), "group": 16, "seq": any_of(2048, 4096, 8192, 16384), "dim": any_of(64, 128)}
        for splits, bk in itertools.product((1, 4, 16), (32, 64, 128)):
            yield from one("triton decode", decode, shape, {"splits": splits, "bk": bk, "warps": any_of(2, 4), "stages": any_of(2, 3)})
    for _ in range(2):
        shape = {"heads": any_of(8, 16, 32), "seq": size(512, 2, 9), "dim": any_of(64, 128)}
        for bq, bk in itertools.product((64, 128), (32, 64, 128)):
            yield from one("triton causal attention", causal, shape, {"bq": bq, "bk": bk, "warps": 4 if bq == 64 else any_of(4, 8), "stages": any_of(2, 3)})
        shape = {"batch": any_of(1, 2, 4), "seq": size(512, 2, 9), "heads": any_of(4, 8, 16), "dim": any_of(64, 128)}
        for bq, bkv, steps in itertools.product((64, 128), (64, 128), (2, 3)):
            yield from one("mosaic causal attention", mosaic_causal, shape, {"block_q": bq, "block_kv": bkv, "max_concurrent_steps": steps})
        shape = {"groups": any_of(4, 8, 16), "m": size(1024, 2, 9), "n": size(512, 2, 9), "k": size(512, 2, 9)}
        for bm, bn, steps in itertools.product((64, 128), (64, 128), (2, 4)):
            yield from one("mosaic ragged dot", mosaic_ragged, shape, {"block_m": bm, "block_n": bn, "block_k": 64, "max_concurrent_steps": steps, "grid_block_n": any_of(1, 4)})
