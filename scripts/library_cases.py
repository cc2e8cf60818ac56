"""Kernels of public libraries that have no tests of their own, against XLA's collectives; run by `scripts/library_tests.py`."""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import pallasim

ROOT = Path(os.environ["PALLASIM_LIBRARIES"])


def sharded(f: Callable[..., Any], devices: int, axis: str, *args: jax.Array) -> np.ndarray:
    mesh = Mesh(np.array(jax.devices()[:devices]), (axis,))
    return np.asarray(jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P(axis), out_specs=P(axis), check_vma=False))(*args), np.float32)


@pytest.mark.pallasim("tpu-7x")
@pytest.mark.parametrize("dtype, off", [(jnp.bfloat16, 0.1), (jnp.float32, 1e-5)])
def test_hierarchical_reduce_scatter(dtype: Any, off: float) -> None:
    """vllm-project/tpu-inference: a scalar and 16 vector subcores of two SparseCores of each of eight devices."""
    wrapper = importlib.import_module("tpu_inference.kernels.collectives.hierrs_sc.wrapper")
    x = jax.random.normal(jax.random.key(0), (8 * 1024, 4096), jnp.float32).astype(dtype)
    before = pallasim.launch_count()
    got = sharded(lambda x: wrapper.hierarchical_reduce_scatter_local(x, 8), 8, "x", x)
    assert pallasim.launch_count() > before
    want = sharded(lambda x: jax.lax.psum_scatter(x.astype(jnp.float32), "x", tiled=True), 8, "x", x)
    assert np.abs(got - want).max() <= off


@pytest.mark.pallasim("tpu-v5p", fail_on="none")
@pytest.mark.parametrize("name, n", [("exchange_with_neighbor", 256), ("reduce_scatter", 16), ("reduce_scatter", 32), ("all_gather", 64)])
def test_ring_of_four(name: str, n: int) -> None:
    """beshrislambouli/TPU-Collectives, at the smaller of its own sizes."""
    sys.path.insert(0, str(ROOT / "TPU-Collectives"))
    m = importlib.import_module("collectives")
    more = [] if name.startswith("exchange") else [jnp.int32(1)]  # iterations
    x = jax.random.normal(jax.random.key(0), (4 * n, 8, 128))
    before = pallasim.launch_count()
    with pallasim.compat.old_spellings():
        got = sharded(lambda x: getattr(m, f"{name}_pallas_launch")(x, *more), 4, m.AXIS_NAME, x)
    assert pallasim.launch_count() > before
    want = sharded(getattr(m, f"{name}_reference"), 4, m.AXIS_NAME, x)
    assert np.abs(got - want).max() <= 1e-5
