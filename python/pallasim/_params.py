"""Options of a run: which machine, which checks, which schedule."""
from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from . import _core
from ._options import RunOptions, RunParams


@dataclasses.dataclass(frozen=True)
class Machine:
    """What libraries ask a device about, and the IR machine of its kernels."""

    ir_machine: str               # "generic", "tpu" or "gpu"
    device_kind: str
    num_cores: int                # TensorCores of a device, or SMs
    compute_capability: str       # GPUs, else ""


# The chips of hw_models, and `generic`.
MACHINES: dict[str, Machine] = {name: Machine(*facts) for name, *facts in _core.machines()}


class Options(RunOptions, total=False):
    """What `emulate` and `install` take besides the machine; `Params` says what each one does."""

    findings: Literal["warn", "collect", "raise"]
    kernels_for: Literal["", "generic", "tpu", "triton", "mosaic_gpu"]
    grid_point_recorder: Callable[..., Any] | None
    skip_floating_point_ops: bool
    platform: bool
    prints: Literal["chip", "anything"]
    progress: bool
    time: bool


@dataclasses.dataclass(frozen=True, repr=False)
class Params(RunParams):
    """Runs kernels on the emulator: `pl.pallas_call(..., interpret=pallasim.Params())`.

    Raises ValueError for a machine or a value that does not exist.

    findings: what becomes of warnings and notes of a launch. "warn": they are printed when it ends, on standard error or in a
        notebook as a box, each line of a kernel once per code and process; "collect": only `findings()` and `runs()` have
        them; "raise": the first warning fails the launch, the others are printed.
    kernels_for: the IR machine of kernels that do not name one, "" for the machine's own.
    grid_point_recorder: called after each launch for every grid point in the order of execution, as JAX's TPU interpreter
        does: recorder(token, coordinates, core).
    skip_floating_point_ops: every floating-point value of a kernel is inf and nothing computes it: control flow alone.
    platform: whether code outside JAX is told that it runs on the chip's platform (`jax.default_backend()`, `device.platform`);
        JAX itself is told the truth.
    prints: what debug_print of a TPU kernel takes: what the chip's compiler does ("chip"), or floats, whole tiles, keyword arguments and
        several arrays as well ("anything"), for debugging.
    progress: whether a launch of more than two seconds says how far it is, where standard error is a terminal or a notebook's.
    time: whether each launch is predicted as well, with the values that it is given: `last_run().time`, `runs()[-1].time` say what it would
        take on the chip and why (docs/time.md). The clock of a kernel that does not depend on values is asked once.
    """

    findings: Literal["warn", "collect", "raise"] = "warn"
    kernels_for: Literal["", "generic", "tpu", "triton", "mosaic_gpu"] = ""
    grid_point_recorder: Callable[..., Any] | None = None
    skip_floating_point_ops: bool = False
    platform: bool = True
    prints: Literal["chip", "anything"] = "chip"
    progress: bool = True
    time: bool = False

    def __new__(cls, *_: Any, **options: Any) -> Params:
        _require_names(options)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        require_machine(self.machine)
        for name, values in _CHOICES.items():
            _require(name, getattr(self, name), values)
        self.text()

    def __repr__(self) -> str:
        changed = [f for f in dataclasses.fields(self)[1:] if getattr(self, f.name) != f.default]
        return f"Params({', '.join([repr(self.machine), *(f'{f.name}={getattr(self, f.name)!r}' for f in changed)])})"

    @property
    def ir_machine(self) -> str:
        """`generic`, `tpu`, `triton` or `mosaic_gpu`: the machine of kernels that do not name one."""
        if self.kernels_for:
            return self.kernels_for
        machine = MACHINES[self.machine].ir_machine
        if machine != "gpu":
            return machine
        from ._capture import jaxver

        return jaxver.default_gpu_machine()

    @property
    def refuses(self) -> bool:
        """Whether what the chip's compiler refuses is an error before anything runs."""
        return self.rules in (True, "error")

    def settings(self) -> str:
        """What people are told of a launch, as it reads it; capsules do not keep it."""
        items = [] if self.findings == "warn" else [f"findings={self.findings}"]
        return ";".join([*items, *([] if self.progress else ["progress=0"]), *(["time=1"] if self.time else [])])

    def text(self) -> str:
        """The options of the launch in the spelling of the engine."""
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(RunParams)}
        return _core.options_text({name: _spelled(value) for name, value in given.items() if value is not None})


_CHOICES = {"findings": ("warn", "collect", "raise"), "prints": ("chip", "anything"), "kernels_for": ("", "generic", "tpu", "triton", "mosaic_gpu")}


def _meant(near: str) -> str:
    return f"; did you mean {near!r}?" if near else ""


def _require(name: str, value: Any, values: tuple[str, ...]) -> None:
    if value not in values:
        near = _core.nearest(value, list(values)) if isinstance(value, str) else ""
        raise ValueError(f"{name} is {', '.join(map(repr, values[:-1]))} or {values[-1]!r}, not {value!r}{_meant(near)}")


def require_machine(name: Any) -> None:
    """Raises ValueError for a machine that does not exist, with the one that was meant."""
    if name not in MACHINES:
        near = _core.nearest_chip(name) if isinstance(name, str) else ""
        raise ValueError(f"unknown machine '{name}'{_meant(near)}{' There' if near else '; there'} are {', '.join(MACHINES)}")


Params.__module__ = __package__  # who unpickles one asks the package for it, as every program does
Params.__doc__ = (Params.__doc__ or "") + (RunParams.__doc__ or "")


def given(machine: Any, options: dict[str, Any]) -> Params:
    """The parameters of a call's arguments. Raises TypeError for an option that does not exist, with the one that was meant."""
    return Params(machine=machine, **options)


def _require_names(options: dict[str, Any]) -> None:
    names = [f.name for f in dataclasses.fields(Params)[1:]]
    for name in options:
        if name not in names and name != "machine":
            near = next((n for n in names if name in n), "") or _core.nearest(name, names)
            raise TypeError(f"there is no option '{name}'" + (f"; did you mean {near}?" if near else ".") + f" There are {', '.join(sorted(names))}")


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_value(text: str) -> Any:
    """The value that an option has in a command line or an environment variable: a literal of Python, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
