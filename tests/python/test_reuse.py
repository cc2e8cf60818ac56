"""Programs that are one kernel's call are lowered and compiled once, and only where they are the same."""
import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import monitoring
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

X = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128) + 1
OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)


@contextlib.contextmanager
def compilations():
    """How many programs XLA compiled inside."""
    seen = []

    def note(event, *_, **__):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    unregister = getattr(monitoring, "unregister_event_duration_listener", None) or monitoring._unregister_event_duration_listener_by_callback
    monitoring.register_event_duration_secs_listener(note)
    try:
        yield seen
    finally:
        unregister(note)


def scaled(by, x=X):
    def kernel(x_ref, o_ref):
        o_ref[...] = (x_ref[...] * by).astype(jnp.float32)

    return pl.pallas_call(kernel, out_shape=OUT)(x)


def test_an_eager_call_is_compiled_once(same):
    with pallasim.emulate("tpu-v5e"):
        same(scaled(3.0), 3 * X)
        launches = pallasim.launch_count()
        with compilations() as seen:
            for k in range(1, 5):
                same(scaled(3.0, k * X), 3 * k * X)
    assert not seen
    assert pallasim.launch_count() == launches + 4
    jax.clear_caches()
    with pallasim.emulate("tpu-v5e"), compilations() as seen:
        same(scaled(3.0), 3 * X)
    assert seen


def test_what_differs_is_another_program(same):
    def block(k):  # what an index map closes over
        def kernel(x_ref, o_ref):
            o_ref[...] = jnp.broadcast_to(x_ref[...], (8, 128))

        return pl.pallas_call(kernel, out_shape=OUT, grid=(1,), in_specs=[pl.BlockSpec((1, 128), lambda i: (k, 0))])(X)

    with pallasim.emulate():
        for k in (2.0, 5.0, 2.0):
            same(scaled(k), k * X)
        same(scaled(2.0, X.astype(jnp.bfloat16)), np.asarray(2 * X.astype(jnp.bfloat16), np.float32))
        for _ in range(2):
            for k in (1, 6):
                same(block(k), jnp.broadcast_to(X[k], (8, 128)))


def test_order_of_operands_and_results_belongs_to_the_program(same):
    def kernel(a_ref, b_ref, o_ref, p_ref):
        o_ref[...] = a_ref[...] - b_ref[...]
        p_ref[...] = a_ref[...] + b_ref[...]

    def call(a, b):
        return pl.pallas_call(kernel, out_shape=(OUT, OUT))(a, b)

    y = 2 * X
    with pallasim.emulate():
        for f, o, p in ((call, X - y, X + y), (lambda a, b: call(b, a), y - X, X + y), (lambda a, b: call(a, b)[::-1], X + y, X - y)):
            got = jax.jit(f)(X, y)
            same(got[0], o)
            same(got[1], p)


def test_options_belong_to_the_program():
    def wide():  # a block that fits into one chip's memory and not into another's
        scratch = [pltpu.VMEM((32 << 20,), jnp.float32)]

        def body(o_ref, s_ref):
            o_ref[...] = jnp.ones((8, 128), jnp.float32)

        return pl.pallas_call(body, out_shape=OUT, scratch_shapes=scratch)()

    with pallasim.emulate("generic"):
        assert np.all(wide() == 1)
    with pytest.raises(pallasim.KernelError), pallasim.emulate("tpu-v5e"):
        wide()
    with pallasim.emulate("generic"):
        assert np.all(wide() == 1)


def test_records_and_prints_are_of_each_call(capfd):
    points = []

    def call(interpret=False):
        def kernel(o_ref):
            pl.debug_print("here")
            o_ref[...] = jnp.ones((8, 128), jnp.float32)

        return pl.pallas_call(kernel, out_shape=OUT, grid=(2,), interpret=interpret)()

    with pallasim.emulate():
        for _ in range(3):
            jax.block_until_ready(call())
    assert capfd.readouterr().out.count("here") == 6

    recorder = pltpu.InterpretParams(grid_point_recorder=lambda *a: points.append(a))
    with pallasim.emulate("tpu-v5e"):
        for _ in range(2):
            jax.block_until_ready(call(recorder))
    jax.effects_barrier()
    assert len(points) == 4


def test_a_failure_is_of_its_own_call(same):
    def call(at):
        def kernel(at_ref, x_ref, o_ref):
            o_ref[...] = jnp.broadcast_to(x_ref[pl.ds(at_ref[0], 1)], (8, 128))

        return pl.pallas_call(kernel, out_shape=OUT, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()])(jnp.asarray([at], jnp.int32), X)

    for at in (1, 99, 2):
        if at == 99:
            with pytest.raises(pallasim.KernelError, match="PS-OOB"), pallasim.emulate():
                jax.block_until_ready(call(at))
            continue
        with pallasim.emulate():
            same(call(at), jnp.broadcast_to(X[at], (8, 128)))


def test_donated_and_aliased_operands(same):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def call(x):
        return pl.pallas_call(kernel, out_shape=OUT, input_output_aliases={0: 0})(x)

    with pallasim.emulate():
        for _ in range(2):
            kept = X + 0
            same(call(kept), X + 1)
            same(kept, X)
            given = X + 0
            same(jax.jit(call, donate_argnums=0)(given), X + 1)
            assert given.is_deleted()


def test_kernels_of_pl_kernel_too(same):
    def call(x):
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)

        @functools.partial(pl.kernel, out_type=OUT, mesh=mesh)
        def kernel(x_ref, o_ref):
            pltpu.sync_copy(x_ref, o_ref)

        return kernel(x)

    with pallasim.emulate("tpu-v5e"):
        same(call(X), X)
        same(call(2 * X), 2 * X)
