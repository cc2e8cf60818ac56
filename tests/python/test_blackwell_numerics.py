"""Products of Blackwell's tensor pipe under `numerics="device"`: the published rules (docs/numerics.md), worked out in fractions, by bits."""
from __future__ import annotations

import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu
from test_blackwell import CHIP, F32, done, kernel, load, smem, tiles

import pallasim

RNG = np.random.default_rng(3)
SOME = [(i, j) for i in range(0, 128, 9) for j in range(0, 64, 7)]


def exponent(x):
    return math.frexp(x)[1] - 1


def cut(x, unit):
    """Toward zero, to a multiple of the unit."""
    q = abs(x) / unit
    return (q.numerator // q.denominator) * unit * (1 if x > 0 else -1)


def added(terms, acc, below):
    """`terms`: (value, exponent) of one instruction; all and the accumulator are cut off at one place, added, cut off to f32."""
    terms = [t for t in terms if t[0]] + ([(Fraction(acc), exponent(acc))] if acc else [])
    if not terms:
        return 0.0
    total = sum(cut(v, Fraction(2) ** (max(e for _, e in terms) - below)) for v, e in terms)
    return float(cut(total, Fraction(2) ** (exponent(float(total)) - 23))) if total else 0.0


def products(a, b):
    return [(Fraction(float(x)) * Fraction(float(y)), exponent(x) + exponent(y)) for x, y in zip(a, b) if x and y]


def summed(a, b, block):
    acc = 0.0
    for k in range(0, len(a), block):
        acc = added(products(a[k:k + block], b[k:k + block]), acc, 25)
    return acc


def numbers(shape, dtype):
    """Of both signs and of many exponents."""
    return jnp.asarray(RNG.normal(size=shape) * 2.0 ** RNG.integers(-3, 3, shape), dtype)


def multiplied(x, y, numerics="device"):
    def body(a_gmem, b_gmem, o_gmem, a, b, bar, mma, acc):
        load([(a_gmem, a), (b_gmem, b)], bar)
        plgpu.tcgen05_mma(acc, a, b, mma, accumulate=False)
        plgpu.barrier_wait(mma)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    m, n = x.shape[0], y.shape[1]
    scratch = [smem(x.shape, x.dtype), smem(y.shape, y.dtype, 64), plgpu.Barrier(num_arrivals=2), done(), plgpu.TMEM((m, n), F32)]
    if x.dtype.itemsize == 2:
        scratch[1] = smem(y.shape, y.dtype)
    elif x.dtype.itemsize == 1:
        scratch[0] = smem(x.shape, x.dtype, 64)
    with pallasim.emulate(CHIP, numerics=numerics):
        return np.asarray(kernel(body, ((m, n), F32), scratch)(x, y))


@pytest.mark.parametrize("dtype, block", [(jnp.float16, 16), (jnp.bfloat16, 16), (jnp.float8_e4m3fn, 32), (jnp.float8_e5m2, 32)])
def test_sums_are_cut_off_as_published(dtype, block):
    x, y = numbers((128, 128), dtype), numbers((128, 64), dtype)
    got, a, b = multiplied(x, y), np.asarray(x, np.float64), np.asarray(y, np.float64)
    assert [got[i, j] for i, j in SOME] == [np.float32(summed(a[i], b[:, j], block)) for i, j in SOME]
    assert (got != multiplied(x, y, "ieee")).any()


def of_blocks(a, b, sa, sb, per, acc=0.0):
    """f4: sums of 16 are exact, and their scales say where they are cut off."""
    for k in range(0, len(a), 64):
        terms = []
        for g in range(k, min(k + 64, len(a)), 16):
            s, t = sa[g // per], sb[g // per]
            whole = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[g:g + 16], b[g:g + 16])), Fraction(0))
            terms.append((whole * Fraction(float(s)) * Fraction(float(t)), exponent(s) + exponent(t)))
        acc = added(terms, acc, 35)
    return acc


@pytest.mark.parametrize("dtype, scale, per", [(jnp.float8_e4m3fn, jnp.float8_e8m0fnu, 32), (jnp.float4_e2m1fn, jnp.float8_e8m0fnu, 32),
                                               (jnp.float4_e2m1fn, jnp.float8_e4m3fn, 16)])
def test_scaled_sums_are_cut_off_as_published(dtype, scale, per):
    k, n = 256, 128

    def body(a_gmem, b_gmem, sa_gmem, sb_gmem, o_gmem, a, b, sa, sb, bar, mma, acc, ta, tb):
        load([(a_gmem, a), (b_gmem, b), (sa_gmem, sa), (sb_gmem, sb)], bar)
        plgpu.async_copy_scales_to_tmem(sa, ta)
        plgpu.async_copy_scales_to_tmem(sb, tb)
        plgpu.tcgen05_mma(acc, a, plgpu.transpose_ref(b, (1, 0)), mma, a_scale=ta, b_scale=tb, accumulate=False)
        plgpu.barrier_wait(mma)
        o_gmem[...] = plgpu.async_load_tmem(acc)

    def scales():
        if scale == jnp.float8_e8m0fnu:
            return lax.bitcast_convert_type(jnp.asarray(RNG.integers(115, 140, (128, k // per)), jnp.uint8), scale)
        return jnp.asarray(2.0 ** RNG.integers(-4, 5, (128, k // per)) * RNG.choice([1, 1.25, 1.5, 1.75], (128, k // per)), scale)

    x, y, sx, sy = numbers((128, k), dtype), numbers((n, k), dtype), scales(), scales()
    tile, there = plgpu.SMEM((1, k // per // 4, 32, 16), scale), plgpu.TMEM((128, k // per), scale, layout=plgpu.TMEMLayout.SCALES_LAYOUT)
    scratch = [smem((128, k), dtype), smem((n, k), dtype), tile, tile, plgpu.Barrier(num_arrivals=4), done(), plgpu.TMEM((128, n), F32), there, there]
    f = kernel(body, ((128, n), F32), scratch)
    with pallasim.emulate(CHIP, numerics="device"):
        got = np.asarray(f(x, y, tiles(sx), tiles(sy)))
    a, b, sa, sb = (np.asarray(v, np.float64) for v in (x, y, sx, sy))
    if dtype == jnp.float4_e2m1fn:
        want = [of_blocks(a[i], b[j], sa[i], sb[j], per) for i, j in SOME]
    else:
        want = [summed(a[i] * np.repeat(sa[i], per), b[j] * np.repeat(sb[j], per), 32) for i, j in SOME]
    assert np.any(want) and [got[i, j] for i, j in SOME] == [np.float32(w) for w in want]
