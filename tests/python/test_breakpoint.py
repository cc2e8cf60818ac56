"""Breakpoints in kernels: the launch waits in whatever `sys.breakpointhook` is, with values as NumPy arrays."""
from __future__ import annotations

import bdb
import inspect
import io
import pdb
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from causes.mosaic import kernel_of
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim

X = jnp.arange(1, 16 * 128 + 1, dtype=jnp.float32).reshape(16, 128)
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))


def call(kernel, x=X, **options):
    options = {"grid": (2,), "in_specs": [BLOCK], "out_specs": BLOCK, "out_shape": jax.ShapeDtypeStruct(x.shape, x.dtype)} | options
    return pl.pallas_call(kernel, **options)(x)


@pytest.fixture
def stops(monkeypatch):
    """What a debugger sees at each stop: file, line, function and variables of the frame that it is called from."""
    seen = []

    def hook(*args, **kwargs):
        frame = sys._getframe(1)
        variables = {n: v for n, v in frame.f_locals.items() if not n.startswith("__")}
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, variables))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return seen


def run(f, *args, machine="tpu-v5e", **options):
    before = pallasim.launch_count()
    with pallasim.emulate(machine, **options):
        y = np.asarray(jax.block_until_ready(f(*args)))
    assert pallasim.launch_count() > before
    return y


def line_of(kernel, mark="# here"):
    lines, first = inspect.getsourcelines(kernel)
    return first + next(i for i, line in enumerate(lines) if mark in line)


@pytest.mark.parametrize("jit", [False, True])
def test_values_place_and_result(stops, jit):
    def kernel(x_ref, o_ref):
        doubled = x_ref[...] * 2
        pallasim.breakpoint(doubled=doubled, i=pl.program_id(0))  # here
        o_ref[...] = doubled + 1

    f = (lambda x: call(kernel, x))
    y = run(jax.jit(f) if jit else f, X)
    np.testing.assert_array_equal(y, X * 2 + 1)
    assert len(stops) == 2
    for i, (file, line, function, variables) in enumerate(stops):
        assert (file, line, function) == (__file__, line_of(kernel), "kernel")
        assert set(variables) == {"doubled", "i", "stop"} and type(variables["doubled"]) is np.ndarray
        np.testing.assert_array_equal(variables["doubled"], X[8 * i:8 * i + 8] * 2)
        assert variables["i"] == i and variables["i"].shape == ()
        stop = variables["stop"]
        assert (stop.file, stop.line, stop.function, stop.kernel, stop.grid_point, stop.thread) == (__file__, line, "kernel", "kernel", (i,), "")
        assert stop.values["doubled"] is variables["doubled"] and str(stop) == f"{__file__}:{line} in kernel, grid point ({i},)"


def test_a_condition(stops):
    def kernel(x_ref, o_ref):
        x = x_ref[...]

        @pl.loop(0, 8)
        def _(row):
            total = jnp.sum(x_ref[row])
            pallasim.breakpoint(when=(total > 100_000) & (row != 6), total=total, row=row)

        o_ref[...] = x
        pallasim.breakpoint(when=False)
        pallasim.breakpoint(when=jnp.any(x < 0))

    run(lambda x: call(kernel, x), X)
    totals = np.asarray(X).sum(1)
    wanted = [r for r in range(16) if totals[r] > 100_000 and r % 8 != 6]
    assert [8 * v["stop"].grid_point[0] + int(v["row"]) for *_, v in stops] == wanted != []
    np.testing.assert_array_equal([v["total"] for *_, v in stops], totals[wanted])


def test_without_values_all_arrays_of_the_callers_variables(stops):
    def kernel(x_ref, o_ref):
        a, i, text = x_ref[...] + 1, pl.program_id(0), "no array"
        pallasim.breakpoint()
        o_ref[...] = a * i + len(text)

    run(lambda x: call(kernel, x), X)
    assert set(stops[0][3]) == {"a", "i", "x_ref", "o_ref", "stop"}
    assert [v["i"] for *_, v in stops] == [0, 1]
    np.testing.assert_array_equal(stops[1][3]["a"], X[8:] + 1)
    assert "<" in repr(stops[0][3]["x_ref"]) and "float32[8,128]" in repr(stops[0][3]["x_ref"])


def test_narrow_types(stops):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        pallasim.breakpoint(b=x.astype(jnp.bfloat16), n=x.astype(jnp.int8), t=x > 3, f=x.astype(jnp.float8_e4m3fn))
        o_ref[...] = x

    run(lambda x: call(kernel, x), X, machine="generic")
    seen = stops[0][3]
    assert {n: seen[n].dtype.name for n in "bntf"} == {"b": "bfloat16", "n": "int8", "t": "bool", "f": "float8_e4m3fn"}
    np.testing.assert_array_equal(seen["b"], X[:8].astype(jnp.bfloat16))
    np.testing.assert_array_equal(seen["t"], X[:8] > 3)


def test_jax_debug_breakpoint(stops):
    def kernel(x_ref, o_ref):
        doubled = x_ref[...] * 2
        jax.debug.breakpoint()  # here
        o_ref[...] = doubled

    y = run(lambda x: call(kernel, x), X)
    np.testing.assert_array_equal(y, X * 2)
    assert [(file, line, function) for file, line, function, _ in stops] == [(__file__, line_of(kernel), "kernel")] * 2
    for i, (*_, variables) in enumerate(stops):
        assert isinstance(variables["doubled"], np.ndarray) and variables["stop"].grid_point == (i,)
        np.testing.assert_array_equal(variables["doubled"], X[8 * i:8 * i + 8] * 2)
        assert "float32[8,128]" in repr(variables["x_ref"])


def test_jax_debug_breakpoint_under_jit_and_a_condition(stops):
    def kernel(x_ref, o_ref):
        x = x_ref[...]

        @pl.when(pl.program_id(0) == 1)
        def _():
            jax.debug.breakpoint(num_frames=1)

        o_ref[...] = x

    run(jax.jit(lambda x: call(kernel, x)), X)
    assert [v["stop"].grid_point for *_, v in stops] == [(1,)]


@pytest.mark.parametrize("machine", ["triton", "mosaic"])
def test_gpus(stops, machine):
    def kernel(x_ref, o_ref):
        x = x_ref[...] * 3
        pallasim.breakpoint(x=x)  # here
        o_ref[...] = x

    if machine == "triton":
        y = run(lambda x: call(kernel, x, compiler_params=pltriton.CompilerParams()), X, machine="gpu-h100")
    else:
        y = run(lambda x: kernel_of(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype))(x), X, machine="gpu-h100")
    np.testing.assert_array_equal(y, X * 3)
    np.testing.assert_array_equal(np.concatenate([v["x"] for *_, v in stops]), X * 3)
    assert {line for _, line, *_ in stops} == {line_of(kernel)}


def test_other_callbacks_are_nothing_that_triton_compiles():
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        jax.debug.callback(lambda x: None, x)
        o_ref[...] = x

    with pytest.raises(pallasim.RefusedError, match="PS-TRI-003"):
        run(lambda x: call(kernel, x, compiler_params=pltriton.CompilerParams()), X, machine="gpu-h100")


def test_threads_of_a_kernel_stop_one_by_one(monkeypatch):
    running, threads = [], []

    def hook():
        assert not running, "two debuggers at a time"
        running.append(1)
        threads.append(sys._getframe(1).f_locals["stop"].thread)
        running.pop()

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def kernel(x_ref, o_ref):
        wg = lax.axis_index("wg")
        pallasim.breakpoint(wg=wg)

        @pl.when(wg == 0)
        def _():
            o_ref[...] = x_ref[...]

    run(lambda x: kernel_of(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), num_threads=2, thread_name="wg")(x), X, machine="gpu-h100")
    assert len(threads) == len(set(threads)) == 2


def test_launches_of_several_threads_stop_one_by_one(monkeypatch):
    busy, most, turns = [0], [0], [0]

    def hook():
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        threading.Event().wait(0.01)
        busy[0] -= 1
        turns[0] += 1

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def kernel(x_ref, o_ref):
        pallasim.breakpoint()
        o_ref[...] = x_ref[...]

    pallasim.install("tpu-v5e")
    try:
        f = jax.jit(lambda x: call(kernel, x))
        workers = [threading.Thread(target=lambda: jax.block_until_ready(f(X))) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    finally:
        pallasim.uninstall()
    assert most == [1] and turns == [8]


@pytest.mark.parametrize("error", [bdb.BdbQuit, SystemExit, ValueError("nothing to see")])
def test_who_quits_the_debugger_ends_the_launch(monkeypatch, error):
    calls = []

    def hook():
        calls.append(1)
        raise error

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def kernel(x_ref, o_ref):
        pallasim.breakpoint()  # here
        o_ref[...] = x_ref[...]

    said = "a breakpoint failed with ValueError: nothing to see" if isinstance(error, ValueError) else "the debugger was quit at a breakpoint"
    with pytest.raises(pallasim.KernelError, match=said) as e:
        run(lambda x: call(kernel, x), X)
    assert len(calls) == 1
    f = e.value.finding
    assert (f.code, f.line, f.grid_point) == ("PS-INT-001", line_of(kernel), (0,)) and f.message == said
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    assert run(lambda x: call(kernel, x), X)[0, 0] == 1  # and the next launch is as ever


def test_pdb(monkeypatch):
    """Its prompt is at the kernel's line, with the values; it can step out of it."""
    def kernel(x_ref, o_ref):
        v = x_ref[0, :4]
        pallasim.breakpoint(v=v)  # here
        o_ref[...] = x_ref[...]

    out = io.StringIO()
    commands = io.StringIO("p v\np v.sum()\np stop.grid_point\np jnp.__name__\nwhere\nc\np v\nn\nn\nn\nc\n")
    monkeypatch.setattr(sys, "breakpointhook", lambda: pdb.Pdb(stdin=commands, stdout=out, nosigint=True).set_trace(sys._getframe(1)))
    y = run(lambda x: call(kernel, x), X)
    np.testing.assert_array_equal(y, X)
    said = out.getvalue()
    assert f"> {__file__}({line_of(kernel)})kernel()" in said and "pallasim.breakpoint(v=v)  # here" in said
    assert "array([1., 2., 3., 4.], dtype=float32)" in said and "10.0" in said and "(0,)" in said and "jax.numpy" in said
    assert "1025." in said


def test_prompt_of_a_program(tmp_path):
    """A program as somebody starts it: pdb reads standard input; q ends the program with an error and no crash."""
    program = tmp_path / "stop.py"
    program.write_text(textwrap.dedent("""
        import jax, jax.numpy as jnp
        from jax.experimental import pallas as pl
        import pallasim

        def kernel(x_ref, o_ref):
            total = jnp.sum(x_ref[...])
            pallasim.breakpoint(when=total > 10, total=total)
            o_ref[...] = x_ref[...] + total

        def f(x):
            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

        with pallasim.emulate("tpu-v5e"):
            print("small", f(jnp.ones((8, 1)))[0, 0])
            print("large", f(jnp.ones((8, 128)))[0, 0])
    """))
    for commands, code in (("p total\nc\n", 0), ("p total\nq\ny\n", 1)):
        done = subprocess.run([sys.executable, program], input=commands, capture_output=True, text=True, timeout=120)
        assert "small 9.0" in done.stdout and "1024." in done.stdout and "--Return--" not in done.stdout and "pallasim.breakpoint(when=total > 10, total=total)" in done.stdout
        assert done.returncode == code, done.stdout + done.stderr
        assert ("large 1025.0" in done.stdout) == (code == 0) and ("the debugger was quit at a breakpoint" in done.stderr) == (code == 1)


def test_wrong_conditions():
    def kernel(x_ref, o_ref):
        pallasim.breakpoint(when=x_ref[...] > 0)

    with pallasim.emulate("tpu-v5e"), pytest.raises(ValueError, match="when is one truth value"):
        call(kernel)


def test_other_callbacks_are_called_when_the_launch_has_ended(stops):
    order = []

    def kernel(x_ref, o_ref):
        jax.debug.callback(lambda i: order.append(("callback", int(i))), pl.program_id(0))
        pallasim.breakpoint(i=pl.program_id(0))
        o_ref[...] = x_ref[...]

    run(lambda x: call(kernel, x), X)
    jax.effects_barrier()
    assert [int(v["i"]) for *_, v in stops] == [0, 1] and order == [("callback", 0), ("callback", 1)]


def test_in_order_of_the_grid_whatever_the_workers(stops):
    def kernel(x_ref, o_ref):
        pallasim.breakpoint(i=pl.program_id(0))
        o_ref[...] = x_ref[...]

    x = jnp.ones((512, 128))
    run(lambda x: call(kernel, x, grid=(64,)), x, workers=4)
    assert [int(v["i"]) for *_, v in stops] == list(range(64))


def test_scratch_that_is_shown(stops):
    """A ref is shown where its elements are read."""
    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]
        pallasim.breakpoint(acc=acc_ref[...], ref=acc_ref)
        o_ref[...] = acc_ref[...]

    run(lambda x: call(kernel, x, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)]), X)
    np.testing.assert_array_equal(stops[1][3]["acc"], X[:8] + X[8:])
    assert "float32[8,128]" in repr(stops[0][3]["ref"])
