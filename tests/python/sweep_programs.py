"""Programs of the tests of sweeps: importable, so that other processes find them without cloudpickle."""
import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def double(config):
    """`config`: rows of a block, or what is wrong: "hang", "die", "eat", "raise", "wrong", "race"."""
    rows = config if isinstance(config, int) else 8

    def f(x):
        n = x.shape[0] // rows
        spec = pl.BlockSpec((rows, x.shape[1]), lambda i: (0 if config == "race" else i, 0))
        y = pl.pallas_call(double_kernel, out_shape=x, grid=(n,), in_specs=[pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))], out_specs=spec,
                           compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))(x)
        return y + 1000 if config == "wrong" else y

    if config == "hang":
        while True:
            time.sleep(0.01)
    if config == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if config == "eat":
        kept = []
        while True:
            kept.append(bytearray(64 << 20))
            kept[-1][::4096] = b"x" * len(kept[-1][::4096])
            time.sleep(0.02)
    if config == "raise":
        raise ValueError("8 does not divide it")
    return f


def slow_double(config):
    """The same, which leaves a file behind that says that it was asked."""
    folder, number = config
    with open(os.path.join(folder, f"{number}.{os.getpid()}.{time.monotonic_ns()}"), "w"):
        time.sleep(0.05)
    return double(8 << (number % 3))


def reference(x):
    return 2 * x


X = np.arange(64 * 128, dtype=np.float32).reshape(64, 128)
SHAPE = jax.ShapeDtypeStruct((64, 128), jnp.float32)


def two_adds(x):
    """A kernel whose result is a question of the schedule: it reads a copy's target before the copy is awaited."""
    def kernel(x_ref, o_ref, row_ref, sem):
        copy = pltpu.make_async_copy(x_ref, row_ref, sem)
        copy.start()
        o_ref[...] = row_ref[...] + 1
        copy.wait()

    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    return pl.pallas_call(kernel, out_shape=x, in_specs=[hbm], scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())])(x)
