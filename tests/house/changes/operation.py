"""jax.lax.linalg.lu_pivots_to_permutation in a kernel, against JAX."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim


def body(pivots, o):
    o[...] = jax.lax.linalg.lu_pivots_to_permutation(pivots[...], 8)


pivots = jnp.array([3, 5, 2, 7, 4, 6], dtype=jnp.int32)
with pallasim.emulate():
    before = pallasim.launch_count()
    got = jax.block_until_ready(pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8,), jnp.int32))(pivots))
    assert pallasim.launch_count() == before + 1
want = jax.lax.linalg.lu_pivots_to_permutation(pivots, 8)
assert list(want) != list(range(8))
np.testing.assert_array_equal(got, want)
