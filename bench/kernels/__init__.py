"""Kernels to measure: each a Pallas program, its arguments, and the same mathematics in plain JAX.

`case(...)` registers one; the modules of this package do it when they are imported. A new kernel is a function in the
module of its kind: it takes the `interpret` value of JAX's interpreters and returns the function to be jitted.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel to measure.

    build(interpret) gives the function of the arguments; reference is plain JAX on the same arguments. tolerance: of
    absolute differences between the two. steps: grid points. flops, bytes: useful operations, and the least bytes in and
    out, of one call. machine: where it belongs; generic kernels are compared with every interpreter of JAX. only: executors to
    which a kernel of this size is given; none: all.
    """

    name: str
    build: Callable[[Any], Callable[..., Any]]
    arguments: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Any]
    machine: str = "generic"
    steps: int = 1
    flops: float = 0
    bytes: float = 0
    tolerance: float = 1e-4
    only: tuple[str, ...] = ()


CASES: dict[str, Case] = {}


def case(**fields: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers the decorated builder under its own name."""

    def register(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CASES[build.__name__] = Case(name=build.__name__, build=build, **fields)
        return build

    return register


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    """An array of normally distributed numbers, equal on every machine."""
    import jax.numpy as jnp
    import numpy as np

    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape, np.float32), dtype)


def all_cases() -> dict[str, Case]:
    from . import attention, elementwise, gpu, matmul, memory, scalar  # noqa: F401

    return CASES
