"""Options of a run, as checkers and editors see them.

Written by pallasim_option_reference from the table of options (interp/include/pallasim/interp/options.def).
"""
from __future__ import annotations

import dataclasses
from typing import Literal, TypedDict


class RunOptions(TypedDict, total=False):
    """Keyword arguments of `emulate` and `install` besides the machine."""

    numerics: Literal["ieee", "reference", "device", "oracle"]
    rules: bool | Literal["error", "warn", "off"]
    detect_races: bool
    strict: bool
    random_seed: int | None
    replay: str
    uninitialized_memory: Literal["nan", "zero", "most"]
    out_of_bounds: Literal["chip", "error", "machine", "uninitialized"]
    padding: Literal["copies", "nobody", "all"]
    pipeline: Literal["elided", "modelled"]
    revisits: Literal["note", "error"]
    nans: bool | Literal["off", "report"]
    cores: int
    dma_execution_mode: Literal["eager", "on_wait", "scheduled"]
    workers: int
    grid_order: str
    fuse: bool
    verify_split: bool
    verify_footprints: bool
    verify_restore: int
    verify_parts: int
    max_steps: int
    livelock_steps: int
    max_memory: int


@dataclasses.dataclass(frozen=True, repr=False)
class RunParams:
    """
    machine: The chip whose sizes and rules hold; `generic` has none, and refuses nothing that has a meaning.
    numerics: "ieee" rounds as the types say; "reference" does so one element at a time, bit-equal on every machine;
        "device" multiplies matrices as the chip does; "oracle" computes in f64 between loads and stores
        (docs/numerics.md).
    rules: What the compiler of the machine's chip refuses, too much memory included, is an error before anything runs
        ("error", True), findings of a run ("warn"), or not looked at ("off", False).
    detect_races: Look at every access, which is slower: axes that are declared `parallel` and whose points share
        elements, races between threads, memory that a copy under way uses, outputs that are not written or that are
        read before that; of TPU kernels also scratch memory that is read and that nobody wrote, and blocks of outputs
        that are visited again.
    strict: Undefined data that a checked run sees in an output stops the launch (PS-UNINIT-001, PS-UNINIT-003,
        PS-OUT-001), and so does a kernel that takes more memory than its compiler gives it by default (PS-MEM-002);
        otherwise these are warnings.
    random_seed: Schedule threads at random from this seed, and visit `parallel` grid axes in the order that JAX's TPU
        interpreter makes of it; None runs each thread until it blocks and every axis in ascending order.
    replay: The schedule that a report names, such as "ps2:random:7": the run is the same again.
    uninitialized_memory: What fresh memory holds: "nan" (NaN, the least integer, true), "most" (NaN, the greatest
        integer, true) or "zero".
    out_of_bounds: An access outside of its ref: "chip" lets loads go on where the chip's are undefined (of a TPU's VMEM
        and SMEM, and just behind an array that Triton reaches by a pointer), with what fresh memory holds and a
        warning, checked runs with a finding where the value is used; all else stops. "error" stops at the access;
        "machine" warns and takes the nearest place inside, or what lies behind a block that Triton reaches by a
        pointer; "uninitialized" lets every read give what fresh memory holds, and writes must lie inside.
    padding: Who may name the padding of a TPU's (8, 128) tiles, where nothing is kept: "copies", as on the machine,
        "nobody", or "all", loads and stores too.
    pipeline: "elided" leaves the copies of a grid's blocks out and shows the kernel its blocks where they lie;
        "modelled" has windows in the core's memory, fetched while the step before runs and written back while the step
        after does. A correct kernel has the same result either way.
    revisits: A block of an output that a TPU's grid comes back to after others is a finding of checked runs ("note"),
        or stops the run ("error").
    nans: "report" looks at the result of every arithmetic operation, which is slower: those that make NaN or infinity
        from finite numbers, or a signed integer that does not fit its type, are findings, with line, grid point,
        element and operands (PS-NAN-001 to PS-NAN-004). Results do not depend on it.
    cores: TensorCores that share a grid along its first `parallel` axis, 0 for those of the chip's device.
    dma_execution_mode: When the bytes of asynchronous copies, and of products of warpgroups, move: "eager" when they
        start, "on_wait" when somebody waits for them, "scheduled" at a moment that the schedule chooses (with
        `random_seed`).
    workers: OS threads for independent parts of a grid, and for parts of large operations; 0 for one per CPU core.
        Results do not depend on it.
    grid_order: Per grid axis a permutation of its coordinates, nothing for ascending ones: "2,0,1||1,0" permutes axes 0
        and 2. Programs of a GPU have no order.
    fuse: Chains of elementwise operations are computed in one pass, equal scalars once. Results do not depend on it.
    verify_split: Runs the parts of a grid that may be split over workers one after another and compares all that they
        touch; a part that could tell is an internal error (PS-BUG-002).
    verify_footprints: Runs every step that says which memory it touches twice, and compares (PS-BUG-004): no other byte
        may change, and no other byte may matter.
    verify_restore: Every so many steps the rest of the run is run twice from a snapshot and must end alike
        (PS-BUG-003); 0: not looked at.
    verify_parts: Divides a launch as for eight workers, where it may be, and runs the parts one after the other: 1 from
        the last one on, else in an order drawn from the number. What it returns must be as ever; 0: off.
    max_steps: Stops after so many steps of all threads, 0 for no limit.
    livelock_steps: Stops after so many steps of all threads in which none wrote memory, signalled or ended, 0 for
        never.
    max_memory: Bytes of scratch and temporaries that one launch may take.
    """

    machine: str = "generic"
    numerics: Literal["ieee", "reference", "device", "oracle"] = "ieee"
    rules: bool | Literal["error", "warn", "off"] = "error"
    detect_races: bool = False
    strict: bool = False
    random_seed: int | None = None
    replay: str = ""
    uninitialized_memory: Literal["nan", "zero", "most"] = "nan"
    out_of_bounds: Literal["chip", "error", "machine", "uninitialized"] = "chip"
    padding: Literal["copies", "nobody", "all"] = "copies"
    pipeline: Literal["elided", "modelled"] = "elided"
    revisits: Literal["note", "error"] = "note"
    nans: bool | Literal["off", "report"] = "off"
    cores: int = 0
    dma_execution_mode: Literal["eager", "on_wait", "scheduled"] = "eager"
    workers: int = 0
    grid_order: str = ""
    fuse: bool = True
    verify_split: bool = False
    verify_footprints: bool = False
    verify_restore: int = 0
    verify_parts: int = 0
    max_steps: int = 0
    livelock_steps: int = 1000000000
    max_memory: int = 8589934592
