"""Where the emulator is on: blocks, decorated functions, the process, threads; and what an error outside of it says."""
from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = jnp.arange(8.0)


def triple_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 3


def triple(x):
    return pl.pallas_call(triple_kernel, out_shape=x)(x)


def chip_of_the_last_launch():
    return pallasim.runs()[-1].chip


def test_decorator():
    @pallasim.emulate("tpu-v5e")
    def on_chip(x, scale=1):
        """Its own text."""
        return triple(x) * scale

    np.testing.assert_array_equal(on_chip(X, scale=2), X * 6)
    assert chip_of_the_last_launch() == "tpu-v5e" and on_chip.__name__ == "on_chip" and on_chip.__doc__ == "Its own text."

    @pallasim.emulate
    def plain(x):
        return on_chip(x) + triple(x)

    np.testing.assert_array_equal(plain(X), X * 6)
    assert chip_of_the_last_launch() == "generic"
    with pytest.raises(ValueError, match="interpret"):
        triple(X)


def test_decorator_refuses_what_would_run_outside():
    def values():
        yield 1

    async def value():
        return 1

    for f in values, value:
        with pytest.raises(TypeError, match="inside of it"):
            pallasim.emulate("tpu-v5e")(f)


def test_a_decorated_function_fails_with_the_report():
    @pallasim.emulate
    def late(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[pl.ds(pl.program_id(0) + 3, 8)]

        return jax.block_until_ready(pl.pallas_call(kernel, out_shape=x, grid=(1,))(x))

    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"):
        late(X)


def test_process_wide():
    params = pallasim.install("tpu-v5e")
    try:
        assert params.machine == "tpu-v5e"
        np.testing.assert_array_equal(triple(X), X * 3)
        assert chip_of_the_last_launch() == "tpu-v5e"
        with ThreadPoolExecutor(1) as pool:
            np.testing.assert_array_equal(pool.submit(triple, X + 1).result(), (X + 1) * 3)
        with pallasim.emulate("gpu-h100"):
            triple(jnp.arange(128.0))
        assert chip_of_the_last_launch() == "gpu-h100"
    finally:
        pallasim.uninstall()
    with pytest.raises(ValueError, match="interpret"):
        triple(X)


def test_threads_are_told_how():
    with pallasim.emulate("tpu-v5e"), ThreadPoolExecutor(2) as pool:
        with pytest.raises(ValueError, match=r"another thread.*pallasim.emulate\('tpu-v5e'\)\(function\).*pallasim.install\('tpu-v5e'\)"):
            pool.submit(triple, X).result()
        results = list(pool.map(pallasim.emulate("tpu-v5e")(triple), [X, X + 1, X + 2]))
    for n, y in enumerate(results):
        np.testing.assert_array_equal(y, (X + n) * 3)


def test_traced_inside_and_called_outside():
    f = jax.jit(triple)
    with pallasim.emulate():
        np.testing.assert_array_equal(f(X), X * 3)
    with pytest.raises(ValueError, match="ran on the emulator before, inside an emulate block, and is called outside"):
        f(X)

    def never_emulated(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    with pytest.raises(ValueError, match="call it inside `with pallasim.emulate"):
        pl.pallas_call(never_emulated, out_shape=X)(X)


@pytest.mark.parametrize("ask", [lambda: jax.devices()[0].num_cores, lambda: pltpu.get_tpu_info(), lambda: pltpu.create_tensorcore_mesh("core")],
                         ids=["num_cores", "get_tpu_info", "create_tensorcore_mesh"])
def test_tpu_code_on_another_machine_names_the_option(ask):
    for machine in "generic", "gpu-h100":
        with pallasim.emulate(machine), pytest.raises((AttributeError, ValueError), match=rf"needs a TPU, and the emulated machine is '{machine}': pallasim.emulate\('tpu-"):
            ask()
    with pallasim.emulate("tpu-v5e"):
        assert ask()
    assert not hasattr(jax.devices()[0], "num_cores")


def test_representations():
    assert repr(pallasim.Params()) == "Params('generic')"
    assert repr(pallasim.Params("tpu-v5e", detect_races=True, random_seed=3)) == "Params('tpu-v5e', detect_races=True, random_seed=3)"
    block = pallasim.emulate("tpu-v5e")
    assert repr(block) == "<pallasim.emulate Params('tpu-v5e')>"
    with block:
        assert repr(block) == "<pallasim.emulate Params('tpu-v5e'), entered>"
    assert repr(pallasim.Recording()) == "<pallasim.Recording: 0 launches>"
    finding = pallasim.Finding("PS-X-001", "note", "a message", site=pallasim.Site(source=pallasim.SourceLine("k.py", 3)))
    assert repr(finding) == "<note PS-X-001 at k.py:3: a message>"


def test_threads_that_capture_first_have_all_rules(monkeypatch):
    """The table of rules is made when a kernel is first captured, which may take a while."""
    from pallasim._capture import module, rules_lax

    rules, tables = rules_lax.rules, []

    def slow():
        time.sleep(0.2)
        return rules()

    monkeypatch.setattr(rules_lax, "rules", slow)
    monkeypatch.setattr(module, "_rules", (-1, {}))
    threads = [threading.Thread(target=lambda: tables.append(module.rule_table())) for _ in range(2)]
    for t in threads:
        t.start()
        time.sleep(0.05)
    for t in threads:
        t.join()
    assert len(tables) == 2 and all(jax.lax.add_p in table for table in tables)


def test_an_exit_stack_may_hold_a_block():
    with contextlib.ExitStack() as stack:
        stack.enter_context(pallasim.emulate("tpu-v5e"))
        assert jax.default_backend() == "tpu"
    assert jax.default_backend() == "cpu"


@pytest.mark.parametrize("call", [pallasim.emulate, pallasim.install, pallasim.Params])
@pytest.mark.parametrize("wrong, meant", [("detect_race", "detect_races"), ("worker", "workers"), ("races", "detect_races")])
def test_an_option_that_does_not_exist(call, wrong, meant):
    with pytest.raises(TypeError, match=f"there is no option '{wrong}'; did you mean {meant}. There are .*findings"):
        call("tpu-v5e", **{wrong: True})
