"""An installation: its program, the variable that emulates in every process, capsules repeated from Python, types."""
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim import _program, _start
from pallasim._options import RunOptions
from pallasim._params import Options

ROOT = pathlib.Path(__file__).resolve().parents[2]


def python(code, **variables):
    """Runs Python with the .pth file of an installation, which site-packages would hold."""
    start = (ROOT / "python/pallasim_emulate.pth").read_text()
    return subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, env=os.environ | variables)


def test_the_module_is_the_program():
    said = subprocess.run([sys.executable, "-m", "pallasim", "--version"], capture_output=True, text=True)
    direct = subprocess.run([_program.path(), "--version"], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout == direct.stdout and pallasim.__version__ in said.stdout
    wrong = subprocess.run([sys.executable, "-m", "pallasim", "run", "no-such-file.psir"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "no-such-file.psir" in wrong.stderr


PROGRAM = """
import jax, jax.numpy as jnp, sys
from jax.experimental import pallas as pl
def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1
x = jnp.zeros((8, 128), jnp.float32)
print(pl.pallas_call(kernel, out_shape=x)(x).sum(), jax.default_backend())
import pallasim
print(pallasim.launch_count())
"""


def test_a_variable_emulates_without_a_word_in_the_program():
    out = python(PROGRAM, PALLASIM_EMULATE="tpu-7x,numerics=device,random_seed=3")
    assert out.stdout.split() == ["1024.0", "tpu", "1"], out
    plain = python(PROGRAM, PALLASIM_EMULATE="")
    assert plain.returncode != 0 and "interpret mode" in plain.stderr  # JAX's own answer to a kernel on the CPU


def test_a_process_without_jax_pays_nothing():
    out = python("import sys; print('jax' in sys.modules, 'pallasim._core' in sys.modules)", PALLASIM_EMULATE="tpu-7x")
    assert out.stdout.split() == ["False", "False"], out


@pytest.mark.parametrize("value,message", [
    ("tpu-9", "unknown machine 'tpu-9'"), ("tpu-7x,checked=True", "checked"), ("tpu-7x,fast", "'fast' is no option"),
])
def test_a_wrong_variable_is_an_error_that_names_it(value, message):
    out = python("import jax", PALLASIM_EMULATE=value)
    assert out.returncode != 0 and f"PALLASIM_EMULATE={value}" in out.stderr and message in out.stderr


def test_options_of_the_variable():
    assert _start.parse("tpu-7x, detect_races=True,random_seed=3 ,pipeline=modelled") == (
        "tpu-7x", {"detect_races": True, "random_seed": 3, "pipeline": "modelled"})


def scale(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 3


def reach(x_ref, o_ref):
    i = pl.program_id(0)
    o_ref[i] = x_ref[3 * i]


def test_a_capsule_is_repeated(tmp_path):
    path = tmp_path / "two.capsule"
    x = jnp.arange(8, dtype=jnp.float32)
    f = jax.jit(lambda x: pl.pallas_call(scale, out_shape=x)(pl.pallas_call(scale, out_shape=x)(x)))
    pallasim.capture(f, x, path=path)
    again = pallasim.replay(path)
    assert again.ok and [launch.kernel for launch in again.launches] == ["scale", "scale"] and again.findings == ()
    assert all(launch.same and launch.outputs[0]["differing"] == 0 for launch in again.launches)
    assert "launch 2 scale on device 0: as recorded" in str(again)
    assert [launch.launch for launch in pallasim.replay(path, launch=2).launches] == [2]


def test_a_capsule_of_a_failure_fails_again(tmp_path):
    path = tmp_path / "bad.capsule"
    with pytest.raises(pallasim.KernelError):
        pallasim.capture(lambda x: pl.pallas_call(reach, out_shape=x, grid=(4,))(x), jnp.arange(8, dtype=jnp.float32), path=path)
    again = pallasim.replay(path)
    assert not again.ok and again.launches[0].error == "PS-OOB-001"
    assert again.findings[0].text == "o_ref[i] = x_ref[3 * i]" and "PS-OOB-001" in str(again) and again.findings[0].grid_point == (3,)


def test_what_is_no_capsule_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        pallasim.replay(tmp_path / "absent.capsule")
    path = tmp_path / "text.capsule"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(pallasim.KernelError, match="PS-CAP-"):
        pallasim.replay(path)


def test_names_and_options_are_typed():
    assert (pathlib.Path(pallasim.__file__).parent / "py.typed").exists()


SAMPLE = pathlib.Path(__file__).with_name("typed_sample.py")


@pytest.mark.parametrize("checker", [["mypy", "--strict", "--no-incremental", "--follow-imports=silent", "--python-executable", sys.executable],
                                     ["pyright", "--pythonpath", sys.executable]], ids=lambda c: c[0])
def test_type_checkers_accept_the_sample_and_nothing_else(checker, tmp_path):
    program = pathlib.Path(sys.executable).with_name(checker[0])
    if not program.exists():
        pytest.skip(f"{checker[0]} is not installed")
    (tmp_path / "pallasim").symlink_to(ROOT / "python" / "pallasim")
    said = subprocess.run([program, *checker[1:], SAMPLE], capture_output=True, text=True, cwd=tmp_path,
                          env=os.environ | {"PYTHONPATH": str(tmp_path), "MYPYPATH": str(tmp_path)})
    assert said.returncode == 1, (said.stdout, said.stderr)
    wrong = {i for i, line in enumerate(SAMPLE.read_text().splitlines(), 1) if line.endswith("# wrong")}
    found = {int(m[1]) for m in re.finditer(r"typed_sample\.py:(\d+).*error", said.stdout)}
    assert found == wrong, said.stdout


def test_every_option_has_a_type():
    fields = {f.name for f in dataclasses.fields(pallasim.Params)} - {"machine"}
    assert set(Options.__annotations__) | set(RunOptions.__annotations__) == fields
