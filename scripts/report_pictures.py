#!/usr/bin/env python3
"""Makes docs/pictures: pages of reports as Chromium shows them."""
import functools
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import browser  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas.ops.gpu import hopper_matmul_mgpu as hopper  # noqa: E402

import pallasim  # noqa: E402

S = jax.ShapeDtypeStruct


def matmul(x_ref, y_ref, o_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


def tpu(n=1024, block=256):
    spec = functools.partial(pl.BlockSpec, (block, block))
    f = pl.pallas_call(matmul, grid=(n // block,) * 3, in_specs=[spec(lambda i, j, k: (i, k)), spec(lambda i, j, k: (k, j))],
                       out_specs=spec(lambda i, j, k: (i, j)), out_shape=S((n, n), jnp.float32))
    return f, S((n, n), jnp.bfloat16), S((n, n), jnp.bfloat16)


def gpu(n=2048):
    config = hopper.TuningConfig(tile_m=64, tile_n=128, tile_k=64, max_concurrent_steps=4, wg_dimension=hopper.MatmulDimension.M)
    return functools.partial(hopper.matmul, config=config, c=None), S((n, n), jnp.float16), S((n, n), jnp.float16)


def main() -> None:
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    for name, launch, chip, scheme, part, zoom in (("tpu", tpu(), "tpu-v5e", "light", 0.4, 0.2), ("hopper", gpu(), "gpu-h100", "dark", 0.32, 0.3)):
        with tempfile.TemporaryDirectory() as here, browser.Browser(1180, 980) as b:
            page = pathlib.Path(here) / "page.html"
            pallasim.predict(*launch, chip=chip, sensitivity=False, report=str(page))
            b.scheme(scheme)
            b.open(page)
            b.ask(f"pallasim.state.setTime(pallasim.state.launch.end * {part}); pallasim.state.zoom({zoom})")
            b.picture(folder / f"report_{name}.webp", whole=False)


if __name__ == "__main__":
    main()
