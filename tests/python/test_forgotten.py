"""What JAX says of a kernel outside of a block, and of the slips of a beginner inside one, has a second line of ours."""
from __future__ import annotations

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim

X = jnp.ones((8, 128), jnp.float32)
PROGRAM = """
import sys
{imports}
import jax.numpy as jnp

def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def f(x):
    return pl.pallas_call(double, out_shape=x, name="double")(x)

try:
    f(jnp.ones(8))
except ValueError as e:
    print(e)
"""
PALLAS = "from jax.experimental import pallas as pl"


def run(program):
    out = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.mark.parametrize("imports", [f"import pallasim\n{PALLAS}", f"{PALLAS}\nimport pallasim", f"import jax, pallasim\n{PALLAS}"])
def test_a_program_that_never_enters_a_block_is_told_of_it(imports):
    first, *rest = run(PROGRAM.format(imports=imports)).splitlines()
    assert "interpret mode" in first
    assert rest == ["pallasim: call it inside `with pallasim.emulate():` to run double on the emulator."]


def test_importing_pallasim_imports_no_jax_and_no_extension():
    assert run("import pallasim, sys; print('jax' in sys.modules, 'numpy' in sys.modules, 'pallasim._core' in sys.modules)") == "False False False\n"


def test_without_pallasim_the_error_is_that_of_jax():
    assert len(run(PROGRAM.format(imports=PALLAS)).splitlines()) == 1


@pytest.mark.parametrize("imports", ["import pallasim\nfrom jax.experimental.pallas import tpu as pltpu",
                                     "from jax.experimental.pallas import tpu as pltpu\nimport pallasim"])
def test_questions_about_the_chip_outside_of_a_block_name_it(imports):
    out = run(f"""
{imports}
import jax
for ask in (lambda: pltpu.get_tpu_info(), lambda: jax.devices()[0].num_cores):
    try:
        ask()
    except (ValueError, AttributeError) as e:
        print(e)
""")
    lines = out.splitlines()
    assert len(lines) == 2 and all("inside `with pallasim.emulate('tpu-7x'):`" in line for line in lines)


# --- inside a block -------------------------------------------------------------------------------------------------
SLIPS = {
    "add": lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref + 1),
    "radd": lambda x_ref, o_ref: o_ref.__setitem__(..., 1 + x_ref),
    "negative": lambda x_ref, o_ref: o_ref.__setitem__(..., -x_ref),
    "method": lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref.sum()),
    "function": lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.sin(x_ref)),
    "one of two": lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] - x_ref),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_ref_without_brackets_is_named(slip):
    with pytest.raises((AttributeError, TypeError)) as error, pallasim.emulate("tpu-v5e"):
        pl.pallas_call(SLIPS[slip], out_shape=X)(X)
    first, second = str(error.value).splitlines()
    assert "pallasim" not in first
    assert second.startswith("pallasim: x_ref is a ref, a place in memory; the array in it is x_ref[...] (") and f'"{slip}"' in second
    assert f"{__file__}:{SLIPS[slip].__code__.co_firstlineno}: " in second


def test_the_refs_of_the_expression_are_named_and_no_others():
    def kernel(x_ref, y_ref, o_ref):
        y = y_ref[...] * 2
        o_ref[...] = (x_ref[...] + y) * (x_ref + y_ref)

    with pytest.raises(AttributeError) as error, pallasim.emulate():
        pl.pallas_call(kernel, out_shape=X)(X, X)
    assert "pallasim: x_ref, y_ref are refs, places in memory; the array in x_ref is x_ref[...] (" in str(error.value)


def test_other_errors_stay_as_they_are():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].no_such_method()

    for raised in (lambda: pl.pallas_call(kernel, out_shape=X)(X), lambda: None + 1, lambda: {}.nothing):
        with pytest.raises((AttributeError, TypeError)) as error, pallasim.emulate():
            raised()
        assert "pallasim:" not in str(error.value)


def test_debug_nans_says_why_jax_goes_round_in_circles(capfd):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.log(x_ref[...] - 2)

    with jax.debug_nans(True), pytest.raises(RecursionError) as error, pallasim.emulate("tpu-v5e"):
        jax.block_until_ready(pl.pallas_call(kernel, out_shape=X)(X))
    first, second = str(error.value).splitlines()
    assert second.startswith("pallasim: jax_debug_nans found ") and "jax.debug_nans(False)" in second and 'nans="report"' in second
    with pallasim.emulate("tpu-v5e", nans="report", findings="collect"), jax.debug_nans(False):  # the advice
        assert jnp.isnan(jax.block_until_ready(pl.pallas_call(kernel, out_shape=X)(X))).all()
    assert [(f.code, f.text) for f in pallasim.findings()] == [("PS-NAN-001", "o_ref[...] = jnp.log(x_ref[...] - 2)")]


def test_a_recursion_of_somebody_else_stays_as_it_is():
    def down(n):
        return down(n + 1)

    with pytest.raises(RecursionError) as error, pallasim.emulate():
        down(0)
    assert "pallasim" not in str(error.value)


def test_the_emulator_may_be_switched_on_before_pallas_is_loaded():
    program = PROGRAM.format(imports=f"import pallasim\npallasim.install()\n{PALLAS}")
    assert run(f"{program}\npallasim.uninstall()\ntry:\n    f(jnp.ones(4))\nexcept ValueError as e:\n    print(e)").count("pallasim: double ran on the emulator before") == 1
