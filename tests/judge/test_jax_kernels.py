"""A sample of the judge of JAX kernels from a fixed seed, and proofs that it judges."""
from __future__ import annotations

import dataclasses
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import jax_kernels  # noqa: E402
import kernel_build  # noqa: E402
import kernel_tree  # noqa: E402

SAMPLE = int(os.environ.get("PALLASIM_JUDGE_KERNELS", "120"))


@pytest.mark.slow_first
def test_a_sample_agrees_with_jax():
    results = jax_kernels.run(list(range(SAMPLE)), jobs=2, seconds=240)
    text, good = jax_kernels.summary(results)
    assert good and len(results) >= SAMPLE // 2, text


def test_a_seed_makes_one_kernel():
    for seed in range(20):
        assert kernel_build.kernel_of(seed).text() == kernel_build.kernel_of(seed).text()
    assert len({kernel_build.kernel_of(s).text() for s in range(20)}) == 20


def simple() -> kernel_tree.Kernel:
    operand = kernel_tree.Operand("x_ref", (4, 8), "i32")
    body = [kernel_tree.Line("v1 = x_ref[...]", {"v1": ((4, 8), "i32")}), kernel_tree.Line("v2 = v1 + 3", {"v2": ((4, 8), "i32")}),
            kernel_tree.Line("o_ref[...] = v1 * 2")]
    return kernel_tree.Kernel(1, [operand], [((4, 8), "i32", True)], ["x_ref", "o_ref"], body, "in_specs=[pl.BlockSpec()], out_specs=[pl.BlockSpec()]")


def test_a_right_answer_is_the_same():
    assert jax_kernels.judge(simple())[0] == "same"


def test_a_wrong_answer_differs_and_is_shrunk(monkeypatch):
    """The emulator is given one element more than it computed wherever the kernel multiplies."""
    right = jax_kernels.actual

    def wrong(kernel, call, *rest):
        out, findings = right(kernel, call, *rest)
        if "* 2" in kernel.text():
            out = [x.copy() for x in out]
            out[0].flat[5] += 1
        return out, findings

    monkeypatch.setattr(jax_kernels, "actual", wrong)
    verdict, detail, configuration = jax_kernels.judge(simple())
    assert verdict == "differs" and "1 of 32 elements, first at (0, 5)" in detail
    small = jax_kernels.shrunk(simple(), verdict, configuration)
    assert "v2" not in small.text() and "* 2" in small.text()


def test_findings_and_errors_are_verdicts(monkeypatch):
    right = jax_kernels.actual
    monkeypatch.setattr(jax_kernels, "actual", lambda *a: (right(*a)[0], "a race"))
    assert jax_kernels.judge(simple())[:2] == ("finding", "a race")

    def fails(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(jax_kernels, "actual", fails)
    assert jax_kernels.judge(simple())[:2] == ("error", "RuntimeError: no")


def test_a_run_without_the_emulator_is_no_proof(monkeypatch):
    import pallasim

    monkeypatch.setattr(pallasim, "launch_count", lambda: 7)
    verdict, detail, _ = jax_kernels.judge(simple())
    assert verdict == "error" and "did not run" in detail


def test_zeros_and_wrong_kernels_are_refused():
    zero = dataclasses.replace(simple(), body=[kernel_tree.Line("o_ref[...] = x_ref[...] * 0")])
    assert jax_kernels.judge(zero)[:2] == ("refused", "every output is zero")
    assert jax_kernels.judge(dataclasses.replace(simple(), body=[kernel_tree.Line("o_ref[...] = nothing")]))[0] == "refused"
    assert not jax_kernels.summary([{"verdict": "refused"}])[1] and not jax_kernels.summary([{"verdict": "same"}, {"verdict": "crash"}])[1]


@pytest.mark.parametrize("exact, size, same", [(True, 0.0, True), (True, 1e-7, False), (False, 1e-4, True), (False, 1e-2, False)])
def test_tolerances(exact, size, same):
    kernel = dataclasses.replace(simple(), outputs=[((4,), "f32", exact)])
    want = np.array([1, -2, 0.0, 0.5], np.float32)
    assert (jax_kernels.difference(kernel, [want], [want + np.float32(size)]) == "") == same


def test_zeros_of_either_sign_are_equal_and_nan_is_not_a_number():
    kernel = dataclasses.replace(simple(), outputs=[((2,), "f32", True)])
    assert not jax_kernels.difference(kernel, [np.array([0.0, 1], np.float32)], [np.array([-0.0, 1], np.float32)])
    assert jax_kernels.difference(kernel, [np.array([1.0, 1], np.float32)], [np.array([np.nan, 1], np.float32)])
