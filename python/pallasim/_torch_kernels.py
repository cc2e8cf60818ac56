"""What the Pallas back ends of PyTorch launch: functions of JAX, and programs that were exported, called with tensors.

The names and arguments are those of torch_tpu's, which the back ends were written for. A kernel runs under the options in force where it is
called, and is compiled once for each of them.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import _context, _emulate, _findings, _torch_device, _torch_tensors

if TYPE_CHECKING:
    from ._params import Params
    from ._predict import Prediction

_Run = Callable[[list[Any]], Sequence[Any]]  # arrays of JAX to arrays of JAX

_makers: dict[tuple[str, str], Callable[[], _Run]] = {}
_programs: dict[tuple[str, str, Params], _Run] = {}
_numbers = itertools.count(1)


def in_force() -> Params:
    """The options under which a kernel runs that is called now. Raises RuntimeError outside of every block: nothing else would run it here."""
    params: Params | None = _context.active()
    if params is None:
        raise RuntimeError("no emulator is in force: call pallasim.torch.install() first, or call inside `with pallasim.emulate(...)`")
    return params


def lookup_custom_kernel(name: str, key: str) -> bool:
    """Whether a kernel is there for the options in force."""
    return (name, key) in _makers or (name, key, in_force()) in _programs


def register_custom_kernel(name: str, key: str, serialized_mlir_module: bytes) -> None:
    """Keeps a program that `jax.export` made, under the options in force; they are part of it."""
    _programs[name, key, in_force()] = _exported(name, serialized_mlir_module)


def call_custom_kernel(name: str, key: str, inputs: Sequence[torch.Tensor], output_shapes: Sequence[torch.Tensor] = (),
                       donate_argnums: Sequence[int] = (), device_assignment: Sequence[int] = ()) -> list[torch.Tensor]:
    """Runs a kernel on tensors. Results are tensors of their own, on the device of the inputs (of none: of `output_shapes`); inputs are as they
    were, unless they are donated. Raises KernelError with the report where the kernel is wrong, RuntimeError for a kernel that nobody
    registered, TypeError for a tensor that it cannot be given."""
    if len(device_assignment) > 1:
        raise _unsupported(name, f"a launch on {len(device_assignment)} devices; the emulated one is alone")
    run = _program(name, key)
    arrays = [_torch_tensors.to_jax(t, f"input {i} of {name}") for i, t in enumerate(inputs)]
    taken = _torch_tensors.addresses(arrays)  # a program that was exported may take its donated arguments away
    return _torch_tensors.results(_run(run, arrays), taken, _device(inputs, output_shapes))


def _device(inputs: Sequence[torch.Tensor], shapes: Sequence[Any]) -> str:
    kinds = [t.device.type for t in inputs] or [t.device.type for t in shapes if t is not None]
    return _torch_tensors.DEVICE if _torch_tensors.DEVICE in kinds else "cpu"


def _program(name: str, key: str) -> _Run:
    params = in_force()
    run = _programs.get((name, key, params))
    if run is None:
        make = _makers.get((name, key))
        if make is None:
            raise RuntimeError(f"no kernel {name!r} is registered under {key!r} for {params!r}: "
                               "torch_tpu._internal.pallas.tpu_torch_pallas.register_custom_kernel does that")
        run = _programs[name, key, params] = make()
    return run


def _run(run: _Run, arrays: list[Any]) -> Sequence[Any]:
    """What a program returns, when it is there; its errors with the report."""
    import jax

    try:
        return jax.block_until_ready(run(arrays))  # what comes next may write to the tensors, or free them
    except Exception as error:
        if not _findings.adopt(error) and (ours := _findings.in_place_of(error)) is not None:
            raise ours.with_traceback(error.__traceback__) from None
        raise


def _unsupported(name: str, what: str) -> _findings.UnsupportedError:
    finding = _findings.report_of("PS-UNSUP-001", f"unsupported: {what}", name, _findings.SourceLine(),
                                  hint="nothing ran; this is a limit of Pallasim, not a mistake of the kernel")
    return _findings.UnsupportedError(finding.report, finding)


def _exported(name: str, module: bytes) -> _Run:
    """A program for TPUs that was exported while the emulator was in force, for the CPU: its kernels are the emulator's already."""
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir

    from . import _lowering

    _lowering.prepare()
    client = xla_bridge.get_backend("cpu")
    devices = _jax.DeviceList(tuple(client.devices()[:1]))
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    with mlir.make_ir_context():
        found = _jax.mlir.deserialize_portable_artifact(bytes(module))
        program = ir.Module.parse(found) if isinstance(found, str | bytes) else found
        if "@tpu_custom_call" in str(program):
            raise _unsupported(name, "a program with kernels that JAX has compiled for a TPU already; export it after pallasim.torch.install()")
        executable = compiler.backend_compile_and_load(client, program, devices, options, [])
    run: _Run = executable.execute
    return run


def _get_kernel_invocation_key(trace_key: str, input_args: Sequence[Any], input_kwargs: Mapping[str, Any], static_argnums: Sequence[int] = ()) -> str:
    """What tells the calls of a JaxCallable apart that need programs of their own."""
    def of(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{x.dtype}{list(x.shape)}"
        return f"({','.join(map(of, x))})" if isinstance(x, list | tuple) else repr(x)

    fixed = ["=" if i in static_argnums else "" for i in range(len(input_args))]
    return ";".join([trace_key, *(f + of(x) for f, x in zip(fixed, input_args, strict=True)), *(f"{k}={of(x)}" for k, x in input_kwargs.items())])


def jax_placeholder(tensor: Any, mesh: Any = None, partition_spec: Any = None) -> Any:
    """Shape and dtype of a tensor for JAX; what is no tensor as it is."""
    import jax

    if isinstance(tensor, list | tuple):
        return type(tensor)(jax_placeholder(t, mesh, partition_spec) for t in tensor)
    if not isinstance(tensor, torch.Tensor):
        return tensor
    shape, dtype = tuple(tensor.shape), tensor.dtype
    if dtype is torch.float4_e2m1fn_x2:
        return jax.ShapeDtypeStruct((*shape[:-1], 2 * shape[-1]), jax.numpy.float4_e2m1fn)
    return jax.ShapeDtypeStruct(shape, _torch_tensors.torch_dtype_to_jax(dtype))


class JaxCallable:
    """A function of JAX that is called with tensors and returns tensors, its kernels on the emulator.

    Arguments are tensors, None, lists of both, and at `static_argnums` and `static_argnames` anything hashable. A tensor that
    `input_output_aliases` names (argument -> result) is given what that result is. Nothing else of the arguments is written.
    """

    def __init__(self, name: str, jit_fn: Any, trace_key: str, mesh: Any = None, input_partition_specs: Any = None, output_partition_specs: Any = None,
                 static_argnums: Sequence[int] = (), donate_argnums: Sequence[int] | None = None,
                 input_output_aliases: Mapping[int, int] | None = None, static_argnames: Sequence[str] = ()) -> None:
        if mesh is not None and mesh.size > 1:
            raise _unsupported(name, f"a mesh of {mesh.size} devices; the emulated one is alone")
        self.name, self.jit_fn, self.trace_key, self.mesh = name, jit_fn, trace_key, mesh
        self.input_partition_specs, self.output_partition_specs = input_partition_specs, output_partition_specs
        self.static_argnums, self.static_argnames = tuple(static_argnums), tuple(static_argnames)
        self.input_output_aliases = dict(input_output_aliases or {})
        self.donate_argnums = list(self.input_output_aliases) if donate_argnums is None else list(donate_argnums)
        self.output_shapes: dict[str, Any] = {}
        self.kernel_key_to_mlir_fingerprint: dict[str, str] = {}
        weakref.finalize(self, _forget, name, self.kernel_key_to_mlir_fingerprint)

    def __repr__(self) -> str:
        return f"<pallasim JaxCallable {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors, places, tree = self._tensors(args, kwargs)
        key = _get_kernel_invocation_key(self.trace_key, args, kwargs, self.static_argnums)
        fingerprint = self.kernel_key_to_mlir_fingerprint.get(key)
        if fingerprint is None:
            fingerprint = self._register(key, args, kwargs, tree)
        shapes, out_tree = self.output_shapes[key]
        results = call_custom_kernel(self.name, fingerprint, inputs=tensors, output_shapes=shapes)
        for argument, result in self.input_output_aliases.items():
            tensors[places[argument]].copy_(results[result])
        return out_tree.unflatten(results)

    def predict(self, *args: Any, chip: str = "", **options: Any) -> Prediction:
        """What the kernels of a call with these tensors would take, in seconds of the chip (of the one in force), as `pallasim.predict`
        says: nothing is written, and values are computed only where time depends on them."""
        from . import _predict

        arrays = [a if i in self.static_argnums else _tree_of_arrays(a) for i, a in enumerate(args)]
        return _predict.predict(self.jit_fn, *arrays, chip=chip or in_force().machine, **options)

    def _tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[torch.Tensor], dict[int, int], Any]:
        """The tensors of a call in JAX's order, for each argument the place of its first one, and how they were arranged."""
        import jax

        places, count = {}, 0
        for i, a in enumerate(args):
            places[i] = count
            if i not in self.static_argnums:
                count += len(jax.tree.leaves(a))
        dynamic = [a for i, a in enumerate(args) if i not in self.static_argnums], {k: v for k, v in kwargs.items() if k not in self.static_argnames}
        tensors, tree = jax.tree.flatten(dynamic)
        for i, t in enumerate(tensors):
            _torch_tensors.require(t, f"input {i} of {self.name}")
        return tensors, places, tree

    def _register(self, key: str, args: Sequence[Any], kwargs: Mapping[str, Any], tree: Any) -> str:
        """Traces the function for such arguments; how it is compiled for other options is remembered."""
        import jax

        in_force()
        shapes = [a if i in self.static_argnums else jax_placeholder(a) for i, a in enumerate(args)]
        named = {k: v if k in self.static_argnames else jax_placeholder(v) for k, v in kwargs.items()}
        jit_fn = self.jit_fn  # not self: the maker outlives no callable

        def make() -> _Run:
            compiled = jit_fn.lower(*shapes, **named).compile()

            def run(arrays: list[Any]) -> Sequence[Any]:
                positional, keywords = jax.tree.unflatten(tree, arrays)
                leaves: Sequence[Any] = jax.tree.leaves(compiled(*positional, **keywords))
                return leaves

            return run

        outs, out_tree = jax.tree.flatten(jit_fn.eval_shape(*shapes, **named))
        fingerprint = f"{self.name}:{next(_numbers)}"
        _makers[self.name, fingerprint] = make
        device = _torch_tensors.DEVICE if not tree.num_leaves and _torch_device.present() else "meta"  # without inputs it says where results go
        self.output_shapes[key] = [torch.empty(o.shape, dtype=_torch_tensors.jax_dtype_to_torch(o.dtype), device=device) for o in outs], out_tree
        self.kernel_key_to_mlir_fingerprint[key] = fingerprint
        return fingerprint


def _forget(name: str, fingerprints: Mapping[str, str]) -> None:
    for fingerprint in fingerprints.values():
        _makers.pop((name, fingerprint), None)
        for key in [k for k in _programs if k[:2] == (name, fingerprint)]:
            del _programs[key]


def _tree_of_arrays(x: Any) -> Any:
    import jax

    return jax.tree.map(_torch_tensors.to_jax, x)


def function(f: Callable[..., Any], machine: str = "generic", *, input_output_aliases: Mapping[int, int] | None = None,
             static_argnums: Sequence[int] = (), **options: Any) -> Callable[..., Any]:
    """`f`, a function of JAX, as one of tensors: each call runs in an `emulate` block of its own. `.callable` is its JaxCallable."""
    import jax

    jit_fn = f if hasattr(f, "lower") else jax.jit(f, static_argnums=tuple(static_argnums))
    name = getattr(f, "__name__", "kernel")
    callable_ = JaxCallable(name, jit_fn, name, static_argnums=static_argnums, input_output_aliases=input_output_aliases)
    emulated: Any = _emulate.emulate(machine, **options)(callable_.__call__)
    emulated.callable, emulated.__name__ = callable_, name
    emulated.predict = lambda *args, **how: callable_.predict(*args, **{"chip": machine, **how})
    return emulated  # type: ignore[no-any-return]
