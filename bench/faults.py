"""Minor page faults and wall time of a call whose result is some megabytes, beside XLA's call with the same result.

    .venv/bin/python bench/faults.py [--processes 10] [--rounds 40] [--case REGEX] [--hold] [--batch 1]

In each process calls of both alternate, `--batch` of one after as many of the other; the lines are one per process and kernel: medians of the
rounds, the mean of their faults behind it, and by how many MiB the process has grown. Kernels: JAX's own Triton softmax, layer norm
and RMS norm with results of 2 and 4 MiB, and two of kernels/ with results of 16 MiB, of which some processes keep no place with any
opaque handler. --hold: a result lives until the next one of its function is there.
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def cases():
    import jax
    import jax.numpy as jnp
    from compare import CHIPS
    from jax.experimental.pallas.ops.gpu import layer_norm, rms_norm, softmax
    from kernels import all_cases

    def normal(seed, *shape):
        return jax.random.normal(jax.random.key(seed), shape, jnp.float32)

    wide, rows, weight, bias = normal(0, 1024, 1024), normal(1, 2, 256, 1024), normal(2, 1024), normal(3, 1024)
    chip = "gpu-h100"
    r = {
        "softmax_1024x1024": (chip, lambda x: softmax.softmax(x, axis=-1), lambda x: jax.nn.softmax(x, axis=-1), lambda: (wide,)),
        "layer_norm_512x1024": (chip, layer_norm.layer_norm, layer_norm.layer_norm_reference, lambda: (rows, weight, bias)),
        "rms_norm_512x1024": (chip, rms_norm.rms_norm, rms_norm.rms_norm_reference, lambda: (rows, weight, bias)),
    }
    for name in ("gather_256_blocks", "double_buffered_copies_16_mib"):
        case = all_cases()[name]
        r[name] = (CHIPS[case.machine], case.build(False), case.reference, case.arguments)
    return r


def resident():
    """MiB."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(f, arguments, held, hold, batch):
    """Wall seconds and minor faults per call; the last result goes to `held`."""
    import jax

    faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    for _ in range(batch):
        if not hold:
            held.clear()
        out = jax.block_until_ready(f(*arguments))
        held[:] = [out]
        del out
    return (time.perf_counter() - begin) / batch, (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / batch


def worker(rounds: int, pattern: str, hold: bool, batch: int) -> None:
    import jax
    import numpy as np

    import pallasim

    for name, (chip, kernel, reference, make) in cases().items():
        if not re.search(pattern, name):
            continue
        arguments = jax.block_until_ready(make())
        with pallasim.emulate(chip):
            ours = jax.jit(kernel).lower(*arguments).compile()
            launches = pallasim.launch_count()
            out = np.asarray(ours(*arguments))
            assert pallasim.launch_count() == launches + 1, "no kernel ran on the emulator"
        xla = jax.jit(reference).lower(*arguments).compile()
        np.testing.assert_allclose(out, np.asarray(xla(*arguments)), rtol=1e-4, atol=1e-4)
        del out
        seen, held = {"ours": [], "xla": []}, {"ours": [], "xla": []}
        size = resident()
        for _ in range(rounds):
            for who, f in (("ours", ours), ("xla", xla)):
                seen[who].append(measured(f, arguments, held[who], hold, batch))
        grown = resident() - size
        time_of = {who: statistics.median(t for t, _ in v) for who, v in seen.items()}
        faults_of = {who: statistics.median(n for _, n in v) for who, v in seen.items()}
        mean_of = {who: statistics.mean(n for _, n in v) for who, v in seen.items()}
        print(f"{name:<30}{time_of['ours'] * 1e3:>8.3f} ms{time_of['xla'] * 1e3:>9.3f} ms{time_of['ours'] / time_of['xla']:>8.2f}x"
              f"{faults_of['ours']:>8.0f}{mean_of['ours']:>8.0f}{faults_of['xla']:>8.0f}{mean_of['xla']:>8.0f}{grown:>10.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--case", default="")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.rounds, args.case, args.hold, args.batch)
    print(f"{'kernel':<30}{'ours':>11}{'XLA':>12}{'ratio':>9}{'faults':>8}{'mean':>8}{'XLA':>8}{'mean':>8}{'MiB more':>10}", flush=True)
    for _ in range(args.processes):
        command = [sys.executable, __file__, "--worker", "--rounds", str(args.rounds), "--case", args.case, "--batch", str(args.batch)]
        if args.hold:
            command.append("--hold")
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
