"""Lesson 31: tokens to experts and back: a ragged scatter and a ragged gather on SparseCores.

    .venv/bin/python examples/lesson_31_ragged_scatter.py

Each token goes to the expert that a router chose; the tokens of one expert lie together. Where each token lands is a list that the
host made (or -1: nobody takes it). A subcore sends its tokens to the rows that its part of the list names, and fetches them back.
Two subcores may write at the same time because no row is named twice: in the broken twin one is, and two subcores race for it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

SUBCORES, SHARE, WIDTH, EXPERTS = 4, 8, 128, 3
TOKENS = SUBCORES * SHARE


def route(tokens, places):
    """Tokens sorted by expert, and the tokens that came back from there; nobody's rows stay 0."""
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=SUBCORES)

    def kernel(x_hbm, places_hbm, zeros_hbm, sorted_hbm, back_hbm, place, buffer):
        mine = pl.ds(jax.lax.axis_index("subcore") * SHARE, SHARE)
        pltpu.sync_copy(zeros_hbm.at[mine], sorted_hbm.at[mine])
        pltpu.sync_copy(places_hbm.at[mine], place)
        plsc.subcore_barrier()  # a row may belong to another subcore's zeros
        pltpu.sync_copy(x_hbm.at[mine], buffer)
        pltpu.sync_copy(buffer, sorted_hbm.at[plsc.Indices(place, ignored_value=-1)])
        pltpu.sync_copy(zeros_hbm.at[mine], buffer)
        pltpu.sync_copy(sorted_hbm.at[plsc.Indices(place, ignored_value=-1)], buffer)
        pltpu.sync_copy(buffer, back_hbm.at[mine])

    out = [jax.ShapeDtypeStruct(tokens.shape, tokens.dtype)] * 2
    scratch = [pltpu.VMEM((SHARE,), jnp.int32), pltpu.VMEM((SHARE, WIDTH), tokens.dtype)]
    return pl.kernel(kernel, out_type=out, mesh=mesh, scratch_types=scratch)(tokens, places, jnp.zeros_like(tokens))


def main():
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)
    expert = rng.integers(0, EXPERTS + 1, TOKENS)  # EXPERTS: no room for the token
    order = np.argsort(expert, kind="stable")
    places = np.empty(TOKENS, np.int32)
    places[order] = np.arange(TOKENS)
    places[expert == EXPERTS] = -1

    want = np.zeros_like(tokens)
    want[places[places >= 0]] = tokens[places >= 0]
    for seed in (None, 0, 1, 2):
        with pallasim.emulate("tpu-7x", detect_races=True, random_seed=seed):
            placed, back = (np.asarray(a) for a in route(tokens, places))
        np.testing.assert_array_equal(placed, want)
        np.testing.assert_array_equal(back, np.where((places >= 0)[:, None], tokens, 0))
    assert np.abs(back).max() > 1 and (places < 0).any()
    sizes = [int((expert == e).sum()) for e in range(EXPERTS)]
    print(f"{TOKENS} tokens: {sizes} for the experts, {int((places < 0).sum())} for nobody; moved there and back")

    first, last = np.flatnonzero(places >= 0)[[0, -1]]  # of two subcores
    twice = places.copy()
    twice[last] = twice[first]
    pallasim.findings()
    with pallasim.emulate("tpu-7x", detect_races=True, findings="collect"):
        jax.block_until_ready(route(tokens, twice))
    race = next(f for f in pallasim.findings() if f.code == "PS-RACE-002")
    print("A row that the list names twice:")
    print(race.report)
    assert "sorted_hbm" in race.message


if __name__ == "__main__":
    main()
