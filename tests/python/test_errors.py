"""A failing kernel is an exception that quotes the kernel's line; the process stays usable."""
from __future__ import annotations

import linecache
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim


def shifted_kernel(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[i] = x_ref[i + 4]  # reads past the end for i >= 4


shifted = pl.pallas_call(shifted_kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), grid=(8,))
X = jnp.arange(8, dtype=jnp.float32)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_out_of_bounds_names_line_grid_point_and_ref(wrap):
    with pytest.raises(pallasim.KernelError) as e:
        with pallasim.emulate():
            wrap(shifted)(X).block_until_ready()
    text = str(e.value)
    first = text.splitlines()[0]
    assert first.startswith("error[PS-OOB-001]") and "x_ref" in first and "8" in first
    f = e.value.finding
    assert f.code == "PS-OOB-001" and f.severity == "error" and f.grid_point == (4,) and f.kernel == "shifted_kernel"
    assert f.file == __file__ and linecache.getline(__file__, f.line).strip() == f.text
    assert "x_ref[i + 4]" in f.text and f.text in text
    assert pallasim.last_report() == pallasim.runs()[-1].report == f.report


def test_jax_error_inside_the_block_and_findings():
    pallasim.findings()
    with pallasim.emulate():
        with pytest.raises(jax.errors.JaxRuntimeError, match="PS-OOB-001"):
            shifted(X).block_until_ready()
    found = pallasim.findings()
    assert [f.code for f in found] == ["PS-OOB-001"]
    assert pallasim.findings() == []


def test_the_last_report_is_that_of_the_latest_launch(emulated):
    with pytest.raises(pallasim.KernelError):
        with pallasim.emulate():
            shifted(X).block_until_ready()
    plain = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    emulated(plain, X)
    failed, last = pallasim.runs()[-2:]
    assert pallasim.last_report() == last.report == ""
    assert failed.failed and failed.report.startswith("error[PS-OOB-001]")


def test_usable_after_a_failure(emulated, same):
    with pytest.raises(pallasim.KernelError):
        with pallasim.emulate():
            shifted(X).block_until_ready()
    ok = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    same(emulated(ok, X), np.arange(1, 9, dtype=np.float32))


def helper(ref, i):
    return ref[i]  # the failing line


def test_helper_functions_keep_their_caller():
    def kernel(x_ref, o_ref):
        o_ref[0] = helper(x_ref, pl.program_id(0) + 20)

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), grid=(2,))
    with pytest.raises(pallasim.KernelError) as e:
        with pallasim.emulate():
            f(X).block_until_ready()
    site = e.value.finding.site
    assert site.source.function == "helper" and "the failing line" in site.source.text
    assert [c.function for c in site.callers] == ["kernel"]


def test_reports_name_the_scope():
    @jax.jit
    def halve(x):
        with jax.named_scope("halve"):
            return x / 2

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        with jax.named_scope("attention"):
            o_ref[i] = halve(x_ref[i])
            with jax.named_scope("softmax"):
                @pl.when(i > 0)
                def _():
                    with jax.named_scope("tail"):
                        o_ref[i] = x_ref[i + 20]

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), grid=(2,))
    with pytest.raises(pallasim.KernelError) as e:
        with pallasim.emulate():
            f(X).block_until_ready()
    site = e.value.finding.site
    assert site.scope == "attention/softmax/tail" and site.source.text == "o_ref[i] = x_ref[i + 20]"
    lines = str(e.value).splitlines()
    assert lines[lines.index("      o_ref[i] = x_ref[i + 20]") + 1] == "  in scope attention/softmax/tail"
    (text,) = pallasim.capture_text(f, X)
    scopes = set(re.findall(r'scope = "(.*?)"', text))
    assert scopes == {"attention", "attention/halve", "attention/softmax", "attention/softmax/tail"}
    assert re.search(r'text = "i = pl.program_id\(0\)"}', text)  # outside of all scopes


def test_every_failure_carries_its_own_finding():
    """Errors that are looked at later, out of order and from several threads, have the finding of their launch."""
    import concurrent.futures

    def failing(n):
        def kernel(x_ref, o_ref):
            o_ref[0] = x_ref[pl.program_id(0) + n]

        kernel.__name__ = f"reads_{n}"
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), grid=(1,), name=f"reads_{n}")

    def run(n):
        try:
            with pallasim.emulate():
                failing(n)(X).block_until_ready()
        except pallasim.KernelError as e:
            return e
        return None

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        errors = list(pool.map(run, range(20, 36)))
    for n, e in zip(range(20, 36), errors):
        assert e is not None and e.finding.kernel == f"reads_{n}" and f"index {n}" in e.finding.message and str(e) == e.finding.report


def test_an_error_of_the_whole_process_names_its_failure():
    """Without a block nobody makes JAX's error one of ours: it has the report, and the number of the failure."""
    params = pallasim.Params()
    f = pl.pallas_call(shifted_kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), grid=(8,), interpret=params)
    with pytest.raises(jax.errors.JaxRuntimeError) as e:
        f(X).block_until_ready()
    text = str(e.value)
    assert "error[PS-OOB-001]" in text and re.search(r"^  failure \d+ of this process$", text, re.M)


def test_unknown_primitive_is_refused_by_name():
    from jax._src import core

    mystery_p = core.Primitive("mystery")
    mystery_p.def_abstract_eval(lambda x: x)

    def kernel(x_ref, o_ref):
        o_ref[...] = mystery_p.bind(x_ref[...])

    f = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))
    with pytest.raises(pallasim.KernelError, match="mystery"):
        with pallasim.emulate():
            f(X)


def test_machine_and_option_names_are_checked():
    with pytest.raises(ValueError, match="tpu-v5e"):
        pallasim.Params(machine="tpu-v99")
    with pytest.raises(TypeError):
        pallasim.emulate(no_such_option=1)


def test_a_kernel_without_bounds_checks_reads_fresh_memory_outside(emulated, same):
    """What CompilerParams(disable_bounds_checks=True) asks of the TPU's compiler; writes outside are errors all the same."""
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    unchecked = pltpu.CompilerParams(disable_bounds_checks=True)

    def reads(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.program_id(0) + 3, 8)]

    def writes(x_ref, o_ref):
        o_ref[pl.ds(pl.program_id(0) + 3, 8)] = x_ref[...]

    def call(kernel, **params):
        return lambda x: pl.pallas_call(kernel, out_shape=x, grid=(1,), **params)(x)

    out = emulated(call(reads, compiler_params=unchecked), x, machine="tpu-v5e")
    same(out[:5], x[3:])
    assert np.isnan(out[5:]).all()
    for f, options in (call(reads), {"out_of_bounds": "error"}), (call(writes, compiler_params=unchecked), {}):
        with pytest.raises(pallasim.KernelError, match="PS-OOB-001"):
            emulated(f, x, machine="tpu-v5e", **options)


def test_a_function_that_was_compiled_in_an_earlier_block_fails_as_ever():
    """JAX raises a plain ValueError there."""
    def kernel(row_ref, x_ref, o_ref):
        o_ref[...] = x_ref[row_ref[0]]  # here

    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[pl.BlockSpec((4, 8, 128), lambda i, row: (0, 0, 0))],
                                        out_specs=pl.BlockSpec((8, 128), lambda i, row: (0, 0)))
    f = jax.jit(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), grid_spec=grid))
    x = jnp.arange(4 * 8 * 128, dtype=jnp.float32).reshape(4, 8, 128)
    with pallasim.emulate("tpu-v5e", out_of_bounds="error"):
        np.testing.assert_array_equal(f(jnp.array([2]), x), x[2])
    with pytest.raises(pallasim.KernelError) as e, pallasim.emulate("tpu-v5e", out_of_bounds="error"):
        np.testing.assert_array_equal(f(jnp.array([1]), x), x[1])
        jax.block_until_ready(f(jnp.array([7]), x))
    assert e.value.finding.code == "PS-OOB-001" and e.value.finding.text.endswith("# here")
    assert str(e.value).startswith("error[PS-OOB-001]") and isinstance(e.value, jax.errors.JaxRuntimeError)
