"""Prints what the bridge costs: capture, compilation, import, calls on large operands.

    .venv/bin/python bench/bridge_numbers.py

Kernels of n equations alternate arithmetic, indexing and control flow. "Copies" of a call are those of the compiled
program's HLO; the time of one is that of NumPy copying as many bytes in the same run.
"""
from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl


def best(f: Callable[[], Any], rounds: int = 9) -> float:
    """Seconds of the fastest of several runs: other load only adds."""
    times = []
    for _ in range(rounds):
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return min(times)


# --- capture and compilation ----------------------------------------------------------------------------------------
def kernel_of(equations: int) -> tuple[Callable[..., None], int]:
    """A kernel of about so many equations."""
    def kernel(x_ref, o_ref):
        y = x_ref[...]
        for i in range(equations // 10):
            y = jnp.maximum(y * 1.5 + float(i), y - 2.0)
            y = jnp.where(y > 3.0, y, lax.rsqrt(y))
            y = y + x_ref[pl.ds(8 * (i % 2), 8), :][:1]
        o_ref[...] = lax.cond(y[0, 0] > 0, lambda v: v, lambda v: -v, y)

    return kernel, equations


def count(jaxpr: Any) -> int:
    from pallasim._capture import jaxver

    n = 0
    for eqn in jaxpr.eqns:
        n += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                    n += count(jaxver.open_jaxpr(inner)[0])
    return n


def capture_and_compile(sizes: list[int]) -> None:
    from pallasim import _core
    from pallasim._capture import jaxver, module

    print(f"{'equations':>10} {'capture ms':>11} {'/ 100':>7} {'plan ms':>9} {'/ 100':>7} {'text KiB':>9}")
    for size in sizes:
        kernel, _ = kernel_of(size)
        f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32))
        eqn = jaxver.open_jaxpr(jax.make_jaxpr(f)(jnp.ones((16, 128), jnp.float32)))[0].eqns[-1]
        assert eqn.primitive.name == "pallas_call"
        n = count(eqn.params["jaxpr"])
        text = module.pallas_call(eqn.params).text
        capture = best(lambda: module.pallas_call(eqn.params))
        serial = iter(range(1 << 30))
        plan = best(lambda: _core.compile(text.replace('module "kernel"', f'module "k{next(serial)}"', 1)))  # never cached
        print(f"{n:10} {1e3 * capture:11.2f} {1e5 * capture / n:7.3f} {1e3 * plan:9.2f} {1e5 * plan / n:7.3f} {len(text) / 1024:9.0f}")


IMPORT = r"""
import time
import jax, jax.numpy, jax.experimental.pallas
t = time.perf_counter()
import pallasim
a = time.perf_counter()
with pallasim.emulate():
    pass
print(1e3 * (a - t), 1e3 * (time.perf_counter() - a))
"""


def importing(runs: int = 5) -> None:
    rows = []
    for _ in range(runs):
        out = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        rows.append([float(v) for v in out.stdout.split()])
    package, block = (min(r[i] for r in rows) for i in range(2))
    print(f"import pallasim, beyond JAX and Pallas: {package:.1f} ms; the first emulate block: {block:.1f} ms")


# --- large operands -------------------------------------------------------------------------------------------------
MIB = 1 << 20


def touch_kernel(x_ref, o_ref):
    o_ref[0, 0] = x_ref[0, 0] + 1


def touch(x: Any) -> Any:
    return pl.pallas_call(touch_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})(x)


def read_kernel(x_ref, o_ref):
    o_ref[0] = x_ref[0, 0] + 1


def read(x: Any) -> Any:
    return pl.pallas_call(read_kernel, out_shape=jax.ShapeDtypeStruct((1,), x.dtype))(x)


def touch_ref(ref: Any) -> None:
    ref[...] = touch(ref[...])


def copies(compiled: Any, shape: tuple[int, ...]) -> int:
    """Copies of whole operands in a compiled program."""
    dims = ",".join(map(str, shape))
    return len(re.findall(rf"= f32\[{dims}\]\S* copy(?:-start)?\(", compiled.as_text()))


def large_operands(mib: int) -> None:
    import pallasim

    shape = (mib * MIB // 4 // 1024, 1024)
    host = np.zeros(shape, np.float32)
    memcpy = best(lambda: host.copy(), 5)
    fresh = lambda: jnp.zeros(shape, jnp.float32).block_until_ready()  # noqa: E731
    print(f"operand of {mib} MiB; NumPy copies it in {1e3 * memcpy:.0f} ms")

    def row(label: str, compiled: Any, milliseconds: float) -> None:
        print(f"  {label:34} {milliseconds:9.3f} ms per call, copies in the program: {copies(compiled, shape)}")

    def chained(f: Any, x: Any, rounds: int = 9) -> float:
        times = []
        for _ in range(rounds):
            t = time.perf_counter()
            x = f(x)
            jax.block_until_ready(x)
            times.append(time.perf_counter() - t)
        return 1e3 * statistics.median(times)

    with pallasim.emulate():
        x = fresh()
        f = jax.jit(read).lower(x).compile()
        row("read only", f, 1e3 * best(lambda: f(x).block_until_ready()))
        f = jax.jit(touch, donate_argnums=0).lower(x).compile()
        row("aliased and donated", f, chained(f, x))
        x = fresh()
        f = jax.jit(lambda v: lax.fori_loop(0, 10, lambda _, c: touch(c), v), donate_argnums=0).lower(x).compile()
        row("donated, 10 times in a fori_loop", f, chained(f, x))
        ref = jax.new_ref(fresh())
        g = jax.jit(touch_ref)
        g(ref)
        compiled = g.lower(ref).compile()
        row("jax.new_ref", compiled, 1e3 * best(lambda: (g(ref), ref.block_until_ready() if hasattr(ref, "block_until_ready") else None)))
        x = fresh()
        f = jax.jit(touch).lower(x).compile()
        row("aliased, not donated", f, 1e3 * best(lambda: f(x).block_until_ready(), 3))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mib", type=int, default=256)
    p.add_argument("--sizes", type=int, nargs="*", default=[100, 1000, 5000])
    a = p.parse_args()
    capture_and_compile(a.sizes)
    importing()
    large_operands(a.mib)


if __name__ == "__main__":
    main()
