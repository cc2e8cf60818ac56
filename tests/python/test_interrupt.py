"""Ctrl-C stops a kernel that runs, from wherever it was started; the next launch is right."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = pytest.mark.one_jax

# Runs for days. `quick` is the next launch.
KERNEL = """
import os, sys, threading, time
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
import pallasim

def count(o_ref):
    def more(i, c):
        o_ref[...] = jax.lax.fori_loop(0, 1000, lambda j, v: v * 0.5 + 1.0, o_ref[...])
        return c
    o_ref[...] = jnp.zeros_like(o_ref)
    jax.lax.fori_loop(0, 2**30, more, 0)

def forever(points=4):
    return pl.pallas_call(count, grid=(points,), out_specs=pl.BlockSpec((8,), lambda i: (i,)),
                          out_shape=jax.ShapeDtypeStruct((8 * points,), jnp.float32))()

def quick():
    double = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2)
    x = jnp.arange(8.0)
    return bool((pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32))(x) == 2 * x).all())

def watch():
    while pallasim.launch_count() == 0: time.sleep(0.01)
    time.sleep(0.1)
    print("running", flush=True)

threading.Thread(target=watch, daemon=True).start()
"""
STOPPED = """
except KeyboardInterrupt as e:
    print("stopped", "PS-INT-001" in str(e) and "count" in str(e), flush=True)
with pallasim.emulate():
    print("next", quick(), pallasim.launch_count() > 1, flush=True)
"""
DEVICES = """
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
on_devices = jax.jit(jax.shard_map(lambda: forever(2), mesh=mesh, in_specs=(), out_specs=P("x"), check_vma=False))
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor
def in_threads():
    with ThreadPoolExecutor(2) as pool:
        run = pallasim.emulate(workers=1)(lambda: jax.block_until_ready(forever()))
        return [f.result() for f in [pool.submit(run) for _ in range(2)]]
"""
# What comes before, options, the call.
WAYS = {
    "eager": ("", "workers=1", "forever()"),
    "jit": ("", "workers=1", "jax.jit(forever)()"),
    "two_workers": ("", "workers=2", "forever()"),
    "checked": ("", "detect_races=True", "forever()"),
    "two_devices": (DEVICES, "workers=1", "on_devices()"),
    "thread_pool": (POOL, "", "in_threads()"),
}
ENVIRONMENT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


def stopped(before, options, call):
    """The whole program."""
    return KERNEL + before + f"try:\n    with pallasim.emulate({options}):\n        jax.block_until_ready({call})" + STOPPED


def interrupted(script: str) -> tuple[float, list[str]]:
    """Seconds from the signal to the word "stopped", and all lines that the script printed."""
    # Whoever runs the tests in the background may ignore the signal, and children inherit that.
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=os.environ | ENVIRONMENT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    lines = []
    asked = took = 0.0
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith("running") and not asked:
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
        if line.startswith("stopped"):
            took = time.monotonic() - asked
    process.wait(60)
    return took, lines


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_stops_the_kernel_and_nothing_later(way):
    took, lines = interrupted(stopped(*WAYS[way]))
    assert "stopped True" in lines and "next True True" in lines, "\n".join(lines)
    assert 0 < took < 30  # without the signal: days


def interrupted_notebook() -> tuple[float, list[str]]:
    """The same for a cell of a notebook whose kernel is interrupted."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        return _interrupt_cell(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _interrupt_cell(manager, client) -> tuple[float, list[str]]:
    client.execute(stopped(*WAYS["eager"]))
    said: list[str] = []
    asked = took = 0.0
    while not said or not said[-1].startswith("next"):
        message = client.get_iopub_msg(timeout=120)
        assert message["msg_type"] != "error", message["content"]
        if message["msg_type"] != "stream":
            continue
        said += message["content"]["text"].splitlines()
        if "running" in said and not asked:
            asked = time.monotonic()
            manager.interrupt_kernel()
        if not took and any(line.startswith("stopped") for line in said):
            took = time.monotonic() - asked
    return took, said


def test_ctrl_c_stops_a_cell_of_a_notebook():
    pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    took, lines = interrupted_notebook()
    assert "stopped True" in lines and "next True True" in lines, "\n".join(lines)
    assert 0 < took < 30


def test_a_handler_of_the_users_own_is_called_as_well():
    script = KERNEL + textwrap.dedent("""
        import signal
        signal.signal(signal.SIGINT, lambda *_: print("handler", flush=True))
        with pallasim.emulate(workers=1):
            try:
                jax.block_until_ready(forever())
            except Exception as e:
                print("stopped", "PS-INT-001" in str(e), flush=True)
            print("next", quick(), True, flush=True)
        """)
    took, lines = interrupted(script)
    assert "handler" in lines and "stopped True" in lines and "next True True" in lines, "\n".join(lines)
