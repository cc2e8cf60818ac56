"""Tensors of PyTorch on the emulator, torch_tpu's callables, the device "tpu", Helion and Inductor. Skipped where there is no PyTorch:
tests/README.md says how to run them."""
import importlib.util
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasim

torch = pytest.importorskip("torch")
import pallasim.torch as on_emulator  # noqa: E402

helion_missing = pytest.mark.skipif(importlib.util.find_spec("helion") is None, reason="no helion")


@pytest.fixture(scope="module", autouse=True)
def installed():
    on_emulator.install("tpu-7x", findings="collect")
    yield
    on_emulator.uninstall()


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + x_ref[...]


def double(x):
    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def callable_of(f, **how):
    return on_emulator.JaxCallable(f.__name__, jax.jit(f), f.__name__, **how)


def ran(f, *args):
    """What f returns; it must have launched kernels on the emulator."""
    before = pallasim.launch_count()
    out = f(*args)
    assert pallasim.launch_count() > before, "the emulator ran nothing"
    return out


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_dtypes(dtype, device):
    x = (torch.arange(8 * 128).reshape(8, 128) % 7).to(dtype).to(device)
    out = ran(callable_of(double), x)
    assert out.dtype == dtype and out.device.type == device and pallasim.last_run()["chip"] == "tpu-7x"
    assert torch.equal(out.cpu().float(), 2 * x.cpu().float()) and out.cpu().float().any()


def test_nothing_is_copied_in_or_out():
    x = torch.arange(1024.0).reshape(8, 128)
    assert on_emulator.to_jax(x).unsafe_buffer_pointer() == x.data_ptr()
    array = jax.block_until_ready(jnp.arange(1024.0))
    assert on_emulator.to_torch(array).data_ptr() == array.unsafe_buffer_pointer()
    there = on_emulator.on_device(x)
    assert there.device.type == "tpu" and there.data_ptr() == x.data_ptr() == on_emulator.on_host(there).data_ptr()
    there.mul_(2)
    assert x[0, 1] == 2 and on_emulator.to_jax(there).unsafe_buffer_pointer() == x.data_ptr()


def test_strides_offsets_and_no_elements():
    f, x = callable_of(double), torch.arange(2048.0).reshape(128, 16)
    for view in (x.t(), x[1:, 1:], x[::2], x.flip(0), torch.empty(0, 128), x.new_empty(3, 0)):
        out = f(view)
        assert out.shape == view.shape and torch.equal(out, 2 * view)
    assert torch.equal(f(x[0].requires_grad_()), 2 * x[0])


def test_what_is_refused_is_named():
    f = callable_of(double)
    for tensor, said in ((torch.ones(8, dtype=torch.int64), r"input 0 of double is torch.int64.*\.to\(torch.int32\)"),
                         (torch.ones(8, dtype=torch.float64), r"torch.float64.*\.to\(torch.float32\)"),
                         (torch.ones(8, device="meta"), "'meta'.*cpu"), (torch.eye(8).to_sparse(), "torch.sparse_coo.*to_dense")):
        with pytest.raises(TypeError, match=said):
            f(tensor)
    with pytest.raises(TypeError, match="input 0 of double is a float"):
        f(1.0)


def test_aliases_are_written_and_nothing_else():
    def add(x, y):
        return pl.pallas_call(lambda x_ref, y_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + y_ref[...]), out_shape=x, input_output_aliases={0: 0})(x, y)

    for device in ("cpu", "tpu"):
        x, y = torch.ones(8, 128, device=device), torch.full((8, 128), 2.0, device=device)
        out = ran(callable_of(add, input_output_aliases={0: 0}), x, y)
        assert (x == 3).all() and (y == 2).all() and (out == 3).all()
        x, y = torch.ones(8, 128, device=device), torch.full((8, 128), 2.0, device=device)
        out = callable_of(add)(x, y)
        assert (x == 1).all() and (out == 3).all() and out.data_ptr() != x.data_ptr()


def test_results_are_memory_of_their_own():
    def hand_on(x):
        return x, double(x), x

    x = torch.ones(8, 128)
    a, b, c = callable_of(hand_on)(x)
    assert len({t.data_ptr() for t in (x, a, b, c)}) == 4
    a.zero_(), c.zero_()
    assert (x == 1).all() and (b == 2).all()


def test_results_without_arguments_are_on_the_device():
    def ones():
        return pl.pallas_call(lambda o_ref: o_ref.__setitem__(..., jnp.ones((8, 128), jnp.float32)), out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))()

    assert torch.equal(ran(callable_of(ones)), torch.ones(8, 128, device="tpu"))


def test_a_wrong_kernel_is_an_error_with_its_line():
    def kernel(x_ref, o_ref):
        o_ref[8 + pl.program_id(0)] = x_ref[0]

    def wrong(x):
        return pl.pallas_call(kernel, grid=(1,), out_shape=x)(x)

    with pytest.raises(pallasim.KernelError, match=r"PS-OOB-001(.|\n)*test_torch.py"):
        callable_of(wrong)(torch.ones(8, 128))
    assert torch.equal(callable_of(double)(torch.ones(8)), torch.full((8,), 2.0))  # the next one runs


def test_presets_differ_in_what_a_discarded_load_outside_is(capsys):
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[0] = jnp.where(i < 7, x_ref[i + 1], x_ref[i])

    def next_row(x):
        return pl.pallas_call(kernel, grid=(8,), in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)], out_specs=pl.BlockSpec((1, 8, 128), lambda i: (i, 0, 0)),
                              out_shape=x)(x)

    x = torch.arange(8 * 1024.0).reshape(8, 8, 128)
    f, expected = callable_of(next_row), torch.cat([x[1:], x[7:]])
    try:
        for preset, told in (("values", 0), ("chip", 1)):
            on_emulator.install("tpu-7x", preset=preset)
            pallasim.findings()
            assert torch.equal(ran(f, x), expected) and [found.code for found in pallasim.findings()] == ["PS-OOB-001"]
            assert capsys.readouterr().err.count("PS-OOB-001") == told
        on_emulator.install("tpu-7x", preset="chip", findings="raise")
        with pytest.raises(pallasim.KernelError, match="PS-OOB-001"):
            f(x)
    finally:
        on_emulator.install("tpu-7x", findings="collect")


def test_functions_of_jax_are_functions_of_tensors():
    f = on_emulator.function(double, "tpu-v5e")
    x = torch.ones(8, 128)
    assert torch.equal(ran(f, x), 2 * x) and pallasim.last_run()["chip"] == "tpu-v5e"
    assert 0 < f.predict(x).seconds < 1e-3


def test_tuners_get_predicted_seconds():
    f, small, large = callable_of(double), torch.ones(8, 128), torch.ones(512, 1024)
    times = [on_emulator.seconds(f, x) for x in (small, large)]
    assert 0 < times[0] < times[1] and times[1] == f.predict(large).seconds
    assert on_emulator.benchmark([lambda: f(small), lambda: f(large)], repeat=5, desc="") == [1e3 * t for t in times]
    with pytest.raises(RuntimeError, match="0 launches"):
        on_emulator.seconds(lambda: None)


def test_operations_of_the_device_are_those_of_the_cpu():
    x = torch.randn(4, 6, device="tpu", requires_grad=True)
    (x.float() @ x.t()).abs().sum().backward()
    y = x.detach().cpu().requires_grad_()
    (y.float() @ y.t()).abs().sum().backward()
    assert x.grad.device.type == "tpu" and torch.equal(x.grad.cpu(), y.grad)
    assert torch.tensor([1, 2], device="tpu").tolist() == [1, 2] and "tpu:0" in repr(x)
    assert torch.empty(0, 3, device="tpu").shape == (0, 3) and torch.ones(3, device="tpu").sum().item() == 3
    whole = torch.arange(6, device="tpu", dtype=torch.int32)
    assert (whole % 4).tolist() == [0, 1, 2, 3, 0, 1] and (whole % 4).dtype == torch.int32 and (whole.bfloat16() % 2.5).dtype == torch.bfloat16
    view = x.detach()[1:, ::2].t()
    assert view.stride() == (2, 6) and view.data_ptr() == x.data_ptr() + 24
    assert torch.accelerator.current_accelerator().type == "tpu"
    torch.accelerator.synchronize()


def test_the_modules_are_found_by_name():
    from torch_tpu._internal.pallas import tpu_torch_pallas
    from torch_tpu._internal.pallas.pallas import JaxCallable, jax_placeholder
    from torch_tpu._internal.utils.hardware import get_tpu_device_name

    assert JaxCallable is on_emulator.JaxCallable and get_tpu_device_name() == "TPU7x"
    assert jax_placeholder(torch.ones(3, dtype=torch.bfloat16)) == jax.ShapeDtypeStruct((3,), jnp.bfloat16)
    with pytest.raises(RuntimeError, match="no kernel 'k' is registered under 'x'"):
        tpu_torch_pallas.call_custom_kernel("k", "x", inputs=[])
    with pytest.raises(pallasim.UnsupportedError, match="4 devices"):
        tpu_torch_pallas.call_custom_kernel("k", "x", inputs=[], device_assignment=[0, 1, 2, 3])


def test_outside_of_every_block_nothing_runs():
    f = callable_of(double)
    f(torch.ones(8))
    on_emulator.uninstall()
    try:
        assert "torch_tpu" not in sys.modules
        with pytest.raises(RuntimeError, match="no emulator is in force: call pallasim.torch.install"):
            f(torch.ones(8))
        with pallasim.emulate("tpu-v5e"):
            assert torch.equal(ran(f, torch.ones(8)), torch.full((8,), 2.0)) and pallasim.last_run()["chip"] == "tpu-v5e"
    finally:
        on_emulator.install("tpu-7x", findings="collect")


def python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_the_place_of_the_real_one_is_not_taken(tmp_path):
    (tmp_path / "torch_tpu").mkdir()
    (tmp_path / "torch_tpu/__init__.py").write_text("mine = True")
    done = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport pallasim.torch, torch\n"
                  "try: pallasim.torch.install()\nexcept RuntimeError as e: print(e)\nprint(hasattr(torch, 'tpu'))\nimport torch_tpu; print(torch_tpu.mine)")
    assert "torch_tpu is installed" in done.stdout and done.stdout.endswith("False\nTrue\n"), done
    done = python("import torch, pallasim.torch\ntorch.utils.rename_privateuse1_backend('npu')\n"
                  "try: pallasim.torch.install()\nexcept RuntimeError as e: print(e)\npallasim.torch.install(device=False); print('torch_tpu')")
    assert "PyTorch has the device 'npu' already" in done.stdout and "device=False" in done.stdout, done
    for how, said in (("preset='chips'", "preset is 'values' or 'chip'"), ("'gpu-h100'", "is none: take one of tpu-"), ("'tpu-v9'", "unknown machine")):
        assert said in python(f"import pallasim.torch\ntry: pallasim.torch.install({how})\nexcept ValueError as e: print(e)").stdout


PROGRAMS = {
    "add": (lambda x, y: x + y, 2),
    "a chain": (lambda x, y: torch.relu(x * 2 + y), 2),
    "gelu": (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), 1),
    "sum of rows": (lambda x: x.sum(-1), 1),
    "max of rows": (lambda x: x.amax(-1), 1),
    "softmax": (lambda x: torch.softmax(x, -1), 1),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, (128,)), 1),
    "rms norm": (lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6), 1),
    "where": (lambda x: torch.where(x > 0, x, 0.1 * x), 1),
    "transposed": (lambda x, y: x.t() + y.t(), 2),
    "in place": (lambda x, y: x.add_(y).mul_(2), 2),
    "concatenation": (lambda x, y: torch.cat([x, y]) * 2, 2),
    "product, bias, relu": (lambda x, y: torch.relu(x @ y.t() + y[0, :16]), 2),
}


@pytest.mark.parametrize("device", ["tpu", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_inductor(name, device):
    """On "tpu" its code for TPUs, which exports; on "cpu" its code for the interpreter, with interpret=True."""
    import torch._inductor.config as inductor

    x64 = jax.config.jax_enable_x64
    f, count = PROGRAMS[name]
    torch.manual_seed(1)
    args = [torch.randn(16, 128) for _ in range(count)]
    torch._dynamo.reset()
    try:
        with inductor.patch(compile_threads=1, cpu_backend="pallas"):
            out = ran(torch.compile(f), *(a.clone().to(device) for a in args))
    finally:
        jax.config.update("jax_enable_x64", x64)  # Inductor sets it as it needs it
    torch.testing.assert_close(out.cpu(), f(*(a.clone() for a in args)))
    assert out.device.type == device and out.any()


HELION = """
import torch, pallasim.torch
pallasim.torch.install("tpu-7x", preset="chip", findings="raise")
import helion, helion.language as hl

@helion.kernel(config=helion.Config(block_sizes=[64, 64, 64]), static_shapes=True)
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    (m, k), n = x.size(), y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out

@helion.kernel(config=helion.Config(block_sizes=[64]))
def add_to(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for tile in hl.tile(x.size(0)):
        x[tile, :] += y[tile, :]
    return x

@helion.kernel(config=helion.Config(block_sizes=[32]))
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.nn.functional.softmax(x[tile, :], dim=1)
    return out

x, y = (torch.randn(128, 128, device="tpu") for _ in range(2))
for f, args, reference in ((matmul, (x, y), lambda x, y: x @ y), (softmax, (x,), lambda x: torch.softmax(x, 1)), (add_to, (x, y), lambda x, y: x + y)):
    expected = reference(*(a.cpu() for a in args))
    for again in range(2):  # the second launch goes past JaxCallable
        before = pallasim.launch_count()
        out = f(*args) if again == 0 or f is not add_to else expected.to("tpu")
        torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-4)
        print(f.fn.__name__ if hasattr(f, "fn") else f.name, pallasim.launch_count() - before, out.device)
print("HELION_PALLAS_INTERPRET" in __import__("os").environ)
"""


@helion_missing
def test_helion(tmp_path):
    import os

    (tmp_path / "program.py").write_text(HELION)  # Helion reads the source of its kernels
    env = {k: v for k, v in os.environ.items() if k != "HELION_PALLAS_INTERPRET"} | {"HELION_BACKEND": "pallas"}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "matmul 1 tpu:0\nmatmul 1 tpu:0\nsoftmax 1 tpu:0\nsoftmax 1 tpu:0\nadd_to 1 tpu:0\nadd_to 0 tpu:0\nFalse\n"
