#!/usr/bin/env python3
"""What a launch of Helion's Pallas back end takes on this machine, by JAX's interpreter and by the emulator: medians of each kernel.

    pip install helion; scripts/torch_launches.py [ROUNDS]

Processes take turns, interpreter, emulator, and so on, ROUNDS of each (2).
"""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import helion
import helion.language as hl
import torch

KINDS = ("interpreter", "emulator")


def config(*sizes: int) -> helion.Config:
    return helion.Config(block_sizes=list(sizes))


@helion.kernel(config=config(64, 128))
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + y[tile]
    return out


@helion.kernel(config=config(32))
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return out


@helion.kernel(config=config(128, 128, 128), static_shapes=True)
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


def kernels(kind: str):
    """Name, kernel, arguments and reference."""
    def normal(*shape):
        return torch.randn(*shape).to("cpu" if kind == "interpreter" else "tpu")

    yield "add 256x256", add, (normal(256, 256), normal(256, 256)), lambda x, y: x + y
    yield "softmax 256x256", softmax, (normal(256, 256),), lambda x: torch.softmax(x, 1)
    yield "matmul 256x256x256", matmul, (normal(256, 256), normal(256, 256)), lambda x, y: x @ y


def measure(kind: str, launches: int = 15) -> dict[str, float]:
    """Median milliseconds of a launch, once it is warm. Raises where a result is wrong, or somebody else ran the kernel."""
    import pallasim

    if kind == "emulator":
        import pallasim.torch
        pallasim.torch.install("tpu-7x", findings="collect")
    found = {}
    for name, kernel, args, reference in kernels(kind):
        before = pallasim.launch_count()
        torch.testing.assert_close(kernel(*args).cpu(), reference(*(a.cpu() for a in args)), rtol=1e-3, atol=1e-3)
        if (pallasim.launch_count() > before) != (kind == "emulator"):
            raise RuntimeError(f"{name}: {pallasim.launch_count() - before} launches of the emulator, with the {kind}")
        kernel(*args)
        times = []
        for _ in range(launches):
            start = time.perf_counter()
            kernel(*args)
            times.append(time.perf_counter() - start)
        found[name] = 1e3 * statistics.median(times)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    rounds, results = int((sys.argv[1:] or ["2"])[0]), {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            env = os.environ | {"HELION_BACKEND": "pallas", "HELION_PALLAS_INTERPRET": "1" if kind == "interpreter" else ""}
            run = subprocess.run([sys.executable, __file__, "--measure", kind], env=env, stdout=subprocess.PIPE, text=True, check=True)
            results[kind].append(json.loads(run.stdout.splitlines()[-1]))
            print(kind, {name: f"{ms:.2f} ms" for name, ms in results[kind][-1].items()}, flush=True)
    for name in results["emulator"][0]:
        slow, fast = (statistics.median(r[name] for r in results[kind]) for kind in KINDS)
        print(f"{name:20} {slow:9.2f} ms {fast:9.2f} ms  {slow / fast:6.1f}x")


if __name__ == "__main__":
    main()
