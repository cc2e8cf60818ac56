"""Values that an inline Mosaic GPU body computes from scalars and, register by register, from arrays: read from the MLIR that it emits.

An array's elements are spread over registers of many CUDA threads. What a body does to them is elementwise where each register of the
result is computed from the registers at the same position alone, all in the same way, by operations that work lane by lane. Whatever moves
elements between registers, lanes or threads has no meaning here."""
from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any, Union

import numpy as np


class Unreadable(Exception):
    """The body does something that has no meaning here; the text says what."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the body: a scalar, or the element of an array at the result's place."""

    index: int


@dataclasses.dataclass(frozen=True)
class Constant:
    value: np.generic


@dataclasses.dataclass(frozen=True)
class Place:
    """A block's number along a CUDA dimension ("x", "y", "z") of the grid, or how many there are."""

    dim: str
    count: bool


@dataclasses.dataclass(frozen=True)
class Loaded:
    """What the load number `number` of the body's acts read."""

    number: int


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """An operation of the IR with operands of the types `of`, which have the bits of those that the operands have; its result is a
    `dtype`."""

    op: str
    operands: tuple[Expression, ...]
    of: tuple[np.dtype, ...]
    dtype: np.dtype


Expression = Union[Argument, Constant, Place, Loaded, Operation]

_INTEGERS = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32}
_UNSIGNED = {np.dtype(f"int{n}"): np.dtype(f"uint{n}") for n in (8, 16, 32)}

# MLIR operation -> the IR's, and how its integers are read: "s", "u", or "" where that makes no difference.
_PLAIN = {
    "arith.addf": ("add", ""), "arith.subf": ("sub", ""), "arith.mulf": ("mul", ""), "arith.divf": ("div", ""), "arith.negf": ("neg", ""),
    "arith.maximumf": ("max", ""), "arith.minimumf": ("min", ""),
    "arith.addi": ("add", ""), "arith.subi": ("sub", ""), "arith.muli": ("mul", ""), "arith.andi": ("and", ""), "arith.ori": ("or", ""),
    "arith.xori": ("xor", ""), "arith.shli": ("shift_left", ""), "arith.shrsi": ("shift_right_arithmetic", "s"),
    "arith.shrui": ("shift_right_logical", ""), "arith.divsi": ("div", "s"), "arith.divui": ("div", "u"), "arith.remsi": ("rem", "s"),
    "arith.remui": ("rem", "u"), "arith.maxsi": ("max", "s"), "arith.maxui": ("max", "u"), "arith.minsi": ("min", "s"),
    "arith.minui": ("min", "u"),
    "math.absf": ("abs", ""), "math.absi": ("abs", "s"), "math.exp": ("exp", ""), "math.exp2": ("exp2", ""), "math.log": ("log", ""),
    "math.sqrt": ("sqrt", ""), "math.rsqrt": ("rsqrt", ""), "math.sin": ("sin", ""), "math.cos": ("cos", ""), "math.tanh": ("tanh", ""),
    "math.floor": ("floor", ""), "math.ceil": ("ceil", ""), "math.erf": ("erf", ""), "math.copysign": ("copysign", ""),
    "llvm.add": ("add", ""), "llvm.sub": ("sub", ""), "llvm.mul": ("mul", ""), "llvm.and": ("and", ""), "llvm.or": ("or", ""),
    "llvm.xor": ("xor", ""), "llvm.fadd": ("add", ""), "llvm.fsub": ("sub", ""), "llvm.fmul": ("mul", ""), "llvm.fdiv": ("div", ""),
}
# Conversions: how the operand's integers are read, and the result's.
_CONVERSIONS = {
    "arith.extf": ("", ""), "arith.truncf": ("", ""), "arith.sitofp": ("s", ""), "arith.uitofp": ("u", ""), "arith.fptosi": ("", "s"),
    "arith.fptoui": ("", "u"), "arith.extsi": ("s", "s"), "arith.extui": ("u", "u"), "arith.trunci": ("s", "s"),
}
# Predicates of arith.cmpi and arith.cmpf by their numbers (MLIR, the arith dialect).
_CMPI = {0: ("eq", ""), 1: ("ne", ""), 2: ("lt", "s"), 3: ("le", "s"), 4: ("gt", "s"), 5: ("ge", "s"), 6: ("lt", "u"), 7: ("le", "u"), 8: ("gt", "u"),
         9: ("ge", "u")}
_CMPF = {1: "eq", 2: "gt", 3: "ge", 4: "lt", 5: "le", 13: "ne"}
# PTX instructions with a result that is the same whatever the compiler is.
_ASSEMBLY = {"max.NaN.f32": "max", "min.NaN.f32": "min"}
_SPREAD = ("vector.broadcast", "vector.splat")
_CASTS = ("arith.index_cast", "arith.index_castui", "builtin.unrealized_conversion_cast")
_WIDE = ("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci", *_CASTS)


def instruction(op: Any) -> str | None:
    """The IR's operation that inline assembly is; None where it is no single instruction of those known."""
    m = re.fullmatch(r"\s*([\w.]+)((?:\s*,?\s*\$\d+)+)\s*;?\s*", op.attributes["asm_string"].value)
    if not m or re.findall(r"\d+", m.group(2)) != [str(i) for i in range(len(op.operands) + 1)]:
        return None
    return _ASSEMBLY.get(m.group(1))


def is_value(op: Any) -> bool:
    """Whether the operation has no effect but its results: who uses them says whether they matter."""
    name = op.name
    if name == "llvm.inline_asm":
        return len(op.results) == 1 and instruction(op) is not None
    return name.startswith(("arith.", "math.", *_SPREAD, "vector.extract", "vector.insert", "vector.from_elements", "vector.bitcast")) or name in _PLAIN or name in (
        "llvm.mlir.constant", "llvm.mlir.undef", "builtin.unrealized_conversion_cast")


class Reader:
    """Reads what values of one scratch body are."""

    def __init__(self) -> None:
        self._sources: dict[Any, tuple[Expression, Any]] = {}  # arguments and registers of arrays, these with their positions
        self._known: dict[tuple[Any, ...], Expression] = {}  # equal expressions are one object
        self._read: dict[tuple[Any, Any], Expression] = {}

    def add(self, value: Any, expression: Expression, position: Any = None) -> None:
        """What a value is known as; of a register of an array, at its position."""
        self._sources[value] = (expression, position)

    def argument(self, index: int) -> Expression:
        return self._one(("argument", index), lambda: Argument(index))

    def expression(self, value: Any, position: Any, lane: int | None = None) -> Expression:
        """What a value is, as part of the register at `position`; of a vector what each of its lanes is, or that one. Raises Unreadable."""
        key = (value, position, lane)
        if key not in self._read:
            self._read[key] = self._new(value, position, lane)
        return self._read[key]

    def _one(self, key: tuple[Any, ...], make: Any) -> Expression:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _new(self, value: Any, position: Any, lane: int | None) -> Expression:
        if value in self._sources:
            expression, at = self._sources[value]
            if at is not None and at != position:
                raise Unreadable("it moves elements between registers")
            return expression
        owner = getattr(value, "owner", None)
        op = getattr(getattr(owner, "opview", owner), "operation", None)
        name = getattr(op, "name", "")
        dtype = self._dtype(value.type) if not str(value.type).startswith("!") else None
        if dtype is None or not name:
            raise Unreadable("it computes a result" if not name else f"it computes with {name}")
        if _wide(value.type) and name not in _WIDE and name not in ("arith.constant", "llvm.mlir.constant", "gpu.block_id", "gpu.grid_dim"):
            raise Unreadable(f"it computes with {name} of 64 bits")
        if name in ("arith.constant", "llvm.mlir.constant"):
            number = _number(op.attributes["value"], dtype)
            return self._one(("constant", dtype, number.tobytes()), lambda: Constant(number))
        if name in ("gpu.block_id", "gpu.grid_dim") and (m := re.search(r"\b([xyz])\b", str(op.attributes["dimension"]))):
            return self._one((name, m.group(1)), lambda: Place(m.group(1), name == "gpu.grid_dim"))
        if name == "vector.insert":
            return self._gathered(value, position)
        if name == "vector.extract":
            if len(op.operands) != 1 or list(op.attributes["static_position"]) != [lane]:
                raise Unreadable("it moves elements between lanes")
            return self.expression(op.operands[0], position, lane)
        operands = tuple(self.expression(v, position, lane) for v in op.operands)
        if name in _SPREAD or name in _CASTS:
            return operands[0]
        return self._operation(op, name, operands, dtype)

    def _gathered(self, value: Any, position: Any) -> Expression:
        """A vector whose lanes were put in one by one."""
        lanes: dict[int, Expression] = {}
        size = value.type.shape[0] if len(value.type.shape) == 1 else -1
        while True:
            owner = value.owner
            op = getattr(owner, "operation", None)
            if getattr(op, "name", "") != "vector.insert" or len(op.operands) != 2 or len(op.attributes["static_position"]) != 1:
                break
            lane = op.attributes["static_position"][0]
            if lane not in lanes:
                lanes[lane] = self.expression(op.operands[0], position, lane)
            value = op.operands[1]
        if len(lanes) != size or len({id(v) for v in lanes.values()}) != 1:
            raise Unreadable("it computes lanes in different ways")
        return next(iter(lanes.values()))

    def _operation(self, op: Any, name: str, operands: tuple[Expression, ...], dtype: np.dtype) -> Expression:
        types = tuple(self._dtype(v.type) for v in op.operands)
        if name in ("arith.extsi", "arith.extui", "arith.trunci") and dtype == types[0]:
            return operands[0]  # of 32 bits, which are kept
        if name in _PLAIN:
            what, sign = _PLAIN[name]
            return self._make(what, operands, tuple(_read_as(t, sign) for t in types), _read_as(dtype, sign))
        if name in _CONVERSIONS:
            before, after = _CONVERSIONS[name]
            return self._make("convert", operands, tuple(_read_as(t, before) for t in types), _read_as(dtype, after))
        if name == "arith.bitcast" and types[0].itemsize == dtype.itemsize:
            return self._make("bitcast_convert", operands, types, dtype)
        if name == "arith.select":
            condition, yes, no = operands
            return self._make("select_n", (condition, no, yes), (types[0], types[2], types[1]), dtype)
        number = op.attributes["predicate"].value if name in ("arith.cmpi", "arith.cmpf") else None
        if name == "arith.cmpi" and not any(_wide(v.type) for v in op.operands):
            what, sign = _CMPI[number]
            return self._make(what, operands, tuple(_read_as(t, sign) for t in types), dtype)
        if name == "arith.cmpf" and number in _CMPF:
            return self._make(_CMPF[number], operands, types, dtype)
        if name == "llvm.inline_asm" and (what := instruction(op)) is not None:
            return self._make(what, operands, types, dtype)
        raise Unreadable(f"it computes with {name}")

    def _make(self, op: str, operands: tuple[Expression, ...], of: tuple[np.dtype, ...], dtype: np.dtype) -> Expression:
        key = (op, tuple(map(id, operands)), of, dtype)
        return self._one(key, lambda: Operation(op, operands, of, dtype))

    @staticmethod
    def _dtype(kind: Any) -> np.dtype:
        """The type of an element; integers have no sign in MLIR. Of index and i64 the lower 32 bits are kept."""
        text = str(kind)
        if m := re.fullmatch(r"vector<(?:\d+x)*([\w]+)>", text):
            text = m.group(1)
        if m := re.fullmatch(r"i(\d+)", text):
            bits = int(m.group(1))
            if bits == 64:
                return np.dtype(np.int32)
            if bits in _INTEGERS:
                return np.dtype(_INTEGERS[bits])
        names = {"index": "int32", "f16": "float16", "f32": "float32", "f64": "float64"}
        if text == "bf16":
            return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
        if text in names:
            return np.dtype(names[text])
        raise Unreadable(f"it computes with {text}")


def _wide(kind: Any) -> bool:
    return bool(re.search(r"\b(index|i64)\b", str(kind)))


def _read_as(dtype: np.dtype, sign: str) -> np.dtype:
    return _UNSIGNED.get(dtype, dtype) if sign == "u" else dtype


def _number(attribute: Any, dtype: np.dtype) -> np.generic:
    if getattr(attribute, "is_splat", False):
        attribute = attribute.get_splat_value()
    value = getattr(attribute, "value", None)
    if value is None or isinstance(value, str):
        raise Unreadable("it computes with a constant array")
    if dtype.kind == "i":
        return np.asarray(int(value) & (2 ** (8 * dtype.itemsize) - 1), _UNSIGNED[dtype]).view(dtype)[()]
    return dtype.type(value)
