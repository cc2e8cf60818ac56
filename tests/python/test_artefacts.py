"""What outlives a process or a shape: exported programs, symbolic dimensions, the persistent compilation cache."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.pallas import core as pallas_core
from jax.experimental import pallas as pl

import pallasim

SAFE = [export.DisabledSafetyCheck.custom_call("pallasim_launch")]


def affine_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2 + x_ref.shape[0]


def affine(x):
    return pl.pallas_call(affine_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def blocks_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 10 * pl.program_id(0)


def blocks(x):
    """A grid whose size is a symbolic expression."""
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(blocks_kernel, grid=(x.shape[0] // 8,), in_specs=[spec], out_specs=spec,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def exported(f, spec):
    with pallasim.emulate(), pallas_core.pallas_export_experimental(True):  # blocks of symbolic shape
        return export.export(jax.jit(f), platforms=["cpu"], disabled_checks=SAFE)(spec).serialize()


@pytest.mark.parametrize("dims, sizes", [("n", [(3,), (11,)]), ("n, m", [(2, 5), (7, 3)])])
def test_one_artefact_runs_at_two_sizes(same, dims, sizes):
    data = exported(affine, jax.ShapeDtypeStruct(export.symbolic_shape(dims), jnp.float32))
    program = export.deserialize(data)
    for size in sizes:
        x = np.arange(1, np.prod(size) + 1, dtype=np.float32).reshape(size)
        before = pallasim.launch_count()
        same(program.call(x), 2 * x + size[0])
        assert pallasim.launch_count() == before + 1


def test_a_symbolic_grid(same):
    data = exported(blocks, jax.ShapeDtypeStruct(export.symbolic_shape("8*k, 128"), jnp.float32))
    program = export.deserialize(data)
    for k in (1, 4):
        x = np.ones((8 * k, 128), np.float32)
        same(program.call(x), x + 10 * np.repeat(np.arange(k), 8)[:, None].astype(np.float32))


def test_a_symbolic_dimension_inside_a_larger_program(same):
    f = lambda x: jax.lax.fori_loop(0, 3, lambda _, c: affine(c), x.T @ x).sum(0)  # noqa: E731
    program = export.deserialize(exported(f, jax.ShapeDtypeStruct(export.symbolic_shape("4, n"), jnp.float32)))
    for n in (2, 5):
        x = np.arange(4 * n, dtype=np.float32).reshape(4, n)
        same(program.call(x), (8 * (x.T @ x) + 7 * n).sum(0))


def test_blocks_of_symbolic_shape_are_refused_by_name():
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("3, n"), jnp.float32)
    with pytest.raises(pallasim.UnsupportedError, match="block of symbolic shape"):
        exported(jax.vmap(affine), spec)


RUN = r"""
import sys
import numpy as np, jax, pallasim
from jax import export
pallasim.prepare()
program = export.deserialize(open(sys.argv[1], "rb").read())
for n in (3, 11):
    x = np.arange(1, n + 1, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(program.call(x)), 2 * x + n)
assert pallasim.launch_count() == 2
print("ran")
"""


def python(code, *args, **env):
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"} | env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_an_artefact_runs_in_a_fresh_process(tmp_path):
    path = tmp_path / "program"
    path.write_bytes(exported(affine, jax.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32)))
    assert "ran" in python(RUN, str(path))


CACHED = r"""
import sys
import jax, jax.numpy as jnp, numpy as np, pallasim
from jax.experimental import pallas as pl
sys.path.insert(0, sys.argv[1])
import test_artefacts
hits = []
jax.monitoring.register_event_listener(lambda name, **kw: hits.append(name))
with pallasim.emulate():
    x = jnp.arange(1, 9, dtype=jnp.float32)
    np.testing.assert_array_equal(np.asarray(jax.jit(test_artefacts.affine)(x)), 2 * np.arange(1, 9) + 8)
assert pallasim.launch_count() == 1
print(hits.count("/jax/compilation_cache/cache_hits"), hits.count("/jax/compilation_cache/cache_misses"))
"""


def test_the_persistent_compilation_cache_hits_in_a_second_process(tmp_path):
    here = str(pathlib.Path(__file__).parent)
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    first, second = (tuple(map(int, python(CACHED, here, **settings).split())) for _ in range(2))
    assert first[0] == 0 and first[1] >= 1
    assert second[0] == first[1] and second[1] == 0
