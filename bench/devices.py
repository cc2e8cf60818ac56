"""What a launch on many emulated devices costs: microseconds of CPU per device and launch, beside a handler that does nothing, in a process for each number.

    PYTHONPATH=build/python .venv/bin/python bench/devices.py [--devices 8,64,256,1024] [--launches 1000]

Devices are those of JAX on the CPU; each has a part of the arrays, which are 4 KiB per device. One line of JSON for each number of devices.
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time


def one(devices: int, launches: int) -> dict[str, object]:
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import pallas as pl
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    import pallasim

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import cold

    cold.make_library()
    jax.ffi.register_ffi_target("nothing", jax.ffi.pycapsule(ctypes.cdll.LoadLibrary(str(cold.LIBRARY)).nothing), platform="cpu")
    mesh = Mesh(np.array(jax.devices()), "x")
    x = jax.device_put(jnp.zeros((devices * 8, 128), jnp.float32), NamedSharding(mesh, P("x")))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def program(part):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(part.shape, part.dtype))(part)

    def nothing(part):
        return jax.ffi.ffi_call("nothing", jax.ShapeDtypeStruct(part.shape, part.dtype))(part)

    jitted = {name: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
              for name, f in (("kernel", program), ("nothing", nothing))}
    taken: dict[str, list[float]] = {name: [] for name in jitted}
    with pallasim.emulate("tpu-v5e"):
        np.testing.assert_array_equal(np.asarray(jitted["kernel"](x)), 1)
        jitted["nothing"](x).block_until_ready()
        before = pallasim.launch_count()
        for _ in range(10):
            for name, f in jitted.items():
                start = time.process_time()
                for _ in range(launches // 10):
                    y = f(x)
                    y.block_until_ready()
                taken[name].append((time.process_time() - start) / (launches // 10) / devices * 1e6)
        ran = pallasim.launch_count() - before
    kernel_us, nothing_us = (statistics.median(taken[name]) for name in ("kernel", "nothing"))
    return {"devices": devices, "launches": ran, "us_per_device_and_launch": round(kernel_us, 1), "of_a_handler_that_does_nothing": round(nothing_us, 1),
            "beyond": round(statistics.median(a - b for a, b in zip(taken["kernel"], taken["nothing"])), 1), "threads": threading_count(),
            "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def threading_count() -> int:
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--devices", default="8,64,256,1024")
    p.add_argument("--launches", type=int, default=1000)
    p.add_argument("--one", type=int)
    o = p.parse_args()
    if o.one:
        print(json.dumps(one(o.one, o.launches)))
        return
    for n in o.devices.split(","):
        subprocess.run([sys.executable, os.path.abspath(__file__), "--one", n, "--launches", str(o.launches)], check=True)


if __name__ == "__main__":
    main()
