"""Lesson 11: a ref that outlives the kernel is memory that many launches change.

    .venv/bin/python examples/lesson_11_refs.py

`jax.new_ref(x)` makes an array that can be written. A kernel in a `fori_loop` updates it step by step, in one place:
the loop carries no array, and `jax.freeze` ends the writing. Here the kernel is one step of heat flowing along a rod.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import pallasim

N, STEPS = 64, 200


def heat_kernel(t_ref, o_ref):
    t = t_ref[...]
    left, right = jnp.roll(t, 1), jnp.roll(t, -1)
    cell = jax.lax.broadcasted_iota(jnp.int32, t.shape, 0)
    inner = (cell > 0) & (cell < N - 1)  # the ends are held at their temperature
    o_ref[...] = jnp.where(inner, t + 0.25 * (left - 2 * t + right), t)


def step(t):
    return pl.pallas_call(heat_kernel, out_shape=t, input_output_aliases={0: 0})(t)


@jax.jit
def flow(start):
    rod = jax.new_ref(start)

    def body(i, _):
        rod[...] = step(rod[...])

    jax.lax.fori_loop(0, STEPS, body, None)
    return jax.freeze(rod)


def reference(t):
    for _ in range(STEPS):
        t[1:-1] += 0.25 * (t[:-2] - 2 * t[1:-1] + t[2:])
    return t


def main():
    start = np.zeros(N, np.float32)
    start[0], start[20:28] = 0.5, 1.0
    before = pallasim.launch_count()
    with pallasim.emulate():
        out = np.asarray(flow(start))
    assert pallasim.launch_count() == before + STEPS, "one launch per step"
    want = reference(start.astype(np.float64))
    np.testing.assert_allclose(out, want, atol=1e-5)
    assert out.max() > 0.3

    shades = " .:-=+*#%@"
    draw = lambda t: "".join(shades[min(9, int(v * 10))] for v in t)  # noqa: E731
    print("step   0 |" + draw(start) + "|")
    print(f"step {STEPS:3} |" + draw(out) + "|")
    print(f"{STEPS} launches on one buffer of {out.nbytes} B; without the ref the loop would carry the array.")


if __name__ == "__main__":
    main()
