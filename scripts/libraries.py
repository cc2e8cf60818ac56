#!/usr/bin/env python3
"""Public libraries that choose their kernels by platform, unmodified, on emulated chips: which of them ran kernels, and how far
their results are from their own code without kernels.

    pip install tokamax recurrentgemma flywheel-tpu deltanet-tpu gdn2-pallas ejkernel     (what is not installed is left out)
    python scripts/libraries.py [WORD]     cases whose name contains WORD

Exit status 1 where a case that should run a kernel ran none, failed, or is off by more than its bound.
"""
from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import pallasim

Case = tuple[str, str, Callable[[], Any], Callable[[], Any], float]  # name, machine, on the chip, reference, bound


def normal(seed: int, *shape: int, dtype: Any = jnp.float32) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def unit(x: jax.Array) -> jax.Array:
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, spec: str, mask: jax.Array | None = None) -> jax.Array:
    """Softmax attention in f32; `spec` orders batch, heads and positions: "bhq" or "bqh". `mask`: where a query sees a key."""
    q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
    scores = jnp.einsum(f"{spec}d,{spec.replace('q', 'k')}d->bhqk", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf)
    return jnp.einsum(f"bhqk,{spec.replace('q', 'k')}d->{spec}d", jax.nn.softmax(scores), v)


def tokamax(m: Any) -> Iterator[Case]:
    q, k, v = (normal(i, 1, 256, 4, 128, dtype=jnp.bfloat16) for i in range(3))
    for machine in ("tpu-v6e", "gpu-h100"):
        yield "dot_product_attention", machine, lambda: m.dot_product_attention(q, k, v), lambda: attention(q, k, v, "bqh"), 0.03
    x, w, sizes = normal(3, 512, 256, dtype=jnp.bfloat16), normal(4, 4, 256, 256, dtype=jnp.bfloat16), jnp.array([128, 100, 156, 128], jnp.int32)
    yield ("ragged_dot", "tpu-v6e", lambda: m.ragged_dot(x, w, group_sizes=sizes),
           lambda: m.ragged_dot(x, w, group_sizes=sizes, implementation="xla"), 0.5)
    x, w, labels = normal(5, 1024, 256), 0.05 * normal(6, 256, 1024), jax.random.randint(jax.random.key(7), (1024,), 0, 1024)
    yield ("linear_softmax_cross_entropy_loss", "tpu-v6e", lambda: m.linear_softmax_cross_entropy_loss(x, labels, w),
           lambda: m.linear_softmax_cross_entropy_loss(x, labels, w, implementation="xla"), 0.01)


def _grouped(x: jax.Array, w: jax.Array, sizes: jax.Array) -> jax.Array:
    """Each row of x times its group's matrix, in f32."""
    of = np.repeat(np.arange(len(sizes)), np.asarray(sizes))
    return jnp.einsum("mk,mkn->mn", x.astype(jnp.float32), w.astype(jnp.float32)[of])


def tokamax_mosaic_gpu(m: Any) -> Iterator[Case]:
    """The kernels for Hopper by name: which of its implementations tokamax takes by itself depends on its version."""
    def op(path: str) -> Any:
        return importlib.import_module(f"tokamax._src.ops.{path}")

    fa, vjp = op("attention.pallas_mosaic_gpu"), op("attention.pallas_mosaic_gpu_vjp")
    q, k, v = (normal(i, 1, 256, 2, 64, dtype=jnp.bfloat16) for i in range(3))
    flash = fa.PallasMosaicGpuFlashAttention(vjp=vjp.PallasMosaicGpuFlashAttentionVjp())
    mask = jnp.tril(jnp.ones((256, 256), bool))
    yield "attention", "gpu-h100", lambda: flash(q, k, v), lambda: attention(q, k, v, "bqh"), 0.0045
    yield "attention, causal", "gpu-h100", lambda: flash(q, k, v, is_causal=True), lambda: attention(q, k, v, "bqh", mask), 0.008
    yield ("attention, gradients", "gpu-h100", lambda: jax.grad(lambda *a: flash(*a).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v),
           lambda: jax.grad(lambda *a: attention(*a, "bqh").sum(), (0, 1, 2))(q, k, v), 0.02)

    rd = op("ragged_dot.pallas_mosaic_gpu")
    x, w, sizes = normal(3, 512, 256, dtype=jnp.bfloat16), normal(4, 4, 256, 256, dtype=jnp.bfloat16), jnp.array([128, 100, 156, 128], jnp.int32)
    config = rd.Config(block_m=128, block_n=64, block_k=256, num_stages=2, split_k=1)
    yield ("ragged_dot", "gpu-h100", lambda: rd.PallasMosaicGpuRaggedDot(config=config)(x, w, group_sizes=sizes),
           lambda: _grouped(x, w, sizes), 0.5)
    qwix = importlib.import_module("qwix")
    narrow = qwix.quantize(w, qtype=jnp.int4, channelwise_axes=(0, 2), tiled_axes={1: 256})
    small = rd.Config(block_m=64, block_n=64, block_k=128, num_stages=2, split_k=1)
    yield ("ragged_dot, int4", "gpu-h100", lambda: rd.PallasMosaicGpuRaggedDot(config=small)(x, narrow, group_sizes=sizes),
           lambda: _grouped(x, qwix.dequantize(narrow), sizes), 0.5)

    glu = op("gated_linear_unit.pallas_mosaic_gpu")
    y, both = normal(5, 256, 128, dtype=jnp.bfloat16), normal(6, 128, 2, 128, dtype=jnp.bfloat16) / 16

    def gated() -> jax.Array:
        gate, value = (y.astype(jnp.float32) @ both[:, i].astype(jnp.float32) for i in range(2))
        return jax.nn.swish(gate) * value

    yield ("gated_linear_unit", "gpu-h100", lambda: glu.PallasMosaicGpuGatedLinearUnit()(y, both, activation=jax.nn.swish), gated, 0.05)


def jax_mosaic_gpu(m: Any) -> Iterator[Case]:
    """JAX's own examples for Hopper, at the sizes of its tests."""
    def op(name: str) -> Any:
        return importlib.import_module(f"jax.experimental.pallas.ops.gpu.{name}_mgpu")

    mm = op("hopper_matmul")
    a, b = (normal(i, 512, 512, dtype=jnp.float16) for i in range(2))
    for cluster in (None, mm.MatmulDimension.M, mm.MatmulDimension.N):
        config = mm.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=4, cluster_dimension=cluster)
        yield (f"hopper_matmul{'' if cluster is None else f', a cluster along {cluster.name}'}", "gpu-h100",
               lambda config=config: mm.matmul(a, b, None, config), lambda: a.astype(jnp.float32) @ b.astype(jnp.float32), 0.1)
    mixed = op("hopper_mixed_type_matmul")
    i8, bf16 = jax.random.randint(jax.random.key(2), (256, 256), -100, 100).astype(jnp.int8), normal(3, 256, 256, dtype=jnp.bfloat16)
    config_mixed = mixed.TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=2)
    yield ("hopper_mixed_type_matmul", "gpu-h100", lambda: mixed.mixed_matmul_kernel(i8, bf16, out_dtype=jnp.float32, config=config_mixed),
           lambda: i8.astype(jnp.float32) @ bf16.astype(jnp.float32), 0.01)

    att = op("attention")
    q, k, v = (normal(i, 1, 256, heads, 64, dtype=jnp.float16) for i, heads in ((4, 2), (5, 1), (6, 1)))
    for causal in (False, True):
        config_att = att.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, causal=causal)
        yield (f"attention{', causal' if causal else ''}", "gpu-h100", lambda config=config_att: att.attention(q, k, v, config),
               lambda causal=causal: att.attention_reference(q, k, v, causal=causal), 0.01)
    config_bwd = att.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, block_q_dkv=64, block_kv_dkv=64, block_q_dq=64, block_kv_dq=64)
    yield ("attention, gradients", "gpu-h100", lambda: jax.grad(lambda *a: att.attention(*a, config_bwd).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v),
           lambda: jax.grad(lambda *a: att.attention_reference(*a).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v), 0.05)
    config_pipeline = att.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2)
    yield ("attention_with_pipeline_emitter", "gpu-h100", lambda: att.attention_with_pipeline_emitter(q, k, v, config_pipeline),
           lambda: att.attention_reference(q, k, v), 0.01)

    x, w, sizes = normal(7, 512, 256, dtype=jnp.float16), normal(8, 4, 256, 256, dtype=jnp.float16), jnp.array([100, 0, 212, 200], jnp.int32)
    blocks = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 2}
    yield "ragged_dot", "gpu-h100", lambda: op("ragged_dot").ragged_dot(x, w, group_sizes=sizes, **blocks), lambda: _grouped(x, w, sizes), 0.1
    even, z = jnp.array([128, 64, 256, 64], jnp.int32), normal(9, 512, 256, dtype=jnp.float16)
    turned = op("transposed_ragged_dot")
    yield ("transposed_ragged_dot", "gpu-h100", lambda: turned.transposed_ragged_dot(x, z, group_sizes=even, **blocks),
           lambda: turned.ref_transposed_ragged_dot(x.astype(jnp.float32), z.astype(jnp.float32), even), 0.1)


def recurrentgemma(m: Any) -> Iterator[Case]:
    scan, kinds = importlib.import_module("recurrentgemma.jax.scan"), importlib.import_module("recurrentgemma.common").ScanType
    x, a = normal(0, 2, 64, 1024), jax.nn.sigmoid(normal(1, 2, 64, 1024))
    for machine in ("tpu-v5e", "tpu-v6e"):
        yield ("linear_scan", machine, lambda: scan.linear_scan(x, a, scan_type=kinds.AUTO),
               lambda: scan.linear_scan(x, a, scan_type=kinds.LINEAR_NATIVE), 1e-5)


def flywheel_tpu(m: Any) -> Iterator[Case]:
    flash = importlib.import_module("flywheel_tpu.flash_attn_interface").flash_attn_func
    q, k, v = (normal(i, 1, 2, 256, 128, dtype=jnp.bfloat16) for i in range(3))
    yield "flash_attn_func", "tpu-v6e", lambda: flash(q, k, v), lambda: attention(q, k, v, "bhq"), 0.03


def _gated() -> list[jax.Array]:
    """q, k, v, log decay, erase and write gates of a gated delta network."""
    q, k, v, g, b, w = (normal(i, 1, 512, 2, 128) for i in range(6))
    return [unit(q), unit(k), v, -0.1 * jax.nn.softplus(g), jax.nn.sigmoid(b), jax.nn.sigmoid(w)]


def deltanet_tpu(m: Any) -> Iterator[Case]:
    q, *rest = _gated()

    def f(q: jax.Array, **how: Any) -> jax.Array:
        return m.chunk_gdn2(q, *rest, precision="fp32", **how)

    yield "chunk_gdn2", "tpu-v5e", lambda: f(q), lambda: f(q, fallback_scan=True), 1e-5
    yield "chunk_gdn2, gradient", "tpu-v5e", lambda: jax.grad(lambda q: f(q).sum())(q), lambda: jax.grad(lambda q: f(q, fallback_scan=True).sum())(q), 1e-4


def atomic_ops(m: Any) -> Iterator[Case]:
    q, k, v, g, b, w = _gated()
    f = lambda: m.gdn2_forward(q, k, v, w, b, g, 128 ** -0.5)  # noqa: E731
    yield "gdn2_forward", "tpu-v5e", f, f, 1e-3


def ejkernel(m: Any) -> Iterator[Case]:
    modules = importlib.import_module("ejkernel.modules")
    q, k, v = (normal(i, 1, 256, 4, 128, dtype=jnp.bfloat16) for i in range(3))
    yield "flash_attention", "tpu-v5e", lambda: modules.flash_attention(q, k, v), lambda: attention(q, k, v, "bqh"), 0.03


def difference(a: Any, b: Any) -> float:
    """The largest absolute difference between two trees of arrays."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return max(float(np.max(np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64)))) for x, y in pairs)


def run(library: str, case: Case) -> bool:
    name, machine, f, reference, bound = case
    before = pallasim.launch_count()
    try:
        with pallasim.emulate(machine):
            got = jax.block_until_ready(f())
        launches, off = pallasim.launch_count() - before, difference(got, reference())
    except Exception as e:  # a library's own error is a result
        print(f"{library:18} {name:36} {machine:9} {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
        return False
    held = launches > 0 and off <= bound
    print(f"{library:18} {name:36} {machine:9} {launches:4} launches, off by at most {off:.1e} {'' if held else 'WRONG'}", flush=True)
    return held


def main() -> int:
    word, held = " ".join(sys.argv[1:]), True
    for cases in (jax_mosaic_gpu, tokamax, tokamax_mosaic_gpu, recurrentgemma, flywheel_tpu, deltanet_tpu, atomic_ops, ejkernel):
        try:
            library = importlib.import_module(cases.__name__.removesuffix("_mosaic_gpu"))
        except Exception as e:  # not installed, or not made for this JAX
            print(f"{cases.__name__:18} is not here: {e}")
            continue
        for case in cases(library):
            if word in f"{cases.__name__} {case[0]}":
                held &= run(cases.__name__, case)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
