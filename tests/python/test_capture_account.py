"""Nothing of a kernel is lost at capture: equations, and parameters of primitives."""
from __future__ import annotations

import re
import types

import capture_account
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

import pallasim
from pallasim._capture import accounts, jaxver, module, rules_memory
from pallasim._capture.types import Unsupported

X = jnp.arange(8 * 128, dtype=jnp.int32).reshape(8, 128)


def run(kernel, **kw):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32), scratch_shapes=[pltpu.VMEM((8, 128), jnp.int32)], **kw)


def looped(x_ref, o_ref, tmp):
    tmp[...] = x_ref[...]

    @plsc.parallel_loop(0, 8, unroll=2)
    def _(i):
        tmp[i] += 1000

    o_ref[...] = tmp[...]


def test_a_parallel_loop_without_results_runs(emulated, same):
    same(emulated(run(looped), X), np.asarray(X) + 1000)


def test_parallel_loops_inside_loops_and_branches(emulated, same):
    def kernel(x_ref, o_ref, tmp):
        tmp[...] = x_ref[...]

        def outer(j, c):
            @plsc.parallel_loop(j, 8, 2)
            def _(i):
                tmp[i] += 1000

            return plsc.parallel_loop(0, 4, carry=c)(lambda i, c: c + i)

        s = lax.fori_loop(0, 3, outer, jnp.int32(5))

        @pl.when(s > 0)
        def _():
            @plsc.parallel_loop(0, 8, unroll=4)
            def _(i):
                tmp[i] = tmp[i] * 2

        o_ref[...] = tmp[...] + s

    expected = np.array(X)
    for j in range(3):
        expected[j::2] += 1000
    same(emulated(run(kernel), X), expected * 2 + 5 + 3 * 6)


def test_carried_values_of_a_parallel_loop(emulated, same):
    def kernel(x_ref, o_ref, tmp):
        @plsc.parallel_loop(0, 8, carry=(jnp.int32(1), jnp.int32(0)))
        def last(i, c):
            tmp[i] = x_ref[i] + c[0]
            return c[1], c[0] + i

        o_ref[...] = tmp[...] * last[0] + last[1]

    a, b, rows = 1, 0, []
    for i in range(8):
        rows.append(np.asarray(X)[i] + a)
        a, b = b, a + i
    same(emulated(run(kernel), X), np.stack(rows) * a + b)


def test_a_deletion_is_noticed():
    """The judge fails where the loop has no effect, as JAX has it, and where the module lacks a store."""
    jaxpr = jax.make_jaxpr(lambda x: run(looped)(x))(X).jaxpr.eqns[0].params["jaxpr"]
    with pallasim.emulate():
        [text] = pallasim.capture_text(run(looped), X)
    capture_account.compare([jaxpr], text)
    lines = text.splitlines()
    for gone in ("store", "parallel_loop", "get"):
        cut = next(i for i, line in enumerate(lines) if f"{gone} " in line and line.startswith("  "))
        if gone != "get":
            with pytest.raises(AssertionError, match=gone):
                capture_account.compare([jaxpr], "\n".join(lines[:cut] + lines[cut + 1 :]))
    kept = capture_account.acts(jaxpr)
    assert kept["swap"] == 3
    without = jaxpr.replace(eqns=[e for e in jaxpr.eqns if e.primitive.name != "parallel_loop"])
    assert kept - capture_account.acts(without) == {"swap": 1}
    assert jaxver.actions(without) != jaxver.actions(jaxpr)


def equation(prim, params):
    out = types.SimpleNamespace(primitive=prim, params=params, invars=[], outvars=[])
    out.replace = lambda params: equation(prim, params)
    return out


def rules():
    jaxver.module("gpu", load=True), jaxver.module("triton", load=True), jaxver.module("sc", load=True)
    return sorted(module.rule_table().items(), key=lambda kv: kv[0].name)


def test_an_unknown_parameter_is_refused_by_name():
    refused = 0
    for prim, rule in rules():
        assert isinstance(rule.account, accounts.Account)
        eqn = equation(prim, {"made_up": 7, "nothing": None})
        if not rule.account.rest:
            with pytest.raises(Unsupported, match=f"parameter 'made_up' of primitive {prim.name}"):
                rule(None, eqn)
            refused += 1
    assert refused > 100


def test_an_unknown_parameter_becomes_an_attribute_that_is_refused():
    def kernel(x_ref, o_ref, tmp):
        o_ref[...] = x_ref[...] ^ 3

    [text] = pallasim.capture_text(run(kernel), X)
    assert text.count("xor ") == 1
    with pytest.raises(pallasim.KernelError, match="made_up"):
        pallasim.check(re.sub(r"(xor %\d+, %\d+)", r"\1 {made_up = 7}", text))


@pytest.mark.parametrize("path, params", [("slicing.scatter_p", {"update_jaxpr": "a function"})])
def test_values_with_a_meaning_are_refused(path, params):
    jaxver.module("sc", load=True)
    prim = jaxver.find(path, load=True)
    eqn = equation(prim, params)
    with pytest.raises(Unsupported, match=f"parameter '{next(iter(params))}'"):
        module.rule_table()[prim](None, eqn)


def test_parameters_of_the_launch():
    with pytest.raises(Unsupported, match="parameter 'made_up' of pallas_call"):
        module.pallas_call({"made_up": 7})
    with pytest.raises(Unsupported, match="parameter 'made_up' of mpmd_map"):
        module.mpmd_map({"made_up": 7}, [])


def test_a_rule_without_an_account_is_an_error():
    with pytest.raises(TypeError, match="which parameters"):
        accounts.guarded("p", lambda w, eqn: None)
    assert rules_memory.extern.account.rest


def test_rules_read_what_they_claim_to_use(emulated, same):
    """Over every kernel that this process captured so far, one of its own at least."""
    same(emulated(run(looped), X), np.asarray(X) + 1000)
    assert capture_account.kernels and capture_account.equations
    assert not {k: v for k, v in capture_account.unread.items() if v}
