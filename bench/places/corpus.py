"""Kernels whose accesses lie at places of their own, which a checked run has to look at one by one or as a list.

    .venv/bin/python bench/checked.py --corpus bench/places
"""
from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc
from jax.experimental.pallas import triton as pltriton

PROGRAMS, LANES, ROWS = 16, 1024, 64
N = PROGRAMS * LANES


@dataclasses.dataclass
class Case:
    """As bench/checked.py wants it."""

    family: str
    build: Callable[[Any], Callable[..., Any]]
    make_args: Callable[[], tuple[jax.Array, ...]]
    ref: Callable[..., Any] | None
    check: bool = True
    tol: float = 0.0
    devices: int = 1
    ctx: Any = contextlib.nullcontext


CASES: dict[str, Case] = {}


def case(name: str, family: str, make_args: Callable[[], tuple[jax.Array, ...]], ref: Callable[..., Any] | None) -> Callable[[Any], Any]:
    def enter(build: Any) -> Any:
        CASES[name] = Case(family, build, make_args, ref, check=ref is not None)
        return build

    return enter


def places(bins: int = N) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    return jnp.arange(N, dtype=jnp.float32), jnp.asarray(rng.permutation(N) % bins, jnp.int32)


def triton(kernel: Any, interpret: Any, out: Any, **options: Any) -> Callable[..., Any]:
    return pl.pallas_call(kernel, out_shape=out, grid=(PROGRAMS,), interpret=interpret, compiler_params=pltriton.CompilerParams(num_warps=4), **options)


def lanes() -> jax.Array:
    return pl.program_id(0) * LANES + jnp.arange(LANES)


def floats(n: int = N) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((n,), jnp.float32)


@case("triton_scatter", "triton", places, lambda x, at: jnp.zeros(N).at[at].set(x))
def _(interpret: Any) -> Any:
    def kernel(x: Any, at: Any, o: Any) -> None:
        pltriton.store(o.at[at[lanes()]], x[lanes()])

    return triton(kernel, interpret, floats())


@case("triton_gather", "triton", places, lambda x, at: x[at])
def _(interpret: Any) -> Any:
    def kernel(x: Any, at: Any, o: Any) -> None:
        o[lanes()] = pltriton.load(x.at[at[lanes()]])

    return triton(kernel, interpret, floats())


def histogram(x: jax.Array, at: jax.Array) -> jax.Array:
    return jnp.zeros(N, jnp.int32).at[at].add(1)


@case("triton_atomics", "triton", lambda: places(256), histogram)
def _(interpret: Any) -> Any:
    """Whose results nobody uses."""
    def kernel(x: Any, at: Any, zero: Any, o: Any) -> None:
        pltriton.atomic_add(o, (at[lanes()],), jnp.ones(LANES, jnp.int32))

    f = triton(kernel, interpret, jax.ShapeDtypeStruct((N,), jnp.int32), input_output_aliases={2: 0})
    return lambda x, at: f(x, at, jnp.zeros(N, jnp.int32))


@case("triton_atomics_that_tell", "triton", lambda: places(256), None)
def _(interpret: Any) -> Any:
    """Whose results say what was there, which depends on the order."""
    def kernel(x: Any, at: Any, zero: Any, o: Any, before: Any) -> None:
        before[lanes()] = pltriton.atomic_add(o, (at[lanes()],), jnp.ones(LANES, jnp.int32))

    f = triton(kernel, interpret, (jax.ShapeDtypeStruct((N,), jnp.int32),) * 2, input_output_aliases={2: 0})
    return lambda x, at: f(x, at, jnp.zeros(N, jnp.int32))


def table() -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    return jnp.arange(1024 * 128, dtype=jnp.float32).reshape(1024, 128), jnp.asarray(rng.permutation(1024)[:16 * ROWS], jnp.int32)


@case("sparsecore_gather", "sc", table, lambda x, rows: x[rows])
def _(interpret: Any) -> Any:
    """Sixteen subcores fetch 64 rows each, by one copy."""
    def kernel(x: Any, rows: Any, o: Any, index: Any, buffer: Any) -> None:
        mine = pl.ds(jax.lax.axis_index("subcore") * ROWS, ROWS)
        pltpu.sync_copy(rows.at[mine], index)
        pltpu.sync_copy(x.at[index], buffer)
        pltpu.sync_copy(buffer, o.at[mine])

    def call(x: jax.Array, rows: jax.Array) -> Any:
        mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=16)
        scratch = [pltpu.VMEM((ROWS,), jnp.int32), pltpu.VMEM((ROWS, 128), jnp.float32)]
        return pl.kernel(kernel, out_type=jax.ShapeDtypeStruct((16 * ROWS, 128), jnp.float32), mesh=mesh, scratch_types=scratch,
                         interpret=interpret)(x, rows)

    return call


@case("copies_row_by_row", "tpu", table, lambda x, rows: x[rows[:256]])
def _(interpret: Any) -> Any:
    """A TensorCore starts 256 copies of a row and awaits them one by one."""
    def kernel(rows: Any, x: Any, o: Any, arrived: Any) -> None:
        def copy(i: Any) -> Any:
            return pltpu.make_async_copy(x.at[pl.ds(rows[i], 1)], o.at[pl.ds(i, 1)], arrived)

        jax.lax.fori_loop(0, 256, lambda i, _: copy(i).start(), None)
        jax.lax.fori_loop(0, 256, lambda i, _: copy(i).wait(), None)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[anywhere], out_specs=anywhere,
                                        scratch_shapes=[pltpu.SemaphoreType.DMA])
    f = pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((256, 128), jnp.float32), interpret=interpret)
    return lambda x, rows: f(rows, x)
