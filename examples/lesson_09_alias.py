"""Lesson 9: an alias lets a kernel change part of an array in place.

    .venv/bin/python examples/lesson_09_alias.py

`input_output_aliases={0: 0}` makes input 0 and output 0 one buffer. Blocks that no grid point writes keep the input's
values. Whether a copy is made on the way is up to the caller: a donated argument is used in place.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

ROWS = 8


def increment_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def increment_rows(x, count):
    """Adds one to the even rows among the first 2 * count."""
    row = pl.BlockSpec((1, 128), lambda i: (2 * i, 0))
    return pl.pallas_call(increment_kernel, out_shape=x, grid=(count,), in_specs=[row], out_specs=row, input_output_aliases={0: 0})(x)


def main():
    start = np.random.default_rng(0).standard_normal((ROWS, 128), dtype=np.float32)
    want = start.copy()
    want[0:6:2] += np.float32(1)

    rows = []
    for donated in (False, True):
        f = jax.jit(functools.partial(increment_rows, count=3), donate_argnums=0 if donated else ())
        with pallasim.emulate(detect_races=True):
            x = jax.device_put(jnp.array(start))
            address = x.unsafe_buffer_pointer()
            out = jax.block_until_ready(f(x))
        np.testing.assert_array_equal(np.asarray(out), want)
        in_place = out.unsafe_buffer_pointer() == address
        assert in_place == donated and x.is_deleted() == donated
        rows.append((donated, in_place))
        if not donated:
            np.testing.assert_array_equal(np.asarray(x), start)  # the caller's array is as it was
        traffic = pallasim.last_run()["traffic"]
    assert traffic[0]["bytes_read"] == traffic[1]["bytes_written"] == 3 * 512

    print("row  before     after")
    for i in range(ROWS):
        print(f"  {i}  {start[i, 0]:8.4f} {np.asarray(out)[i, 0]:9.4f}  {'written by grid point ' + str(i // 2) if i in (0, 2, 4) else 'nobody wrote: the input shows'}")
    print()
    for donated, in_place in rows:
        print(f"argument {'donated' if donated else 'kept   '}: the output is {'in the same memory, nothing was copied' if in_place else 'a copy, made before the kernel ran'}")
    print(f"the kernel itself moved {traffic[0]['bytes_read']} B in and {traffic[1]['bytes_written']} B out of {start.nbytes}")


if __name__ == "__main__":
    main()
