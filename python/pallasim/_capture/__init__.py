"""JAX kernels as IR text. `module.pallas_call` and `module.mpmd_map` are the entry points."""
