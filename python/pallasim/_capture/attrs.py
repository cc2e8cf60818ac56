"""Python values as attribute text."""
from __future__ import annotations

import dataclasses
import enum
import json
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .types import bits_of, dtype_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def is_name(text: str) -> bool:
    return _NAME.match(text) is not None


def quote(text: str) -> str:
    """A JSON string in the printer's spelling."""
    return json.dumps(text.encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False)


def ints(values: Sequence[int]) -> str:
    return "[" + ", ".join([str(int(v)) for v in values]) + "]"


def bool_text(value: Any) -> str:
    return "true" if value else "false"


def symbol(text: Any) -> str:
    """A symbol of an enum member or a string; a string where the text is no name."""
    if isinstance(text, enum.Enum):
        text = text.value if isinstance(text.value, str) else text.name
    text = str(text).lower()
    return text if is_name(text) and text not in _RESERVED else quote(text)


_RESERVED = frozenset(("ref", "blob"))


def scalar_bits(value: Any, dtype: Any) -> str:
    """`f32 0x3f800000` of one element (a Python number or a NumPy scalar); complex and wider types are dense."""
    return array_literal(np.asarray(value, dtype).reshape(()))


def array_literal(array: np.ndarray) -> str:
    """Literal of an array, rank 0 included: bits of one element, or all bytes in row-major order."""
    name = dtype_text(array.dtype)
    if array.ndim == 0 and array.dtype.itemsize <= 8:
        bits = int.from_bytes(array.tobytes(), "little")
        width = bits_of(name)
        if width < 8:
            bits &= (1 << width) - 1
        return f"{name} 0x{bits:x}"
    shape = ",".join(map(str, array.shape))
    return f"{name}[{shape}] 0x{np.ascontiguousarray(array).tobytes().hex()}"


def attr(value: Any) -> str | None:
    """Text of any parameter of a primitive or a compiler. None: the value says nothing (None, empty containers)."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return bool_text(value)
    if isinstance(value, enum.Enum):
        return symbol(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return f"f64 0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:x}"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return f"{dtype_text(np.dtype(value))}[]"
    if isinstance(value, type) and isinstance(getattr(value, "dtype", None), np.dtype):  # jnp.bfloat16
        return f"{dtype_text(value.dtype)}[]"
    if type(value).__name__ == "_ScalarMeta":
        return f"{dtype_text(np.dtype(value.dtype))}[]"
    if isinstance(value, np.ndarray):
        return array_literal(value) if value.nbytes <= 65536 else quote(f"array {value.shape}")
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, (tuple, list, set, frozenset)):
        return _sequence(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value)
    if callable(value):
        return quote(getattr(value, "__qualname__", None) or type(value).__qualname__)
    return quote(_ADDRESS.sub("0x", str(value)))


def _sequence(value: Any) -> str:
    items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
    return "[" + ", ".join([attr(v) or "none" for v in items]) + "]"


def _mapping(value: Mapping[Any, Any]) -> str | None:
    items = [(str(k), attr(v)) for k, v in value.items()]
    if not items:
        return None
    if all(is_name(k) for k, _ in items):
        return "{" + ", ".join([f"{k} = {v or 'none'}" for k, v in items]) + "}"
    return "[" + ", ".join([f"item({quote(k)}, {v or 'none'})" for k, v in items]) + "]"


def _dataclass(value: Any) -> str:
    args = []
    for f in dataclasses.fields(value):
        args.append(attr(getattr(value, f.name)) or "none")
    name = type(value).__name__.lstrip("_")
    return f"{name}({', '.join(args)})"


def non_default_fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass instance that differ from their defaults (sequences of enum members as they are)."""
    out = {}
    for f in dataclasses.fields(value):
        v = getattr(value, f.name)
        default = f.default
        if default is dataclasses.MISSING and f.default_factory is not dataclasses.MISSING:
            default = f.default_factory()
        try:
            if v is default or bool(v == default):
                continue
        except Exception:
            pass
        out[f.name] = v
    return out


def params_dict(value: Any) -> str | None:
    """`{dimension_semantics = [arbitrary]}` of compiler parameters, None when all are defaults."""
    if value is None or not dataclasses.is_dataclass(value):
        return None
    items = []
    for k, v in non_default_fields(value).items():
        if k == "dimension_semantics" and v is not None:
            items.append(f"{k} = [{', '.join(symbol(s) for s in v)}]")
        elif (text := attr(v)) is not None:
            items.append(f"{k} = {text}")
    return "{" + ", ".join(items) + "}" if items else None
