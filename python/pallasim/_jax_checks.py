"""What JAX's TPU interpreter refuses in a kernel, refused where a call asks for that interpreter (`InterpretParams`).

Its checks go beyond those of a chip's compiler: they also hold on the generic machine. Blocks of outputs that a grid comes
back to are an option of the launch (`Params.revisits`).
"""
from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ._findings import Finding, KernelError, RefusedError, SourceLine, launch_line, report_of, source_line


def check(given: Any, params: Mapping[str, Any], chip: str) -> None:
    """Raises for a kernel that `given`, the call's `interpret`, refuses on this chip; `params` are those of its primitive.

    ValueError (`RefusedError`): loads and stores of refs in HBM or ANY, and HBM in `run_scoped` unless it is allowed.
    jax.errors.ConcretizationTypeError: a bound of a `parallel` grid axis that is not known while JAX traces.
    """
    if type(given).__name__ != "InterpretParams":
        return
    name = str(params.get("name") or "kernel")
    if (mapping := params.get("grid_mapping")) is not None:
        _check_bounds(name, mapping, params.get("compiler_params"), chip)
    for jaxpr in params.get("jaxprs") or (params["jaxpr"],):
        for eqn in _equations(getattr(jaxpr, "jaxpr", jaxpr)):
            _check_equation(name, eqn, given, chip)


def _equations(jaxpr: Any) -> Iterator[Any]:
    from jax._src import core

    for eqn in jaxpr.eqns:
        yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from _equations(inner)


def _check_equation(kernel: str, eqn: Any, given: Any, chip: str) -> None:
    from jax._src.pallas import primitives
    from jax._src.state import primitives as state

    if eqn.primitive is primitives.run_scoped_p:
        if given.allow_hbm_allocation_in_run_scoped:
            return
        for v in eqn.params["jaxpr"].invars:
            if _is_hbm(v.aval):
                raise _refused("PS-TPU-003", f"Cannot allocate HBM in `run_scoped`: {_shape(v.aval)}", kernel, eqn, chip,
                               "take VMEM or SMEM; a TPU's scratch in HBM is an operand, or allow_hbm_allocation_in_run_scoped=True")
        return
    names = {state.get_p: "get_p", state.swap_p: "swap_p", primitives.load_p: "load_p", primitives.swap_p: "swap_p"}
    if eqn.primitive not in names or not _is_hbm(eqn.invars[0].aval):
        return
    what = "load from" if eqn.primitive in (state.get_p, primitives.load_p) else "store to"
    numbers = [f"JAX's TPU interpreter: {said}"] if (said := _jax_says(eqn.invars[0].aval, names[eqn.primitive])) else []
    raise _refused("PS-TPU-005", f"a {what} {_shape(eqn.invars[0].aval)}, which is in HBM", kernel, eqn, chip,
                   "loads and stores reach VMEM and SMEM; copy from and to other memory: pltpu.sync_copy, pltpu.make_async_copy", numbers)


def _check_bounds(kernel: str, mapping: Any, compiler_params: Any, chip: str) -> None:
    from ._capture.attrs import symbol

    semantics = getattr(compiler_params, "dimension_semantics", None) or ()
    axes = [size for i, size in enumerate(mapping.grid) if i not in mapping.vmapped_dims]
    for i, (size, kind) in enumerate(zip(axes, semantics)):
        if symbol(kind).strip('"') == "parallel" and not isinstance(size, int):
            raise _unknown_bound(kernel, i, chip)


def _unknown_bound(kernel: str, axis: int, chip: str) -> KernelError:
    import jax

    class UnknownBoundError(KernelError, jax.errors.ConcretizationTypeError):
        """A bound that must be a number is an array."""

        def __init__(self, report: str, finding: Finding) -> None:
            KernelError.__init__(self, report, finding)

    finding = report_of("PS-TPU-002", f"the bound of grid axis {axis}, which is parallel, is not known before the kernel runs", kernel, launch_line(),
                        hint="parallel axes are divided among cores while JAX traces: give the bound as an int, or let the axis be arbitrary", chip=chip)
    return UnknownBoundError(finding.report, finding)


def _is_hbm(aval: Any) -> bool:
    return getattr(getattr(aval, "memory_space", None), "name", "") in ("HBM", "ANY")


def _shape(aval: Any) -> str:
    inner = getattr(aval, "inner_aval", aval)
    return inner.str_short() if hasattr(inner, "str_short") else str(inner)


def _jax_says(aval: Any, primitive: str) -> str:
    """The sentence of the interpreter's own check, where this version of JAX has it."""
    module = sys.modules.get("jax._src.pallas.mosaic.interpret.interpret_pallas_call")
    own_check = getattr(module, "_get_memory_space_and_raise_if_hbm", None)
    try:
        if own_check is not None:
            own_check(aval, primitive)
    except ValueError as e:
        return str(e)
    return ""


def _refused(code: str, message: str, kernel: str, eqn: Any, chip: str, hint: str, numbers: list[str] | None = None) -> RefusedError:
    from jax._src import source_info_util

    frame = source_info_util.user_frame(eqn.source_info.traceback)
    line = SourceLine()
    if frame is not None:
        line = source_line(frame.file_name, frame.start_line, frame.start_column, frame.function_name)
    finding = report_of(code, message, kernel, line, tuple(numbers or ()), hint, chip)
    return RefusedError(finding.report, finding)
