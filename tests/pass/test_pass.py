"""Each kernel of this folder against NumPy, run from the command line with arrays of its own."""

import json
import os
import pathlib
import subprocess

import ml_dtypes
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PALLASIM", str(ROOT / "build" / "cli" / "pallasim"))
f32 = np.float32


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=f32)


def run(name, tmp_path, *args, options=()):
    """The outputs of tests/pass/NAME.psir as a list, and the JSON result. Arrays are operands in order."""
    command = [BINARY, "run", str(ROOT / "tests" / "pass" / f"{name}.psir"), "--json", "--out", str(tmp_path), *options]
    for i, a in enumerate(args):
        path = tmp_path / f"arg{i}.npy"
        np.save(path, a)
        command += ["--arg", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    return [np.load(o["file"]) for o in result["outputs"]], result


def check_add_vectors(run):
    x, y = random(8), random(8, 1)
    (out,), _ = run(x, y)
    np.testing.assert_array_equal(out, x + y)


def check_alias_inplace(run):
    x = random((4, 128))
    (out,), _ = run(np.int32(3), x)
    np.testing.assert_array_equal(out, np.concatenate([x[:3] + f32(1), x[3:]]))  # row 3 is the input's


def check_atomic_permuted(run):
    zeros = np.arange(8, dtype=np.int32) * 10
    (out,), _ = run(zeros)
    want = zeros.copy()
    np.add.at(want, np.arange(8) * 5 % 8, np.arange(8))
    np.testing.assert_array_equal(out, want)


def check_branches_apart(run):
    x = np.arange(1, 97, dtype=np.int32).reshape(12, 8)
    want = x.copy()
    want[::4] = 0
    for options in ((), ("--checked",), ("--verify-split",)):
        (out, p), _ = run(x, options=options)
        np.testing.assert_array_equal(out, want)
        assert not p.any()


def check_call_outer_scalar(run):
    x = np.array([4, -1, 0, 7], np.int32)
    (out,), _ = run(x)
    np.testing.assert_array_equal(out, 3 * x + 3)


def check_clamp_crossed(run):
    (out,), _ = run()
    np.testing.assert_array_equal(out, [2, 2, 2, 2])  # min(max(i, 5), 2)


def check_decaying_scale(run):
    x = random(8)
    (out,), _ = run(x)
    want = np.zeros(8, f32)
    for scale in (1, 0.5, 0.25, 0.125):
        want = want + x * f32(scale)
    np.testing.assert_array_equal(out, want)


def check_double_buffer(run):
    x = random((4, 128))
    for options in ((), ("--copies", "on_wait"), ("--copies", "scheduled", "--seed", "3")):
        (out,), _ = run(x, options=options)
        np.testing.assert_array_equal(out, 2 * x)


def check_histogram_atomic(run):
    x = np.random.default_rng(0).integers(0, 13, 128).astype(np.int32)  # 10 and more are masked off
    for options in [(), *(("--schedule", "random", "--seed", str(s)) for s in range(4))]:
        (out, first), _ = run(x, np.zeros(10, np.int32), options=options)
        np.testing.assert_array_equal(out, np.bincount(x, minlength=13)[:10])
        assert first.max() < out.max() and first.min() >= 0


def check_iota(run):
    (out,), result = run()
    np.testing.assert_array_equal(out, np.arange(8))
    assert result["grid_points"] == 8


def check_last_program(run):
    x = random((3, 8))
    for options in [(), *(("--schedule", "random", "--seed", str(s)) for s in range(4)), ("--checked", "--error-on-warning")]:
        (parts, count, out), _ = run(x, np.zeros((3, 8), f32), np.zeros(1, np.int32), options=options)
        np.testing.assert_array_equal(parts, 2 * x)
        np.testing.assert_array_equal(out, parts[0] + parts[1] + parts[2])
        assert count == 3


def check_loop_carry(run):
    x = np.arange(16, dtype=np.int32)[::-1].copy()
    (out,), _ = run(x)
    np.testing.assert_array_equal(out, [120, 120])
    (out,), _ = run(np.ones(16, np.int32))
    np.testing.assert_array_equal(out, [16, 128])


def check_masked_triton(run):
    x = random(20)
    (out,), result = run(x)
    np.testing.assert_array_equal(out, x * f32(2))
    assert result["prints"] == ["program 0", "program 1", "program 2"]


def check_matmul_2x2(run):
    x, y = random((1024, 1024)), random((1024, 1024), 1)
    (out,), _ = run(x, y)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    bound = 1024 * np.finfo(f32).eps * (np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64))
    assert (np.abs(out - exact) <= bound).all() and np.abs(out).max() > 1


def check_permute_in_place(run):
    x = np.arange(10, 18, dtype=np.int32)
    (out,), _ = run(x)
    want = x.copy()
    want[(3 * np.arange(8) + 1) % 8] = x
    np.testing.assert_array_equal(out, want)


def check_prefetch_gather(run):
    x, idx = random((8, 8, 128)), np.array([7, 0, 3, 3], np.int32)
    (out,), _ = run(idx, x)
    np.testing.assert_array_equal(out, x[idx])


def check_scoped_scratch(run):
    x = random((20, 128)).astype(ml_dtypes.bfloat16)
    (out,), _ = run(x)
    padded = np.concatenate([x.astype(f32), np.full((4, 128), np.nan, f32)])  # the edge block's outside
    want = []
    for block in np.split(padded, 3):
        tmp = block[0:8:2]
        acc = np.concatenate([tmp, tmp])
        want.append(np.exp((acc - acc.max(axis=1, keepdims=True)).astype(np.float64)))
    want = np.concatenate(want)[:20]
    assert np.isnan(want).any() and np.isfinite(want).any()
    np.testing.assert_allclose(out, want, rtol=3 * np.finfo(f32).eps)


def check_semaphore_ring(run):
    want = (np.arange(8) + 1) % 8
    for options in [(), *(("--schedule", "random", "--seed", str(s)) for s in range(8))]:
        (out,), result = run(options=options)
        np.testing.assert_array_equal(out, want)
        assert result["threads"] == 8
        (out,), again = run(options=("--replay", result["token"]))
        np.testing.assert_array_equal(out, want)
        assert again["steps"] == result["steps"]


def check_shift_in_place(run):
    (out,), _ = run(np.arange(1, 9, dtype=np.int32))
    np.testing.assert_array_equal(out, [1, 1, 2, 3, 4, 5, 7, 8])


def check_sum_when(run):
    x = random((4, 8, 128))
    (out,), _ = run(x)
    want = np.zeros((8, 128), f32)
    for part in x:
        want = want + part
    np.testing.assert_array_equal(out, want)


def check_view_in_branch(run):
    x = np.arange(1, 9, dtype=np.int32)
    (out,), _ = run(x)
    np.testing.assert_array_equal(out, [[1, 2, 3, 4, 0, 0, 0, 0], [0] * 8])


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "tests" / "pass").glob("*.psir")))
def test_kernel(name, tmp_path):
    check = globals().get(f"check_{name}")
    assert check, f"tests/pass/{name}.psir has no check_{name} here"
    check(lambda *args, **kw: run(name, tmp_path, *args, **kw))


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "tests" / "pass").glob("*.psir")))
def test_same_bytes_however_it_runs(name, tmp_path):
    """Workers and checking are unobservable."""
    hashes = set()
    args = [np.int32(4)] if name == "alias_inplace" else []
    for options in [("--workers", "1"), ("--workers", "2"), ("--workers", "8"), ("--checked",)]:
        _, result = run(name, tmp_path, *args, options=options)
        hashes.add(tuple(o["fnv1a"] for o in result["outputs"]))
    assert len(hashes) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint2", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_kind(dtype, order, tmp_path):
    """What np.save writes is what the kernel reads, and back."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    short = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
             "float4_e2m1fn": "f4e2m1fn", "int4": "i4", "uint2": "u2", "bool": "bool"}[dtype]
    kernel = tmp_path / "copy.psir"
    kernel.write_text(f"""pallasim-ir 1
module "copy" {{machine = generic}}
input "x_ref" : {short}[3,5] {{space = any}}
output "o_ref" : {short}[3,5] {{space = any}}
body (%0 "x_ref": ref<{short}[3,5], any>, %1 "o_ref": ref<{short}[3,5], any>) {{
  %2 = get %0 : {short}[3,5]
  store %1, %2
  yield
}}
""")
    x = np.asarray(np.arange(15).reshape(3, 5) % 4, dtype=kind, order=order)
    np.save(tmp_path / "x.npy", x)
    subprocess.run([BINARY, "run", str(kernel), "--arg", str(tmp_path / "x.npy"), "--out", str(tmp_path)], check=True,
                   capture_output=True)
    out = np.load(tmp_path / "o_ref.npy").view(kind)
    assert out.shape == (3, 5) and out.any()
    np.testing.assert_array_equal(out.astype(np.float32), x.astype(np.float32))
