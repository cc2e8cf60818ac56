"""Working with IR text: check, format, run on NumPy arrays, capture from a function."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from ._check import Check

_BY_NAME = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
    "sem": "int32", "dma_sem": "int32", "barrier_sem": "int32",
}
_ML = {
    "bf16": "bfloat16", "i2": "int2", "i4": "int4", "u2": "uint2", "u4": "uint4", "f8e3m4": "float8_e3m4", "f8e4m3": "float8_e4m3",
    "f8e4m3b11fnuz": "float8_e4m3b11fnuz", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "f4e2m1fn": "float4_e2m1fn",
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy dtype of an IR element type; raises ValueError for one that arrays cannot have."""
    if name in _BY_NAME:
        return np.dtype(_BY_NAME[name])
    if name in _ML:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, _ML[name]))
    raise ValueError(f"no array has the element type {name}")


@overload
def check(f: str) -> None: ...
@overload
def check(f: Callable[..., Any], *args: Any, chips: Sequence[str] = (), with_libtpu: bool = False, **kwargs: Any) -> Check: ...
def check(f: Any, *args: Any, chips: Sequence[str] = (), with_libtpu: bool = False, **kwargs: Any) -> Check | None:
    """Whether the kernels of `f(*args, **kwargs)` are legal on chips, what they keep in memory, move and compute, before anything runs.

    Arguments may be jax.ShapeDtypeStruct. chips: keys of `pallasim.MACHINES`; without it that of the `emulate` block around the call,
    else all TPUs. The result is text, `.json()`, or tables of a notebook; `.ok` says whether every kernel is legal on every chip.
    with_libtpu: the TPU's own compiler is asked, too (docs/check.md). Raises ValueError for a chip that does not exist, RuntimeError where
    libtpu is wanted and not installed, and what f raises while it is traced.

    Of a module's text instead of a function: raises KernelError with the report of its first violation.
    """
    if isinstance(f, str):
        from . import _core, _findings

        if error := _core.check(f):
            raise _findings.KernelError(error)
        return None
    from . import _check

    return _check.check(f, *args, chips=chips, with_libtpu=with_libtpu, **kwargs)


def fmt(text: str, *, literals: bool = False) -> str:
    """The canonical form of a module's text; `literals` adds decimals as comments."""
    from . import _core

    return _core.fmt(text, literals)


def run(text: str, arrays: Sequence[Any] = (), options: Any = None) -> list[np.ndarray]:
    """Runs a module on arrays (grid bounds, prefetch operands, inputs) and returns its outputs.

    Arrays are converted to the declared dtypes' layout (C order) but must have the declared dtype and shape. Raises
    KernelError with the report.
    """
    from . import _core, _deliver, _findings
    from ._capture.types import dtype_text

    _deliver.start()
    option_text, settings = (options.text(), options.settings()) if options is not None else ("", "")
    ins = [np.asarray(a, order="C") for a in arrays]
    try:
        _, results = _core.signature(text, option_text)
        outs = [np.empty(dims, numpy_dtype(dtype)) for dtype, dims in results]
        describe = lambda a: (a.ctypes.data, dtype_text(a.dtype), list(a.shape))  # noqa: E731
        _core.run(text, option_text, [describe(a) for a in ins], [describe(a) for a in outs], settings)
    except _core.DiagnosticError as e:
        raise _findings.from_error(e) from None
    return outs


def capture_text(f: Callable[..., Any], *args: Any, machine: str = "generic", **kwargs: Any) -> list[str]:
    """IR text of every Pallas kernel that `f(*args, **kwargs)` launches, in the order of the trace. Nothing runs.

    Raises UnsupportedError for a kernel that has no text.
    """
    import jax

    from . import _findings, _params
    from ._capture import jaxver, locs, module
    from ._capture.types import Unsupported

    machine_name = _params.Params(machine=machine).ir_machine
    out: list[str] = []

    def text_of(params: Any, captured: Callable[..., Any], *args: Any) -> str:
        try:
            return str(captured(*args).text)
        except Unsupported as e:
            raise _findings.unsupported(str(params.get("name") or "kernel"), e, machine) from None

    def walk(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            settings = module.Settings(machine_name, call=locs.call_site(eqn.source_info.traceback))
            if eqn.primitive is jaxver.find("pallas_call.pallas_call_p"):
                out.append(text_of(eqn.params, module.pallas_call, eqn.params, settings))
                continue
            if eqn.primitive is jaxver.find("mpmd.mpmd_map_p"):
                out.append(text_of(eqn.params, module.mpmd_map, eqn.params, [v.aval for v in eqn.invars], settings))
                continue
            for value in eqn.params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                        walk(jaxver.open_jaxpr(inner)[0])

    from . import _emulate

    with _emulate.emulate(machine):
        closed = jax.make_jaxpr(f)(*args, **kwargs)
    walk(jaxver.open_jaxpr(closed)[0])
    return out
