"""Options of a run: which machine, which checks, which schedule."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from . import _core


@dataclasses.dataclass(frozen=True)
class Machine:
    """What libraries ask a device about, and the IR machine of its kernels."""

    ir_machine: str               # "generic", "tpu" or "gpu"
    device_kind: str
    num_cores: int                # TensorCores of a device, or SMs
    compute_capability: str       # GPUs, else ""


# The chips of hw_models, and `generic`.
MACHINES: dict[str, Machine] = {name: Machine(*facts) for name, *facts in _core.machines()}


@dataclasses.dataclass(frozen=True, repr=False)
class Params:
    """Runs kernels on the emulator: `pl.pallas_call(..., interpret=pallasim.Params())`.

    machine: a key of `MACHINES`. `generic` refuses nothing that has a meaning.
    numerics: "ieee" rounds as the types say; "reference" does so one element at a time, bit-equal on every machine; "device"
        multiplies matrices as the chip does; "oracle" computes in f64 between loads and stores (docs/numerics.md).
    rules: what the compiler of the machine's chip refuses, too much memory included, is an error before anything runs
        (True), findings of a run (`"warn"`), or not looked at (False).
    findings: what becomes of warnings and notes of a launch. "warn": they are printed when it ends, on standard error or in a
        notebook as a box, each line of a kernel once per code and process; "collect": only `findings()` and `runs()` have
        them; "raise": the first warning fails the launch, the others are printed.
    detect_races: look at every access (slower): false `parallel` claims; of TPU kernels also memory that a copy in flight uses, races
        between cores, outputs that are not written or visited again, memory that is read and that nobody wrote.
    random_seed: schedule threads at random from this seed, and visit `parallel` grid axes in the order that JAX's TPU
        interpreter makes of it; None runs each thread until it blocks and every axis in ascending order.
    replay: the schedule token of a report; reproduces that run.
    uninitialized_memory: what fresh memory holds, "nan" (NaN, the least integer, true), "most" (NaN, the greatest integer,
        true) or "zero".
    out_of_bounds: "error" stops, "machine" does what the hardware does and notes it; "uninitialized" lets reads give what
        fresh memory holds, and writes must lie inside.
    padding: who may name the padding of a TPU's (8, 128) tiles, where nothing is kept: "copies", as on the machine, "nobody",
        or "all", loads and stores too.
    pipeline: "elided" shows the kernel its blocks where they lie, "modelled" has windows in the core's memory, fetched while
        the step before runs and written back while the step after does. A correct kernel has the same result either way.
    revisits: a block of an output that a TPU's grid comes back to after others is a finding of checked runs ("note"), or
        stops the run ("error").
    cores: TensorCores that share a grid along its first `parallel` axis, 0 for those of the chip's device.
    kernels_for: the IR machine of kernels that do not name one, "" for the machine's own.
    grid_point_recorder: called after each launch for every grid point in the order of execution, as JAX's TPU interpreter
        does: recorder(token, coordinates, core).
    skip_floating_point_ops: every floating-point value of a kernel is inf and nothing computes it: control flow alone.
    dma_execution_mode: when the bytes of asynchronous copies move: "eager" when they start, "on_wait" when somebody
        waits for them, "scheduled" at a moment that the schedule chooses (with `random_seed`).
    workers: OS threads for independent parts of a grid, 0 for one per CPU core. Results do not depend on it.
    verify_split: runs the parts of a grid that may be split over workers one after another and compares all that they touch; a part
        that could tell is an internal error (PS-BUG-002).
    platform: whether code outside JAX is told that it runs on the chip's platform (`jax.default_backend()`, `device.platform`);
        JAX itself is told the truth.
    prints: what debug_print of a TPU kernel takes: what the chip's compiler does ("chip"), or floats, whole tiles, keyword arguments and
        several arrays as well ("anything"), for debugging.
    max_steps: stops after so many steps of all threads, 0 for no limit.
    progress: whether a launch of more than two seconds says how far it is, where standard error is a terminal or a notebook's.

    Raises ValueError for a machine or a value that does not exist.
    """

    machine: str = "generic"
    numerics: Literal["ieee", "reference", "device", "oracle"] = "ieee"
    rules: bool | Literal["warn"] = True
    findings: Literal["warn", "collect", "raise"] = "warn"
    detect_races: bool = False
    random_seed: int | None = None
    replay: str = ""
    uninitialized_memory: Literal["nan", "most", "zero"] = "nan"
    out_of_bounds: Literal["error", "machine", "uninitialized"] = "error"
    padding: Literal["copies", "nobody", "all"] = "copies"
    pipeline: Literal["elided", "modelled"] = "elided"
    revisits: Literal["note", "error"] = "note"
    cores: int = 0
    kernels_for: Literal["", "generic", "tpu", "triton", "mosaic_gpu"] = ""
    grid_point_recorder: Callable[..., Any] | None = None
    skip_floating_point_ops: bool = False
    dma_execution_mode: Literal["eager", "on_wait", "scheduled"] = "eager"
    workers: int = 0
    verify_split: bool = False
    max_steps: int = 0
    platform: bool = True
    prints: Literal["chip", "anything"] = "chip"
    progress: bool = True

    def __post_init__(self) -> None:
        if self.machine not in MACHINES:
            raise ValueError(f"unknown machine '{self.machine}'; there are {', '.join(MACHINES)}")
        if self.uninitialized_memory not in ("nan", "most", "zero"):
            raise ValueError("uninitialized_memory is 'nan', 'most' or 'zero'")
        if self.numerics not in ("ieee", "reference", "device", "oracle"):
            raise ValueError("numerics is 'ieee', 'reference', 'device' or 'oracle'")
        if self.rules not in (True, False, "warn"):
            raise ValueError("rules is True, False or 'warn'")
        if self.findings not in ("warn", "collect", "raise"):
            raise ValueError("findings is 'warn', 'collect' or 'raise'")
        if self.out_of_bounds not in ("error", "machine", "uninitialized"):
            raise ValueError("out_of_bounds is 'error', 'machine' or 'uninitialized'")
        if self.prints not in ("chip", "anything"):
            raise ValueError("prints is 'chip' or 'anything'")
        if self.padding not in ("copies", "nobody", "all"):
            raise ValueError("padding is 'copies', 'nobody' or 'all'")
        if self.pipeline not in ("elided", "modelled"):
            raise ValueError("pipeline is 'elided' or 'modelled'")
        if self.revisits not in ("note", "error"):
            raise ValueError("revisits is 'note' or 'error'")
        if not 0 <= self.cores <= 1024:
            raise ValueError("cores is 0 to 1024")
        if self.kernels_for not in ("", "generic", "tpu", "triton", "mosaic_gpu"):
            raise ValueError("kernels_for is '', 'generic', 'tpu', 'triton' or 'mosaic_gpu'")
        if self.dma_execution_mode not in ("eager", "on_wait", "scheduled"):
            raise ValueError("dma_execution_mode is 'eager', 'on_wait' or 'scheduled'")
        if ";" in self.replay:
            raise ValueError("replay is no schedule token")
        from . import _lowering

        _lowering.register()

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

    def delivery(self) -> str:
        """What people are told of a launch, as it reads it; capsules do not keep it."""
        items = [] if self.findings == "warn" else [f"findings={self.findings}"]
        return ";".join(items if self.progress else [*items, "progress=0"])

    def text(self) -> str:
        """The options of the launch in the spelling of the engine."""
        items = []
        if self.machine != "generic":
            items.append(f"chip={self.machine}")
        if self.numerics != "ieee":
            items.append(f"numerics={self.numerics}")
        if self.rules is not True:
            items.append("rules=warn" if self.rules else "rules=0")
        if self.detect_races:
            items.append("checked=1")
        if self.random_seed is not None:
            items += ["policy=random", f"seed={int(self.random_seed) & (2**64 - 1)}"]
        if self.replay:
            items.append(f"replay={self.replay}")
        if self.uninitialized_memory != "nan":
            items.append(f"uninitialized={self.uninitialized_memory}")
        if self.out_of_bounds != "error":
            items.append(f"out_of_bounds={self.out_of_bounds}")
        if self.padding != "copies":
            items.append(f"padding={self.padding}")
        if self.pipeline != "elided":
            items.append(f"pipeline={self.pipeline}")
        if self.revisits != "note":
            items.append(f"revisits={self.revisits}")
        if self.cores:
            items.append(f"cores={int(self.cores)}")
        if self.dma_execution_mode != "eager":
            items.append(f"copies={self.dma_execution_mode}")
        if self.workers:
            items.append(f"workers={int(self.workers)}")
        if self.verify_split:
            items.append("verify_split=1")
        if self.max_steps:
            items.append(f"max_steps={int(self.max_steps)}")
        return ";".join(items)
