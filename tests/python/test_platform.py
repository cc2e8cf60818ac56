"""Libraries that choose by platform are told of the emulated chip; JAX is not."""
import functools
import inspect
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import default_backend as imported_before
from jax.experimental import pallas as pl

import pallasim

CHIPS = [("tpu-v5e", "tpu", ("tpu",)), ("gpu-h100", "gpu", ("gpu", "cuda"))]


def answers():
    device = jax.devices()[0]
    return {jax.default_backend(), imported_before(), device.platform, device.client.platform, jax.local_devices()[0].platform}


@pytest.mark.parametrize("machine,platform,names", CHIPS)
def test_a_library_is_told_the_chips_platform(machine, platform, names):
    with pallasim.emulate(machine):
        assert answers() == {platform}
        for name in names:
            assert jax.devices(name) == jax.devices() == jax.local_devices(backend=name)
            assert jax.device_count(name) == jax.local_device_count(backend=name) == len(jax.devices())
        other = "gpu" if platform == "tpu" else "tpu"
        with pytest.raises(RuntimeError, match=other):
            jax.devices(other)
    assert answers() == {"cpu"}
    with pytest.raises(RuntimeError, match=platform):
        jax.devices(platform)


@pytest.mark.parametrize("machine,options", [("generic", {}), ("tpu-v5e", {"platform": False}), ("gpu-h100", {"platform": False})])
def test_the_truth_where_no_chip_answers(machine, options):
    with pallasim.emulate(machine, **options):
        assert answers() == {"cpu"}
        assert jax.lax.platform_dependent(1.0, cpu=lambda x: x + 1, default=lambda x: x) == 2.0


def test_jax_gets_the_truth_and_its_kernels_are_libraries():
    code = compile(inspect.getsource(answers), "<asks>", "exec")
    told = {}
    for name in ("jax", "jax._src.pallas.asks", "jaxlib.asks", "jax.experimental.pallas.ops.tpu.asks", "jaxtyping", "library"):
        space = {"__name__": name, "jax": jax, "imported_before": imported_before}
        exec(code, space)
        with pallasim.emulate("tpu-v6e"):
            told[name] = space["answers"]()
    assert told == {"jax": {"cpu"}, "jax._src.pallas.asks": {"cpu"}, "jaxlib.asks": {"cpu"},
                    "jax.experimental.pallas.ops.tpu.asks": {"tpu"}, "jaxtyping": {"tpu"}, "library": {"tpu"}}


def test_jax_works_on_while_a_chip_answers():
    with pallasim.emulate("gpu-h100"):
        x = jax.device_put(jnp.arange(8.0), jax.devices("gpu")[0])
        assert float(jnp.dot(x, x)) == 140 and x.sum().item() == 28
        assert np.asarray(jax.random.permutation(jax.random.key(0), 8)).sum() == 28
        assert jax.export.export(jax.jit(jnp.sin))(x).platforms == ("cpu",)


@pytest.mark.parametrize("machine,platform,names", CHIPS)
def test_branches_by_platform_take_the_chips(machine, platform, names, same, emulated):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def by_kernel(x):
        return pl.pallas_call(kernel, out_shape=x)(x)

    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    f = jax.jit(lambda x: jax.lax.platform_dependent(x, **{names[-1]: by_kernel, "default": lambda x: x - 1}))
    same(f(x), x - 1)
    same(emulated(f, x, machine=machine), x * 2)  # traced again, not found in the cache
    same(f(x), x - 1)


@functools.cache
def chosen(machine):
    return "kernel" if jax.default_backend() == "tpu" else "plain"


def test_other_threads_keep_their_own_answer():
    with pallasim.emulate("tpu-v5e"):
        found = []
        thread = threading.Thread(target=lambda: found.append(jax.default_backend()))
        thread.start()
        thread.join()
        assert found == ["cpu"] and chosen("tpu-v5e") == "kernel"


def test_a_process_can_be_on_a_chip_from_the_start():
    code = "import pallasim, jax; pallasim.install('tpu-v5p'); print(jax.default_backend()); pallasim.uninstall(); print(jax.default_backend())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["tpu", "cpu"]


def test_a_harness_and_a_block_in_one_process():
    """`pallasim.testing` and `emulate` answer the same questions for JAX; the second one finds the first one's answers."""
    program = "import pallasim.testing, pallasim\nwith pallasim.emulate('gpu-h100'):\n    pass\nprint('both')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "both\n", done.stderr
