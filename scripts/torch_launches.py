#!/usr/bin/env python3
"""What a launch of Helion's Pallas back end takes on this machine, by JAX's interpreter and by the emulator: medians of each kernel.

    pip install helion; HELION_BACKEND=pallas scripts/torch_launches.py [ROUNDS]

The two take turns, ROUNDS of each (2), in one process. Milliseconds of the clock, and of the processor, which says more on a shared machine.
"""
from __future__ import annotations

import statistics
import sys
import time

import helion
import helion.language as hl
import torch

import pallasim.torch

KINDS = ("interpreter", "emulator")
LAUNCHES = 5


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + y[tile]
    return out


def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return out


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


CASES = ((add, (64, 128), 2, lambda x, y: x + y), (softmax, (32,), 1, lambda x: torch.softmax(x, 1)), (matmul, (128, 128, 128), 2, lambda x, y: x @ y))


def measure(kind: str, case: tuple, kernels: dict) -> tuple[float, float]:
    """Median milliseconds of a warm launch, by the clock and of the processor. Raises where a result is wrong, or the other one ran it."""
    f, sizes, count, reference = case
    emulated = kind == "emulator"
    if emulated:
        pallasim.torch.install("tpu-7x")
    else:
        pallasim.torch.uninstall()
    if (f, kind) not in kernels:
        config = helion.Config(block_sizes=list(sizes))
        kernels[f, kind] = helion.kernel(f, config=config, backend="pallas", static_shapes=True, pallas_interpret=not emulated)
    kernel, args = kernels[f, kind], [torch.randn(256, 256).to("tpu" if emulated else "cpu") for _ in range(count)]
    before = pallasim.launch_count()
    for _ in range(2):
        torch.testing.assert_close(kernel(*args).cpu(), reference(*(a.cpu() for a in args)), rtol=1e-3, atol=1e-3)
    clocks, times = (time.perf_counter, time.process_time), []
    for _ in range(LAUNCHES):
        start = [clock() for clock in clocks]
        kernel(*args)
        times.append([1e3 * (clock() - s) for clock, s in zip(clocks, start)])
    if pallasim.launch_count() - before != (2 + LAUNCHES) * emulated:
        raise RuntimeError(f"{f.__name__}: {pallasim.launch_count() - before} launches of the emulator, with the {kind}")
    wall, processor = map(statistics.median, zip(*times))
    return wall, processor


def main() -> None:
    kernels, rounds = {}, int((sys.argv[1:] or ["2"])[0])
    pallasim.torch.install("tpu-7x")  # the device is there from the beginning
    for case in CASES:
        found = {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind in KINDS:
                found[kind].append(measure(kind, case, kernels))
                print(f"{case[0].__name__:8} {kind:12} {found[kind][-1][0]:8.2f} ms, {found[kind][-1][1]:8.2f} ms of the processor", flush=True)
        (slow, slow_processor), (fast, fast_processor) = ([statistics.median(x) for x in zip(*found[kind])] for kind in KINDS)
        print(f"{case[0].__name__:8} {slow / fast:.1f}x by the clock, {slow_processor / fast_processor:.1f}x of the processor", flush=True)


if __name__ == "__main__":
    main()
