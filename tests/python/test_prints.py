"""`prints="anything"`: debug_print takes what the chip's compiler refuses."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim

X = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128) / 4
# What is printed, and how that begins and ends; arrays are printed as a TPU prints them.
PRINTS = {
    "keyword arguments": (lambda x_ref: jax.debug.print("at {i}", i=x_ref[0, 5]), "at 1.25", "at 1.25\n"),
    "a scalar and a tile": (lambda x_ref: pl.debug_print("{} of {}", x_ref[0, 5], x_ref[...]), "1.25 of f32[8,128] {", ", 255.75}\n}\n"),
    "a tile inside the text": (lambda x_ref: pl.debug_print("x is {} here", x_ref[...]), "x is f32[8,128] {", ", 255.75}\n} here\n"),
    "half precision": (lambda x_ref: pl.debug_print("half {}", x_ref[0, 5].astype(jnp.bfloat16)), "half 1.25", "half 1.25\n"),
}


def run(what, machine, **options):
    def kernel(x_ref, o_ref):
        PRINTS[what][0](x_ref)
        o_ref[...] = x_ref[...]

    with pallasim.emulate(machine, **options):
        return jax.block_until_ready(pl.pallas_call(kernel, out_shape=X)(X))


@pytest.mark.parametrize("what", PRINTS)
def test_a_chip_prints_anything_on_request(what, capfd):
    with pytest.raises(pallasim.RefusedError, match="PS-TPU-003"):
        run(what, "tpu-v5e")
    capfd.readouterr()
    assert (run(what, "tpu-v5e", prints="anything") == X).all()
    said = capfd.readouterr().err  # the log of a TPU
    assert said.startswith(PRINTS[what][1]) and said.endswith(PRINTS[what][2])


def test_another_word_is_refused():
    with pytest.raises(ValueError, match="prints is 'chip' or 'anything'"):
        pallasim.Params("tpu-v5e", prints="all")
