"""pallasim.torch where there is no PyTorch, and what it needs of JAX: programs that are exported for TPUs. In processes of their own."""
import subprocess
import sys

ABSENT = "import sys; sys.modules['torch'] = None\n"  # every import of it fails, installed or not


def python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pallasim_does_without_pytorch():
    assert python(ABSENT + "from pallasim import *\nimport pallasim\nprint(pallasim.launch_count(), 'torch' in dir(pallasim))") == "0 False\n"


def test_the_error_says_what_to_install():
    for program in ("import pallasim.torch", "import pallasim; pallasim.torch"):
        said = python(f"{ABSENT}try: {program}\nexcept ImportError as e: print(e)".replace("; pallasim.torch", "; pallasim.torch.install"))
        assert "pallasim.torch needs PyTorch" in said and "pip install pallasim[torch]" in said


EXPORT = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
import pallasim
from pallasim import _torch_platform
def kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]
def double(x):
    return pl.pallas_call(kernel, out_shape=x)(x)
def export(x=jax.ShapeDtypeStruct((8, 128), jnp.float32)):
    return str(jax.export.export(jax.jit(double), platforms=["tpu"])(x).mlir_module())
_torch_platform.export_for_tpus()
with pallasim.emulate("tpu-7x"):
    print("@pallasim_launch" in export(), "@tpu_custom_call" in export())
jax.clear_caches()
print("@pallasim_launch" in export(), "@tpu_custom_call" in export())
"""


def test_programs_for_tpus_have_kernels_of_the_emulator_inside_and_of_mosaic_outside():
    assert python(EXPORT) == "True False\nFalse True\n"
