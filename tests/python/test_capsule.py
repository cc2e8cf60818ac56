"""Recorded programs: what `capture` writes is what `pallasim run` repeats without Python."""
from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))


def replay(path, *options, verb="run"):
    """(exit code, JSON) of the command line, in an environment without Python's."""
    done = subprocess.run([BINARY, verb, str(path), "--json", *options], capture_output=True, text=True, timeout=120, env={})
    return done.returncode, json.loads(done.stdout)


def manifest(path):
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read("manifest.json"))


def array(path, member):
    with zipfile.ZipFile(path) as z:
        return np.load(io.BytesIO(z.read(member)), allow_pickle=False)


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def scale_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def add(x, y):
    return pl.pallas_call(add_kernel, out_shape=x)(x, y)


def scale(x):
    return pl.pallas_call(scale_kernel, out_shape=x)(x)


def late_kernel(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[i] = x_ref[i + 5]


def late(x):
    return pl.pallas_call(late_kernel, out_shape=x, grid=(8,))(x)


OUT = jax.ShapeDtypeStruct((8, 128), jnp.float32)
X = np.random.default_rng(0).standard_normal((8, 128), dtype=np.float32)


@jax.jit
def program(x):
    def body(carry, _):
        carry = add(carry, x)
        return carry, jnp.sum(carry)

    y, sums = jax.lax.scan(body, x, None, length=3)
    return scale(y), sums


def test_many_launches_in_order(tmp_path, same):
    path = tmp_path / "p.capsule"
    before = pallasim.launch_count()
    out, _ = pallasim.capture(program, X, path=path, params="tpu-v5e")
    assert pallasim.launch_count() == before + 4
    same(out, (X + X + X + X) * 2)

    m = manifest(path)
    assert [launch["kernel"] for launch in m["launches"]] == ["add_kernel"] * 3 + ["scale_kernel"]
    assert m["params"]["machine"] == "tpu-v5e" and m["devices"] == [0] and "omitted" not in m
    # An output that is the next input is stored once.
    assert m["launches"][0]["results"][0]["file"] == m["launches"][1]["arguments"][0]["file"]
    same(array(path, m["launches"][3]["results"][0]["file"]), np.asarray(out))

    code, result = replay(path)
    assert code == 0 and [launch["same"] for launch in result["launches"]] == [True] * 4
    code, result = replay(path, "--launch", "4", "--out", str(tmp_path / "d"))
    assert code == 0 and len(result["launches"]) == 1
    same(np.load(tmp_path / "d" / "launch-4" / "0-o_ref.npy"), np.asarray(out))
    assert replay(path, verb="check")[0] == 0
    assert len(replay(path, verb="info")[1]["launches"]) == 4


def test_a_changed_input_changes_the_outputs(tmp_path):
    path, edited = tmp_path / "p.capsule", tmp_path / "edited.capsule"
    pallasim.capture(program, X, path=path)
    first = manifest(path)["launches"][0]["arguments"][0]["file"]
    changed = io.BytesIO()
    np.save(changed, np.where(np.arange(128) == 7, np.float32(0), X))
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(edited, "w") as new:
        for name in old.namelist():
            new.writestr(name, changed.getvalue() if name == first else old.read(name))
    code, result = replay(edited)
    assert code == 1 and [f["code"] for f in result["findings"]] == ["PS-DIFF-001"] * 3
    assert [launch["same"] for launch in result["launches"]] == [False] * 3 + [True]  # add's other operand is x as well
    assert all(launch["outputs"][0]["differing"] == 8 for launch in result["launches"][:3])


def test_a_failing_program_is_recorded_to_its_end(tmp_path):
    path = tmp_path / "p.capsule"
    x = jnp.arange(8.0)
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001") as error:
        pallasim.capture(lambda x: scale(late(scale(x))), x, path=path)
    assert error.value.__notes__ == [f"capsule: {path}"]
    m = manifest(path)
    assert [launch["kernel"] for launch in m["launches"]] == ["scale_kernel", "late_kernel"]
    assert "file" not in m["launches"][1]["results"][0] and m["launches"][1]["error"]["report"] in str(error.value)
    code, result = replay(path)
    assert code == 1
    (finding,) = result["findings"]
    assert finding["code"] == "PS-OOB-001" and finding["text"] == "o_ref[i] = x_ref[i + 5]" and finding["grid_point"] == [3]
    with zipfile.ZipFile(path) as z:
        assert ">" in z.read("sources/test_capsule.py.txt").decode() and "o_ref[i] = x_ref[i + 5]" in z.read("sources/test_capsule.py.txt").decode()


def test_a_refused_kernel_is_recorded_as_text(tmp_path):
    """Writing to an input is found before anything runs: there are no arrays to record, but there is a kernel."""

    def wrong_kernel(x_ref, o_ref):
        x_ref[...] = x_ref[...] * 2

    path = tmp_path / "p.capsule"
    with pytest.raises(pallasim.KernelError, match="PS-RO-001"):
        pallasim.capture(lambda x: pl.pallas_call(wrong_kernel, out_shape=x)(scale(x)), X, path=path)
    m = manifest(path)
    assert [launch["kernel"] for launch in m["launches"]][-1] == "wrong_kernel" and m["launches"][-1]["arguments"] == []
    code, result = replay(path)
    assert code == 1 and result["launches"][-1]["error"] == "PS-RO-001"
    assert result["findings"][0]["text"] == "x_ref[...] = x_ref[...] * 2"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8", "int4", "uint4", "bool", "uint32"])
def test_types(tmp_path, dtype):
    def copy_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...][::-1]

    def reverse(x):
        return pl.pallas_call(copy_kernel, out_shape=x)(x)

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = jnp.asarray(np.arange(16).reshape(2, 8) % 7 // 2, dtype=kind)
    path = tmp_path / "p.capsule"
    out = pallasim.capture(reverse, x, path=path)
    np.testing.assert_array_equal(np.asarray(out), np.asarray(x)[::-1])
    recorded = array(path, manifest(path)["launches"][0]["results"][0]["file"])
    assert np.asarray(recorded).view(kind).astype(np.float32).any()
    np.testing.assert_array_equal(recorded.view(kind).astype(np.float32), np.asarray(x)[::-1].astype(np.float32))
    assert replay(path)[0] == 0


def test_keys_and_grid_bounds_and_aliases(tmp_path):
    def copy_kernel(key_ref, o_ref):
        o_ref[...] = key_ref[...]

    def copy(key):
        return pl.pallas_call(copy_kernel, out_shape=jax.ShapeDtypeStruct((), key.dtype))(key)

    path = tmp_path / "key.capsule"
    out = pallasim.capture(copy, jax.random.key(3), path=path)
    np.testing.assert_array_equal(jax.random.key_data(out), [0, 3])
    assert manifest(path)["launches"][0]["arguments"][0]["dtype"] == "key_fry"
    assert replay(path)[0] == 0

    def row_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    @jax.jit
    def rows(n, x):
        spec = pl.BlockSpec((1, 128), lambda i: (i, 0))
        return pl.pallas_call(row_kernel, grid=(n,), out_shape=x, in_specs=[spec], out_specs=spec, input_output_aliases={0: 0})(x)

    path = tmp_path / "rows.capsule"
    out = pallasim.capture(rows, 3, X, path=path)
    np.testing.assert_array_equal(np.asarray(out), np.concatenate([X[:3] + np.float32(1), X[3:]]))
    assert [a["name"] for a in manifest(path)["launches"][0]["arguments"]] == ["grid bound 0", "x_ref"]
    assert replay(path)[0] == 0


def test_semaphores_between_launches(tmp_path):
    """Handles of the recorded process mean nothing elsewhere: they are those of the launches that made them."""
    anywhere, semaphore = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.SEMAPHORE)

    def start_kernel(x_ref, y_ref, sem):
        pltpu.make_async_copy(x_ref, y_ref, sem).start()

    def done_kernel(x_ref, y_ref, sem, o_ref):
        pltpu.make_async_copy(x_ref, y_ref, sem).wait()

    @jax.jit
    def f(x):
        y, sem = pl.pallas_call(start_kernel, out_shape=(OUT, pltpu.SemaphoreType.DMA(())), in_specs=[anywhere], out_specs=(anywhere, semaphore))(x)
        return pl.pallas_call(done_kernel, out_shape=OUT, in_specs=[anywhere, anywhere, semaphore], out_specs=anywhere, input_output_aliases={1: 0})(x, y, sem)

    with pallasim.emulate("tpu-v6e"):
        f(X)  # a handle is taken that the replay will not have
        out = pallasim.capture(f, X, path=tmp_path / "p.capsule")
    np.testing.assert_array_equal(np.asarray(out), X)
    handle = manifest(tmp_path / "p.capsule")["launches"][0]["results"][1]
    assert handle["dtype"] == "dma_sem" and array(tmp_path / "p.capsule", handle["file"]) > 1
    code, result = replay(tmp_path / "p.capsule")
    assert code == 0 and [launch["same"] for launch in result["launches"]] == [True, True]


def test_options_travel(tmp_path):
    path = tmp_path / "p.capsule"
    with pallasim.emulate("generic", out_of_bounds="machine", random_seed=5):
        pallasim.capture(late, jnp.arange(8.0), path=path)
    m = manifest(path)
    assert m["params"]["random_seed"] == 5 and "seed=5" in m["launches"][0]["options"]
    code, result = replay(path)
    assert code == 0 and result["launches"][0]["same"]  # without its option it would stop out of bounds


def test_equal_recordings_are_equal_files(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    pallasim.capture(program, X, path=a)
    pallasim.capture(program, X, path=b)
    assert a.read_bytes() == b.read_bytes()


def test_a_full_recording_says_so(tmp_path):
    path = tmp_path / "p.capsule"
    pallasim.capture(program, X, path=path, max_bytes=3 * X.nbytes)
    m = manifest(path)
    assert len(m["launches"]) == 1 and m["omitted"] == 3
    code, result = replay(path)
    assert code == 0 and result["omitted"] == 3


def test_a_block_of_code(tmp_path):
    with pallasim.emulate(), pallasim.Recording() as recording:
        jax.block_until_ready(scale(X))
        pallasim.capture(scale, X, path=tmp_path / "inner.capsule")
    with pallasim.emulate():
        jax.block_until_ready(scale(X))  # after the recording
    assert len(recording.launches) == 2 and len(manifest(tmp_path / "inner.capsule")["launches"]) == 1
    recording.save(tmp_path / "p.capsule")
    assert replay(tmp_path / "p.capsule")[0] == 0


def test_nothing_to_record(tmp_path):
    with pytest.raises(RuntimeError, match="no Pallas kernel"):
        pallasim.capture(jnp.sin, X, path=tmp_path / "p.capsule")
    assert not (tmp_path / "p.capsule").exists()
    with pytest.raises(ZeroDivisionError):
        pallasim.capture(lambda x: 1 // 0, X, path=tmp_path / "p.capsule")
    assert not (tmp_path / "p.capsule").exists()


def test_devices(tmp_path):
    path = tmp_path / "p.capsule"
    code = f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import jax, numpy as np, pallasim, test_capsule as t
from jax.sharding import Mesh, PartitionSpec as P
f = jax.jit(jax.shard_map(t.scale, mesh=Mesh(np.array(jax.devices()), "d"), in_specs=P("d"), out_specs=P("d"), check_vma=False))
np.testing.assert_array_equal(np.asarray(pallasim.capture(f, t.X, path={str(path)!r})), t.X * 2)
"""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}, timeout=120)
    m = manifest(path)
    assert m["devices"] == [0, 1] and sorted(launch["device"] for launch in m["launches"]) == [0, 1]
    assert all(launch["arguments"][0]["shape"] == [4, 128] for launch in m["launches"])
    assert replay(path)[0] == 0
