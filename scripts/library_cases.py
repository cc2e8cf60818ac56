"""Kernels of public libraries that have no tests of their own, against XLA's collectives, and those that read outside of an array and use nothing of it;
run by `scripts/library_tests.py`."""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import pallasim

ROOT = Path(os.environ["PALLASIM_LIBRARIES"])


def sharded(f: Callable[..., Any], devices: int, axis: str, *args: jax.Array) -> np.ndarray:
    mesh = Mesh(np.array(jax.devices()[:devices]), (axis,))
    return np.asarray(jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P(axis), out_specs=P(axis), check_vma=False))(*args), np.float32)


@pytest.mark.pallasim("tpu-7x")
@pytest.mark.parametrize("dtype, off", [(jnp.bfloat16, 0.1), (jnp.float32, 1e-5)])
def test_hierarchical_reduce_scatter(dtype: Any, off: float) -> None:
    """vllm-project/tpu-inference: a scalar and 16 vector subcores of two SparseCores of each of eight devices."""
    wrapper = importlib.import_module("tpu_inference.kernels.collectives.hierrs_sc.wrapper")
    x = jax.random.normal(jax.random.key(0), (8 * 1024, 4096), jnp.float32).astype(dtype)
    before = pallasim.launch_count()
    got = sharded(lambda x: wrapper.hierarchical_reduce_scatter_local(x, 8), 8, "x", x)
    assert pallasim.launch_count() > before
    want = sharded(lambda x: jax.lax.psum_scatter(x.astype(jnp.float32), "x", tiled=True), 8, "x", x)
    assert np.abs(got - want).max() <= off


@pytest.mark.pallasim("tpu-v5p", fail_on="none")
@pytest.mark.parametrize("name, n", [("exchange_with_neighbor", 256), ("reduce_scatter", 16), ("reduce_scatter", 32), ("all_gather", 64)])
def test_ring_of_four(name: str, n: int) -> None:
    """beshrislambouli/TPU-Collectives, at the smaller of its own sizes."""
    sys.path.insert(0, str(ROOT / "TPU-Collectives"))
    m = importlib.import_module("collectives")
    more = [] if name.startswith("exchange") else [jnp.int32(1)]  # iterations
    x = jax.random.normal(jax.random.key(0), (4 * n, 8, 128))
    before = pallasim.launch_count()
    with pallasim.compat.old_spellings():
        got = sharded(lambda x: getattr(m, f"{name}_pallas_launch")(x, *more), 4, m.AXIS_NAME, x)
    assert pallasim.launch_count() > before
    want = sharded(getattr(m, f"{name}_reference"), 4, m.AXIS_NAME, x)
    assert np.abs(got - want).max() <= 1e-5


# -- kernels that read outside of an array, and use nothing of what they get --
Case = tuple[str, Callable[[], Any], Any, float]  # chip, run, what is right, bound
OUTSIDE: dict[str, Callable[[], Case]] = {}
RNG = np.random.default_rng(0)


def outside(f: Callable[[], Case]) -> Callable[[], Case]:
    OUTSIDE[f.__name__] = f
    return f


def normal(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
    return jnp.asarray(RNG.standard_normal(shape), dtype)


def experts(axis: str) -> tuple[Any, int, int, jax.Array, list[jax.Array]]:
    """A mesh of all devices; how many experts there are; tokens' size; tokens; matrices: in, in, out."""
    devices = jax.devices()
    mesh, n, size = Mesh(np.array(devices).reshape(1, -1), ("data", axis)), 4 * len(devices), 256
    return mesh, n, size, normal(8 * len(devices), size, dtype=jnp.bfloat16) / 10, [normal(n, size, size, dtype=jnp.bfloat16) / 10 for _ in range(3)]


BLOCKS = dict(bt=8, bf=256, bd1=256, bd2=256, btc=8, bfc=256, bd1c=256, bd2c=256)


@outside
def tpu_inference_cache_update() -> Case:
    """Seven slices in blocks of eight: numbers of the eighth, which is not there, are read and replaced by zeros."""
    m = importlib.import_module("tpu_inference.kernels.ragged_paged_attention.v2.ragged_kv_cache_update")
    page, sizes, new = 32, np.array([7, 32, 32, 1, 1, 1, 9]), normal(128, 2, 128, dtype=jnp.bfloat16)
    to, start = page * np.array([2, 2, 3, 4, 5, 6, 15]) + [-7, 0, 0, 6, 7, 8, 3], np.concatenate([[0], np.cumsum(sizes)[:-1]])
    want = np.zeros((20 * page, 2, 128), np.float32)
    for at, first, n in zip(to, start, sizes):
        want[at:at + n] = new[first:first + n]
    slots, count = jnp.asarray(np.stack([to, start, sizes]), jnp.int32), jnp.array([7], jnp.int32)
    return "tpu-7x", lambda: m.kv_cache_update(new, slots, jnp.zeros(want.shape, jnp.bfloat16), count, page_size=page, num_slices_per_block=8), want, 0


@outside
def tpu_inference_experts() -> Case:
    """Before the first expert's turn, sizes of the experts -2 and -1 are read; their copies have no elements."""
    m = importlib.import_module("tpu_inference.kernels.fused_moe.v1.kernel")
    mesh, n, size, tokens, (a, b, out) = experts("model")
    gates = jnp.asarray(RNG.permuted(np.tile(np.arange(n), (len(tokens), 1)), axis=1), jnp.bfloat16)
    both = jnp.stack([a, b], 1)
    return ("tpu-7x", lambda: m.fused_ep_moe(mesh=mesh, tokens=tokens, w1=both, w2=out, gating_output=gates, top_k=2, **BLOCKS),
            m.ref_moe(tokens, both, out, gates, 2), 0.2)


@outside
def sgl_jax_experts() -> Case:
    """The same, of another version: sizes of the expert -4."""
    m = importlib.import_module("sgl_jax.srt.kernels.fused_moe.v1.kernel")
    mesh, n, size, tokens, (a, b, out) = experts("tensor")
    gates = normal(len(tokens), n)
    weights, ids = jax.lax.top_k(gates, 2)
    split = jax.sharding.NamedSharding(mesh, P(("data", "tensor")))
    args = {k: jax.device_put(x, split) for k, x in dict(tokens=tokens, w1=a, w2=out, w3=b, topk_weights=weights, topk_ids=ids).items()}
    return ("tpu-7x", lambda: m.fused_ep_moe(mesh=mesh, **args, top_k=2, block_config=m.FusedMoEBlockConfig(**BLOCKS, bse=256), tp_axis_name="tensor"),
            m.ref_moe(tokens, a, out, b, gates, 2), 0.2)


def tokamax(name: str) -> Any:
    importlib.import_module("absl.flags").FLAGS.mark_as_parsed()  # it would take pytest's for its own
    return importlib.import_module(f"tokamax._src.ops.{name}")


def normed(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6) * scale + shift


@outside
def tokamax_norm() -> Case:
    """100 columns in blocks of 128: the scale is loaded without a mask."""
    args = normal(7, 100), normal(100), normal(100)
    return "gpu-h100", lambda: tokamax("normalization.pallas_triton").PallasTritonNormalization()(*args), normed(*args), 1e-5


@outside
def tokamax_norm_gradient() -> Case:
    x, scale, shift = normal(7, 100), normal(100), normal(100)
    norm = tokamax("normalization.pallas_triton").PallasTritonNormalization(vjp=tokamax("normalization.pallas_triton_vjp").PallasTritonNormalizationVjp())
    gradient = lambda f: jax.grad(lambda x: (f(x, scale, shift) ** 2).sum())(x)  # noqa: E731
    return "gpu-h100", lambda: gradient(norm), gradient(normed), 1e-4


def heads_of_72() -> tuple[list[jax.Array], jax.Array]:
    q, k, v = (normal(1, n, 2, 72, dtype=jnp.float16) for n in (100, 90, 90))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q.astype(jnp.float32), k.astype(jnp.float32)) / 72 ** 0.5
    return [q, k, v], jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v.astype(jnp.float32))


@outside
def tokamax_attention() -> Case:
    """Heads of 72 columns as 128: keys and values are loaded without a mask along the columns."""
    args, want = heads_of_72()
    return "gpu-h100", lambda: tokamax("attention.pallas_triton").PallasTritonFlashAttention()(*args), want, 0.005


@outside
def tokamax_flex_attention() -> Case:
    args, want = heads_of_72()
    flex = tokamax("flex_attention.pallas_triton").PallasTritonFlexAttention()
    return "gpu-h100", lambda: flex(*args, score_mod=lambda s: s / 72 ** 0.5), want, 0.005


@outside
def tokamax_gated_linear_unit() -> Case:
    """90 columns in blocks of 64: those of the matrices beyond 90 are loaded, and their products are not stored."""
    x, both = normal(64, 63, dtype=jnp.bfloat16), normal(63, 2, 90, dtype=jnp.bfloat16) / 10
    gate, value = (x.astype(jnp.float32) @ both[:, i].astype(jnp.float32) for i in range(2))
    unit = tokamax("gated_linear_unit.pallas_triton").PallasTritonGatedLinearUnit()
    return "gpu-h100", lambda: unit(x, both, activation=jax.nn.swish), jax.nn.swish(gate) * value, 0.05


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_read_outside_is_not_used(name: str) -> None:
    """In the default mode the kernel is right; `out_of_bounds="error"` stops it, at a read."""
    chip, run, want, off = OUTSIDE[name]()
    with pallasim.emulate(chip, findings="collect", detect_races=False):
        before = pallasim.launch_count()
        got = np.asarray(jax.block_until_ready(run()), np.float32)
        assert pallasim.launch_count() > before
        assert np.abs(got - np.asarray(want, np.float32)).max() <= off
    assert "PS-OOB-001" in {f.code for f in pallasim.findings()}
    with pallasim.emulate(chip, findings="collect", detect_races=False, out_of_bounds="error"), pytest.raises(Exception, match="Out-of-bounds read"):
        jax.block_until_ready(run())
    pallasim.findings()
