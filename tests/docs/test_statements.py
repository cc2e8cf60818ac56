"""What pages say and no other test shows (claims/PAGE.txt)."""
from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as pltriton

import pallasim
from pallasim import _program

ROOT = pathlib.Path(__file__).resolve().parents[2]
X = jnp.ones((8, 128), jnp.float32)


def add_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def add(x, **options):
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **options)(x)


def python(program, **variables):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"} | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Versions and installation


def test_versions_of_the_pages_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.11" and "jax>=0.10.2" in project["project"]["dependencies"]
    assert project["project"]["version"] == pallasim.__version__ and project["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    ranges = {}
    for page in ("README.md", "docs/install.md", "docs/faq.md"):
        text = (ROOT / page).read_text()
        ranges[page] = re.findall(r"JAX (\S+) to (\d\S*\d)", text)
        assert "Python 3.11 and later" in text
    assert set(map(tuple, ranges.values())) == {(("0.10.2", "0.12.0.1"),)}
    for page in ("README.md", "docs/install.md"):
        assert f"pallasim-{pallasim.__version__}-cp312-*.whl" in (ROOT / page).read_text()


def test_rules_are_those_of_the_jax_that_traced_a_kernel():
    def kernel(x_ref, o_ref):
        o_ref[...] = jax.lax.reduce_precision(x_ref[...], 8, 7)

    (text,) = pallasim.capture_text(lambda x: pl.pallas_call(kernel, out_shape=x)(x), X, machine="tpu-v5e")
    older = re.sub(r', jax = "[^"]*"', "", text)
    later = older.replace("{machine = tpu", '{machine = tpu, jax = "0.12.0"')
    with pytest.raises(pallasim.RefusedError, match="PS-TPU-003"):
        pallasim.run(older, [X], pallasim.Params("tpu-v5e"))
    np.testing.assert_array_equal(pallasim.run(later, [X], pallasim.Params("tpu-v5e"))[0], X)


def test_the_variable_holds_in_subprocesses():
    start = (ROOT / "python" / "pallasim_emulate.pth").read_text()
    inner = f"{start}\nimport jax; print(jax.default_backend())"
    assert python(f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', {inner!r}], capture_output=True, text=True).stdout)",
                  PALLASIM_EMULATE="tpu-7x").split() == ["tpu"]


def test_licences_of_what_is_built_in_are_there():
    assert "oneDNN" in (ROOT / "THIRD_PARTY.md").read_text() and "Apache License" in (ROOT / "LICENSE").read_text()


# What libraries are told


@functools.cache
def backend():
    return jax.default_backend()


def test_an_answer_that_a_library_keeps_outlives_the_block():
    backend.cache_clear()
    with pallasim.emulate("tpu-v5e"):
        assert backend() == "tpu"
    assert backend() == "tpu" and jax.default_backend() == "cpu"


def test_devices_are_those_of_the_process():
    own = jax.devices()
    with pallasim.emulate("tpu-v5e"):
        assert jax.devices("cpu") == jax.devices() == own
        assert {d.platform for d in jax.devices("cpu")} == {"tpu"}
    assert {d.platform for d in own} == {"cpu"}


# Chips


def test_tensor_memory_is_blackwells():
    def kernel(o_ref, tmem):
        plgpu.async_store_tmem(tmem, jnp.ones((128, 128), jnp.float32))
        plgpu.commit_tmem()
        o_ref[...] = plgpu.async_load_tmem(tmem)

    f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((128, 128), jnp.float32), scratch_types={"tmem": plgpu.TMEM((128, 128), jnp.float32)})
    with pallasim.emulate("gpu-b200"):
        assert (f() == 1).all()
    with pallasim.emulate("gpu-h100"), pytest.raises((pallasim.UnsupportedError, pallasim.RefusedError)):
        f()


def test_tensor_memory_has_the_shape_that_the_kernel_sees():
    def kernel(o_ref, union):
        words, halves = union
        plgpu.async_store_tmem(words, jnp.ones((128, 32), jnp.float32))
        plgpu.commit_tmem()
        o_ref[...] = plgpu.async_load_tmem(halves)

    union = plgpu.RefUnion(plgpu.TMEM((128, 32), jnp.float32), plgpu.TMEM((64, 64), jnp.float32))
    with pallasim.emulate("gpu-b200"):
        f = plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((64, 64), jnp.float32), scratch_types={"union": union})
        assert (f() == 1).all()  # two rows of the one are a row of the other: on a chip they lie on other lanes


@pytest.mark.parametrize("compiler, machine", [(pltpu, "tpu"), (pltriton, "triton"), (plgpu, "mosaic_gpu")])
@pytest.mark.parametrize("chip", ["generic", "tpu-v5e", "gpu-h100"])
def test_compiler_parameters_choose_the_machine(compiler, machine, chip):
    (text,) = pallasim.capture_text(lambda x: add(x, compiler_params=compiler.CompilerParams()), X, machine=chip)
    assert f"{{machine = {machine}" in text


def chips(family):
    return [name for name, machine in pallasim.MACHINES.items() if machine.ir_machine == family]


def test_blocks_must_be_aligned_on_every_tpu():
    rows = pl.BlockSpec((1, 128), lambda i: (i, 0))
    for chip in chips("tpu"):
        with pallasim.emulate(chip), pytest.raises(pallasim.RefusedError, match="PS-TPU-001"):
            add(X, grid=(8,), in_specs=[rows], out_specs=rows)


@pytest.mark.parametrize("chip", chips("tpu"))
def test_two_cores_share_a_grid_where_the_chip_has_them_or_cores_says_so(chip):
    """Seen where the points of the grid are not independent: else one thread stands for all cores."""
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    block = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    f = pl.pallas_call(kernel, out_shape=block, grid=(2,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
                       out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)), compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)))
    threads = {}
    for cores in (0, 2):
        with pallasim.emulate(chip, cores=cores, detect_races=True, findings="collect"):
            jax.block_until_ready(f(jnp.ones((16, 128), jnp.float32)))
        threads[cores] = pallasim.runs()[-1].threads
        assert "PS-PAR-001" in [f.code for f in pallasim.findings()]
    assert threads == {0: 2 if chip in ("tpu-v4", "tpu-v5p") else 1, 2: 2}


def test_chips_say_how_many_sparsecores_they_have():
    counts = {}
    for chip in chips("tpu"):
        said = subprocess.run([_program.path(), "chips", chip], capture_output=True, text=True, check=True).stdout
        counts[chip] = int(re.search(r"^sparsecores +(\d+)", said, re.M)[1])
    assert counts["tpu-7x"] > 0 and counts["tpu-v5e"] == 0


def test_get_tpu_info_answers_as_the_chip():
    sizes = []
    for chip in ("tpu-v5e", "tpu-7x"):
        with pallasim.emulate(chip):
            sizes.append(pltpu.get_tpu_info().vmem_capacity_bytes)
    assert sizes == [128 << 20, 64 << 20]


def test_a_chip_changes_no_result():
    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    for chip in pallasim.MACHINES:
        # Without parameters JAX 0.10 makes a Mosaic GPU kernel of it, whose blocks come by bulk copies.
        options = {"compiler_params": pltriton.CompilerParams()} if chip == "gpu-a100" else {}
        with pallasim.emulate(chip):
            np.testing.assert_array_equal(add(x, **options), x + 1)
        assert pallasim.runs()[-1].chip == chip


# Options


@pytest.mark.parametrize("machine, options", [
    ("generic", {}), ("gpu-a100", {"compiler_params": pltriton.CompilerParams()}), ("gpu-h100", {"compiler_params": plgpu.CompilerParams()}),
    ("tpu-v5e", {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)], "out_specs": pl.BlockSpec(memory_space=pltpu.SMEM)}),
])
def test_an_access_outside_takes_the_nearest_place_on_every_machine(machine, options):
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[pl.program_id(0) + 9]

    x = jnp.arange(8, dtype=jnp.float32)
    f = pl.pallas_call(kernel, out_shape=x, grid=(1,), **options)
    for found, value in (("machine", 7), ("uninitialized", np.nan)):
        pallasim.findings()
        with pallasim.emulate(machine, out_of_bounds=found, rules="off", findings="collect"):
            assert np.asarray(f(x))[0].item() == pytest.approx(value, nan_ok=True)
        assert [(f.severity, f.code) for f in pallasim.findings()] == [("warning", "PS-OOB-001")]
    with pytest.raises(pallasim.KernelError, match="PS-OOB-001"), pallasim.emulate(machine, rules="off", out_of_bounds="error"):
        jax.block_until_ready(f(x))


def test_a_capsule_keeps_the_options_of_its_launches(tmp_path):
    pallasim.capture(add, X, path=tmp_path / "one.capsule", params=pallasim.Params("tpu-v5e", random_seed=3))
    assert "ps2:random:3" in subprocess.run([_program.path(), "run", tmp_path / "one.capsule", "--json"], capture_output=True, text=True, check=True).stdout


# Findings, errors and runs


def test_every_family_of_codes_has_a_line_on_the_page_of_reports():
    families = {code.rpartition("-")[0] for code in pallasim._core.diagnostics()}
    assert families == {name.rpartition("-")[0] if re.search(r"\d$", name) else name
                        for line in (ROOT / "docs" / "reports.md").read_text().splitlines() if line.startswith("* `PS-")
                        for name in re.findall(r"`(PS-[A-Z]+(?:-\d{3})?)`", line.partition("**")[0] or line)}


def sort_kernel(x_ref, o_ref):
    o_ref[...] = jnp.sort(x_ref[...])


def late_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(pl.program_id(0) + 3, 8)]


def test_errors_are_of_the_classes_that_the_page_names():
    with pytest.raises(pallasim.KernelError) as ran, pallasim.emulate("tpu-v5e", out_of_bounds="error"):
        try:
            jax.block_until_ready(pl.pallas_call(late_kernel, out_shape=X, grid=(1,))(X))
        except jax.errors.JaxRuntimeError as inside:
            assert not isinstance(inside, pallasim.KernelError)
            raise
    assert isinstance(ran.value, jax.errors.JaxRuntimeError) and str(ran.value) == ran.value.finding.report
    before = pallasim.launch_count()
    with pytest.raises(pallasim.RefusedError) as refused, pallasim.emulate("tpu-v5e"):
        pl.pallas_call(sort_kernel, out_shape=X)(X)
    assert isinstance(refused.value, pallasim.KernelError) and isinstance(refused.value, ValueError) and isinstance(refused.value, NotImplementedError)
    assert str(refused.value) == refused.value.finding.report and refused.value.finding.code == "PS-TPU-003"
    assert issubclass(pallasim.UnsupportedError, pallasim.KernelError) and issubclass(pallasim.UnsupportedError, NotImplementedError)
    assert pallasim.launch_count() == before


def test_the_last_run_is_a_dictionary_and_the_latest_256_are_kept():
    with pallasim.emulate("tpu-v5e"):
        f = jax.jit(add)
        for _ in range(260):
            f(X).block_until_ready()
    runs, last = pallasim.runs(), pallasim.last_run()
    assert len(runs) == 256 and isinstance(last, dict)
    assert {name: last[name] for name in ("number", "kernel", "chip", "token")} == {
        "number": runs[-1].number, "kernel": "add_kernel", "chip": "tpu-v5e", "token": "ps2:run-to-block"}
    assert pallasim.last_report() == "" and not runs[-1].planned


def test_under_shard_map_a_kernel_is_a_launch_per_device():
    from jax.sharding import Mesh, PartitionSpec

    f = jax.shard_map(add, mesh=Mesh(np.array(jax.devices()[:1]), "d"), in_specs=PartitionSpec("d"), out_specs=PartitionSpec("d"), check_vma=False)
    before = pallasim.launch_count()
    with pallasim.emulate("tpu-v5e"):
        np.testing.assert_array_equal(f(X), X + 1)
    assert pallasim.launch_count() == before + 1


# Harnesses

HARNESS = """
import functools, jax, jax.numpy as jnp, numpy as np
from jax.experimental import pallas as pl
from jax.interpreters import mlir
from jax._src.pallas import pallas_call
import pallasim
from pallasim import testing

rule = functools.partial(getattr(testing, NAME), primitive="pallas_call")
mlir.register_lowering(pallas_call.pallas_call_p, lambda ctx, *args, **params: rule(ctx, *args, **params), platform="cpu")
x = jnp.ones((8, 128), jnp.float32)
print(jax.jit(lambda x: pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), out_shape=x)(x))(x).sum(), pallasim.launch_count())
"""


@pytest.mark.parametrize("name, said", [("lower", ["2048.0", "1"]), ("lower_only", ["0.0", "0"])])
def test_a_harness_may_run_kernels_or_capture_them_alone(name, said):
    assert python(HARNESS.replace("NAME", repr(name))).split() == said


# pallasim.check


def test_check_says_that_a_branch_may_compute_less_and_what_is_not_known():
    def kernel(x_ref, o_ref):
        @pl.when(x_ref[0, 0] > 0)
        def _():
            o_ref[...] = jnp.exp(x_ref[...])

    f = lambda x: pl.pallas_call(kernel, out_shape=x)(x)  # noqa: E731
    assert re.search(r"transcendentals +at most 1,024", str(pallasim.check(f, X, chips=["tpu-v5e"])))
    unknown = pallasim.check(lambda x: add(x, compiler_params=plgpu.CompilerParams()), X, chips=["gpu-h100"])
    assert unknown.ok and "JAX lowers it; what refuses it behind that, in CUDA's assembler, is not known here" in str(unknown)


def test_check_says_what_this_project_cannot_run():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.linalg.qr(x_ref[...])[0]

    said = pallasim.check(lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 8), jnp.float32))(x), X, chips=["generic"])
    assert not said.ok and [r.code for r in said.kernels[0].remarks] == ["PS-UNSUP-001"]


@pytest.mark.parametrize("chip", ["tpu-v5e", "gpu-h100"])
def test_outputs_are_looked_at_on_every_machine(chip):
    options = {} if chip.startswith("tpu") else {"compiler_params": pltriton.CompilerParams()}
    half = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(pl.ds(0, 4), x_ref[pl.ds(0, 4)]), out_shape=X, **options)
    early = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., o_ref[...] + x_ref[...]), out_shape=X, **options)
    pallasim.findings()
    for f, code in ((half, "PS-OUT-001"), (early, "PS-UNINIT-001")):
        with pallasim.emulate(chip, detect_races=True, findings="collect"):
            jax.block_until_ready(f(X))
        assert [d.code for d in pallasim.findings()] == [code]
