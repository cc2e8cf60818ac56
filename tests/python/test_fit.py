"""A kernel on a chip that it is not for: it runs, and a warning says which rules were not looked at."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

X = jnp.ones((128, 128), jnp.float32)


def double(x_ref, o_ref, *scratch):
    held = scratch[0] if scratch else o_ref
    held[...] = x_ref[...] * 2
    o_ref[...] = held[...]


def launch(params, *scratch):
    """With parameters of a module of Pallas, and scratch."""
    compiler_params = None if params is None else params.CompilerParams()
    return pl.pallas_call(double, out_shape=X, scratch_shapes=scratch, compiler_params=compiler_params)(X)


def found(program, chip, **options):
    pallasim.findings()
    with pallasim.emulate(chip, findings="collect", **options):
        assert (jax.block_until_ready(program()) == 2 * X).all()
    return pallasim.findings()


MISFITS = {
    "Triton on a TPU": (lambda: launch(pltriton), "tpu-v5e", "a Triton kernel, which tpu-v5e does not run", "PS-TRI"),
    "Mosaic GPU on a TPU": (lambda: launch(plgpu), "tpu-v5e", "a Mosaic GPU kernel, which tpu-v5e does not run", "PS-MGPU"),
    "a TPU's on a GPU": (lambda: launch(pltpu), "gpu-h100", "a TPU kernel, which gpu-h100 does not run", "PS-TPU"),
    "VMEM on a GPU": (lambda: launch(plgpu, pltpu.VMEM((128, 128), jnp.float32)), "gpu-h100", "scratch[0] is in VMEM, which gpu-h100 does not have", "PS-MEM-001"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_warning_says_which_rules_were_not_looked_at(case):
    program, chip, message, rules = MISFITS[case]
    (f,) = found(program, chip)
    assert (f.code, f.severity, f.chip) == ("PS-CHIP-001", "warning", chip)
    assert f.message == message
    assert f.numbers[0].startswith("not looked at: ") and rules in f.numbers[0]
    assert f"in kernel double on {chip}\n" in f.report
    assert f.file == __file__ and "pl.pallas_call" in f.text


@pytest.mark.parametrize("case", MISFITS)
def test_who_asks_for_no_rules_or_no_chip_is_told_nothing(case):
    program, chip, _, _ = MISFITS[case]
    assert found(program, chip, rules=False) == []
    assert found(program, "generic") == []


@pytest.mark.parametrize("params, chip", [(pltriton, "gpu-h100"), (plgpu, "gpu-h100"), (pltpu, "tpu-v5e"), (None, "tpu-v5e"), (None, "gpu-h100")])
def test_a_kernel_on_its_own_chip_is_not_warned_of(params, chip):
    assert found(lambda: launch(params), chip) == []


def test_check_refuses_what_is_not_for_the_chip():
    for program, chip, message, _ in MISFITS.values():
        (k,) = pallasim.check(program, chips=[chip]).kernels
        assert not k.ok and (k.remarks[0].code, k.remarks[0].message) == ("PS-CHIP-001", message)
