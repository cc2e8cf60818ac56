"""Loads outside of their ref: where the machine's are undefined a run goes on, a checked one tells of their use."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt

import pallasim

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
SMEM, VMEM = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)


def rows(start: int, used: bool):
    """Eight rows from `start` on, of 32; not used where some of them are not there, or used whatever they are."""

    def kernel(i_ref, x_ref, o_ref):
        v = x_ref[pl.ds(i_ref[0], 8), :]  # the load
        inside = jax.lax.broadcasted_iota(jnp.int32, (8, 128), 0) + i_ref[0] < 32
        o_ref[...] = v if used else jnp.where(inside & (i_ref[0] >= 0), v, 0.0)

    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return pl.pallas_call(kernel, in_specs=[SMEM, VMEM], out_shape=out)(jnp.array([start], jnp.int32), X)


def scalar(used: str):
    """An element behind the only one in SMEM, that nobody uses, that reaches an output, or decides."""

    def kernel(i_ref, x_ref, o_ref):
        n = i_ref[i_ref[0]]  # the load
        ok = i_ref[0] < 1
        o_ref[...] = x_ref[0:8] + (n.astype(jnp.float32) if used == "output" else jnp.where(ok, n, 0).astype(jnp.float32))
        if used == "branch":
            @pl.when(n > 3)
            def _():
                o_ref[...] = jnp.zeros_like(o_ref)

    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return pl.pallas_call(kernel, in_specs=[SMEM, VMEM], out_shape=out)(jnp.array([5], jnp.int32), X)


def of_triton(n: int, block: int, far: int = 0):
    """A load without a mask, a store with one, of n elements in blocks; all of it `far` elements further."""

    def kernel(x_ref, o_ref):
        i = pl.program_id(0) * block + jnp.arange(block)
        v = plt.load(x_ref.at[i + far])  # the load
        plt.store(o_ref.at[i], v, mask=i < n)

    return pl.pallas_call(kernel, grid=(pl.cdiv(n, block),), out_shape=jax.ShapeDtypeStruct((n,), jnp.float32),
                          compiler_params=plt.CompilerParams())(np.arange(n, dtype=np.float32))


def line_of(what: str) -> int:
    """Of the load in the function."""
    code = globals()[what].__code__
    text = open(__file__).read().splitlines()
    return next(n for n in range(code.co_firstlineno, len(text)) if text[n - 1].endswith("# the load"))


@pytest.fixture(autouse=True)
def nothing_found_before():
    pallasim.findings()


def found() -> list[tuple[str, str, int]]:
    return [(f.code, f.severity, f.line) for f in pallasim.findings()]


@pytest.mark.parametrize("start", [28, -2, 40])
def test_rows_outside_give_what_nobody_wrote_and_a_warning(start):
    with pallasim.emulate("tpu-v5e"):
        got = np.asarray(rows(start, True))
    expected = np.full((8, 128), np.nan, np.float32)
    for i in range(8):
        if 0 <= start + i < 32:
            expected[i] = X[start + i]
    np.testing.assert_array_equal(got, expected)
    (finding,) = pallasim.findings()
    assert (finding.code, finding.severity, finding.line) == ("PS-OOB-001", "warning", line_of("rows"))
    assert "nobody wrote" in finding.report


def test_rows_inside_are_no_finding():
    with pallasim.emulate("tpu-v5e"):
        np.testing.assert_array_equal(rows(24, True), X[24:])
    assert found() == []


@pytest.mark.parametrize(("start", "used", "expected"), [(28, True, ["PS-UNINIT-003"]), (-2, True, ["PS-UNINIT-003"]), (28, False, []), (-2, False, [])])
def test_a_checked_run_tells_of_the_use_alone(start, used, expected):
    with pallasim.emulate("tpu-v5e", detect_races=True):
        got = np.asarray(rows(start, used))
    findings = pallasim.findings()
    assert [f.code for f in findings] == expected
    there = [i for i in range(8) if 0 <= start + i < 32]
    if not used and start > 0:
        np.testing.assert_array_equal(got[there], X[[start + i for i in there]])
    if expected:
        assert findings[0].line == line_of("rows")
        assert f"{128 * (8 - len(there))} of 1024 elements" in findings[0].report


def test_a_scalar_outside():
    with pallasim.emulate("tpu-v5e"):
        scalar("output")
    assert found() == [("PS-OOB-001", "warning", line_of("scalar"))]
    with pallasim.emulate("tpu-v5e", detect_races=True):
        np.testing.assert_array_equal(scalar("nothing"), X[:8])
    assert found() == []
    with pallasim.emulate("tpu-v5e", detect_races=True):
        scalar("output")
    assert [f.code for f in pallasim.findings()][0] == "PS-UNINIT-003"
    with pytest.raises(pallasim.KernelError, match=r"PS-UNINIT-004(.|\n)*outside of i_ref"), pallasim.emulate("tpu-v5e", detect_races=True):
        scalar("branch")


@pytest.mark.parametrize("stopping", ["option", "jax"])
def test_it_stops_where_it_is_asked_to(stopping):
    def kernel(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(i_ref[0], 8), :]

    interpret = pltpu.InterpretParams() if stopping == "jax" else False
    options = {} if stopping == "jax" else {"out_of_bounds": "error"}
    call = pl.pallas_call(kernel, in_specs=[SMEM, VMEM], out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), interpret=interpret)
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001.*8 elements from 28"), pallasim.emulate("tpu-v5e", **options):
        call(jnp.array([28], jnp.int32), X)


def test_the_generic_machine_stops():
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate("generic"):
        rows(28, True)


def test_a_write_outside_stops():
    def kernel(i_ref, x_ref, o_ref):
        o_ref[pl.ds(i_ref[0], 8), :] = x_ref[0:8]

    with pytest.raises(pallasim.KernelError, match="PS-OOB-001.*write"), pallasim.emulate("tpu-v5e"):
        pl.pallas_call(kernel, in_specs=[SMEM, VMEM], out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32))(jnp.array([28], jnp.int32), X)


@pytest.mark.parametrize("checked", [False, True])
def test_triton_reads_on_within_the_allocation(checked):
    # 1000 floats take 4000 bytes, their allocation 4096: 24 elements more.
    with pallasim.emulate("gpu-h100", detect_races=checked):
        np.testing.assert_array_equal(of_triton(1000, 32), np.arange(1000, dtype=np.float32))
    assert found() == ([] if checked else [("PS-OOB-001", "warning", line_of("of_triton"))])


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("far", [24, -33])
def test_triton_faults_behind_it(checked, far):
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate("gpu-h100", detect_races=checked):
        of_triton(1000, 32, far)


def test_a_copy_of_a_kernel_without_checks_is_a_finding():
    def kernel(i_ref, x_ref, o_ref, sem):
        copy = pltpu.make_async_copy(x_ref.at[pl.ds(i_ref[0], 8)], o_ref, sem)
        copy.start()
        copy.wait()

    def run(**options):
        with pallasim.emulate("tpu-v5e", **options):
            return np.asarray(pl.pallas_call(kernel, in_specs=[SMEM, pl.BlockSpec(memory_space=pl.ANY)], out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                                             scratch_shapes=[pltpu.SemaphoreType.DMA], compiler_params=pltpu.CompilerParams(disable_bounds_checks=True))(
                                                 jnp.array([24 + 8 - 4], jnp.int32), X))

    got = run()
    np.testing.assert_array_equal(got[:4], X[28:])
    assert np.isnan(got[4:]).all()
    (finding,) = pallasim.findings()
    assert (finding.code, finding.severity) == ("PS-OOB-001", "warning") and "8 elements from 28" in finding.report
    run(detect_races=True)
    assert [f.code for f in pallasim.findings()][0] == "PS-UNINIT-003"


@pytest.mark.parametrize("rows_counted_otherwise", [False, True])
@pytest.mark.parametrize("checks", [False, True])
def test_a_copy_may_name_the_padding_of_tiles(rows_counted_otherwise, checks):
    """200 columns lie in two tiles of 128. What a copy takes beyond them is outside, and the reshape of rows leaves the columns where they are."""
    def kernel(i_ref, x_ref, o_ref, sem):
        x = x_ref.reshape(2, 8, 200).at[1] if rows_counted_otherwise else x_ref.at[pl.ds(8, 8)]
        copy = pltpu.make_async_copy(x.at[:, pl.ds(i_ref[0], 128)], o_ref, sem)
        copy.start()
        copy.wait()

    def run(begin, **options):
        with pallasim.emulate("tpu-v5e", **options):
            return np.asarray(pl.pallas_call(kernel, in_specs=[SMEM, pl.BlockSpec(memory_space=pl.ANY)], out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
                                             scratch_shapes=[pltpu.SemaphoreType.DMA], compiler_params=pltpu.CompilerParams(disable_bounds_checks=not checks))(
                                                 jnp.array([begin], jnp.int32), x))

    x = np.arange(16 * 200, dtype=np.float32).reshape(16, 200)
    pallasim.findings()
    got = run(128)
    np.testing.assert_array_equal(got[:, :72], x[8:, 128:])
    assert np.isnan(got[:, 72:]).all() and pallasim.findings() == []
    np.testing.assert_array_equal(run(128, out_of_bounds="error")[:, :72], x[8:, 128:])
    if checks:
        with pytest.raises(pallasim.KernelError, match="128 elements from 256"):
            run(256)
    else:
        run(256)
        (finding,) = pallasim.findings()
        assert (finding.code, finding.severity) == ("PS-OOB-001", "warning") and "128 elements from 256" in finding.report
