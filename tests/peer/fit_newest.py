"""A pytest plugin for JAX's own Pallas tests where they are older than the JAX they run with: the names that they ask of it and it lacks.

    PYTEST_PLUGINS=fit_newest PYTHONPATH=tests/peer pytest ...
"""
from __future__ import annotations

from jax._src import config

# Up to JAX 0.11 the switch between Triton and Mosaic GPU for kernels without compiler parameters, in the tests' environment too
# (JAX_PALLAS_USE_MOSAIC_GPU). JAX 0.12 always takes Triton there.
if not hasattr(config, "jax_pallas_use_mosaic_gpu"):
    config.jax_pallas_use_mosaic_gpu = config.bool_state(
        name="jax_pallas_use_mosaic_gpu", default=False, help="Which backend compiles GPU kernels without compiler parameters.")
