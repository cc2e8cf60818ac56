"""Lesson 12: a kernel on refs returns nothing: it changes memory that the caller holds.

    .venv/bin/python examples/lesson_12_add_refs.py

`pl.kernel` runs a function once per core of a mesh. Refs that are passed to it are the memory itself, of whatever size:
no blocks, no copies, no output shapes. What the caller reads from them afterwards is what the kernel left there.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

N = 8


def show(title, **refs):
    print(f"{title:24}", "  ".join(f"{name} {np.asarray(ref[:4])}" for name, ref in refs.items()))


def main():
    start = np.random.default_rng(0).integers(0, 9, N).astype(np.float32)
    with pallasim.emulate(detect_races=True):
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

        @pl.kernel(mesh=mesh)
        def add_refs(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        x, y, o = jax.new_ref(jnp.asarray(start)), jax.new_ref(jnp.ones(N)), jax.new_ref(jnp.zeros(N))
        address = o.unsafe_buffer_pointer()
        show("at first", x=x, y=y, o=o)
        before = pallasim.launch_count()
        add_refs(x, y, o)
        show("add_refs(x, y, o)", x=x, y=y, o=o)
        np.testing.assert_array_equal(o[...], start + 1)
        add_refs(x, o, y)  # which ref is read and which is written is the kernel's affair
        show("add_refs(x, o, y)", x=x, y=y, o=o)
        np.testing.assert_array_equal(y[...], start + (start + 1))
        traffic = pallasim.last_run()["traffic"]

    assert pallasim.launch_count() == before + 2
    assert o.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(x[...], start)
    print("o was in one place all the time: nothing was allocated, returned or copied.")
    print()
    print("What the second call did to memory:")
    for name, t in zip("xoy", traffic):
        print(f"  {name}  {t['bytes_read']:3} B read {t['bytes_written']:3} B written")
    assert [(t["bytes_read"], t["bytes_written"]) for t in traffic[:3]] == [(4 * N, 0), (4 * N, 0), (0, 4 * N)]


if __name__ == "__main__":
    main()
