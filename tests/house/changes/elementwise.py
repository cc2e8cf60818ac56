"""jax.lax.igamma_grad_a in a kernel, against JAX."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim


def body(a, x, o):
    o[...] = jax.lax.igamma_grad_a(a[...], x[...])


a = jnp.linspace(0.3, 9.0, 1024, dtype=jnp.float32).reshape(8, 128)
x = jnp.linspace(0.1, 12.0, 1024, dtype=jnp.float32)[::-1].reshape(8, 128)
with pallasim.emulate():
    before = pallasim.launch_count()
    got = jax.block_until_ready(pl.pallas_call(body, out_shape=a)(a, x))
    assert pallasim.launch_count() == before + 1
want = jax.lax.igamma_grad_a(a, x)
assert np.abs(want).max() > 0.1
np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
