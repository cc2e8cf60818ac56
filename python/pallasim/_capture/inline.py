"""What an inline Mosaic GPU body means. The body is a Python function that emits MLIR: it is run once, into a module that is thrown
away, and what it emitted is read. Barriers, fences, waits for tensor memory, accesses to single elements of refs, and what is computed from scalars or element by
element have a meaning here; whatever else it emits has none."""
from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any

import numpy as np

from .inline_values import Argument, Expression, Loaded, Reader, Unreadable, is_value

WARP, WARPGROUP = 32, 128  # CUDA threads

# PTX ISA, "Parallel Synchronization and Communication Instructions": bar and barrier{.cta}, fence and membar.
_BARRIER = re.compile(r"(?:bar|barrier)(?:\.cta)?\.(sync|arrive)(?:\.aligned)?\s+([^,\s]+)(?:\s*,\s*([^,\s]+))?")
_ASYNC_FENCE = re.compile(r"fence\.proxy\.async(?:[.:][\w:]+)*")
_FENCE = re.compile(r"(?:fence|membar)(?:[.:][\w:]+)+")
_WARP = re.compile(r"(?:bar\.warp\.sync|__syncwarp)\b.*")


@dataclasses.dataclass(frozen=True)
class Act:
    """One thing that a body does, in order.

    "named_barrier_sync", "named_barrier_arrive": `barrier` is the id, a number or the position of the scalar argument that holds
    it; `threads` counts CUDA threads, None means all of the CTA. "fence", "fence_async" (generic writes become visible to the
    asynchronous proxy), "wait_load_tmem", "commit_tmem" (tcgen05.wait of loads, of stores): no operands. "store", "load": one element of
    the argument number `ref`, at the scalars `index`; what is stored is `value`.
    """

    kind: str
    barrier: int | Argument | None = None
    threads: int | None = None
    ref: int = -1
    index: tuple[Expression, ...] = ()
    value: Expression | None = None


@dataclasses.dataclass(frozen=True)
class Meaning:
    acts: tuple[Act, ...]
    results: tuple[Expression, ...]  # each element of a result is this


class _NoContext:
    """Stands for the launch context, which has no meaning outside a launch."""

    def __getattr__(self, name: str) -> Any:
        raise Unreadable(f"it uses the launch context ({name})")


def meaning(params: Any, avals: Any) -> Meaning:
    """Runs the body of an inline_mgpu equation, whose arguments have `avals` (transforms left out). Raises Unreadable."""
    ir = importlib.import_module("jax._src.lib.mlir.ir" if _has("jax._src.lib.mlir.ir") else "jaxlib.mlir.ir")
    mgpu = importlib.import_module("jax.experimental.mosaic.gpu")
    context = importlib.import_module("jax._src.interpreters.mlir").make_ir_context()
    mgpu.dialect.register_dialect(context)
    with context, ir.Location.unknown(context):
        module = ir.Module.create()
        for key, number in (("arch_major", 9), ("arch_minor", 0)):  # newer bodies ask for it: Hopper, whose instructions have a meaning here
            module.operation.attributes[f"mosaic_gpu.{key}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        func = importlib.import_module("jaxlib.mlir.dialects.func")
        types = params["flat_arg_types"]
        inputs = [_input_type(ir, mgpu, a, t) for a, t in zip(avals, types)]
        with ir.InsertionPoint(module.body):
            op = func.FuncOp("body", (inputs, []))
            block = op.add_entry_block()
        with ir.InsertionPoint(block):
            reader = Reader()
            args = [_argument(ir, mgpu, reader, block, i, a, t) for i, (a, t) in enumerate(zip(avals, types))]
            tree = importlib.import_module("jax").tree
            try:
                out = params["mgpu_fn"](_NoContext(), *tree.unflatten(params["pytree_args"], args))
            except Unreadable:
                raise
            except Exception as e:  # a body may need anything of a real lowering
                raise Unreadable(f"running it outside a GPU lowering ends in {type(e).__name__}: {str(e)[:120]}") from e
            leaves = tree.leaves(out, is_leaf=lambda x: isinstance(x, mgpu.FragmentedArray))
            acts = _acts(block, reader, avals, types, params)
            results = tuple(_result(r, reader) for r in leaves)
        return Meaning(tuple(acts), results)


def _has(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _is_ref(aval: Any) -> bool:
    return hasattr(aval, "inner_aval")


def _element(mgpu: Any, dtype: Any) -> Any:
    return mgpu.utils.dtype_to_ir_type(np.dtype(dtype))


def _input_type(ir: Any, mgpu: Any, aval: Any, kind: Any) -> Any:
    """The type of the scratch function's argument: a scalar that fills the array, or a buffer."""
    try:
        element = _element(mgpu, aval.dtype)
        return ir.MemRefType.get(tuple(aval.shape), element, memory_space=mgpu.utils.smem()) if _is_ref(aval) else element
    except Exception as e:  # barriers and other refs that are no arrays
        raise Unreadable(f"an argument of type {aval}") from e


def _argument(ir: Any, mgpu: Any, reader: Reader, block: Any, index: int, aval: Any, kind: Any) -> Any:
    """What the body is given: a buffer, a scalar, or an array each of whose registers is a value of its own."""
    value = block.arguments[index]
    if _is_ref(aval):
        return value
    signed = mgpu.utils.is_signed(aval.dtype)
    layout = kind.to_mgpu() if hasattr(kind, "to_mgpu") and aval.shape else None
    splat = mgpu.FragmentedArray.splat
    array = splat(value, tuple(aval.shape), is_signed=signed) if layout is None else splat(value, tuple(aval.shape), layout, is_signed=signed)
    reader.add(value, reader.argument(index))
    if layout is None or array.registers.size == 1 and isinstance(layout, mgpu.WGSplatFragLayout):
        return array
    registers = np.empty_like(array.registers)
    for at, register in np.ndenumerate(array.registers):
        registers[at] = block.add_argument(register.type, ir.Location.unknown())
        reader.add(registers[at], reader.argument(index), (array.layout, at))
    return mgpu.FragmentedArray(_registers=registers, _layout=array.layout, _is_signed=signed)


def _constant(value: Any) -> Any:
    """The number that an MLIR value is; None where it is none."""
    owner = getattr(value, "owner", None)
    op = getattr(owner, "opview", owner)
    if op is None or getattr(getattr(op, "operation", op), "name", "") not in ("arith.constant", "llvm.mlir.constant"):
        return None
    return getattr(op.attributes["value"], "value", None)


def _result(array: Any, reader: Reader) -> Expression:
    registers = getattr(array, "registers", None)
    if registers is None:
        raise Unreadable("it returns what is no array")
    values = {id(v): v for v in (reader.expression(r, (array.layout, at)) for at, r in np.ndenumerate(registers))}
    if len(values) != 1:
        raise Unreadable("it computes parts of a result in different ways")
    return next(iter(values.values()))


def _element_access(op: Any, reader: Reader, loads: int, avals: Any, types: Any, params: Any) -> Act:
    """A load or store of one element of a ref that the body was given as it is."""
    name, operands = op.operation.name, list(op.operation.operands)
    value, (ref, *index) = (None, operands) if name == "memref.load" else (operands[0], operands[1:])
    number = getattr(ref, "arg_number", -1)
    if not 0 <= number < len(avals) or ref != op.operation.parent.regions[0].blocks[0].arguments[number]:
        raise Unreadable(f"it emits {name} on what is no argument")
    if getattr(types[number], "transforms", ()) or params["pytree_ref_transforms"].num_leaves or not hasattr(avals[number].inner_aval, "dtype"):
        raise Unreadable(f"it emits {name} on a ref with transforms")
    places = tuple(reader.expression(i, None) for i in index)
    if value is not None:
        return Act("store", ref=number, index=places, value=reader.expression(value, None))
    reader.add(op.operation.results[0], Loaded(loads))
    return Act("load", ref=number, index=places)


def _acts(block: Any, reader: Reader, avals: Any, types: Any, params: Any) -> list[Act]:
    acts: list[Act] = []
    arguments = list(block.arguments)
    for op in block.operations:
        name, operands = op.operation.name, list(op.operation.operands)
        if is_value(op.operation):
            continue  # who uses it says whether it matters
        if name in ("memref.load", "memref.store"):
            acts.append(_element_access(op, reader, sum(a.kind == "load" for a in acts), avals, types, params))
            continue
        if name == "llvm.inline_asm":
            results = any(str(r.type) != "!llvm.void" for r in op.operation.results)
            acts += _assembly(op.attributes["asm_string"].value, [_operand(v, arguments) for v in operands], results)
        elif name == "nvvm.fence.proxy":
            acts.append(Act("fence_async" if "async" in str(op.attributes["kind"]) else "fence"))
        elif name == "nvvm.tcgen05.wait":
            acts.append(Act("wait_load_tmem" if "load" in str(op.attributes["kind"]) else "commit_tmem"))
        elif name.startswith("nvvm.fence.") or name in ("nvvm.memory.barrier", "nvvm.bar.warp.sync", "nvvm.tcgen05.fence"):
            acts.append(Act("fence"))
        elif name in ("nvvm.barrier0", "gpu.barrier"):
            acts.append(Act("named_barrier_sync", 0))
        elif name in ("nvvm.barrier", "nvvm.barrier.arrive"):
            acts.append(_nvvm_barrier(op, name.endswith("arrive"), [_operand(v, arguments) for v in operands]))
        elif name.startswith(("nvvm.read.ptx.sreg.", "gpu.thread_id", "gpu.block_dim", "gpu.block_id", "gpu.grid_dim")) or name == "nvvm.shfl.sync":
            continue  # who the thread is: a value, as above
        else:
            raise Unreadable(f"it emits {name}")
    return acts


def _operand(value: Any, arguments: list[Any]) -> int | Argument | None:
    number = _constant(value)
    if number is not None:
        return int(number)
    for i, a in enumerate(arguments):
        if value == a:
            return Argument(i)
    return None


def _nvvm_barrier(op: Any, arrives: bool, operands: list[int | Argument | None]) -> Act:
    ids = list(operands)
    has_id = getattr(op, "barrierId", None) is not None
    barrier = ids.pop(0) if has_id else 0
    threads = ids.pop(0) if ids else None
    return _barrier("arrive" if arrives else "sync", barrier, threads, threads is None)


def _barrier(kind: str, barrier: int | Argument | None, threads: int | Argument | None, everybody: bool) -> Act:
    if not everybody and not isinstance(threads, int):
        raise Unreadable("a barrier whose number of threads is computed")
    if kind == "sync" and threads == WARPGROUP:
        return Act("fence")  # a warpgroup with itself: it is one thread here
    if isinstance(threads, int) and threads % WARP:
        raise Unreadable(f"a barrier of {threads} threads, which are not whole warps")
    if barrier is None:
        raise Unreadable("a barrier whose number is computed")
    return Act(f"named_barrier_{kind}", barrier, threads if isinstance(threads, int) else None)


def _assembly(text: str, operands: list[int | Argument | None], results: bool) -> list[Act]:
    if results:
        raise Unreadable(f"inline assembly with a result: {text.strip()[:80]}")
    acts: list[Act] = []
    for statement in re.split(r"[;\n]", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)):
        statement = statement.strip().strip("{}").strip()
        if not statement:
            continue
        if m := _BARRIER.fullmatch(statement):
            barrier, threads = (_number(x, operands) for x in m.group(2, 3))
            acts.append(_barrier(m.group(1), barrier, threads, m.group(3) is None))
        elif _ASYNC_FENCE.match(statement):
            acts.append(Act("fence_async"))
        elif _FENCE.match(statement) or _WARP.fullmatch(statement):
            acts.append(Act("fence"))
        else:
            raise Unreadable(f"inline assembly: {statement[:80]}")
    return acts


def _number(text: str | None, operands: list[int | Argument | None]) -> int | Argument | None:
    if text is None:
        return None
    if text.startswith("$"):
        index = int(text[1:])
        return operands[index] if index < len(operands) else None
    return int(text, 0) if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", text) else None
