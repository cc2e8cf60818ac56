"""Kernels of one mechanism each for scripts/time_truth.py --parts: what figures of a GPU's memory, cache and atomic operations come from."""
from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as plt
from time_families import F16, F32, I32, batched, int8_product, split_k
from time_truth import S, attention, matmul, triton

Made = tuple[Callable[..., Any], tuple[Any, ...]]
ANY = pl.BlockSpec(memory_space=pl.ANY)


def memory(kind: str, mib: int, bits: int) -> Made:
    """Arrays of `mib` MiB each, 8 KiB per program of four warps: `sum` reads one, `fill` writes one, `dup` reads one and writes two."""
    dtype = F32 if bits == 32 else F16
    n, block = mib * 2**20 * 8 // bits, 8192 * 8 // bits
    spec = pl.BlockSpec((block,), lambda i: (i,))
    array = S((n,), dtype)

    def body(*refs: Any) -> None:
        if kind == "fill":
            refs[0][...] = jnp.full((block,), 1, dtype) * pl.program_id(0).astype(dtype)
        elif kind == "sum":
            refs[1][...] = jnp.sum(refs[0][...].astype(F32))
        else:
            outs = 2 if kind == "dup" else 1
            x = functools.reduce(lambda a, b: a + b, [r[...] for r in refs[:-outs]])
            for o in refs[-outs:]:
                o[...] = x

    reads = {"sum": 1, "fill": 0, "copy": 1, "add": 2, "add4": 4, "dup": 1}[kind]
    if kind == "sum":
        return triton(body, S((n // block,), F32), (n // block,), [spec], pl.BlockSpec((None,), lambda i: (i,)), 4), (array,)
    outs: Any = [spec, spec] if kind == "dup" else spec
    return triton(body, [array, array] if kind == "dup" else array, (n // block,), [spec] * reads, outs, 4), (array,) * reads


def rows_of(kind: str, bits: int, width: int, height: int) -> Made:
    """An array of 8192 x 4096 in blocks of `height` rows of `width` elements."""
    dtype = F32 if bits == 32 else F16
    rows, cols = 8192, 4096
    grid = (rows // height, cols // width)
    spec = pl.BlockSpec((height, width), lambda i, j: (i, j))

    def body(*refs: Any) -> None:
        if kind == "fill":
            refs[0][...] = jnp.full((height, width), 1, dtype) * pl.program_id(0).astype(dtype)
        elif kind == "sum":
            refs[1][...] = jnp.sum(refs[0][...].astype(F32))
        else:
            refs[1][...] = refs[0][...]

    array = S((rows, cols), dtype)
    if kind == "sum":
        return triton(body, S(grid, F32), grid, [spec], pl.BlockSpec((None, None), lambda i, j: (i, j)), 4), (array,)
    ins = () if kind == "fill" else (array,)
    return triton(body, array, grid, [spec] * len(ins), spec, 4), ins


def shared(programs_m: int, programs_n: int, k: int, stages: int) -> Made:
    """132 programs whose rows are those of `programs_n` of them: what a cache holds of arrays that grow with k."""
    return matmul(64 * programs_m, 64 * programs_n, k, 64, 64, 64, 4, stages)


def updates(kind: str, bm: int, bn: int, programs_m: int, programs_n: int, parts: int, warps: int) -> Made:
    """Blocks that `parts` programs each add to, or store to, by lists of rows and columns; `split`: behind a product."""
    if kind == "split":
        return split_k(bm * programs_m, bn * programs_n, 1024 * parts, bm, bn, 64, parts, warps, 3)

    def body(o_ref: Any) -> None:
        x = jnp.full((bm, bn), 1, F32) * pl.program_id(0).astype(F32)
        r, c = pl.program_id(0) * bm + jnp.arange(bm), pl.program_id(1) * bn + jnp.arange(bn)
        if kind == "add":
            plt.atomic_add(o_ref, (r[:, None], c[None]), x)
        else:
            plt.store(o_ref.at[r[:, None], c[None]], x)

    return triton(body, S((bm * programs_m, bn * programs_n), F32), (programs_m, programs_n, parts), [], ANY, warps), ()


def bytes_apart(bm: int, bn: int, bk: int, programs_m: int, programs_n: int, warps: int) -> Made:
    """A product of int8 over 4096 whose right operand's rows lie along n."""
    return int8_product(bm * programs_m, bn * programs_n, 4096, bm, bn, bk, warps, 3)


def chase(kib: int, trips: int) -> Made:
    """One lane that reads where to read next."""
    n = kib * 256

    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[0] = jax.lax.fori_loop(0, trips, lambda i, at: plt.load(x_ref.at[at]), pl.program_id(0))

    return (triton(body, S((1,), I32), (1,), [ANY], pl.BlockSpec((1,), lambda i: (0,)), 1), (((np.arange(n, dtype=np.int64) + 4128) % n).astype(np.int32),))


def bulk_copies(mib: int, kib: int, programs: int, trips: int) -> Made:
    """Bulk copies of `kib` KiB to shared memory that are waited for one by one, of an array of `mib` MiB."""
    rows, per = mib * 2**20 // 256, kib * 1024 // 256
    apart = 1 if mib < 1024 else 5

    def body(x_gmem: Any, o_gmem: Any, tile: Any, barrier: Any) -> None:
        i = jax.lax.axis_index("sm")

        def step(k: Any, carry: Any) -> Any:
            at = ((k * programs + i) * per * apart) % (rows - per)
            plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(at // 8 * 8, per)], tile, barrier)
            plgpu.barrier_wait(barrier)
            return carry

        jax.lax.fori_loop(0, trips, step, 0)
        plgpu.copy_smem_to_gmem(tile, o_gmem.at[i])
        plgpu.wait_smem_to_gmem(0)

    known = inspect.signature(plgpu.kernel).parameters
    named = {"out_type" if "out_type" in known else "out_shape": S((programs, per, 64), F32),
             "scratch_types" if "scratch_types" in known else "scratch_shapes": [plgpu.SMEM((per, 64), F32), plgpu.Barrier()]}
    return plgpu.kernel(body, grid=(programs,), grid_names=("sm",), **named), (S((rows, 64), F32),)


def held_up(share: int, rows: int, steps: int, small: int) -> Made:
    """132 programs that copy rows of tiles, 128 KiB at a time; so many of them have the same ones. Behind each row all are held up by copies of 1 KiB,
    up to twelve times `small` of them, each by another number in turn."""
    programs, slots = 132, 8

    def body(x_gmem: Any, o_gmem: Any, tiles: Any, arrived: Any, few: Any, arrived_few: Any) -> None:
        i = jax.lax.axis_index("sm")

        def row(n: Any, carry: Any) -> Any:
            top = (n * (programs // share) + i // share) * 64

            def step(k: Any, carry: Any) -> Any:
                for j in range(slots):
                    plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(top, 64), pl.ds((k * slots + j) * 64, 64)], tiles.at[j], arrived)
                plgpu.barrier_wait(arrived)
                return carry

            def wait(k: Any, carry: Any) -> Any:
                plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(0, 8), pl.ds(0, 32)], few, arrived_few)
                plgpu.barrier_wait(arrived_few)
                return carry

            jax.lax.fori_loop(0, steps, step, 0)
            jax.lax.fori_loop(0, (i * 7 + n * 11) % 13 * small, wait, 0)
            return carry

        jax.lax.fori_loop(0, rows, row, 0)
        plgpu.copy_smem_to_gmem(tiles.at[0], o_gmem.at[i])
        plgpu.wait_smem_to_gmem(0)

    known = inspect.signature(plgpu.kernel).parameters
    named = {"out_type" if "out_type" in known else "out_shape": S((programs, 64, 64), F32),
             "scratch_types" if "scratch_types" in known else "scratch_shapes": [
                 plgpu.SMEM((slots, 64, 64), F32), plgpu.Barrier(num_arrivals=slots), plgpu.SMEM((8, 32), F32), plgpu.Barrier()]}
    return plgpu.kernel(body, grid=(programs,), grid_names=("sm",), **named), (S((programs // share * rows * 64, steps * slots * 64), F32),)


def store_tile(o_gmem: Any, value: Any) -> None:
    """By way of shared memory, as f16."""
    @functools.partial(pl.run_scoped, tile=plgpu.SMEM(value.shape, F16))
    def _(tile: Any) -> None:
        tile[...] = value.astype(F16)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(tile, o_gmem)
        plgpu.wait_smem_to_gmem(0)


def by_warpgroups(body: Callable[..., Any], programs: int, bm: int, bn: int) -> Callable[..., Any]:
    """Of so many programs, "sm", each with a result of bm x bn."""
    name = "out_type" if "out_type" in inspect.signature(plgpu.kernel).parameters else "out_shape"
    return plgpu.kernel(body, grid=(programs,), grid_names=("sm",), **{name: S((programs, bm, bn), F16)},
                        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup))


def pipelines(bm: int, bn: int, k: int, programs: int, steps: int, share_a: int = 0, share_b: int = 0) -> Made:
    """One warpgroup that copies and multiplies, blocks of k of 64. So many programs after another have the same rows of a, columns of b; 0: all have."""
    def body(a_gmem: Any, b_gmem: Any, o_gmem: Any) -> None:
        i = jax.lax.axis_index("sm")

        def product(acc: Any) -> Any:
            specs = [plgpu.BlockSpec((bm, 64), lambda s: (i // share_a if share_a else 0, s), delay_release=1),
                     plgpu.BlockSpec((64, bn), lambda s: (s, i // share_b if share_b else 0), delay_release=1)]
            plgpu.emit_pipeline(lambda _, a, b: plgpu.wgmma(acc, a, b), grid=(k // 64,), in_specs=specs, max_concurrent_steps=steps)(a_gmem, b_gmem)
            return acc[...]

        store_tile(o_gmem.at[i], pl.run_scoped(product, plgpu.ACC((bm, bn))))

    f = by_warpgroups(body, programs, bm, bn)
    rows, columns = (-(-programs // (share or programs)) for share in (share_a, share_b))
    return f, (S((rows * bm, k), F16), S((k, columns * bn), F16))


def added(kind: str, heads: int, seq: int, dim: int, bq: int, bk: int, warps: int) -> Made:
    """Attention without a maximum, whose scores something is added to: nothing, a row of f32, or tiles of f16 or f32 of an array that all heads have."""
    def body(q_ref: Any, k_ref: Any, v_ref: Any, *refs: Any) -> None:
        q = q_ref[...]

        def step(i: Any, acc: Any) -> Any:
            s = jax.lax.dot_general(q, k_ref[pl.ds(i * bk, bk), :], (((1,), (1,)), ((), ())), preferred_element_type=F32)
            if kind == "row":
                s = s + refs[0][pl.ds(i * bk, bk)][None]
            elif kind != "nothing":
                s = s + refs[0][:, pl.ds(i * bk, bk)].astype(F32)
            v = v_ref[pl.ds(i * bk, bk), :]
            return acc + jnp.dot(jnp.exp2(s).astype(v.dtype), v, preferred_element_type=F32)

        refs[-1][...] = jax.lax.fori_loop(0, seq // bk, step, jnp.zeros((bq, dim), F32)).astype(F16)

    whole, part = pl.BlockSpec((None, seq, dim), lambda h, i: (h, 0, 0)), pl.BlockSpec((None, bq, dim), lambda h, i: (h, i, 0))
    x, extra, specs = S((heads, seq, dim), F16), [], []
    if kind == "row":
        extra, specs = [S((seq,), F32)], [pl.BlockSpec((seq,), lambda h, i: (0,))]
    elif kind != "nothing":
        extra, specs = [S((seq, seq), F32 if kind == "f32" else F16)], [pl.BlockSpec((bq, seq), lambda h, i: (i, 0))]
    return triton(body, x, (heads, seq // bq), [part, whole, whole, *specs], part, warps, 3), (x, x, x, *extra)


def weights(kind: str, heads: int, seq: int, dim: int, bq: int, bk: int, warps: int) -> Made:
    """Attention whose weights are made by exp2 or by exp; `masked`: loads that leave out rows behind the end, of which there are none; `bf16`: of that dtype."""
    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        q, e = q_ref[...], jnp.exp if kind.endswith("exp") else jnp.exp2

        def rows_at(ref: Any, i: Any) -> Any:
            tile = ref.at[pl.ds(i * bk, bk), :]
            there = (i * bk + jnp.arange(bk) < seq)[:, None]
            return plt.load(tile, mask=jnp.broadcast_to(there, (bk, dim)), other=0.0) if kind == "masked" else tile[...]

        def step(i: Any, carry: Any) -> Any:
            acc, top, total = carry
            s = jax.lax.dot_general(q, rows_at(k_ref, i), (((1,), (1,)), ((), ())), preferred_element_type=F32) * dim**-0.5
            new = jnp.maximum(top, jnp.max(s, axis=1))
            p, scale, v = e(s - new[:, None]), e(top - new), rows_at(v_ref, i)
            return acc * scale[:, None] + jnp.dot(p.astype(v.dtype), v, preferred_element_type=F32), new, total * scale + jnp.sum(p, axis=1)

        first = jnp.zeros((bq, dim), F32), jnp.full((bq,), -jnp.inf, F32), jnp.zeros((bq,), F32)
        acc, _, total = jax.lax.fori_loop(0, seq // bk, step, first)
        o_ref[...] = (acc / total[:, None]).astype(o_ref.dtype)

    whole, part = pl.BlockSpec((None, seq, dim), lambda h, i: (h, 0, 0)), pl.BlockSpec((None, bq, dim), lambda h, i: (h, i, 0))
    x = S((heads, seq, dim), jnp.bfloat16 if kind.startswith("bf16") else F16)
    return triton(body, x, (heads, seq // bq), [part, whole, whole], part, warps, 3), (x, x, x)


def laid_out(kind: str, batch: int, seq: int, heads: int, dim: int, bq: int, bk: int, warps: int, stages: int) -> Made:
    """Attention over arrays [batch, seq, heads, dim] (`apart`: rows of a head lie heads * dim elements apart) or [batch, heads, seq, dim] (`beside`);
    queries as they are loaded, or `scaled` before the products."""
    apart = kind.startswith("apart")

    def at(rows: int, place: Callable[[Any], Any]) -> pl.BlockSpec:
        return pl.BlockSpec((None, rows, None, dim) if apart else (None, None, rows, dim),
                            (lambda b, h, i: (b, place(i), h, 0)) if apart else (lambda b, h, i: (b, h, place(i), 0)))

    def body(q_ref: Any, k_ref: Any, v_ref: Any, o_ref: Any) -> None:
        q = q_ref[...] * dim**-0.5 if kind.endswith("scaled") else q_ref[...]

        def step(i: Any, carry: Any) -> Any:
            acc, top, total = carry
            k, v = (ref[pl.ds(i * bk, bk), :] for ref in (k_ref, v_ref))
            s = jax.lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=F32) * 1.4426950408889634
            new = jnp.maximum(top, jnp.max(s, axis=1))
            p, scale = jnp.exp2(s - new[:, None]), jnp.exp2(top - new)
            return acc * scale[:, None] + jnp.dot(p.astype(v.dtype), v, preferred_element_type=F32), new, total * scale + jnp.sum(p, axis=1)

        first = jnp.zeros((bq, dim), F32), jnp.full((bq,), -jnp.inf, F32), jnp.zeros((bq,), F32)
        acc, _, total = jax.lax.fori_loop(0, seq // bk, step, first)
        o_ref[...] = (acc / total[:, None]).astype(o_ref.dtype)

    whole, part = at(seq, lambda i: 0), at(bq, lambda i: i)
    x = S((batch, seq, heads, dim) if apart else (batch, heads, seq, dim), F16)
    return triton(body, x, (batch, heads, seq // bq), [part, whole, whole], part, warps, stages), (x, x, x)


def divided(kind: str, programs: int, trips: int) -> Made:
    """A tile that is divided again and again by rows or columns, which each trip has anew where kind says `new`, or by as many numbers as it has."""
    def body(x_ref: Any, l_ref: Any, o_ref: Any) -> None:
        def step(i: Any, x: Any) -> Any:
            divisors = l_ref[...] + i.astype(F32) if kind.startswith("new") else l_ref[...]
            return x / (x + 1.5 if kind == "elements" else divisors[:, None] if kind.endswith("rows") else divisors[None, :])

        o_ref[...] = jax.lax.fori_loop(0, trips, step, x_ref[...])

    spec = pl.BlockSpec((None, 64, 64), lambda i: (i, 0, 0))
    f = triton(body, S((programs, 64, 64), F32), (programs,), [spec, pl.BlockSpec((64,), lambda i: (0,))], spec, 4)
    return f, (S((programs, 64, 64), F32), S((64,), F32))


def converted(kind: str, m: int, n: int, k: int, bm: int, bn: int, bk: int, warps: int) -> Made:
    """A product in bf16: of bf16; of f32 that the kernel converts (`left`, `right`, `both`); or of f32, to convert which is the algorithm's business."""
    def body(a_ref: Any, b_ref: Any, o_ref: Any) -> None:
        def step(i: Any, acc: Any) -> Any:
            a, b = a_ref[:, pl.ds(i * bk, bk)], b_ref[pl.ds(i * bk, bk), :]
            how = {"precision": jax.lax.DotAlgorithmPreset.BF16_BF16_F32} if kind == "algorithm" else {}
            if kind != "algorithm":
                a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
            return acc + jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=F32, **how)

        o_ref[...] = jax.lax.fori_loop(0, k // bk, step, jnp.zeros((bm, bn), F32)).astype(o_ref.dtype)

    left, right = (F32 if kind in ("algorithm", "both", side) else jnp.bfloat16 for side in ("left", "right"))
    ins = [pl.BlockSpec((bm, k), lambda i, j: (i, 0)), pl.BlockSpec((k, bn), lambda i, j: (0, j))]
    f = triton(body, S((m, n), jnp.bfloat16), (m // bm, n // bn), ins, pl.BlockSpec((bm, bn), lambda i, j: (i, j)), warps, 3)
    return f, (S((m, k), left), S((k, n), right))


def accumulators(count: int, bn: int, k: int, programs: int) -> Made:
    """So many sums of 64 x bn of one warpgroup, to which the same blocks are multiplied: more than registers hold, of 256 and more."""
    def body(a_gmem: Any, b_gmem: Any, o_gmem: Any) -> None:
        i = jax.lax.axis_index("sm")

        def products(*accs: Any) -> Any:
            @functools.partial(pl.run_scoped, a=plgpu.SMEM((2, 64, 64), F16), b=plgpu.SMEM((2, 64, bn), F16), full=plgpu.Barrier(num_arrivals=2, num_barriers=2))
            def _(a: Any, b: Any, full: Any) -> None:
                def fetch(s: Any) -> None:
                    slot = s % 2
                    plgpu.copy_gmem_to_smem(a_gmem.at[pl.ds(i * 64, 64), pl.ds(s * 64, 64)], a.at[slot], full.at[slot])
                    plgpu.copy_gmem_to_smem(b_gmem.at[pl.ds(s * 64, 64), :], b.at[slot], full.at[slot])

                fetch(0)

                def step(s: Any, carry: Any) -> Any:
                    pl.when(s + 1 < k // 64)(lambda: fetch(s + 1))
                    plgpu.barrier_wait(full.at[s % 2])
                    for acc in accs:
                        plgpu.wgmma(acc, a.at[s % 2], b.at[s % 2])
                        plgpu.wgmma_wait(0)
                    return carry

                jax.lax.fori_loop(0, k // 64, step, 0)

            return sum(acc[...] for acc in accs)

        store_tile(o_gmem.at[i], pl.run_scoped(products, *[plgpu.ACC((64, bn))] * count))

    return by_warpgroups(body, programs, 64, bn), (S((programs * 64, k), F16), S((k, bn), F16))


def parts(one: Any) -> Iterator[Any]:
    """All of them. Those of the last six families, and those that are held up, are no ground of a figure."""
    for kind, mib, bits in itertools.product(("sum", "add4", "add", "copy", "dup", "fill"), (1, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256), (32, 16)):
        if bits == 32 or mib in (4, 16, 128):
            yield from one("memory", memory, {"kind": kind, "mib": mib, "bits": bits}, {})
    for bits, width, height, kind in itertools.product((16, 32), (16, 32, 64, 128, 256), (32, 64), ("copy", "sum", "fill")):
        yield from one("rows", rows_of, {"kind": kind, "bits": bits}, {"width": width, "height": height})
    for (gm, gn), k, stages in itertools.product(((132, 1), (66, 2), (33, 4), (11, 12)), (512, 1024, 1536, 2048, 3072, 4096, 8192, 16384), (2, 4)):
        yield from one("shared", shared, {"programs_m": gm, "programs_n": gn, "k": k}, {"stages": stages})
    tiles = ((64, 64), (64, 128), (64, 256), (128, 64), (128, 128), (128, 256))
    for (bm, bn), warps, (gm, gn, n), kind in itertools.product(tiles, (4, 8), ((1, 1, 1), (1, 1, 8), (4, 4, 1), (4, 4, 8), (11, 12, 1)), ("add", "store", "split")):
        if warps == 4 or bm > 64:
            yield from one(f"updates, {kind}", functools.partial(updates, kind), {"bm": bm, "bn": bn, "programs_m": gm, "programs_n": gn, "parts": n}, {"warps": warps})
    for (bm, bn), bk, warps, (gm, gn) in itertools.product(tiles, (32, 64, 128), (4, 8), ((1, 1), (12, 11))):
        if warps == 4 or bm > 64:
            yield from one("bytes", bytes_apart, {"bm": bm, "bn": bn, "bk": bk, "programs_m": gm, "programs_n": gn}, {"warps": warps})
    for kib, trips in itertools.product((64, 1024, 8192), (256, 1024)):
        yield from one("chase", chase, {"kib": kib, "trips": trips}, {})
    for mib, kib, n, trips in itertools.product((1, 8, 1024), (2, 8, 32), (1, 132), (64, 256)):
        yield from one("bulk copies", bulk_copies, {"mib": mib, "kib": kib, "programs": n, "trips": trips}, {})
    for (bm, bn), steps, n, k in itertools.product(((64, 64), (64, 128), (128, 64), (128, 128)), (2, 3, 4, 6), (1, 132), (1024, 4096)):
        yield from one("pipelines", pipelines, {"bm": bm, "bn": bn, "k": k, "programs": n}, {"steps": steps})
    alike = ((132, 132), (1, 132), (1, 1), (2, 2), (12, 12), (1, 12))
    for (bm, bn), steps, (share_a, share_b), k in itertools.product(((64, 64), (128, 128)), (2, 4), alike, (512, 1024, 2048, 4096, 8192)):
        yield from one("pipelines apart", pipelines, {"bm": bm, "bn": bn, "k": k, "programs": 132, "share_a": share_a, "share_b": share_b}, {"steps": steps})
    for share, (rows, steps), small in itertools.product((1, 2, 4, 12), ((16, 8), (64, 2)), (0, 1, 2, 3, 4, 6)):
        yield from one("held up", held_up, {"share": share, "rows": rows, "steps": steps}, {"small": small})
    for n, k, (bm, bn, warps) in itertools.product((1, 4, 8, 16, 32), (64, 128, 256, 512, 1024), ((64, 128, 4), (128, 128, 8))):
        yield from one("batched", batched, {"batch": n, "m": 896, "n": 768, "k": k}, {"bm": bm, "bn": bn, "bk": 64, "warps": warps, "stages": 3})
    for dim, (bq, bk, warps), kind in itertools.product((32, 64, 128), ((64, 64, 4), (128, 64, 4), (128, 64, 8), (64, 32, 4)), ("nothing", "row", "f16", "f32")):
        yield from one("added", added, {"kind": kind, "heads": 256, "seq": 2048, "dim": dim}, {"bq": bq, "bk": bk, "warps": warps})
    sizes = ((64, 2048, (128, 64, 4)), (64, 2048, (64, 64, 4)), (128, 2048, (128, 64, 8)), (128, 4096, (128, 128, 8)), (256, 2048, (128, 32, 8)), (64, 4096, (128, 128, 8)))
    for (dim, seq, (bq, bk, warps)), kind in itertools.product(sizes, ("exp2", "exp", "masked", "bf16 exp2", "bf16 exp")):
        yield from one("weights", weights, {"kind": kind, "heads": 32, "seq": seq, "dim": dim}, {"bq": bq, "bk": bk, "warps": warps})
    tiles = ((256, 128, 32, 8, 3), (256, 128, 64, 8, 2), (256, 64, 32, 4, 2), (128, 128, 128, 8, 3), (128, 128, 64, 8, 3), (128, 64, 64, 4, 3), (128, 128, 64, 4, 3),
             (64, 128, 64, 4, 3), (64, 128, 128, 4, 3), (64, 64, 128, 4, 3), (64, 64, 64, 4, 3), (64, 128, 64, 8, 3), (64, 128, 128, 8, 3), (32, 64, 64, 4, 3))
    for (dim, bq, bk, warps, stages), kind in itertools.product(tiles, ("beside", "apart", "beside scaled", "apart scaled")):
        problem = {"kind": kind, "batch": 1, "seq": 8192, "heads": 2048 // dim, "dim": dim}
        yield from one("laid out", laid_out, problem, {"bq": bq, "bk": bk, "warps": warps, "stages": stages})
    for kind, programs, trips in itertools.product(("rows", "columns", "new rows", "new columns", "elements"), (132, 528), (512, 1024)):
        yield from one("divided", divided, {"kind": kind, "programs": programs}, {"trips": trips})
    tiles = ((64, 64, 32, 4), (128, 64, 32, 4), (128, 64, 32, 8), (128, 128, 32, 8), (64, 64, 64, 4), (128, 128, 64, 8))
    for (bm, bn, bk, warps), (m, n, k), kind in itertools.product(tiles, ((4096, 4096, 1024), (4608, 768, 384)), ("bf16", "left", "right", "both", "algorithm")):
        yield from one("converted", converted, {"kind": kind, "m": m, "n": n, "k": k}, {"bm": bm, "bn": bn, "bk": bk, "warps": warps})
    for (bq, warps), heads, bk, stages, dim in itertools.product(((64, 4), (128, 4), (128, 8)), (1, 2, 4, 6, 8, 10, 12), (32, 64, 128), (2, 3, 4), (64, 128)):
        if heads <= 6 or (warps == 4 and bk <= 64 and stages <= 3):
            yield from one("trips", attention, {"heads": heads, "seq": 4096 * bq // 64, "dim": dim}, {"bq": bq, "bk": bk, "warps": warps, "stages": stages})
    for count, bn in (*itertools.product((1, 2, 3), (64, 128, 192, 256)), (2, 208), (2, 224), (2, 240), (2, 248), (3, 144), (3, 152), (3, 160), (3, 168)):
        yield from one("accumulators", accumulators, {"count": count, "bn": bn, "k": 8192, "programs": 132}, {})
    shapes = ((512, 32768, 1024), (32768, 512, 1024), (8192, 8192, 1024), (4096, 4096, 4096), (16384, 1024, 4096), (1024, 16384, 4096))
    for (m, n, k), (bm, bn, warps) in itertools.product(shapes, ((64, 128, 4), (128, 128, 8), (128, 64, 4), (128, 128, 4))):
        yield from one("matmul", matmul, {"m": m, "n": n, "k": k}, {"bm": bm, "bn": bn, "bk": 64, "warps": warps, "stages": 3})
