"""The TPU's own compiler beside the rules here: with a compiler that answers as it is told, and with libtpu where it is installed."""
import importlib.metadata
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import pallasim
from pallasim import _libtpu

X = jax.ShapeDtypeStruct((64, 128), jnp.float32)
INSTALLED = any(d.metadata["Name"] == "libtpu" for d in importlib.metadata.distributions())
_COMPILER = """
import json, sys
sys.path[:] = {path!r}
from pallasim import _child
out, given = sys.stdout.buffer, sys.stdin.buffer
_child.write(out, json.dumps({{"problem": {problem!r}}}).encode())
while (head := _child.read(given)) is not None:
    module = _child.read(given)
    if {dies!r}:
        print("F1126 common.cc:7] Check failed: rank < 8", file=sys.stderr, flush=True)
        sys.exit(1)
    assert b"tpu_custom_call" in module and json.loads(head)["devices"] == 1
    _child.write(out, json.dumps({{"said": {said!r}}}).encode())
"""


def double(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, out_shape=X)(x)


def narrow(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + x_ref[...]

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that says what it is given, in a process as libtpu's is."""
    made = []

    def install(said="", dies=False, problem=""):
        text = _COMPILER.format(path=sys.path, said=said, dies=dies, problem=problem)
        popen = subprocess.Popen
        monkeypatch.setattr(_libtpu, "version", lambda: "9.9")
        monkeypatch.setattr(_libtpu.subprocess, "Popen", lambda words, **kw: popen([sys.executable, "-c", text], **kw))
        made.append(_libtpu._Compiler())
        monkeypatch.setattr(_libtpu, "_the_compiler", [made[-1]])

    yield install
    for c in made:
        c.end()


def test_its_word_stands_beside_ours(compiler):
    compiler()
    (k,) = pallasim.check(double, X, chips="tpu-v5e", with_libtpu=True).kernels
    assert k.ok and k.libtpu.accepted and "note: libtpu 9.9 compiles it" in str(k)
    (k,) = pallasim.check(narrow, jax.ShapeDtypeStruct((64, 128), jnp.int8), chips="tpu-v5e", with_libtpu=True).kernels
    assert not k.ok and "this version does not refuse what is refused here" in str(k)


def test_what_it_refuses_is_an_error_with_its_words(compiler):
    compiler(said="INTERNAL: no such thing\nThe MLIR operation involved: x\nPlease report a bug at: y")
    checked = pallasim.check(double, X, chips="tpu-v5e", with_libtpu=True)
    (k,) = checked.kernels
    assert not checked.ok and "error: libtpu 9.9 refuses it: INTERNAL: no such thing" in str(k)
    assert k.libtpu.said.endswith("involved: x") and json.loads(checked.json())["kernels"][0]["libtpu"]["stage"] == "compiler"


def test_a_compiler_that_breaks_down_refuses_and_is_started_again(compiler):
    compiler(dies=True)
    for _ in range(2):
        (k,) = pallasim.check(double, X, chips="tpu-v5e", with_libtpu=True).kernels
        assert k.libtpu.accepted is False and k.libtpu.said == "the compiler broke down: Check failed: rank < 8"


def test_the_lowering_of_jax_comes_first(compiler):
    compiler()

    def cube_root(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = jnp.cbrt(x_ref[...])

        return pl.pallas_call(kernel, out_shape=X)(x)

    (k,) = pallasim.check(cube_root, X, chips="tpu-v5e", with_libtpu=True).kernels
    assert k.libtpu.stage == "lowering" and "the lowering of JAX refuses it" in str(k)


def test_what_it_is_not_asked(compiler):
    compiler()
    (k,) = pallasim.check(double, X, chips="gpu-h100", with_libtpu=True).kernels
    assert k.libtpu.accepted is None and "libtpu 9.9 was not asked: libtpu compiles for tpu-v4" in str(k)


def test_where_it_is_missing(compiler, monkeypatch):
    traced = []
    if not INSTALLED:
        with pytest.raises(RuntimeError, match=r"not installed: pip install 'pallasim\[libtpu\]'"):
            pallasim.check(lambda x: traced.append(x), X, chips="tpu-v5e", with_libtpu=True)
        assert not traced
    compiler(problem="no such file")
    with pytest.raises(RuntimeError, match="libtpu 9.9 does not start: no such file"):
        pallasim.check(double, X, chips="tpu-v5e", with_libtpu=True)


@pytest.mark.skipif(not INSTALLED, reason="the package libtpu is not installed")
def test_libtpu_itself():
    for f, x, ok in ((double, X, True), (narrow, jax.ShapeDtypeStruct((64, 128), jnp.int8), False)):
        (k,) = pallasim.check(f, x, chips="tpu-v5e", with_libtpu=True).kernels
        assert k.ok == ok and k.libtpu.accepted == ok, str(k)


