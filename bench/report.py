#!/usr/bin/env python3
"""Pages of launches (docs/report.md) in a headless Chromium: how soon they are drawn, how many frames a second the scrubber moves.

    python bench/report.py [--runs N] [--keep FOLDER] [WORD]

Pages whose name contains WORD: a ring of 8 devices, JAX's Hopper matmul of 4096 x 4096 x 4096, JAX's splash attention, and a launch of more than 10^6
events. Each is opened N times in turn. "drawn": milliseconds from the navigation to the frame behind the first one that has everything. "frames": frames a
second that show another moment than the one before, while a pressed mouse goes over the scrubber from one end to the other, and "worst" the longest time
between two of them. Medians. The browser draws on the CPU; `load` is what else the machine had to do (average of a minute).
"""
from __future__ import annotations

import argparse
import functools
import os
import pathlib
import statistics
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import browser  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.sharding import Mesh, PartitionSpec as P  # noqa: E402

jax.config.update("jax_num_cpu_devices", 8)

import pallasim  # noqa: E402

S = jax.ShapeDtypeStruct
DEVICES, PART = 8, (512, 512)


def gather(x: Any) -> Any:
    """Each device sends to its right neighbour what came last from the left."""
    def kernel(x_hbm, o_hbm, sent, came):  # type: ignore[no-untyped-def]
        me = lax.axis_index("x")
        right, left = lax.rem(me + 1, DEVICES), lax.rem(me + DEVICES - 1, DEVICES)
        ready = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(ready, 1, device_id=left, device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(ready, 1)
        pltpu.sync_copy(x_hbm, o_hbm.at[me])
        for step in range(DEVICES - 1):
            part = lax.rem(me + DEVICES - step, DEVICES)
            copy = pltpu.make_async_remote_copy(o_hbm.at[part], o_hbm.at[part], sent.at[step], came.at[step], device_id=right,
                                                device_id_type=pl.DeviceIdType.LOGICAL)
            copy.start()
            copy.wait()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, out_shape=S((DEVICES, *x.shape), x.dtype), in_specs=[hbm], out_specs=hbm, name="ring_all_gather",
                          scratch_shapes=[pltpu.SemaphoreType.DMA((DEVICES - 1,))] * 2, compiler_params=pltpu.CompilerParams(collective_id=0))(x)


def ring() -> tuple[Any, ...]:
    mesh = Mesh(np.array(jax.devices()), "x")
    f = jax.shard_map(gather, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return "tpu-v5e", f, S((DEVICES * PART[0], PART[1]), jnp.float32)


def hopper() -> tuple[Any, ...]:
    from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as mm

    config = mm.TuningConfig(tile_m=128, tile_n=128, tile_k=64, max_concurrent_steps=4, epi_tile_n=64, epi_tile_m=64, grid_minor_dim=mm.MatmulDimension.N,
                             grid_tile_width=8, wg_dimension=mm.MatmulDimension.M)
    x = S((4096, 4096), jnp.float16)
    return "gpu-h100", functools.partial(mm.matmul, config=config, c=None), x, x


def splash() -> tuple[Any, ...]:
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel, splash_attention_mask as masks

    heads, length, width = 8, 4096, 128
    mask = masks.MultiHeadMask([masks.CausalMask((length, length)) for _ in range(heads)])
    attend = kernel.make_splash_mha(mask, block_sizes=kernel.BlockSizes.get_default(), head_shards=1, q_seq_shards=1)
    x = S((heads, length, width), jnp.bfloat16)
    return "tpu-v5e", attend, x, x, x


def many(steps: int = 1 << 18) -> tuple[Any, ...]:
    """Two copies, what computes and the step itself at each point of the grid."""
    def twice(x_ref, o_ref):  # type: ignore[no-untyped-def]
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = S((steps * 8, 128), jnp.float32)
    return "tpu-v5e", pl.pallas_call(twice, grid=(steps,), in_specs=[spec], out_specs=spec, out_shape=x), x


PAGES = {"ring of 8": ring, "hopper matmul": hopper, "splash attention": splash, "10^6 events": many}
DRAWN = """addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = performance.now(); })));"""
COUNT = """(() => { window.frames_ = []; let last = -1; const go = (t) => { if (pallasim.state.time !== last) { last = pallasim.state.time; frames_.push(t); }
  window.going = requestAnimationFrame(go); }; window.going = requestAnimationFrame(go); })()"""
WAIT = "new Promise(r => { const go = () => window.drawn ? r(window.drawn) : setTimeout(go, 5); go(); })"


def measured(path: pathlib.Path) -> tuple[float, float, float]:
    """Milliseconds until it is drawn, frames a second, the longest time between two."""
    with browser.Browser(1280, 960) as b:
        b.before_pages(DRAWN)
        b.open(path)
        drawn = b.ask(WAIT)
        b.ask(COUNT)
        b.drag("#scrub", 0.01, 0.99, steps=240)
        frames = b.ask("(cancelAnimationFrame(going), frames_)")
        if b.problems:
            raise RuntimeError(b.problems[0])
    between = [y - x for x, y in zip(frames, frames[1:])]
    return drawn, 1e3 / statistics.mean(between), max(between)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="")
    parser.add_argument("--runs", type=int, default=5, help="0: pages are made, and kept, and that is all")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the pages; those that lie there are not made again")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as here:
        folder = a.keep or pathlib.Path(here)
        folder.mkdir(exist_ok=True, parents=True)
        paths = {name: folder / f"{name.replace(' ', '_').replace('^', '')}.html" for name in PAGES if a.word in name}
        for name, path in paths.items():
            if not path.exists():
                chip, f, *args = PAGES[name]()
                pallasim.predict(f, *args, chip=chip, sensitivity=False, waves=0 if name == "10^6 events" else 3, report=str(path))
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in paths}
        loads = []
        for _ in range(a.runs):
            for name, path in paths.items():
                found[name].append(measured(path))
                loads.append(os.getloadavg()[0])
    if not a.runs:
        return
    print(f"{a.runs} runs, load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores\n| page | MB | drawn, ms | frames a second | worst, ms |\n|---|---|---|---|---|")
    for name, path in paths.items():
        size = f"{path.stat().st_size / 1e6:.2f}" if path.exists() else ""
        drawn, frames, worst = (statistics.median(x) for x in zip(*found[name]))
        print(f"| {name} | {size} | {drawn:.0f} | {frames:.0f} | {worst:.0f} |")


if __name__ == "__main__":
    main()
