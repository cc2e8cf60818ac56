"""One table of options: Python, the command line and capsules take the same names and values."""
import dataclasses
import json
import pathlib
import pickle
import re
import subprocess
import sys
import zipfile

import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim import _core, _params, _program
from pallasim._options import RunOptions, RunParams

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = {row["name"]: row for row in _core.options()}
# A value of each option that is not its default.
OTHER = {
    "machine": "tpu-v5e", "random_seed": 7, "replay": "ps2:random:7", "grid_order": "1,0", "cores": 2, "workers": 3, "verify_restore": 5, "verify_footprints": True,
    "verify_parts": 5, "max_steps": 9, "livelock_steps": 9, "max_memory": 4096, "detect_races": True, "strict": True, "fuse": False, "verify_split": True,
}


def other(name):
    default = RunParams.__dataclass_fields__[name].default
    return OTHER[name] if name in OTHER else next(v for v in ROWS[name]["values"] if v != default)


def test_params_and_types_are_those_of_the_table():
    assert [f.name for f in dataclasses.fields(RunParams)] == list(ROWS)
    assert set(RunOptions.__annotations__) == set(ROWS) - {"machine"}
    assert pallasim.Params().text() == ""
    for name in ROWS:
        assert name in (pallasim.Params.__doc__ or "")


@pytest.mark.parametrize("name", ROWS)
def test_an_option_is_the_same_in_python_and_on_the_command_line(name, tmp_path):
    value = other(name)
    params = pallasim.Params(**{name: value})
    spelled = str(value).lower() if isinstance(value, bool) else str(value)
    assert params.text() == f"{name}={spelled}"
    # The command line takes it, and refuses what Python refuses.
    flag = f"--{name.replace('_', '-')}={spelled}"
    kernel = ROOT / "tests" / "pass" / "add_vectors.psir"
    said = run(kernel, flag)
    known = json.loads(said.stdout)
    assert known["exit"] != 2, known["findings"]
    wrong = "no such value"
    if name != "replay":  # any text may be a token
        with pytest.raises(ValueError, match=f"^{name} is |unknown machine"):
            pallasim.Params(**{name: wrong})
        refused = json.loads(run(kernel, f"{flag.partition('=')[0]}={wrong}").stdout)
        assert refused["exit"] == 2, refused


def run(*words):
    return subprocess.run([_program.path(), "run", *words, "--json"], capture_output=True, text=True, env=_program.environment())


@pytest.mark.parametrize("rules, text", [(True, ""), ("error", ""), ("warn", "rules=warn"), (False, "rules=off"), ("off", "rules=off")])
def test_rules_are_also_a_switch(rules, text):
    params = pallasim.Params("tpu-v5e", rules=rules)
    assert params.text() == ";".join(filter(None, ["machine=tpu-v5e", text])) and params.refuses is (text == "")


def test_the_later_schedule_of_a_command_line_replaces_that_of_a_recording(tmp_path):
    path = tmp_path / "p.capsule"
    pallasim.capture(lambda x: pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_shape=x)(x),
                     jnp.zeros(8), path=path, params=pallasim.Params(random_seed=3))
    with zipfile.ZipFile(path) as z:
        assert json.loads(z.read("manifest.json"))["launches"][0]["options"] == "random_seed=3"
    tokens = {}
    for words in ((), ("--random-seed=5",), ("--schedule=run-to-block",)):
        tokens[words] = json.loads(run(path, *words).stdout)["launches"][0]["token"]
    assert list(tokens.values()) == ["ps2:random:3", "ps2:random:5", "ps2:run-to-block"]


@pytest.mark.parametrize("text, value", [("True", True), ("3", 3), ("None", None), ("tpu-v5e", "tpu-v5e"), ("'warn'", "warn")])
def test_values_of_text(text, value):
    assert _params.read_value(text) == value


def test_codes_of_python_are_in_the_table():
    known = set(_core.diagnostics())
    for path in (ROOT / "python" / "pallasim").rglob("*.py"):
        for code in re.findall(r"\bPS-[A-Z]+-\d{3}\b", path.read_text()):
            assert code in known, f"{path.name}: {code}"
    assert _core.diagnostics()["PS-OOB-001"] == ("error", "kernel", "access out of bounds")
    assert {s for s, _, _ in _core.diagnostics().values()} == {"error", "warning"}


def test_a_value_has_no_effect_on_the_process():
    program = "import sys, pallasim._params as p; p.Params('tpu-v5e', detect_races=True); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_pickled_value_works_where_nothing_else_was_asked_for():
    program = """
import pickle, sys, jax, jax.numpy as jnp
from jax.experimental import pallas as pl
params = pickle.loads(bytes.fromhex(sys.argv[1]))
def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1
y = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), interpret=params)(jnp.zeros(8))
import pallasim
assert y.sum() == 8 and pallasim.launch_count() == 1
"""
    value = pickle.dumps(pallasim.Params(detect_races=True)).hex()
    subprocess.run([sys.executable, "-c", program, value], check=True)


@pytest.mark.parametrize("options, meant", [
    ({"machine": "TPU v5 lite"}, "did you mean 'tpu-v5e'? There are generic, "), ({"machine": "h100"}, "did you mean 'gpu-h100'?"),
    ({"numerics": "devise"}, "did you mean 'device'?"), ({"dma_execution_mode": "on-wait"}, "did you mean 'on_wait'?"),
    ({"findings": "colect"}, "did you mean 'collect'?"), ({"kernels_for": "tritn"}, "did you mean 'triton'?"), ({"detect_races": "ture"}, "did you mean 'true'?")])
def test_a_value_that_does_not_exist_is_answered_with_the_one_that_was_meant(options, meant):
    with pytest.raises(ValueError, match="not '|unknown machine '") as error:
        pallasim.Params(**options)
    assert meant in str(error.value)


@pytest.mark.parametrize("options", [{"machine": "tpu-v9"}, {"numerics": "nonsense"}, {"findings": 3}, {"machine": "gpu-v100"}])
def test_nothing_is_meant_where_nothing_is_near(options):
    with pytest.raises(ValueError) as error:
        pallasim.Params(**options)
    assert "did you mean" not in str(error.value)
