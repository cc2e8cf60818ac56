"""The debugger as editors see it: a scripted client on kernels of each machine, over pipes and a socket."""
from __future__ import annotations

import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dap_client import Client
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import triton as pltriton

import pallasim

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128) / 7


def double_kernel(x_ref, o_ref):
    x = x_ref[...]
    y = x + 1.0  # line of the breakpoint
    z = y * y
    o_ref[...] = z


def gpu_kernel(x_gmem, o_gmem, smem):
    x = x_gmem[...]
    y = x + 1.0
    smem[...] = y * y
    z = smem[...]
    o_gmem[...] = z


LINE = double_kernel.__code__.co_firstlineno + 2
GPU_LINE = gpu_kernel.__code__.co_firstlineno + 2
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))


def of_blocks(**params):
    return pl.pallas_call(double_kernel, grid=(4,), in_specs=[BLOCK], out_specs=BLOCK, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), **params)


def of_mosaic():
    return plgpu.kernel(gpu_kernel, out_type=jax.ShapeDtypeStruct((64, 128), jnp.float32), scratch_types=[plgpu.SMEM((64, 128), jnp.float32)])


MACHINES = {
    "generic": (lambda: of_blocks(), X, "generic", LINE, "x_ref"),
    "tpu": (lambda: of_blocks(), X, "tpu-v5e", LINE, "x_ref"),
    "triton": (lambda: of_blocks(compiler_params=pltriton.CompilerParams()), X, "gpu-a100", LINE, "x_ref"),
    "mosaic_gpu": (of_mosaic, np.arange(64 * 128, dtype=np.float32).reshape(64, 128) / 7, "gpu-h100", GPU_LINE, "x_gmem"),
}


@pytest.fixture(scope="module")
def capsules(tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            f, x, chip, line, ref = MACHINES[name]
            path = tmp_path_factory.mktemp("dap") / f"{name}.capsule"
            pallasim.capture(f(), jnp.asarray(x), path=path, params=chip)
            made[name] = (path, x, line, ref)
        return made[name]

    return make


def number(text):
    return np.float32(text)


@pytest.mark.parametrize("machine", MACHINES)
def test_conversation(machine, capsules):
    path, x, line, ref = capsules(machine)
    x = x[:8] if machine != "mosaic_gpu" else x
    with Client() as c:
        (found,) = c.start(path, [(__file__, [{"line": line}, {"line": 100000}])])
        assert [b["verified"] for b in found] == [True, False] and found[0]["line"] == line
        assert c.stop["reason"] == "entry"
        assert c.go("continue", threadId=1)["reason"] == "breakpoint"
        thread = c.ask("threads")["threads"][0]["id"]
        frame = c.frame(thread)
        assert (frame["line"], frame["source"]["path"]) == (line, __file__)
        # Values are NumPy's, at ten places.
        names = c.scope("Locals", thread)
        assert names["x"]["type"] == f"f32[{x.shape[0]},128]" and "y" not in names
        for i in range(10):
            at = (i * 5 % x.shape[0], i * 13 % 128)
            assert number(c.value(f"x[{at[0]}, {at[1]}]")) == pytest.approx(x[at], rel=1e-5)
        rows = c.ask("variables", variablesReference=names["x"]["variablesReference"])["variables"]
        assert len(rows) == x.shape[0] and rows[1]["evaluateName"] == "x[1]"
        elements = c.ask("variables", variablesReference=rows[1]["variablesReference"])["variables"]
        assert [number(e["value"]) for e in elements[:3]] == pytest.approx(list(x[1, :3]), rel=1e-5)
        assert ref in c.scope("Refs", thread) and "Memory" in [s["name"] for s in c.ask("scopes", frameId=frame["id"])["scopes"]]
        # Forward, and back in time.
        c.go("next", threadId=thread)
        assert c.frame(thread)["line"] == line + 1
        assert number(c.value("y[2, 3]")) == pytest.approx(x[2, 3] + 1, rel=1e-5)
        assert number(c.value("sum(y[0:2, 0:4] * 2) - 1")) == pytest.approx(float(np.sum((x[:2, :4] + 1) * 2) - 1), rel=1e-4)
        c.go("stepBack", threadId=thread)
        assert c.frame(thread)["line"] == line and "there is no y here" in c.refused("evaluate", expression="y", frameId=c.frame(thread)["id"])
        c.go("stepIn", threadId=thread)
        info = c.ask("dataBreakpointInfo", name=f"{ref}[0, 0]")
        assert info["dataId"] and "write" in info["accessTypes"]
        assert c.go("reverseContinue", threadId=thread)["reason"] == "breakpoint"
        assert c.go("reverseContinue", threadId=thread)["reason"] == "entry"
        c.ask("setBreakpoints", source={"path": __file__}, breakpoints=[])
        assert c.go("continue", threadId=thread)["reason"] == "end"
        assert c.go("stepBack", threadId=thread)["reason"] == "step"
        assert c.close() == 0


def test_data_breakpoints_conditions_and_a_port(capsules):
    path, x, line, _ = capsules("tpu")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Client(port) as c:
        c.start(path, [(__file__, [{"line": line, "condition": "program_id(0) == 2"}])])
        assert c.go("continue", threadId=1)["reason"] == "breakpoint"
        assert "(2,)" in c.ask("threads")["threads"][0]["name"]
        c.ask("setBreakpoints", source={"path": __file__}, breakpoints=[])
        (b,) = c.ask("setDataBreakpoints", breakpoints=[{"dataId": "o_ref.array[31, 0]", "accessType": "write"}])["breakpoints"]
        assert b["verified"]
        stop = c.go("continue", threadId=1)
        assert stop["reason"] == "data breakpoint" and f"{float((x[31, 0] + 1) ** 2):g}" in stop["text"] and stop["hitBreakpointIds"] == [b["id"]]
        assert "(3,)" in c.ask("threads")["threads"][0]["name"]


@pytest.mark.parametrize("machine", MACHINES)
def test_debugpys_client_and_the_schema(machine, capsules):
    """A conversation as an editor has it, by the client that debugpy's own adapter has; each message of either side is as Microsoft's schema says."""
    pytest.importorskip("debugpy")
    pytest.importorskip("jsonschema")
    from dap_schema import Conversation

    path, x, line, ref = capsules(machine)
    x = x[:8] if machine != "mosaic_gpu" else x
    with Conversation() as c:
        can = c.ask("initialize", clientID="test", adapterID="pallasim", linesStartAt1=True, columnsStartAt1=True, pathFormat="path", supportsVariableType=True)
        assert can["supportsStepBack"] and can["supportsDataBreakpoints"] and can["supportsConfigurationDoneRequest"]
        c.ask("launch", program=str(path), noDebug=False)
        c.event("initialized")
        (at,) = c.ask("setBreakpoints", source={"path": __file__}, breakpoints=[{"line": line}])["breakpoints"]
        assert at["verified"] and at["line"] == line
        assert c.ask("setBreakpoints", source={"path": "elsewhere.py"}, breakpoints=[{"line": 1}])["breakpoints"][0]["verified"] is False
        c.ask("setExceptionBreakpoints", filters=["findings"], filterOptions=[{"filterId": "findings", "condition": "PS-RACE"}])
        c.ask("configurationDone")
        assert c.event("stopped")["reason"] == "entry"
        assert __file__ in [s["path"] for s in c.ask("loadedSources")["sources"]]
        assert c.go("continue")["reason"] == "breakpoint"
        (thread, *_) = c.ask("threads")["threads"]
        (frame, *_) = c.ask("stackTrace", threadId=thread["id"], startFrame=0, levels=20)["stackFrames"]
        assert frame["line"] == line
        scopes = {s["name"]: s["variablesReference"] for s in c.ask("scopes", frameId=frame["id"])["scopes"]}
        for reference in scopes.values():
            c.ask("variables", variablesReference=reference)
        local = {v["name"]: v for v in c.ask("variables", variablesReference=scopes["Locals"])["variables"]}
        (row,) = c.ask("variables", variablesReference=local["x"]["variablesReference"], filter="indexed", start=3, count=1)["variables"]
        value = c.ask("evaluate", expression="x[3, 5]", frameId=frame["id"], context="hover")
        assert row["name"] == "[3]" and number(value["result"]) == pytest.approx(x[3, 5], rel=1e-5)
        drawn = c.ask("evaluate", expression="picture x[0:2]", frameId=frame["id"], context="repl")["result"].splitlines()
        assert drawn[0].startswith("x[0:2]: f32[2,128]") and len(drawn) == 4 and drawn[-1].isdigit()
        assert "there is no y here" in c.refused("evaluate", expression="y", frameId=frame["id"])
        info = c.ask("dataBreakpointInfo", name=f"{ref}[0, 0]")
        assert c.ask("dataBreakpointInfo", name="x[0, 0]")["dataId"] is None
        (data,) = c.ask("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"], "accessType": "readWrite"}])["breakpoints"]
        assert data["verified"]
        c.ask("setDataBreakpoints", breakpoints=[])
        assert c.go("next")["reason"] == "step" and c.go("stepIn", granularity="instruction")["reason"] == "step" and c.go("stepBack")["reason"] == "step"
        assert c.go("reverseContinue")["reason"] == "breakpoint" and c.go("stepOut")["reason"] in ("step", "breakpoint")
        c.go("restart")
        c.ask("pause", threadId=1)
        c.ask("setBreakpoints", source={"path": __file__}, breakpoints=[])
        assert c.go("continue")["reason"] == "end"
        c.ask("terminate")
        c.event("terminated")
        c.ask("disconnect", terminateDebuggee=True)
        assert c.process.wait(timeout=60) == 0
        assert c.stream.wrong == [] and len(c.stream.kinds) > 40, c.stream.wrong


def test_the_schema_notices():
    pytest.importorskip("debugpy")
    pytest.importorskip("jsonschema")
    from dap_schema import problems

    good = {"seq": 1, "type": "event", "event": "stopped", "body": {"reason": "step", "threadId": 1}}
    assert problems(good) == []
    assert problems(good | {"body": {"threadId": 1}}) and problems(good | {"event": "stooped"}) and problems(good | {"body": {"reason": "step", "threadId": "1"}})


def broken_kernel(x_ref, o_ref):
    o_ref[pl.program_id(0)] = x_ref[3 * pl.program_id(0)]


def test_errors_and_refusals(tmp_path):
    path = tmp_path / "broken.capsule"
    f = pl.pallas_call(broken_kernel, grid=(4,), out_shape=jax.ShapeDtypeStruct((4,), jnp.float32))
    with pytest.raises(RuntimeError):
        pallasim.capture(f, jnp.arange(8.0), path=path)
    with Client() as c:
        assert "there is no request nonsense" in c.refused("nonsense")
        assert "nothing was launched" in c.refused("threads")
        assert "program" in c.refused("launch")
        assert "PS-IO-001" in c.refused("launch", program=str(tmp_path / "none.capsule"))
        c.start(path, stopOnEntry=False)
        assert c.stop["reason"] == "exception" and "PS-OOB-001" in c.stop["text"]
        assert c.frame()["line"] == broken_kernel.__code__.co_firstlineno + 1
        assert c.value("program_id(0)") == "3"
        c.go("stepBack", threadId=1)
        c.go("reverseContinue", threadId=1)
        assert c.value("program_id(0)") == "0"


def test_debug_from_python():
    """`pallasim.debug` with commands is a session as text."""
    f = pl.pallas_call(broken_kernel, grid=(4,), out_shape=jax.ShapeDtypeStruct((4,), jnp.float32))
    said = pallasim.debug(f, jnp.arange(8.0), chip="generic", commands=["continue", "print program_id(0)", "reverse-continue", "info refs"])
    assert "error[PS-OOB-001]" in said and "program_id(0) = 3" in said and "x_ref        f32[8]" in said
    assert "broken_kernel" in said
    with pytest.raises(RuntimeError, match="no Pallas kernel"):
        pallasim.debug(lambda x: x + 1, jnp.arange(8.0), commands=[])


def loops_kernel(x_ref, o_ref):
    def body(step, total):
        y = total + x_ref[step]
        return y

    summed = jax.lax.fori_loop(0, 8, body, jnp.zeros(128))

    @pl.loop(0, 4)
    def _(row):
        o_ref[row] = summed * 2

    def count(trip, carry):
        return carry[0] + trip, carry[1]

    counted = jax.lax.fori_loop(0, x_ref[0, 0].astype(jnp.int32), count, (0, 1))
    o_ref[7] = jnp.full(128, counted[0], jnp.float32)


def test_names_of_loops():
    """Indices and carries are called as the loop's function calls them, also where JAX counts itself; what the loop adds to its index is no value of its line."""
    first = loops_kernel.__code__.co_firstlineno
    x = jnp.full((8, 128), 3.0)
    at = lambda line, hits, *commands: [f"break {first + line}", *["continue"] * hits, *commands, "delete"]
    said = pallasim.debug(pl.pallas_call(loops_kernel, out_shape=x), x, chip="generic", commands=[
        *at(2, 3, "info locals"), *at(9, 2, "print row"), *at(12, 3, "print trip", "info locals")])
    locals_of = [part.split("(pallasim)")[0] for part in said.split("info locals\n")[1:]]
    assert "step         i32 = 2\n" in locals_of[0] and "total        f32[128]  min 6  max 6" in locals_of[0] and "%" not in locals_of[0] and "summed" not in locals_of[0]
    assert "row = 1\n" in said and "trip = 2\n" in said and "trip         i32 = 2\n" in locals_of[1]


def test_post_mortem(monkeypatch):
    """An error that ends a block opens the debugger on the launch that stopped; one that does not reach a kernel opens nothing."""
    from pallasim import _debug_session

    session, opened = _debug_session.session, []
    monkeypatch.setattr(_debug_session, "session", lambda path, checked, launch, commands: opened.append(session(path, checked, launch, ["continue", "print program_id(0)"])))
    f = pl.pallas_call(broken_kernel, grid=(4,), out_shape=jax.ShapeDtypeStruct((4,), jnp.float32))
    with pytest.raises(RuntimeError, match="PS-OOB-001"), pallasim.emulate("generic", post_mortem=True):
        jax.block_until_ready(f(jnp.arange(8.0)))
    assert len(opened) == 1 and "program_id(0) = 3" in opened[0]
    with pallasim.emulate("generic", post_mortem=True):
        jax.block_until_ready(f(jnp.arange(16.0)))
    with pytest.raises(ValueError), pallasim.emulate("generic", post_mortem=True):
        raise ValueError("of the caller")
    assert len(opened) == 1


def test_pytest_opens_the_debugger(tmp_path):
    """`pytest --pallasim-pdb` reads commands where the test failed."""
    (tmp_path / "test_broken.py").write_text("""
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def kernel(x_ref, o_ref):
    o_ref[pl.program_id(0)] = x_ref[3 * pl.program_id(0)]

def test_broken():
    f = pl.pallas_call(kernel, grid=(4,), out_shape=jax.ShapeDtypeStruct((4,), jnp.float32))
    jax.block_until_ready(f(jnp.arange(8.0)))
""")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "pallasim.pytest_plugin", "--pallasim=generic", "--pallasim-pdb", "test_broken.py"], cwd=tmp_path,
                          input="continue\nprint program_id(0)\nquit\n", capture_output=True, text=True, timeout=300)
    assert "program_id(0) = 3" in done.stdout and done.returncode == 1, done.stdout + done.stderr
