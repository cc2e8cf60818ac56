"""What pytest's checked default costs on a small suite: kernels that come with JAX, a softmax and a double buffer, against plain JAX.

    .venv/bin/python bench/pytest_suite.py [--rounds 3]     whole sessions of pytest, and the suite's launches warm in one process
    .venv/bin/python bench/pytest_suite.py --plans          the suite's first run in a process, and how much of it makes plans, which workers could share
    .venv/bin/python -m pytest --pallasim=tpu-v5e bench/pytest_suite.py

Sessions and rounds are in turn, checked and not (A B A B); medians. megablox' gmm reads its output before anybody wrote there and drops what
it read, which its tests allow.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention, matmul
from jax.experimental.pallas.ops.tpu.megablox import gmm


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32)


@pytest.mark.parametrize("n", [256, 384, 512])
def test_matmul(n):
    x, y = normal(n, n), normal(n, n, seed=1)
    np.testing.assert_allclose(matmul.matmul(x, y, block_shape=(128, 128), block_k=128), x @ y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("t", [256, 512])
def test_flash_attention(t, causal):
    q, k, v = (normal(1, 2, t, 128, seed=i) for i in range(3))
    want = flash_attention.mha_reference(q, k, v, None, causal=causal)
    np.testing.assert_allclose(flash_attention.flash_attention(q, k, v, causal=causal), want, rtol=1e-2, atol=1e-2)


@pytest.mark.pallasim(fail_on="PS-RACE,PS-PAR,PS-OUT")
@pytest.mark.parametrize("m", [256, 512])
def test_megablox(m):
    x, w = normal(m, 256), normal(4, 256, 256, seed=1)
    out = gmm(x, w, jnp.array([m // 4] * 4, jnp.int32), preferred_element_type=jnp.float32)
    np.testing.assert_allclose(out, jnp.einsum("gmk,gkn->gmn", x.reshape(4, m // 4, 256), w).reshape(m, 256), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("rows", [256, 1024, 4096])
def test_softmax(rows):
    def kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    x, block = normal(rows, 512), pl.BlockSpec((128, 512), lambda i: (i, 0))
    out = pl.pallas_call(kernel, out_shape=x, grid=(rows // 128,), in_specs=[block], out_specs=block)(x)
    np.testing.assert_allclose(out, jax.nn.softmax(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("columns", [256, 512])
def test_double_buffer(columns):
    def kernel(x_hbm, o_ref, slots, sems):
        copy = lambda i: pltpu.make_async_copy(x_hbm.at[pl.ds(i * 128, 128)], slots.at[i % 2], sems.at[i % 2])
        copy(0).start()
        o_ref[...] = jnp.zeros_like(o_ref)

        def step(i, _):
            pl.when(i + 1 < 8)(lambda: copy(i + 1).start())
            copy(i).wait()
            o_ref[...] += slots[i % 2]

        jax.lax.fori_loop(0, 8, step, None)

    x = normal(1024, columns)
    out = pl.pallas_call(kernel, out_shape=x[:128], in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                         scratch_shapes=[pltpu.VMEM((2, 128, columns), jnp.float32), pltpu.SemaphoreType.DMA((2,))])(x)
    np.testing.assert_allclose(out, x.reshape(8, 128, -1).sum(0), rtol=1e-4, atol=1e-4)


def suite(smallest=False):
    def sizes(*all_of_them):
        return all_of_them[:1] if smallest else all_of_them

    for n in sizes(256, 384, 512):
        test_matmul(n)
    for t in sizes(256, 512):
        test_flash_attention(t, False)
        test_flash_attention(t, True)
        test_megablox(t)
        test_double_buffer(t)
    for rows in sizes(256, 1024, 4096):
        test_softmax(rows)


def session(checked):
    """Seconds of a session of pytest."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pallasim=tpu-v5e", f"--pallasim-option=detect_races={checked}",
                    pathlib.Path(__file__)], check=True, capture_output=True)
    return time.perf_counter() - begin


def launches(checked, smallest=False):
    """Seconds that the suite's launches take in this process."""
    import pallasim
    from pallasim import _core

    with pallasim.emulate("tpu-v5e", detect_races=checked, findings="collect"):
        _core.take_kernel_times()
        suite(smallest)
        return sum(seconds for _, _, seconds in _core.take_kernel_times().values())


def first_run(smallest=False):
    """Seconds of the suite in this process, and those of them in which its plans were made."""
    import pallasim

    plans, begin = 0.0, time.perf_counter()
    with pallasim.emulate("tpu-v5e", detect_races=True, findings="collect"):
        before = pallasim.launch_count()
        suite(smallest)
        plans = sum(r.plan_seconds for r in pallasim.runs()[before - pallasim.launch_count():])
    return time.perf_counter() - begin, plans


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plans", action="store_true")
    args = parser.parse_args()
    if args.plans:
        seconds, plans = first_run()
        print(f"first run {seconds:.2f} s, plans {plans * 1e3:.1f} ms, {plans / seconds:.2%}")
        return
    rounds = args.rounds
    launches(True), launches(False)  # what is compiled stays
    for what, measure in (("session", session), ("launches", launches)):
        both = [(measure(True), measure(False)) for _ in range(rounds)]
        fast, slow = statistics.median(b for _, b in both), statistics.median(a for a, _ in both)
        ratio = statistics.median(a / b for a, b in both)
        print(f"{what:8} checked {slow * 1e3:8.1f} ms, not checked {fast * 1e3:8.1f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
