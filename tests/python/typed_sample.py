"""A program that type checkers accept; the lines marked `wrong` are those that they must not."""
from __future__ import annotations

import jax
import jax.numpy as jnp

import pallasim


def emulated(x: jax.Array) -> jax.Array:
    with pallasim.emulate("tpu-v5e", detect_races=True, random_seed=3, platform=False) as params:
        chip: str = params.machine
    print(chip)
    return x


def checked(x: jax.Array) -> bool:
    report: pallasim.Check = pallasim.check(emulated, x, chips=["tpu-7x"])
    kernel: pallasim.KernelCheck = report.kernels[0]
    return report.ok and kernel.ok


def repeated(path: str) -> list[str]:
    again: pallasim.Replay = pallasim.replay(path, rtol=1e-5)
    return [launch.kernel for launch in again.launches] + [finding.code for finding in again.findings]


def wrong(x: jax.Array) -> None:
    with pallasim.emulate("tpu-v5e", detect_race=True):  # wrong
        pass
    pallasim.install("tpu-v5e", pipeline="fast")  # wrong
    number: int = pallasim.replay("a.capsule")  # wrong
    print(number)
    pallasim.emulated(x)  # wrong


print(checked(jnp.zeros((8, 128))))
