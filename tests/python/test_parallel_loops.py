"""Trips of a parallel_loop have no order: what two of them do to a place is found where one of them writes."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim

LANES, TRIPS = 16, 8
X = np.arange(1, TRIPS * LANES + 1, dtype=np.int32).reshape(TRIPS, LANES)
parallel = functools.partial(plsc.parallel_loop, 0, TRIPS)


def mesh(subcores=1):
    return plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore", num_cores=1, num_subcores=subcores)


def run(body, subcores=1):
    """What body(x, o) leaves in o, which begins as ones, and the findings of a checked run. Both are in VMEM."""
    vmem = pltpu.VMEM(X.shape, jnp.int32)

    def kernel(x_hbm, o_hbm, x, o):
        pltpu.sync_copy(x_hbm, x)
        for i in range(TRIPS):
            o[i] = jnp.ones(LANES, jnp.int32)
        body(x, o)
        pltpu.sync_copy(o, o_hbm.at[lax.axis_index("subcore")])

    pallasim.findings()
    with pallasim.emulate("tpu-7x", detect_races=True, findings="collect"):
        out = np.asarray(pl.kernel(kernel, out_type=jax.ShapeDtypeStruct((subcores, *X.shape), jnp.int32), mesh=mesh(subcores), scratch_types=[vmem, vmem])(X))
    return out[0], [f for f in pallasim.findings() if f.code.startswith("PS-RACE")]


def own_rows(x, o):
    @parallel()
    def _(i):
        o[i] = x[i] * 2
        o[i] += x[0]


def carried(x, o):
    o[0] = parallel(carry=jnp.zeros(LANES, jnp.int32))(lambda i, c: c + x[i])


def summed(x, o):
    @parallel(unroll=2)
    def _(i):
        plsc.addupdate(o.at[0], x[i])


def scattered(x, o):
    @parallel()
    def _(i):
        plsc.addupdate_scatter(o, [jnp.zeros(LANES, jnp.int32), lax.iota(jnp.int32, LANES)], x[i])


def scratch_of_its_own(x, o):
    @parallel()
    def _(i):
        def scope(s):
            s[...] = x[i]
            o[i] = s[...] + 1

        pl.run_scoped(scope, pltpu.VMEM((LANES,), jnp.int32))


def one_loop_behind_the_other(x, o):
    @pl.loop(0, 3)
    def _(_):
        @parallel()
        def _(i):
            o[i] += x[i]

        @parallel()
        def _(i):
            o[i] += o[i]


def in_order(x, o):
    @pl.loop(0, TRIPS)
    def _(i):
        o[0] += x[i]


@pytest.mark.parametrize("body, expected", [
    (own_rows, X * 2 + X[0]), (carried, np.vstack([X.sum(0), np.ones_like(X[1:])])), (summed, np.vstack([1 + X.sum(0), np.ones_like(X[1:])])),
    (scattered, np.vstack([1 + X.sum(0), np.ones_like(X[1:])])), (scratch_of_its_own, X + 1), (one_loop_behind_the_other, 8 + 14 * X),
    (in_order, np.vstack([1 + X.sum(0), np.ones_like(X[1:])]))], ids=lambda v: getattr(v, "__name__", ""))
def test_trips_that_do_not_meet(body, expected):
    got, found = run(body)
    np.testing.assert_array_equal(got, expected)
    assert not found, found[0].report


def sum_in_a_ref(x, o):
    @parallel()
    def _(i):
        o[0] = o[0] + x[i]


def shift(x, o):
    @parallel()
    def _(i):
        o[jnp.minimum(i + 1, TRIPS - 1)] = o[i] + x[i]


def first_trip_writes(x, o):
    @parallel()
    def _(i):
        @pl.when(i == TRIPS - 1)
        def _():
            o[0] = x[1]

        o[jnp.where(i == 0, 1, 2)] = o[0]


def all_read_and_the_last_writes(x, o):
    @parallel()
    def _(i):
        got = o[0]

        @pl.when(i == TRIPS - 1)
        def _():
            o[0] = got + x[i]


def one_scratch_for_all(x, o):
    def scope(s):
        @parallel()
        def _(i):
            s[...] = x[i]
            o[i] = s[...] + 1

    pl.run_scoped(scope, pltpu.VMEM((LANES,), jnp.int32))


def a_scratch_that_is_cleared_first(x, o):
    def scope(s):
        s[...] = jnp.zeros(LANES, jnp.int32)

        @parallel()
        def _(i):
            s[...] += x[i]

        o[0] = s[...]

    pl.run_scoped(scope, pltpu.VMEM((LANES,), jnp.int32))


def outer_trips(x, o):
    @plsc.parallel_loop(0, 2)
    def _(_):
        @parallel()
        def _(i):
            o[i] = x[i] + 1


@pytest.mark.parametrize("body", [sum_in_a_ref, shift, first_trip_writes, all_read_and_the_last_writes, one_scratch_for_all,
                                  a_scratch_that_is_cleared_first, outer_trips],
                         ids=lambda b: b.__name__)
@pytest.mark.parametrize("subcores", [1, 3])
def test_trips_that_meet(body, subcores):
    _, found = run(body, subcores)
    assert found and all(f.code == "PS-RACE-002" for f in found)
    report = found[0].report
    assert "one trip of a parallel_loop " in report and ", in either order" in report and __file__.rpartition("/")[2] in report, report
    assert "pl.loop" in report


def test_fast_runs_keep_the_order():
    def kernel(x_hbm, o_hbm, x):
        pltpu.sync_copy(x_hbm, x)

        @plsc.parallel_loop(1, TRIPS)
        def _(i):
            x[0] = x[0] * 3 + x[i]

        pltpu.sync_copy(x.at[0], o_hbm)

    want = X[0]
    for row in X[1:]:
        want = want * 3 + row
    with pallasim.emulate("tpu-7x"):
        out = jax.ShapeDtypeStruct((LANES,), jnp.int32)
        np.testing.assert_array_equal(pl.kernel(kernel, out_type=out, mesh=mesh(), scratch_types=[pltpu.VMEM(X.shape, jnp.int32)])(X), want)
