"""Answers before anything runs: whether a program's kernels are legal on chips, what they keep in which memory, move and compute."""
from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _cells, _cost, _display

if TYPE_CHECKING:
    from ._libtpu import Answer
    from ._times import KernelTime

_FACTOR = 2  # a CostEstimate that is off by more is said
_MOST_STEPS = 2_000_000  # of a prediction: some seconds


@dataclasses.dataclass(frozen=True)
class Remark:
    """Something that a chip's compiler, or the emulator, says about a kernel. severity: error, warning or note."""

    code: str
    severity: str
    message: str
    file: str = ""
    line: int = 0
    text: str = ""
    hint: str = ""


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A part of a core's memory. bytes: of one copy, in whole tiles where the memory has them; of semaphores their number."""

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    copies: int


@dataclasses.dataclass(frozen=True)
class Memory:
    """One memory of a core while most of it is in use. capacity: of the chip, or what the kernel's vmem_limit_bytes allows; None if
    nobody published it. fits: what would bring it below its capacity."""

    space: str
    bytes: int
    capacity: int | None
    buffers: tuple[Buffer, ...]
    fits: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Cost:
    """What the kernel says of itself (pl.CostEstimate; None: nothing) against what is counted. bytes counts the blocks that a grid moves and is
    None where the kernel or the run decides. bound: "", "at most" or "at least"."""

    quantity: str
    counted: int | None
    declared: int | None
    bound: str = ""

    @property
    def differs(self) -> bool:
        """Whether the estimate is off by more than a factor of 2."""
        if self.counted is None or self.declared is None or self.bound == "at least":
            return False
        high, low = max(self.counted, self.declared), min(self.counted, self.declared)
        return high > _FACTOR * low and not (self.bound == "at most" and self.declared < self.counted)


@dataclasses.dataclass(frozen=True)
class KernelCheck:
    """One kernel on one chip. grid: its sizes, None for those of run time. time: predicted (docs/time.md), where a branch or an address
    depends on what arrays hold with zeros; None, and `untimed` says why, where that cannot be told. libtpu: what the TPU compiler says,
    where it is asked."""

    kernel: str
    chip: str
    machine: str
    grid: tuple[int | None, ...]
    remarks: tuple[Remark, ...]
    memories: tuple[Memory, ...]
    traffic: tuple[_cost.Moved, ...]
    costs: tuple[Cost, ...]
    time: KernelTime | None = None
    untimed: str = ""
    libtpu: Answer | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing refuses it."""
        return not any(r.severity == "error" for r in self.remarks)

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        return _html(self)

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        _display.pretty(p, self)


@dataclasses.dataclass(frozen=True)
class Check:
    """What `check` found: text with `str`, JSON with `json()`, tables in notebooks."""

    kernels: tuple[KernelCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every kernel is legal on every chip."""
        return all(k.ok for k in self.kernels)

    def json(self, indent: int | None = 2) -> str:
        kernels = [dataclasses.asdict(k) | {"ok": k.ok} for k in self.kernels]
        return json.dumps({"ok": self.ok, "kernels": kernels}, indent=indent)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.kernels)) if self.kernels else "no Pallas kernel"

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.kernels)) or "<p>no Pallas kernel</p>"

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        _display.pretty(p, self)


def check(f: Callable[..., Any], *args: Any, chips: Sequence[str] = (), with_libtpu: bool = False, **kwargs: Any) -> Check:
    """Traces `f(*args, **kwargs)` and holds each of its Pallas kernels against chips. Nothing runs: arguments may be jax.ShapeDtypeStruct.

    chips: keys of `pallasim.MACHINES`; without it that of the `emulate` block around the call, else all TPUs. A program is traced once per
    chip, as it may choose its kernels by chip. with_libtpu: also asks the TPU compiler of the package `libtpu`, which needs no chip.
    Raises ValueError for a chip that does not exist, RuntimeError where libtpu is wanted and cannot be asked, and what f raises.
    """
    for name in ("chip", "machine"):
        if isinstance(kwargs.get(name), str):  # no function that is traced takes a text
            raise TypeError(f"pallasim.check(f, ..., chips=[{kwargs[name]!r}]): {name}= is an argument of f here")
    if with_libtpu:
        from . import _libtpu

        _libtpu.version()  # before anything is traced
    return Check(tuple(k for chip in chips_of(chips) for k in _on_chip(f, args, kwargs, chip, with_libtpu)))


def chips_of(chips: Sequence[str]) -> tuple[str, ...]:
    """Those that are named; none: that of the block around the call, else all TPUs. Raises ValueError for one that does not exist."""
    from . import _context
    from ._params import MACHINES, require_machine

    if isinstance(chips, str):
        chips = (chips,)
    for name in chips:
        require_machine(name)
    if chips:
        return tuple(chips)
    active = _context.active()
    if active is not None and MACHINES[active.machine].ir_machine != "generic":
        return (active.machine,)
    return tuple(name for name, m in MACHINES.items() if m.ir_machine == "tpu")


def _on_chip(f: Callable[..., Any], args: Any, kwargs: Any, chip: str, with_libtpu: bool) -> Iterator[KernelCheck]:
    import jax

    from . import _emulate, _libtpu
    from ._capture import jaxver

    with _emulate.emulate(chip) as params:
        closed = jax.make_jaxpr(lambda *a, **k: f(*a, **k))(*args, **kwargs)
        for eqn, axes in launches(jaxver.open_jaxpr(closed)[0]):
            found = _with_lowering(_kernel(eqn, axes, chip, params.ir_machine), eqn, axes)
            yield _with_answer(found, _libtpu.ask(eqn, axes, chip)) if with_libtpu else found


def _with_lowering(k: KernelCheck, eqn: Any, axes: tuple[tuple[str, int], ...]) -> KernelCheck:
    """With what the lowering of the JAX that is installed says, where the rules here refuse nothing."""
    import jax

    from . import _findings, _jax_lowering

    if k.chip == "generic" or not k.ok:
        return k
    refused = _jax_lowering.refusal(eqn, axes, k.machine)
    if refused is not None:
        at = _findings.source_line(refused.file, refused.line, 0, "") if refused.file else None
        remark = Remark("", "error", f"the lowering of JAX {jax.__version__} refuses it: {refused.said.splitlines()[0]}", refused.file, refused.line,
                        at.text if at is not None else "")
        return dataclasses.replace(k, remarks=(*k.remarks, remark), time=None)
    if k.machine != "mosaic_gpu":
        return k
    behind = Remark("", "note", "JAX lowers it; what refuses it behind that, in CUDA's assembler, is not known here")
    return dataclasses.replace(k, remarks=(*k.remarks, behind))


def _with_answer(k: KernelCheck, a: Answer) -> KernelCheck:
    """The compiler's word beside the rules' here, also where they differ."""
    if a.accepted is None:
        remark = Remark("", "note", f"libtpu {a.version} was not asked: {a.said}")
    elif a.accepted:
        remark = Remark("", "note", f"libtpu {a.version} compiles it" + ("" if k.ok else ": this version does not refuse what is refused here"))
    else:
        if a.stage == "lowering" and any("the lowering of JAX" in r.message for r in k.remarks):
            return dataclasses.replace(k, libtpu=a)
        remark = Remark("", "error", f"{'libtpu ' + a.version if a.stage == 'compiler' else 'the lowering of JAX'} refuses it: {a.line}")
    return dataclasses.replace(k, remarks=(*k.remarks, remark), libtpu=a)


def launching() -> list[Any]:
    """The primitives that launch kernels."""
    from ._capture import jaxver

    return [p for p in (jaxver.find("pallas_call.pallas_call_p"), jaxver.find("mpmd.mpmd_map_p")) if p is not None]


def launches(jaxpr: Any, axes: tuple[tuple[str, int], ...] = ()) -> Iterator[tuple[Any, tuple[tuple[str, int], ...]]]:
    """Equations of a program that launch kernels, with the device axes around each, in the order of the trace."""
    from ._capture import jaxver

    for eqn in jaxpr.eqns:
        if eqn.primitive in launching():
            yield eqn, axes
            continue
        mesh = eqn.params.get("mesh") if eqn.primitive.name == "shard_map" else None
        inside = axes if mesh is None else tuple((str(k), int(v)) for k, v in mesh.shape.items())
        for inner in jaxver.sub_jaxprs(eqn):
            yield from launches(inner, inside)


def captured(eqn: Any, axes: tuple[tuple[str, int], ...], machine: str) -> Any:
    """The module of an equation that launches a kernel (`_capture.module.Captured`); raises `_capture.types.Unsupported`."""
    from ._capture import module

    p, settings = eqn.params, module.Settings(machine, axes)
    if p.get("grid_mapping") is not None:
        return module.pallas_call(p, settings)
    return module.mpmd_map(p, [v.aval for v in eqn.invars], settings)


def _kernel(eqn: Any, axes: tuple[tuple[str, int], ...], chip: str, machine: str) -> KernelCheck:
    from ._capture.types import Unsupported

    p = eqn.params
    mapping = p.get("grid_mapping")
    grid = tuple(n if isinstance(n, int) else None for n in mapping.grid) if mapping is not None else _mesh_sizes(p)
    name = str(p.get("name") or "kernel")
    try:
        made = captured(eqn, axes, machine)
    except Unsupported as e:
        return KernelCheck(name, chip, machine, grid, (Remark("PS-UNSUP-001", "error", str(e)),), (), (), ())
    remarks, memories = legality(made, chip)
    traffic: list[_cost.Moved] = []
    if mapping is not None:
        traffic = _cost.traffic(mapping, _operand_names(p), made.machine != "triton")
    refused = any(r.severity == "error" for r in remarks)
    time, untimed = (None, "") if refused else _predicted(made, chip)
    return KernelCheck(made.name, chip, made.machine, grid, remarks, memories, tuple(traffic), tuple(_costs(p, grid, traffic)), time, untimed)


def _predicted(captured: Any, chip: str) -> tuple[KernelTime | None, str]:
    from . import _core, _times

    if captured.params:
        return None, "its shapes are symbolic"
    if chip == "generic":
        return None, ""
    try:
        text = _core.predict(captured.text, f"machine={chip}", [], False, False, 3, False, "", _MOST_STEPS)[0]
    except _core.DiagnosticError as e:
        if e.finding["code"] == "PS-LIVE-002":
            return None, f"it takes more than {_MOST_STEPS:,} steps (pallasim.predict has no such limit)"
        return None, f"with zeros it stops: {e.finding['message']}"
    return _times.of_json(text), ""


def _mesh_sizes(p: Any) -> tuple[int | None, ...]:
    return tuple(int(n) for m in (p.get("meshes") or ())[:1] for n in m.shape.values())


def _operand_names(p: Any) -> list[str]:
    """As in the kernel's signature."""
    mapping = p["grid_mapping"]
    names = list(getattr(getattr(p["jaxpr"], "debug_info", None), "arg_names", None) or ())
    names = names[mapping.num_index_operands:] if len(names) == len(p["jaxpr"].invars) else []
    return [str((names[i] if i < len(names) else "") or getattr(b, "origin", "") or f"operand {i}") for i, b in enumerate(mapping.block_mappings)]


def legality(captured: Any, chip: str) -> tuple[tuple[Remark, ...], tuple[Memory, ...]]:
    """What a chip's compiler and sizes say against a captured module, and what it keeps in the memories of a core."""
    from . import _core
    from ._params import MACHINES

    family = MACHINES[chip].ir_machine
    try:
        remarks = [Remark(d["code"], "error" if d["code"] == "PS-CHIP-001" else d["severity"], d["message"], d["file"], d["line"], d["text"], d["hint"])
                   for d in _core.broken_rules(captured.text, chip)]
        if captured.machine != "generic" and family != "generic" and (captured.machine == "tpu") != (family == "tpu"):
            return tuple(remarks), ()
        if not captured.params:
            _core.compile(captured.text, f"machine={chip};rules=off")
        memories = tuple(_memory(o, captured.text, chip) for o in _core.occupancy(captured.text)) if captured.machine in ("tpu", "generic") else ()
    except _core.DiagnosticError as e:
        d = e.finding
        line = d["site"]
        return (Remark(d["code"], "error", d["message"], line["file"], line["line"], line["text"], d["hint"]),), ()
    return tuple(remarks), memories


def _memory(o: dict[str, Any], text: str, chip: str) -> Memory:
    from . import _core

    capacity = _core.capacities(chip).get(o["space"])
    limit = re.search(r"\bvmem_limit_bytes = (\d+)", text.split("\n", 2)[1]) if o["space"] == "vmem" else None
    if limit is not None and (capacity is None or int(limit[1]) < capacity):
        capacity = int(limit[1])
    buffers = tuple(Buffer(b["name"], b["role"], b["dtype"], tuple(b["shape"]), b["bytes"], b["copies"]) for b in o["buffers"])
    fits = _what_fits(buffers, o["bytes"], capacity) if capacity is not None and o["bytes"] > capacity else ()
    return Memory(o["space"], o["bytes"], capacity, buffers, fits)


def _what_fits(buffers: Sequence[Buffer], total: int, capacity: int) -> tuple[str, ...]:
    """Changes, each alone, that bring a memory below its capacity."""
    out = []
    for b in buffers:
        if b.copies > 1 and total - (b.copies - 1) * b.bytes <= capacity:
            out.append(f"one copy of {b.name} (pipeline_mode=pl.Buffered(1)): {total - (b.copies - 1) * b.bytes} bytes")
        elif b.bytes * b.copies > 1 and total - b.bytes * b.copies < capacity:
            part = next(k for k in (2 ** i for i in range(1, 64)) if total - b.bytes * b.copies + b.bytes * b.copies // k <= capacity)
            out.append(f"blocks of {b.name} of 1/{part} of the size: {total - b.bytes * b.copies + b.bytes * b.copies // part} bytes")
    windows = sum(b.bytes * b.copies for b in buffers if "window" in b.role)
    if windows and total - windows < capacity:
        part = next(k for k in (2 ** i for i in range(1, 64)) if total - windows + windows // k <= capacity)
        out.append(f"all windows of 1/{part} of the size: {total - windows + windows // part} bytes")
    return tuple(out) or ("nothing that changes one buffer alone: leave arrays in HBM and copy parts of them",)


def _costs(p: Any, grid: Sequence[int | None], traffic: Sequence[_cost.Moved]) -> Iterator[Cost]:
    said = p.get("cost_estimate")
    bodies = p.get("jaxprs") or (p["jaxpr"],)
    known = [n for n in grid if n is not None]
    count = sum((_cost.of_jaxpr(j) for j in bodies), _cost.Count()).times(math.prod(known))
    bound = "at least" if count.at_least or len(known) < len(grid) else "at most" if count.at_most else ""
    yield Cost("flops", count.flops, getattr(said, "flops", None), bound)
    yield Cost("transcendentals", count.transcendentals, getattr(said, "transcendentals", None), bound)
    moved = [m.bytes for m in traffic]
    total = None if not moved or None in moved else sum(m for m in moved if m is not None)
    yield Cost("bytes_accessed", total, getattr(said, "bytes_accessed", None))


# --- text -----------------------------------------------------------------------------------------------------------
def _head(k: KernelCheck) -> str:
    errors = sum(r.severity == "error" for r in k.remarks)
    verdict = "nothing refuses it" if k.ok else f"refused, {errors} {'reason' if errors == 1 else 'reasons'}"
    return f"{k.kernel} on {k.chip}: {verdict}"


def _text(k: KernelCheck) -> list[str]:
    lines = [_head(k), f"  grid {_grid(k)}"]
    for r in k.remarks:
        lines.append(f"  {r.severity}{f'[{r.code}]' if r.code else ''}: {r.message}")
        if r.file:
            lines += [f"    at {_cells.said(r.file, r.line)}", f"        {r.text}"]
        if r.hint:
            lines.append(f"    hint: {r.hint}")
    for m in k.memories:
        lines += _memory_text(m)
    if k.traffic:
        lines += ["  moved by the grid", *_table(_moved_rows(k))]
    if said := _time_text(k):
        lines.append(f"  {said}")
    return lines + (_table(_cost_rows(k)) if k.costs else [])


def _time_text(k: KernelCheck) -> str:
    if k.time is None:
        return f"time not predicted: {k.untimed}" if k.untimed else ""
    zeros = ", with zeros for its inputs" if k.time.reads_inputs else ""
    return f"time predicted: {_seconds(k.time.seconds)}, bound by {k.time.bound}, next {k.time.next}{zeros}"


def _seconds(s: float) -> str:
    scale, unit = next((x for x in ((1, "s"), (1e3, "ms"), (1e6, "us")) if s * x[0] >= 1), (1e9, "ns"))
    return f"{s * scale:.3g} {unit}"


def _grid(k: KernelCheck) -> str:
    return " x ".join("?" if n is None else str(n) for n in k.grid) or "one point"


def _moved_rows(k: KernelCheck) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("operand", "block", "blocks", "bytes", "")]
    return rows + [(m.name, _shape(m.dtype, m.block or m.shape), _number(m.blocks), _number(m.bytes), m.why or m.kind) for m in k.traffic]


def _cost_rows(k: KernelCheck) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("cost", "counted", "CostEstimate", "")]
    return rows + [(c.quantity, f"{c.bound} {_number(c.counted)}".strip(), _number(c.declared), "differs" if c.differs else "") for c in k.costs]


def _memory_text(m: Memory) -> list[str]:
    return [f"  {_memory_head(m)}", *_table(_memory_rows(m)), *(f"    would fit: {w}" for w in m.fits)]


def _memory_head(m: Memory) -> str:
    of = "unknown" if m.capacity is None else f"{m.capacity:,}"
    return f"{m.space.upper()}: {m.bytes:,} of {of}{'' if m.space == 'semaphore' else ' bytes'}"


def _memory_rows(m: Memory) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("buffer", "shape", "each", "copies", "total", "")]
    return rows + [(b.name, _shape(b.dtype, b.shape), f"{b.bytes:,}", str(b.copies), f"{b.bytes * b.copies:,}", b.role)
                   for b in sorted(m.buffers, key=lambda b: -b.bytes * b.copies)]


# --- HTML, of the same rows -----------------------------------------------------------------------------------------
def _html(k: KernelCheck) -> str:
    """A kernel on a chip: one line that unfolds, and is unfolded where something is wrong."""
    parts = [f"<p>grid {_display.text(_grid(k))}</p>", *map(_display.remark, k.remarks)]
    for m in k.memories:
        fits = "".join(f"<li>would fit: {_display.text(w)}</li>" for w in m.fits)
        parts += [f"<p>{_display.text(_memory_head(m))}</p>", _display.table(_memory_rows(m), (2, 3, 4)), f"<ul>{fits}</ul>" if fits else ""]
    if k.traffic:
        parts += ["<p>moved by the grid</p>", _display.table(_moved_rows(k), (2, 3))]
    if said := _time_text(k):
        parts.append(f"<p>{_display.text(said)}</p>")
    if k.costs:
        parts.append(_display.table(_cost_rows(k), (1, 2)))
    return (f"<details{'' if k.ok else ' open'}><summary>{_display.text(_head(k))}</summary>"
            f'<div style="margin-left:1.2em">{"".join(parts)}</div></details>')


def _shape(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]" if dtype else ""


def _number(n: int | None) -> str:
    return "?" if n is None else f"{n:,}"


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    numbers = [all(not r[i] or r[i][-1].isdigit() or r[i] == "?" for r in rows[1:]) for i in range(len(widths))]
    return ["    " + "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(r, widths, numbers)).rstrip() for r in rows]
