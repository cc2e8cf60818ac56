#!/usr/bin/env python3
"""Mosaic GPU kernels with fixed operands, on a real Hopper GPU or on the emulated one, as hashes that can be held against each other.

    python scripts/hopper_truth.py --write tests/truth/hopper.json       on a machine with a GPU: records what it computes
    python scripts/hopper_truth.py --against tests/truth/hopper.json     emulated: compares, exit status 1 where bits differ
                                                                         that should be equal, or a bound is exceeded
    …  WORD                                                              cases whose name contains WORD

Operands come from numpy's RandomState, whose streams do not change between versions.
"""
from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

SAMPLES = 64  # elements kept of each output, for a bound where bits may differ
Case = Callable[[], Any]
CASES: dict[str, tuple[Case, float]] = {}  # name -> kernel, bound in ulp of the output's dtype; 0: equal bits


def case(bound: float = 0, name: str | None = None) -> Callable[[Case], Case]:
    def add(f: Case) -> Case:
        CASES[name or f.__name__] = f, bound
        return f

    return add


def uniform(seed: int, shape: tuple[int, ...], dtype: Any = jnp.float16) -> jax.Array:
    return jnp.asarray(np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)).astype(dtype)


def integers(seed: int, shape: tuple[int, ...], dtype: Any, low: int = -8, high: int = 8) -> jax.Array:
    return jnp.asarray(np.random.RandomState(seed).randint(low, high, shape)).astype(dtype)


def kernel(body: Any, out: Any, **kwargs: Any) -> Any:
    """plgpu.kernel, whose arguments newer JAX renamed."""
    scratch = kwargs.pop("scratch", ())
    try:
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, **kwargs)
    except TypeError:
        return plgpu.kernel(body, out_shape=out, scratch_shapes=scratch, **kwargs)


def transforms(dtype: Any, columns: int = 64) -> tuple[Any, ...]:
    size = jnp.dtype(dtype).itemsize
    swizzle = min(128, columns * size)
    return plgpu.TilingTransform((8, swizzle // size)), plgpu.SwizzleTransform(swizzle)


# --- movement -------------------------------------------------------------------------------------------------------
def _through_smem(x: jax.Array, shape: tuple[int, int], at: Any, to: Any, swizzled: bool = True) -> jax.Array:
    """A box of x into an array of zeros, by a TMA load and a TMA store."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(x_ref.at[at], smem, barrier)
        plgpu.barrier_wait(barrier)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(smem, o_ref.at[to])
        plgpu.wait_smem_to_gmem(0)

    tags = transforms(x.dtype, shape[1]) if swizzled else ()
    return kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), scratch=[plgpu.SMEM(shape, x.dtype, transforms=tags), plgpu.Barrier()])(x)


@case()
def copy_box() -> Any:
    x = integers(0, (64, 64), jnp.float16, -1000, 1000)
    return _through_smem(x, (64, 64), (slice(None), slice(None)), (slice(None), slice(None)))


@case()
def copy_unswizzled() -> Any:
    x = integers(1, (64, 128), jnp.float32, -1000, 1000)
    return _through_smem(x, (64, 128), (slice(None), slice(None)), (slice(None), slice(None)), swizzled=False)


@case()
def copy_past_the_end() -> Any:
    """Rows past the end are read as zeros and not written."""
    x = integers(2, (72, 64), jnp.float16, 1, 1000)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        i = jax.lax.axis_index("i")
        plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(i * 64, 64)], smem, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[pl.ds(i * 64, 64)] = smem[...] + jnp.float16(1)

    out = jax.ShapeDtypeStruct((128, 64), x.dtype)
    return kernel(body, out, grid=(2,), grid_names=("i",),
                  scratch=[plgpu.SMEM((64, 64), x.dtype, transforms=transforms(x.dtype)), plgpu.Barrier()])(x)


@case()
def reduce_store() -> Any:
    """A TMA store, then one that adds."""
    x = integers(3, (2, 64, 64), jnp.int32, -100, 100)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        for i, op in enumerate((None, "add")):
            plgpu.copy_gmem_to_smem(x_ref.at[i], smem, barrier)
            plgpu.barrier_wait(barrier)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(smem, o_ref, reduction_op=op)
            plgpu.wait_smem_to_gmem(0)

    return kernel(body, jax.ShapeDtypeStruct((64, 64), jnp.int32), scratch=[plgpu.SMEM((64, 64), jnp.int32), plgpu.Barrier()])(x)


@case()
def pipeline_sum() -> Any:
    x, y = integers(4, (256, 256), jnp.float32, -100, 100), integers(5, (256, 256), jnp.float32, -100, 100)

    def body(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        def step(_: Any, a: Any, b: Any, o: Any) -> None:
            o[...] = a[...] * b[...] + a[...]

        spec = plgpu.BlockSpec((64, 64), lambda i, j: (i, j), transforms=transforms(jnp.float32, 32))
        plgpu.emit_pipeline(step, grid=(4, 4), in_specs=[spec, spec], out_specs=[spec], max_concurrent_steps=3)(
            x_ref, y_ref, o_ref)

    return kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


@case()
def two_warpgroups() -> Any:
    """One warpgroup fills slots of a ring, the other empties them."""
    x = integers(6, (8, 64, 64), jnp.float16, -100, 100)

    def body(x_ref: Any, o_ref: Any, ring: Any, full: Any, empty: Any) -> None:
        wg = jax.lax.axis_index("wg")

        @pl.when(wg == 0)
        def _() -> None:
            @pl.loop(0, 8)
            def _(i: Any) -> None:
                @pl.when(i >= 2)
                def _() -> None:
                    plgpu.barrier_wait(empty.at[i % 2])
                plgpu.copy_gmem_to_smem(x_ref.at[i], ring.at[i % 2], full.at[i % 2])

        @pl.when(wg == 1)
        def _() -> None:
            @pl.loop(0, 8)
            def _(i: Any) -> None:
                plgpu.barrier_wait(full.at[i % 2])
                o_ref[i] = ring[i % 2] * jnp.float16(2)
                plgpu.barrier_arrive(empty.at[i % 2])

    return kernel(body, jax.ShapeDtypeStruct(x.shape, x.dtype), num_threads=2, thread_name="wg", scratch=[
        plgpu.SMEM((2, 64, 64), jnp.float16, transforms=transforms(jnp.float16)), plgpu.Barrier(num_barriers=2), plgpu.Barrier(num_barriers=2)])(x)


@case()
def copy_around_the_edges() -> Any:
    """Boxes that begin before their array, or end behind it, in either dimension: zeros come from there."""
    x = integers(40, (72, 128), jnp.float16, 1, 1000)

    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        i, j = jax.lax.axis_index("i"), jax.lax.axis_index("j")
        plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(i * 64 - 24, 64), pl.ds(j * 120 - 40, 64)], smem, barrier)
        plgpu.barrier_wait(barrier)
        o_ref[pl.ds((i * 3 + j) * 64, 64)] = smem[...] + jnp.float16(1)

    return kernel(body, jax.ShapeDtypeStruct((9 * 64, 64), x.dtype), grid=(3, 3), grid_names=("i", "j"),
                  scratch=[plgpu.SMEM((64, 64), x.dtype), plgpu.Barrier()])(x)


def _reduced(x: jax.Array, op: str) -> jax.Array:
    """x[0] is stored, x[1] is combined with it."""
    def body(x_ref: Any, o_ref: Any, smem: Any, barrier: Any) -> None:
        for i, by in enumerate((None, op)):
            plgpu.copy_gmem_to_smem(x_ref.at[i], smem, barrier)
            plgpu.barrier_wait(barrier)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(smem, o_ref, reduction_op=by)
            plgpu.wait_smem_to_gmem(0)

    return kernel(body, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), scratch=[plgpu.SMEM(x.shape[1:], x.dtype), plgpu.Barrier()])(x)


def _pairs(dtype: Any) -> jax.Array:
    """Each of 64 numbers with each: zeros of both signs, NaN, infinities, the smallest and the largest, random ones."""
    info = jnp.finfo(dtype)
    rng = np.random.RandomState(42)
    some = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, float(info.tiny), -float(info.tiny), float(info.tiny) / 4, -float(info.tiny) / 4,
            float(info.max), -float(info.max), *rng.uniform(-2, 2, 52)]
    row = np.asarray(some, np.float32).astype(dtype)  # by numpy, which keeps what is denormal
    return jnp.asarray(np.stack([np.broadcast_to(row[:, None], (64, 64)), np.broadcast_to(row, (64, 64))]))


for _op in ("smin", "smax", "umin", "umax", "and", "or", "xor", "inc", "dec"):
    CASES[f"reduce_{_op}_int32"] = functools.partial(lambda op: _reduced(integers(43, (2, 64, 64), jnp.int32, -9, 9), op), _op), 0
for _name, _ops_of in (("float16", ("add", "min", "max")), ("bfloat16", ("add", "min", "max")), ("float32", ("add",))):
    for _op in _ops_of:
        CASES[f"reduce_{_op}_{_name}"] = functools.partial(lambda d, op: _reduced(_pairs(d), op), jnp.dtype(_name), _op), 0


# --- wgmma ----------------------------------------------------------------------------------------------------------
def _wgmma(a: jax.Array, b: jax.Array, out: Any) -> jax.Array:
    """One product of a warpgroup, both operands from SMEM."""
    acc_dtype = jnp.int32 if a.dtype == jnp.int8 else jnp.float32

    def body(a_ref: Any, b_ref: Any, o_ref: Any, a_smem: Any, b_smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(a_ref, a_smem, barrier)
        plgpu.copy_gmem_to_smem(b_ref, b_smem, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc: Any) -> Any:
            plgpu.wgmma(acc, a_smem, b_smem if a.dtype.itemsize == 2 else b_smem.T)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((a.shape[0], o_ref.shape[1]), acc_dtype)).astype(out)

    return kernel(body, jax.ShapeDtypeStruct((a.shape[0], b.shape[1] if a.dtype.itemsize == 2 else b.shape[0]), out), scratch=[
        plgpu.SMEM(a.shape, a.dtype, transforms=transforms(a.dtype, a.shape[1])),
        plgpu.SMEM(b.shape, b.dtype, transforms=transforms(b.dtype, b.shape[1])), plgpu.Barrier(num_arrivals=2)])(a, b)


for _name in ("float16", "bfloat16"):
    CASES[f"wgmma_{_name}"] = functools.partial(lambda d: _wgmma(uniform(7, (64, 128), d), uniform(8, (128, 64), d), jnp.float32), jnp.dtype(_name)), 0
CASES["wgmma_int8"] = lambda: _wgmma(integers(9, (64, 128), jnp.int8, -100, 100), integers(10, (64, 128), jnp.int8, -100, 100), jnp.int32), 0
CASES["wgmma_float32"] = lambda: _wgmma_tf32(), 0


def _wgmma_tf32() -> jax.Array:
    a, b = uniform(11, (64, 64), jnp.float32), uniform(12, (64, 64), jnp.float32)

    def body(a_ref: Any, b_ref: Any, o_ref: Any, a_smem: Any, b_smem: Any, barrier: Any) -> None:
        plgpu.copy_gmem_to_smem(a_ref, a_smem, barrier)
        plgpu.copy_gmem_to_smem(b_ref, b_smem, barrier)
        plgpu.barrier_wait(barrier)

        def scope(acc: Any) -> Any:
            plgpu.wgmma(acc, a_smem, b_smem.T)
            return acc[...]

        o_ref[...] = pl.run_scoped(scope, plgpu.ACC((64, 64), jnp.float32))

    tags = transforms(jnp.float32, 32)
    return kernel(body, jax.ShapeDtypeStruct((64, 64), jnp.float32), scratch=[
        plgpu.SMEM(a.shape, a.dtype, transforms=tags), plgpu.SMEM(b.shape, b.dtype, transforms=tags), plgpu.Barrier(num_arrivals=2)])(a, b)


# --- JAX's own kernels ----------------------------------------------------------------------------------------------
def _ops(module: str) -> Any:
    import importlib

    return importlib.import_module(f"jax.experimental.pallas.ops.gpu.{module}")


def _hopper_matmul(dtype: Any, cluster: bool = False) -> Any:
    m = _ops("hopper_matmul_mgpu")
    config = m.TuningConfig(tile_m=64, tile_n=64, tile_k=64, max_concurrent_steps=4,
                            cluster_dimension=m.MatmulDimension.N if cluster else None)
    a, b = uniform(20, (512, 512), dtype), uniform(21, (512, 512), dtype)
    try:
        return m.matmul(a, b, None, config)
    except TypeError:  # an older signature
        return m.matmul(a, b, config)


CASES["hopper_matmul_f16"] = lambda: _hopper_matmul(jnp.float16), 0
CASES["hopper_matmul_bf16"] = lambda: _hopper_matmul(jnp.bfloat16), 0
CASES["hopper_matmul_cluster"] = lambda: _hopper_matmul(jnp.float16, cluster=True), 0


@case()
def mixed_matmul() -> Any:
    m = _ops("hopper_mixed_type_matmul_mgpu")
    config = m.TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=2)
    return m.mixed_matmul_kernel(integers(22, (256, 256), jnp.int8, -100, 100), uniform(23, (256, 256), jnp.bfloat16),
                                 out_dtype=jnp.float32, config=config)


@case()
def ragged_dot() -> Any:
    return _ops("ragged_dot_mgpu").ragged_dot(
        uniform(24, (512, 256)), uniform(25, (4, 256, 256)), group_sizes=jnp.array([100, 0, 212, 200], jnp.int32), block_m=64, block_n=64,
        block_k=64, max_concurrent_steps=2, grid_block_n=2)


@case()
def transposed_ragged_dot() -> Any:
    return _ops("transposed_ragged_dot_mgpu").transposed_ragged_dot(
        uniform(26, (512, 256)), uniform(27, (512, 256)), group_sizes=jnp.array([128, 64, 256, 64], jnp.int32), block_m=64, block_n=64,
        block_k=64, max_concurrent_steps=2, grid_block_n=2)


def _attention(causal: bool, pipelined: bool = False) -> Any:
    m = _ops("attention_mgpu")
    q, k, v = uniform(28, (1, 256, 2, 64)), uniform(29, (1, 256, 1, 64)), uniform(30, (1, 256, 1, 64))
    config = m.TuningConfig(block_q=64, block_kv=64, max_concurrent_steps=2, causal=causal)
    return (m.attention_with_pipeline_emitter if pipelined else m.attention)(q, k, v, config)


CASES["attention"] = lambda: _attention(False), 4  # exp2 of the chip is no correctly rounded one
CASES["attention_causal"] = lambda: _attention(True), 4
CASES["attention_pipeline"] = lambda: _attention(False, pipelined=True), 4


# --- records --------------------------------------------------------------------------------------------------------
def record(out: Any) -> dict[str, Any]:
    array = np.asarray(out[0] if isinstance(out, (tuple, list)) else out)
    flat = array.reshape(-1)
    at = np.random.RandomState(99).randint(0, flat.size, SAMPLES)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            "zeros": float(np.mean(flat == 0)), "samples": [float(x) for x in flat[at].astype(np.float64)]}


def distance(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The largest distance of two records' samples, ulp of their dtype."""
    info = jnp.finfo(a["dtype"])
    worst = 0.0
    for x, y in zip(a["samples"], b["samples"]):
        ulp = max(abs(x), abs(y), float(info.tiny)) * float(info.eps) / 2
        worst = max(worst, abs(x - y) / ulp)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write")
    parser.add_argument("--against")
    parser.add_argument("word", nargs="?", default="")
    args = parser.parse_args()
    known = json.load(open(args.against)) if args.against else {}
    found, bad = {}, 0
    for name, (run, bound) in CASES.items():
        if args.word not in name:
            continue
        try:
            if args.against:
                import pallasim

                with pallasim.emulate("gpu-h100", numerics="device"):
                    got = record(run())
            else:
                got = record(run())
        except Exception as e:
            found[name] = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
            bad += 1
            print(f"{name:24} {type(e).__name__}: {str(e).splitlines()[0][:160] if str(e) else ''}", flush=True)
            continue
        found[name] = got
        verdict = ""
        if name in known and "sha256" in known[name]:
            same = got["sha256"] == known[name]["sha256"]
            far = 0.0 if same else distance(got, known[name]) if bound else float("inf")
            verdict = "equal bits" if same else f"off by {far:.2f} ulp (bound {bound})"
            bad += not same and far > bound
        print(f"{name:24} {got['sha256'][:12]} zeros {got['zeros']:.3f} {verdict}", flush=True)
    if args.write:
        found["_machine"] = {"device": str(jax.devices()[0].device_kind), "jax": jax.__version__}
        with open(args.write, "w") as f:
            json.dump(found, f, indent=1)
            f.write("\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
