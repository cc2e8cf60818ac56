#!/usr/bin/env python3
"""Public libraries that choose their kernels by platform, unmodified, on emulated chips: which of them ran kernels, and how far
their results are from their own code without kernels.

    pip install tokamax recurrentgemma flywheel-tpu deltanet-tpu gdn2-pallas ejkernel jax-linear-attention     (what is not installed is
    left out)
    python scripts/libraries.py [WORD]     cases whose name contains WORD

Exit status 1 where a case that should run a kernel ran none, failed, or is off by more than its bound.
"""
from __future__ import annotations

import importlib
import itertools
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


def jax_blackwell(m: Any) -> Iterator[Case]:
    """JAX's own examples for Blackwell."""
    def op(name: str) -> Any:
        return importlib.import_module(f"jax.experimental.pallas.ops.gpu.blackwell_{name}_mgpu")

    mm, rd = op("matmul"), op("ragged_dot")
    a, b = (normal(i, 512, 512, dtype=jnp.float16) for i in range(2))
    for pair, chip in itertools.product((False, True), ("gpu-b200", "gpu-gb300")):
        config = mm.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, collective=pair)
        yield (f"blackwell_matmul{', pairs' if pair else ''}", chip, lambda config=config: mm.matmul_kernel(a, b, config),
               lambda: a.astype(jnp.float32) @ b.astype(jnp.float32), 0.1)
    x, w, sizes = normal(7, 512, 256, dtype=jnp.float16), normal(8, 4, 256, 256, dtype=jnp.float16), jnp.array([100, 0, 212, 200], jnp.int32)
    pairs = rd.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=2, collective=True, grid_tile_width=1,
                            grid_minor_dim=mm.MatmulDimension.N)  # without pairs the kernel asks for an axis that there is not
    for chip in ("gpu-b200", "gpu-gb300"):
        yield ("blackwell_ragged_dot, pairs", chip, lambda: rd.ragged_dot_kernel(x, w, group_sizes=sizes, config=pairs),
               lambda: _grouped(x, w, sizes), 0.1)


def _tokamax_bodies() -> None:
    """What inline bodies of tokamax compute register by register, said in JAX."""
    @pallasim.register_lowering("inline_mgpu.dequant.<locals>.scaled_w")
    def scaled(s_ref: Any, w: jax.Array) -> jax.Array:
        return s_ref[...][:, None] * w

    @pallasim.register_lowering("inline_mgpu.rescale_i32_tcgen05_acc.<locals>.rescale")
    @pallasim.register_lowering("inline_mgpu.rescale_tcgen05_acc.<locals>.rescale")
    def rescale(sums: jax.Array, x: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
        return x.astype(jnp.float32) * (rows[:, None] * columns[None]) + sums

    @pallasim.register_lowering("inline_mgpu.unpack_bool_bits_tmem_native.<locals>.unpack_booleans")
    def unpack(packed: jax.Array) -> jax.Array:
        """The bits of each integer, the lowest first."""
        bits = jnp.arange(jnp.iinfo(packed.dtype).bits)
        return ((packed.astype(jnp.int32)[..., None] >> bits) & 1).astype(bool).reshape(packed.shape[0], -1)

    @pallasim.register_lowering("inline_mgpu.int4_as_biased_f8e4m3fn.<locals>.encode")
    def encode(x: jax.Array) -> jax.Array:
        return ((x.astype(jnp.float32) + 8) / 512).astype(jnp.float8_e4m3fn)


def tokamax_blackwell(m: Any) -> Iterator[Case]:
    """Its kernels for Blackwell by name, those with integers in the operands on the chip that has such products."""
    def op(path: str) -> Any:
        return importlib.import_module(f"tokamax._src.ops.{path}")

    _tokamax_bodies()
    qwix = importlib.import_module("qwix")
    fa, vjp, rd, glu = (op(f"{path}.pallas_mosaic_gpu{end}") for path, end in (
        ("attention", ""), ("attention", "_vjp"), ("ragged_dot", ""), ("gated_linear_unit", "")))
    q, k, v = (normal(i, 1, 256, 2, 64, dtype=jnp.bfloat16) for i in range(3))
    flash, mask = fa.PallasMosaicGpuFlashAttention(vjp=vjp.PallasMosaicGpuFlashAttentionVjp()), jnp.tril(jnp.ones((256, 256), bool))
    x, w, sizes = normal(3, 512, 256, dtype=jnp.bfloat16), normal(4, 4, 256, 256, dtype=jnp.bfloat16), jnp.array([128, 100, 156, 128], jnp.int32)
    narrow = qwix.quantize(w, qtype=jnp.int4, channelwise_axes=(0, 2), tiled_axes={1: 128})
    after = rd.Config(block_m=64, block_n=128, block_k=128, num_stages=2, split_k=1, post_scale=True)
    single = rd.Config(block_m=64, block_n=128, block_k=64, num_stages=2, split_k=1)
    y, both = normal(5, 256, 128, dtype=jnp.bfloat16), normal(6, 128, 2, 128, dtype=jnp.bfloat16) / 16

    def gated() -> jax.Array:
        gate, value = (y.astype(jnp.float32) @ both[:, i].astype(jnp.float32) for i in range(2))
        return jax.nn.swish(gate) * value

    def ragged(x: Any, w: Any, config: Any = None) -> Callable[[], Any]:
        return lambda: rd.PallasMosaicGpuRaggedDot(config=config)(x, w, group_sizes=sizes)

    for chip in ("gpu-b200", "gpu-gb300"):
        yield "attention", chip, lambda: flash(q, k, v), lambda: attention(q, k, v, "bqh"), 0.0045
        yield "attention, causal", chip, lambda: flash(q, k, v, is_causal=True), lambda: attention(q, k, v, "bqh", mask), 0.008
        yield ("attention, gradients", chip, lambda: jax.grad(lambda *a: flash(*a).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v),
               lambda: jax.grad(lambda *a: attention(*a, "bqh").sum(), (0, 1, 2))(q, k, v), 0.02)
        yield "ragged_dot", chip, ragged(x, w, single), lambda: _grouped(x, w, sizes), 0.5
        yield "ragged_dot, int4", chip, ragged(x, narrow), lambda: _grouped(x, qwix.dequantize(narrow), sizes), 0.5
        yield "ragged_dot, int4, scaled after", chip, ragged(x, narrow, after), lambda: _grouped(x, qwix.dequantize(narrow), sizes), 0.5
        for kind in (jnp.float8_e4m3fn, *((jnp.int8,) if chip == "gpu-b200" else ())):
            left = qwix.quantize(x, qtype=kind, channelwise_axes=(0,), tiled_axes={1: 128})
            yield (f"ragged_dot, {jnp.dtype(kind).name} by int4", chip, ragged(left, narrow),
                   lambda left=left: _grouped(qwix.dequantize(left), qwix.dequantize(narrow), sizes), 0.5)
        yield "gated_linear_unit", chip, lambda: glu.PallasMosaicGpuGatedLinearUnit()(y, both, activation=jax.nn.swish), gated, 0.05


def tokamax_blackwell_more(m: Any) -> Iterator[Case]:
    """Further ways through its kernels for Blackwell: heads that share keys, biases, masks, windows, pairs of CTAs, activations."""
    def op(path: str) -> Any:
        return importlib.import_module(f"tokamax._src.ops.{path}")

    _tokamax_bodies()
    base, fa, vjp, rd, glu = (op(path) for path in ("attention.base", "attention.pallas_mosaic_gpu", "attention.pallas_mosaic_gpu_vjp",
                                                    "ragged_dot.pallas_mosaic_gpu", "gated_linear_unit.pallas_mosaic_gpu"))
    flash, plain = fa.PallasMosaicGpuFlashAttention(vjp=vjp.PallasMosaicGpuFlashAttentionVjp()), base.DotProductAttention()
    few, many = (normal(0, 1, 256, heads, 64, dtype=jnp.bfloat16) for heads in (2, 4))
    k, v = (normal(i, 1, 256, 2, 64, dtype=jnp.bfloat16) for i in (1, 2))
    bias, seen = normal(9, 1, 2, 256, 256, dtype=jnp.bfloat16), jax.random.bernoulli(jax.random.key(3), 0.8, (1, 1, 256, 256))
    window = base.Mask(is_causal=True, k_start=jnp.maximum(jnp.arange(256) - 100, 0))
    x, w, sizes = normal(3, 512, 256, dtype=jnp.bfloat16), normal(4, 4, 256, 256, dtype=jnp.bfloat16), jnp.array([128, 100, 156, 128], jnp.int32)
    y, both = normal(5, 256, 128, dtype=jnp.bfloat16), normal(6, 128, 2, 128, dtype=jnp.bfloat16) / 16

    def wide(q: jax.Array, k: jax.Array, v: jax.Array, **how: Any) -> jax.Array:
        return plain(*(x.astype(jnp.float32) for x in (q, k, v)), **how)

    def ragged(**config: Any) -> Any:
        return rd.PallasMosaicGpuRaggedDot(config=rd.Config(**{"block_k": 64, "num_stages": 2, "split_k": 1, **config}))

    def gated() -> jax.Array:
        gate, value = (y.astype(jnp.float32) @ both[:, i].astype(jnp.float32) for i in range(2))
        return jax.nn.gelu(gate) * value

    for chip in ("gpu-b200", "gpu-gb300"):
        for name, q, how, bound in (("heads that share keys", many, {}, 0.0045), ("a bias", few, {"bias": bias}, 0.0045), ("a mask", few, {"mask": seen}, 0.0045),
                                    ("a window", few, {"mask": window}, 0.008), ("a soft cap", few, {"logits_soft_cap": 20.0}, 0.0045),
                                    ("200 queries", few[:, :200], {}, 0.0045)):
            yield f"attention, {name}", chip, lambda q=q, how=how: flash(q, k, v, **how), lambda q=q, how=how: wide(q, k, v, **how), bound
        for name, q, how in (("heads that share keys", many, {"is_causal": True}), ("a bias", few, {"bias": bias}),
                             ("a mask", few, {"mask": seen})):
            yield (f"attention, {name}, gradients", chip,
                   lambda q=q, how=how: jax.grad(lambda *a: flash(*a, **how).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v),
                   lambda q=q, how=how: jax.grad(lambda *a: wide(*a, **how).sum(), (0, 1, 2))(q, k, v), 0.07)
        for block in (64, 128):
            yield (f"ragged_dot, pairs of {block}", chip, lambda block=block: ragged(block_m=block, block_n=block, collective=True)(x, w, group_sizes=sizes),
                   lambda: _grouped(x, w, sizes), 0.5)
        yield ("ragged_dot, an activation", chip,
               lambda: ragged(block_m=64, block_n=128)(x, w, group_sizes=sizes, activation=jax.nn.relu), lambda: jax.nn.relu(_grouped(x, w, sizes)), 0.5)
        yield "gated_linear_unit, gelu", chip, lambda: glu.PallasMosaicGpuGatedLinearUnit()(y, both, activation=jax.nn.gelu), gated, 0.05


def _jla_bodies() -> None:
    """What two inline bodies of jla compute thread by thread, said in JAX."""
    @pallasim.register_lowering("inline_mgpu._diag_block_inverse")
    def inverse(neg_a_t: jax.Array, na_ref: Any, x_ref: Any) -> jax.Array:
        """(I + A)^-1 of the 16 x 16 blocks on the diagonal, A strictly lower: (I - A)(I + A^2)(I + A^4)(I + A^8)."""
        row, column = (jax.lax.broadcasted_iota(jnp.int32, neg_a_t.shape, d) for d in (0, 1))
        one = jnp.where(row == column, 1.0, 0.0)
        power = jnp.where(row // 16 == column // 16, neg_a_t.T, 0.0)
        product = one + power
        for _ in range(3):
            power = jnp.dot(power, power, preferred_element_type=jnp.float32)
            product = jnp.dot(product, one + power, preferred_element_type=jnp.float32)
        return product

    @pallasim.register_lowering("inline_mgpu._head_sum.<locals>.head_sum")
    def head_sum(x: jax.Array) -> jax.Array:
        """The sum of each head of 64 channels, at each of them."""
        return jnp.broadcast_to(x.reshape(-1, 64).sum(1)[:, None], (x.size // 64, 64)).reshape(x.shape)


def _jla_attention(m: Any, op: Callable[[str], Any]) -> Iterator[Case]:
    q, k, v = (normal(i, 1, 256, heads, 64, dtype=jnp.bfloat16) for i, heads in ((0, 4), (1, 2), (2, 2)))
    rows, columns = jnp.arange(256)[:, None], jnp.arange(256)[None]
    causal, flash = rows >= columns, op("attention").flash_attention
    documents = jnp.arange(256)[None] // 100

    def plain(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array = causal) -> jax.Array:
        return attention(q, *(jnp.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v)), "bqh", mask)

    yield "flash_attention", "gpu-h100", lambda: flash(q, k, v), lambda: plain(q, k, v), 0.02
    yield ("flash_attention, one block per SM", "gpu-h100", lambda: flash(q, k, v, persistent_forward=True), lambda: plain(q, k, v), 0.02)
    yield ("flash_attention, a window", "gpu-h100", lambda: flash(q, k, v, sliding_window=100),
           lambda: plain(q, k, v, causal & (rows - columns < 100)), 0.02)
    yield ("flash_attention, documents", "gpu-h100", lambda: flash(q, k, v, segment_ids=documents),
           lambda: plain(q, k, v, causal & (documents[0][:, None] == documents)), 0.02)
    for backward in ("ranged", "fused", "full"):
        yield (f"flash_attention, gradients, {backward}", "gpu-h100",
               lambda backward=backward: jax.grad(lambda *a: flash(*a, backward=backward).astype(jnp.float32).sum(), (0, 1, 2))(q, k, v),
               lambda: jax.grad(lambda *a: plain(*a).sum(), (0, 1, 2))(q, k, v), 0.1)
    q, k, v = (normal(i, 1, 256, 2, d, dtype=jnp.bfloat16) for i, d in ((0, 192), (1, 192), (2, 128)))
    yield "flash_attention, heads of 192 and 128", "gpu-h100", lambda: flash(q, k, v), lambda: plain(q, k, v), 0.02


def _jla_layers(m: Any, op: Callable[[str], Any]) -> Iterator[Case]:
    x, w, sizes = normal(3, 512, 256, dtype=jnp.bfloat16), normal(4, 4, 256, 256, dtype=jnp.bfloat16), jnp.array([100, 0, 212, 200], jnp.int32)
    rd, narrow = op("ragged_dot").ragged_dot, (x.astype(jnp.float8_e4m3fn), jnp.swapaxes(w, 1, 2).astype(jnp.float8_e4m3fn))
    yield "ragged_dot", "gpu-h100", lambda: rd(x, w, sizes), lambda: _grouped(x, w, sizes), 0.3
    yield ("ragged_dot, gradients", "gpu-h100", lambda: jax.grad(lambda *a: rd(*a, sizes).astype(jnp.float32).sum(), (0, 1))(x, w),
           lambda: jax.grad(lambda *a: _grouped(*a, sizes).sum(), (0, 1))(x, w), 0.3)
    yield ("ragged_dot_fp8", "gpu-h100", lambda: op("ragged_dot_fp8").ragged_dot_fp8(*narrow, sizes),
           lambda: _grouped(narrow[0], jnp.swapaxes(narrow[1], 1, 2), sizes), 0.3)

    def conv(x: jax.Array, w: jax.Array) -> jax.Array:
        padded = jnp.pad(x.astype(jnp.float32), ((0, 0), (w.shape[1] - 1, 0), (0, 0)))
        return jax.nn.silu(sum(padded[:, j:j + x.shape[1]] * w[None, None, :, j] for j in range(w.shape[1])))

    def heads(x: jax.Array, w: jax.Array) -> jax.Array:
        y = conv(x, w).reshape(2, 256, 4, 64)
        return (y / jnp.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)).reshape(x.shape)

    u, taps = normal(5, 2, 256, 256, dtype=jnp.bfloat16), normal(6, 256, 4)
    yield "short_conv", "gpu-h100", lambda: op("short_conv").short_conv(u, taps), lambda: conv(u, taps), 0.05
    yield ("short_conv_l2norm", "gpu-h100", lambda: op("short_conv_l2norm").short_conv_l2norm(u, taps, head_dim=64), lambda: heads(u, taps), 0.01)

    def swiglu(x: jax.Array, both: jax.Array, down: jax.Array) -> jax.Array:
        gate, value = (x.astype(jnp.float32) @ both[:, i].astype(jnp.float32) for i in range(2))
        return (jax.nn.silu(gate) * value) @ down.astype(jnp.float32)

    y, both, down = (normal(7, 256, 256, dtype=jnp.bfloat16), normal(8, 256, 2, 512, dtype=jnp.bfloat16) / 16,
                     normal(9, 512, 256, dtype=jnp.bfloat16) / 16)
    yield "swiglu_mlp", "gpu-h100", lambda: op("fused_gemm").swiglu_mlp(y, both, down), lambda: swiglu(y, both, down), 0.05
    yield ("swiglu_mlp, gradients", "gpu-h100",
           lambda: jax.grad(lambda *a: op("fused_gemm").swiglu_mlp(*a).astype(jnp.float32).sum(), (0, 1, 2))(y, both, down),
           lambda: jax.grad(lambda *a: swiglu(*a).sum(), (0, 1, 2))(y, both, down), 1.0)

    hidden, words, targets = y, normal(11, 1024, 256, dtype=jnp.bfloat16) / 16, jax.random.randint(jax.random.key(12), (256,), 0, 1024)

    def entropy() -> tuple[jax.Array, jax.Array]:
        logits = hidden.astype(jnp.float32) @ words.astype(jnp.float32).T
        log_sum = jax.nn.logsumexp(logits, -1)
        return (log_sum - jnp.take_along_axis(logits, targets[:, None], 1)[:, 0]).sum(), (log_sum ** 2).sum()

    yield ("linear_cross_entropy", "gpu-h100",
           lambda: op("linear_cross_entropy").ce_sums(hidden, words, targets, jnp.ones(256, bool), label_smoothing=0.0, vocab_chunk=512,
                                                      compute_dtype=jnp.bfloat16), entropy, 0.1)


def jla(m: Any) -> Iterator[Case]:
    """jax-linear-attention: recurrences against its own token by token, the rest against plain JAX in f32."""
    ops = importlib.import_module("jla.ops")
    _jla_bodies()
    q, k = (unit(normal(i, 1, 128, 2, 64)).astype(jnp.bfloat16) for i in range(2))
    v = normal(2, 1, 128, 2, 64, dtype=jnp.bfloat16)
    of_head, of_key = (-0.1 * jax.nn.softplus(normal(3, 1, 128, 2, *d)) for d in ((), (64,)))
    gate, channels = jax.nn.sigmoid(normal(5, 1, 128, 2)), jax.nn.sigmoid(normal(6, 1, 128, 2, 64)).astype(jnp.bfloat16)
    kinds = {"simple_gla": {"g": of_head}, "gla": {"g": of_key}, "deltanet": {"beta": gate}, "gated_deltanet": {"g": of_head, "beta": gate},
             "kda": {"g": of_key, "beta": gate}, "gdn2": {"g": of_key, "b": channels, "w": channels},
             "mamba3": {"g": of_head, "beta": gate, "gamma": gate}, "mlstm": {"g": of_head, "i": normal(8, 1, 128, 2)},
             "rwkv7": {"w": of_key, "a": -k, "b": k * 0.5}}
    for kind, gates in kinds.items():
        yield (kind, "gpu-h100", lambda kind=kind, gates=gates: ops.linear_attention(kind, q, k, v, impl="mosaic_gpu", **gates)[0],
               lambda kind=kind, gates=gates: ops.linear_attention(kind, q, k, v, impl="reference", **gates)[0], 0.01)

    def op(name: str) -> Any:
        return importlib.import_module(f"jla.ops.mosaic_gpu.{name}")

    yield from _jla_attention(m, op)
    yield from _jla_layers(m, op)


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
    for cases in (jax_mosaic_gpu, jax_blackwell, tokamax, tokamax_mosaic_gpu, tokamax_blackwell, tokamax_blackwell_more, jla, recurrentgemma, flywheel_tpu, deltanet_tpu,
                  atomic_ops, ejkernel):
        try:
            library = importlib.import_module(cases.__name__.removesuffix("_more").removesuffix("_mosaic_gpu").removesuffix("_blackwell"))
        except Exception as e:  # not installed, or not made for this JAX
            print(f"{cases.__name__:18} is not here: {e}")
            continue
        for case in cases(library):
            if word in f"{cases.__name__} {case[0]}":
                held &= run(cases.__name__, case)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
