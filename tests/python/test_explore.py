"""pallasim.explore: outcomes of a kernel under other schedules, their tokens, and the marker of pytest."""

import functools
import itertools
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import pallasim

X = np.arange(8 * 128, dtype=np.float32).reshape(8, 128) + 1


def add_one(x, early):
    def kernel(x_ref, o_ref, row_ref, sem):
        copy = pltpu.make_async_copy(x_ref, row_ref, sem)
        copy.start()
        if not early:
            copy.wait()
        o_ref[...] = row_ref[...] + 1
        if early:
            copy.wait()

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(kernel, out_shape=x, in_specs=[hbm], scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())])(x)


@pytest.mark.parametrize("policy", ["pct", "random", "exhaustive"])
def test_a_copy_used_too_early_has_two_outcomes(policy):
    found = pallasim.explore(add_one, X, True, chip="tpu-v5e", policy=policy, schedules=50)
    assert len(found.outcomes) == 2 and not found.ok and found.exhausted == (policy == "exhaustive")
    right, wrong = sorted(found, key=lambda o: not np.array_equal(o.outputs["o_ref"], X + 1))
    np.testing.assert_array_equal(right.outputs["o_ref"], X + 1)
    assert not np.array_equal(wrong.outputs["o_ref"], X + 1)
    differs = next(d for o in found for d in o.differs)
    assert (differs.name, differs.elements, differs.first, differs.last) == ("o_ref", X.size, (0, 0), (7, 127))
    lines = {site.source.text for o in found if o.order for site in o.order}
    assert lines == {"copy.start()", "o_ref[...] = row_ref[...] + 1"}
    for outcome in found:
        with pallasim.emulate("tpu-v5e", replay=outcome.token):
            np.testing.assert_array_equal(add_one(X, True), outcome.outputs["o_ref"])
    said = json.loads(found.to_json())
    assert [o["count"] for o in said["launches"][0]["outcomes"]] == [o.count for o in found]


def test_the_mended_kernel_has_one():
    found = pallasim.explore(add_one, X, False, chip="tpu-v5e", policy="exhaustive")
    assert found.ok and found.exhausted and "schedules that differ were run" in str(found) or "no two schedules differ" in str(found)
    np.testing.assert_array_equal(found.outcomes[0].outputs["o_ref"], X + 1)


def test_a_token_replays_in_another_process_and_from_a_capsule(tmp_path):
    found = pallasim.explore(add_one, X, True, chip="tpu-v5e", schedules=50)
    capsule = tmp_path / "early.capsule"
    pallasim.capture(add_one, X, True, path=capsule, params="tpu-v5e")
    from pallasim import _program

    for outcome in found:
        folder = tmp_path / str(outcome.count)
        subprocess.run([_program.path(), "run", str(capsule), "--replay", outcome.token, "--out", str(folder)], capture_output=True, env=_program.environment())
        file = next(folder.rglob("*.npy"))
        np.testing.assert_array_equal(np.load(file), outcome.outputs["o_ref"])
    how = ["--policy", "pct", "--schedules", "50", "--seed", "0", "--json"]
    printed = json.loads(subprocess.run([_program.path(), "explore", str(capsule), *how], capture_output=True, env=_program.environment()).stdout)
    assert printed["launches"] == json.loads(found.to_json())["launches"], "one form, wherever it is asked"
    done = subprocess.run([_program.path(), "explore", str(capsule), "--schedules", "50", "--json"], capture_output=True, text=True, env=_program.environment())
    said = json.loads(done.stdout)["launches"][0]
    assert done.returncode == 1 and [o["token"] for o in said["outcomes"]] == [o.token for o in found]


def test_a_token_of_another_kernel_is_refused_by_name():
    token = pallasim.explore(add_one, X, True, chip="tpu-v5e", schedules=5).outcomes[0].token
    with pytest.raises(pallasim.KernelError, match="of another kernel"), pallasim.emulate("tpu-v5e", replay=token):
        jax.block_until_ready(add_one(X, False))


def test_a_deadlock_is_an_outcome():
    def stuck(x):
        def kernel(x_ref, o_ref, sem):
            pl.semaphore_wait(sem, 1)
            o_ref[...] = x_ref[...]

        return pl.pallas_call(kernel, out_shape=x, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)

    found = pallasim.explore(stuck, X, chip="tpu-v5e", schedules=5)
    (outcome,) = found
    assert outcome.deadlock and outcome.stop.code == "PS-DEAD-001" and not outcome.outputs and outcome.token in outcome.stop.report


def sum_under_a_lock(x):
    """Each program adds a row to the sum while it holds a lock, for which it spins."""
    def kernel(x_ref, sum_in, lock_in, o_ref, lock_ref):
        jax.lax.while_loop(lambda got: got != 0, lambda _: plt.atomic_cas(lock_ref, 0, 1), np.int32(1))
        o_ref[...] = o_ref[...] + x_ref[pl.program_id(0)]
        plt.atomic_xchg(lock_ref, (), 0)

    out = jax.ShapeDtypeStruct(x.shape[1:], x.dtype), jax.ShapeDtypeStruct((), np.int32)
    call = pl.pallas_call(kernel, grid=x.shape[:1], out_shape=out, input_output_aliases={1: 0, 2: 1}, compiler_params=plt.CompilerParams())
    return call(x, np.zeros(x.shape[1:], x.dtype), np.zeros((), np.int32))


@pytest.mark.parametrize("policy", ["pct", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_programs_that_all_spin_take_turns(policy, seed, tmp_path):
    """In a process of its own: a policy that never comes to a choice would not end."""
    from pallasim import _program

    x = np.arange(6 * 16, dtype=np.float32).reshape(6, 16)
    pallasim.capture(sum_under_a_lock, x, path=tmp_path / "lock.capsule", params="gpu-h100")
    how = ["--policy", policy, "--schedules", "50", "--seed", str(seed), "--json"]
    done = subprocess.run([_program.path(), "explore", str(tmp_path / "lock.capsule"), *how], capture_output=True, text=True, timeout=100, env=_program.environment())
    launch = json.loads(done.stdout)["launches"][0]
    assert done.returncode == 0 and len(launch["outcomes"]) == 1 and launch["schedules"] > 1, done
    with pallasim.emulate("gpu-h100"):
        np.testing.assert_array_equal(sum_under_a_lock(x)[0], x.sum(0))


def count_programs(n, atomic):
    def kernel(zero_ref, o_ref):
        if atomic:
            plt.atomic_add(o_ref, (0,), 1.0)
        else:
            o_ref[0] = o_ref[0] + 1.0

    one = jax.ShapeDtypeStruct((1,), np.float32)
    return pl.pallas_call(kernel, grid=(n,), out_shape=one, input_output_aliases={0: 0}, compiler_params=plt.CompilerParams())(np.zeros(1, np.float32))


def test_programs_of_a_grid_that_share_memory():
    found = pallasim.explore(count_programs, 3, False, chip="gpu-h100", policy="exhaustive")
    assert found.exhausted and sorted(float(o.outputs["o_ref"][0]) for o in found) == [1, 2, 3]
    for outcome in found:
        with pallasim.emulate("gpu-h100", replay=outcome.token):
            np.testing.assert_array_equal(count_programs(3, False), outcome.outputs["o_ref"])
    atomic = pallasim.explore(count_programs, 3, True, chip="gpu-h100", policy="exhaustive")
    assert atomic.ok and atomic.exhausted and atomic.outcomes[0].outputs["o_ref"][0] == 3


def total(x, atomic=True):
    def kernel(x_ref, zero_ref, o_ref):
        if atomic:
            plt.atomic_add(o_ref, (0,), x_ref[pl.program_id(0)])
        else:
            o_ref[0] = o_ref[0] + x_ref[pl.program_id(0)]

    one = jax.ShapeDtypeStruct((1,), x.dtype)
    return pl.pallas_call(kernel, grid=x.shape, out_shape=one, input_output_aliases={1: 0}, compiler_params=plt.CompilerParams())(x, np.zeros_like(x[:1]))


def test_sums_whose_order_matters_are_outcomes():
    found = pallasim.explore(total, np.float32([1e8, 1, -1e8]), chip="gpu-h100", policy="exhaustive")
    assert found.exhausted and found.schedules == 6 and sorted(float(o.outputs["o_ref"][0]) for o in found) == [0, 1]


def sums_by_order(x):
    """Of float32 additions in each order, how often."""
    sums = [functools.reduce(np.add, order, np.float32(0)) for order in itertools.permutations(x)]
    return {s: sums.count(s) for s in sums}


@pytest.mark.parametrize("policy", ["exhaustive", "random"])
def test_sums_within_a_tolerance_are_one_outcome(policy):
    x = np.float32([0.52, 0.6, 1.63, 0.18])
    want = sums_by_order(x)
    assert len(want) > 2
    apart = pallasim.explore(total, x, chip="gpu-h100", policy=policy, schedules=200)
    assert {o.outputs["o_ref"][0] for o in apart} == set(want) and all(o.variants == 1 and o.spread == 0 for o in apart)
    found = pallasim.explore(total, x, chip="gpu-h100", policy=policy, schedules=200, tolerance=1e-6)
    (one,) = found
    assert found.ok and one.count == found.schedules == sum(o.count for o in apart) and one.variants == len(want)
    first = one.outputs["o_ref"][0]
    assert one.spread == max(abs(np.float64(s) - first) for s in want) > 0
    assert f"in {len(want)} results within the tolerance" in str(found) and json.loads(found.to_json())["launches"][0]["outcomes"][0]["variants"] == len(want)
    narrow = pallasim.explore(total, x, chip="gpu-h100", policy=policy, schedules=200, tolerance=1e-12)
    assert len(narrow.outcomes) == len(want)


def test_what_is_lost_is_an_outcome_within_any_sensible_tolerance():
    x = np.float32([0.1, 0.7, 1.3])
    found = pallasim.explore(total, x, False, chip="gpu-h100", policy="exhaustive", tolerance=1e-5)
    subsets = [sum(part) for n in (1, 2, 3) for part in itertools.combinations(map(float, x), n)]
    assert found.exhausted and not found.ok
    got = sorted(float(o.outputs["o_ref"][0]) for o in found)
    np.testing.assert_allclose(got, sorted(subsets), atol=1e-5)


def test_integers_are_never_one_within_a_tolerance():
    found = pallasim.explore(total, np.int32([1, 2, 4]), False, chip="gpu-h100", policy="exhaustive", tolerance=100.0)
    assert sorted(int(o.outputs["o_ref"][0]) for o in found) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="tolerance"):
        pallasim.explore(total, np.int32([1, 2, 4]), chip="gpu-h100", tolerance=-1.0)


def test_what_cannot_be_explored():
    with pytest.raises(RuntimeError, match="no Pallas kernel"):
        pallasim.explore(lambda x: x + 1, X)
    with pytest.raises(ValueError, match="policy is one of"):
        pallasim.explore(add_one, X, False, policy="best")


MARKED = """
import numpy as np
import pytest
from test_explore import X, add_one, total

@pytest.mark.pallasim("tpu-v5e", explore=50, detect_races=False)
@pytest.mark.parametrize("early", [False, True])
def test_marked(early):
    np.testing.assert_array_equal(add_one(X, early), X + 1)

@pytest.mark.pallasim("gpu-h100", explore=50)
def test_bytes():
    total(np.float32([0.52, 0.6, 1.63, 0.18]))

@pytest.mark.pallasim("gpu-h100", explore=50, explore_tolerance=1e-6)
def test_within():
    total(np.float32([0.52, 0.6, 1.63, 0.18]))
"""


def test_the_marker_fails_a_test_whose_result_is_a_question_of_the_schedule(tmp_path):
    (tmp_path / "test_marked.py").write_text(MARKED)
    path = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(os.path.abspath(pallasim.__file__)))])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    for said in "test_marked[True]", "FAILED test_marked.py::test_bytes", "o_ref differs from the first outcome's":
        assert said in done.stdout, done.stdout
    assert "FAILED test_marked.py::test_within" not in done.stdout
