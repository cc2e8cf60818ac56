#!/usr/bin/env python3
"""The table of JAX's Blackwell matmul tutorial, predicted: utilisation of a B200's tensor cores by each of its seven steps, beside what it publishes.

    python scripts/blackwell_steps.py mgpu_examples_test.py

The argument is JAX's tests/pallas/mgpu_examples_test.py, which has the steps and the configurations that its authors tried; nothing of it lies here.
Of each step the fastest one counts, as there.
"""
from __future__ import annotations

import importlib.util
import itertools
import sys
from typing import Any

import jax
import jax.numpy as jnp

import pallasim

# docs/pallas/gpu/blackwell_matmul.md: per cent of 2250 TFLOP/s at 4096 x 8192 x 4096, f16, normally distributed.
PUBLISHED = (37.62, 45.47, 55.82, 59.41, 61.46, 63.38, 69.44)
NAMES = ("basic", "warp specialisation", "tiled epilogue", "collective MMA", "persistent", "epilogue warpgroup", "grid tiling")
M, N, K, PEAK = 4096, 8192, 4096, 2250e12


def configurations(step: int) -> list[dict[str, int]]:
    one = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "max_concurrent_steps": 6}
    if step < 3:
        return [one | {"tile_n": n, "max_concurrent_steps": s} for n, s in itertools.product((128, 256, 512), (4, 6))]
    return [one] if step < 6 else [one | {"grid_minor_dim": d, "grid_tile_width": w} for d, w in itertools.product((0, 1), (1, 4, 12, 16))]


def utilisation(jax_steps: Any, step: int, **config: int) -> float:
    a, b = jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16)
    f, chosen = getattr(jax_steps, f"matmul{step}"), jax_steps.TuningConfig(**config)
    return 2 * M * N * K / PEAK / pallasim.predict(lambda a, b: f(a, b, chosen), a, b, chip="gpu-b200", sensitivity=False).seconds


def best(jax_steps: Any, step: int) -> tuple[float, dict[str, int]]:
    found = []
    for config in configurations(step):
        try:
            found.append((100 * utilisation(jax_steps, step, **config), config))
        except pallasim.KernelError as e:
            if e.finding.code != "PS-MEM-001":  # more shared memory than there is: those were left out there, too
                raise
    return max(found, key=lambda x: x[0])


def main() -> None:
    spec = importlib.util.spec_from_file_location("jax_steps", sys.argv[1])
    assert spec and spec.loader
    jax_steps = importlib.util.module_from_spec(spec)
    sys.modules["jax_steps"] = jax_steps  # dataclasses look their module up
    spec.loader.exec_module(jax_steps)
    print("| step | published | predicted | time |\n|---|---|---|---|")
    for step, (name, published) in enumerate(zip(NAMES, PUBLISHED)):
        of, _ = best(jax_steps, step)
        print(f"| {step}. {name} | {published:.1f} % | {of:.1f} % | {100 * (published / of - 1):+.0f} % |", flush=True)


if __name__ == "__main__":
    main()
