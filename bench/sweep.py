"""What sweeps cost: configurations of JAX's own matmuls, predicted only and checked with values, tracing and the rest apart.

    PYTHONPATH=build/python .venv/bin/python bench/sweep.py            # in this process: seconds of CPU per configuration, by what they go to
    PYTHONPATH=build/python .venv/bin/python bench/sweep.py --jobs 2   # by processes: seconds of wall

A rate "beyond tracing" is what is left when tracing, which is JAX's own, is taken off. `--executor dask`: one worker of Dask and two, which needs
`pallasim[dask]`; `--items N`: so many small items by processes, and how much memory is taken; `--kills N`: so many sweeps by Dask in each of which a worker
is killed.
"""
from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import os
import signal
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import matmul as jax_tpu

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def tpu(config):
    """JAX's TPU matmul, with the semantics of its dimensions to choose."""
    m, n, k, semantics = config

    def f(x, y):
        return pl.pallas_call(
            jax_tpu.matmul_kernel, out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), x.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=0, grid=(x.shape[0] // m, y.shape[1] // n, x.shape[1] // k),
                in_specs=[pl.BlockSpec((m, k), lambda i, _, k: (i, k)), pl.BlockSpec((k, n), lambda _, j, k: (k, j))],
                out_specs=pl.BlockSpec((m, n), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)]),
            compiler_params=pltpu.CompilerParams(dimension_semantics=semantics))(x, y)

    return f


def hopper(config):
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as jax_gpu

    m, n, k, steps, cluster, minor, width = config
    dimension = jax_gpu.MatmulDimension
    chosen = jax_gpu.TuningConfig(m, n, k, steps, grid_minor_dim=dimension[minor], grid_tile_width=width, cluster_dimension=dimension[cluster] if cluster else None)
    return lambda a, b: jax_gpu.matmul(a, b, None, chosen)


def product(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32).astype(a.dtype)


P, A = "parallel", "arbitrary"
_ORDERS = [(P, P, A), (P, A, A), (A, P, A), (A, A, A)]


def configurations(kernel: str, size: int) -> list[tuple]:
    if kernel == "tpu":
        sides = [s for s in (16, 32, 64, 128, 256, 512, 1024, 2048) if s <= size][-5:]
        return list(itertools.product(sides, sides, sides[-4:], _ORDERS))
    return list(itertools.product((64, 128), (64, 128), (64, 32), (2, 3, 4, 5, 6), ("", "M", "N"), "MN", (1, 4, 8, 16)))[::2][:400]


KERNELS = {"tpu": (tpu, "tpu-v5e", jnp.bfloat16), "hopper": (hopper, "gpu-h100", jnp.float16)}


def one(name: str, size: int, values: bool, jobs: int, configs: list | None = None) -> dict:
    import pallasim
    from pallasim import _judge

    make, chip, dtype = KERNELS[name]
    configs = configs or configurations(name, size)
    arrays = [np.asarray(x, dtype) for x in np.random.default_rng(0).standard_normal((2, size, size)).astype(np.float32)] if values else []
    args = arrays or [jax.ShapeDtypeStruct((size, size), dtype)] * 2
    _judge.clock = time.process_time if jobs == 0 else time.perf_counter  # in this process what others do on the machine does not count
    start = time.perf_counter(), time.process_time()
    s = pallasim.sweep(make, configs, *args, chips=[chip], reference=product if values else None, jobs=jobs, tolerance=0.05)
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    spent = collections.Counter()
    for r in s.rows:
        spent.update(r.spent)
    rest = sum(spent.values()) - spent["tracing"]
    best = s.best.get(chip)
    return {"kernel": name, "size": size, "what": "checked with values" if values else "predicted only", "configurations": len(configs),
            "statuses": dict(collections.Counter(r.status for r in s.rows)), "jobs": jobs, "wall": round(wall, 2), "cpu": round(cpu, 2),
            "ms_per_configuration": {k: round(v / len(configs) * 1e3, 2) for k, v in spent.items()},
            "per_second_and_core_beyond_tracing": round(len(configs) / rest, 1), "load": os.getloadavg()[0],
            "best": {"config": [str(x) for x in best.config], "why": best.why} if best else None}


# --- many items, and engines ----------------------------------------------------------------------------------------
class Busy:
    """An item that takes a while and little memory."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def run(self, item):
        until = time.process_time() + self.seconds
        while time.process_time() < until:
            pass
        return {"status": "ok", "item": item}


def many(count: int) -> dict:
    """Memory of this process and of its workers, at each tenth of the items."""
    from pallasim import _many, _workers

    pools, taken, told = [], [], [0]
    pool = _workers.Pool
    _workers.Pool = lambda *a: pools.append(pool(*a)) or pools[-1]

    def look(n, outcome):
        told[0] += 1
        if told[0] % (count // 10) == 0:
            taken.append((_workers.resident(os.getpid()) >> 20, sum(_workers.resident(w.pid) for w in pools[0]._all) >> 20))

    start = time.perf_counter()
    args = (jax.ShapeDtypeStruct((1024, 128), jnp.float32),)
    from pallasim import _judge

    items = [(8 << n % 8, "tpu-v5e") for n in range(count)]
    _many.run(_judge.Program(double, args, values=False), items, look, executor=None, jobs=2, seconds=60, most_bytes=0)
    return {"items": told[0], "seconds": round(time.perf_counter() - start, 1), "MiB_here_and_in_workers": taken}


def double(rows):
    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = [pl.BlockSpec((rows, 128), lambda i: (i, 0))]
    return lambda x: pl.pallas_call(kernel, out_shape=x, grid=(x.shape[0] // rows,), in_specs=spec, out_specs=spec[0])(x)


def dask(kills: int) -> dict:
    """One worker beside two on the same items; then sweeps in each of which a worker is killed with SIGKILL."""
    import distributed
    from pallasim import _judge, _many

    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *filter(None, sys.path)])
    sweep = sys.modules["sweep"]
    program = _judge.Program(sweep.tpu, (jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16),) * 2, values=False)
    items = [(c, "tpu-v5e") for c in configurations("tpu", 1024)]
    out: dict = {"load": os.getloadavg()[0], "lost": 0, "twice": 0, "killed": 0}
    for workers in (1, 2):
        with distributed.LocalCluster(n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0) as cluster, \
                distributed.Client(cluster) as client:
            run = functools.partial(_many.run, executor=client.get_executor(), jobs=0, seconds=60, most_bytes=0)
            run(program, items[:32 * workers], lambda n, o: None)  # processes are there
            start = time.perf_counter()
            run(program, items, lambda n, o: None)
            out[f"seconds_with_{workers}"] = round(time.perf_counter() - start, 2)
    for _ in range(kills):  # of a cluster each: a nanny that starts its worker anew may fail
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0) as cluster, \
                distributed.Client(cluster) as client:
            told: collections.Counter = collections.Counter()
            victim = list(client.run(os.getpid).values())[0]
            timer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
            timer.start()
            _many.run(sweep.Busy(0.02), list(range(200)), lambda n, o: told.update([n] if o["status"] == "ok" else []), executor=client.get_executor(), jobs=0,
                      seconds=60, most_bytes=0)
            timer.join()
            out["killed"] += 1
            out["lost"] += 200 - len(told)
            out["twice"] += sum(c - 1 for c in told.values())
            print(json.dumps({k: out[k] for k in ("killed", "lost", "twice")}), file=sys.stderr, flush=True)
    out["speedup"] = round(out["seconds_with_1"] / out["seconds_with_2"], 2)
    return out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", choices=list(KERNELS), action="append")
    p.add_argument("--size", type=int, default=4096, help="of predicted products")
    p.add_argument("--values-size", type=int, default=256)
    p.add_argument("--what", choices=["predicted", "values"], action="append")
    p.add_argument("--jobs", type=int, default=0)
    p.add_argument("--items", type=int, default=0)
    p.add_argument("--executor", choices=["dask"])
    p.add_argument("--kills", type=int, default=0)
    o = p.parse_args()
    if o.items:
        print(json.dumps(many(o.items)))
    elif o.executor:
        print(json.dumps(dask(o.kills)))
    else:
        for name in o.kernel or list(KERNELS):
            for what in o.what or ["predicted", "values"]:
                values = what == "values"
                print(json.dumps(one(name, o.values_size if values else o.size, values, o.jobs)), flush=True)


if __name__ == "__main__":
    import sweep  # by its name, as workers find it

    sweep.main()
