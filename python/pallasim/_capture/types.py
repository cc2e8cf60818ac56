"""Types, dimensions and memory spaces as text."""
from __future__ import annotations

import ast
from typing import Any

from . import jaxver

_DTYPES = {
    "bool": "bool", "int2": "i2", "int4": "i4", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint2": "u2", "uint4": "u4", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64",
    "float8_e3m4": "f8e3m4", "float8_e4m3": "f8e4m3", "float8_e4m3b11fnuz": "f8e4m3b11fnuz",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn": "f4e2m1fn",
    "complex64": "c64", "complex128": "c128", "float0": "bool",
    "semaphore": "sem", "dma_sem": "dma_sem", "barrier_semaphore": "barrier_sem",
    "barrier": "mbarrier", "cluster_barrier": "cluster_barrier",
}
_KEYS = {
    "fry": "key_fry", "rbg": "key_rbg", "urbg": "key_urbg", "pl": "key_tpu", "_pl_stateful": "key_stateful",
}
BITS = {
    "bool": 8, "i2": 2, "i4": 4, "u2": 2, "u4": 4, "f4e2m1fn": 4, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "bf16": 16,
    "f16": 16, "i32": 32, "u32": 32, "f32": 32, "i64": 64, "u64": 64, "f64": 64, "c64": 64, "c128": 128,
}


class Unsupported(Exception):
    """Something that the IR cannot express; the message names it. `at`: (file, line, column, function, text) of the line of
    the kernel that asks for it, None where the launch does."""

    at: tuple[str, int, int, str, str] | None = None


_dtype_cache: dict[Any, str] = {}


def dtype_text(dtype: Any) -> str:
    """IR name of a JAX dtype, extended ones included."""
    try:
        return _dtype_cache[dtype]
    except KeyError:
        pass
    impl = getattr(dtype, "_impl", None)
    if impl is not None:
        text = _KEYS.get(getattr(impl, "tag", ""))
        name = f"key<{getattr(impl, 'name', impl)}>"
    else:
        name = getattr(dtype, "name", None) or str(dtype)
        text = _DTYPES.get(name)
    if text is None:
        raise Unsupported(f"element type {name}")
    _dtype_cache[dtype] = text
    return text


def bits_of(dtype: str) -> int:
    """Machine width of an element in bits."""
    return BITS.get(dtype, 8)


# --- dimensions ---------------------------------------------------------------------------------------------------

_BIN = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}
_CALLS = {"floordiv": "floordiv", "mod": "mod", "max": "max", "min": "min"}


def _expr(node: ast.expr, params: dict[str, None]) -> str:
    if isinstance(node, ast.Constant):
        return str(int(node.value))
    if isinstance(node, ast.Name):
        params[node.id] = None
        return node.id
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _expr(node.operand, params)
        return str(-int(inner)) if inner.lstrip("-").isdigit() else f"mul(-1,{inner})"
    if isinstance(node, ast.BinOp):
        left = _expr(node.left, params)
        if isinstance(node.op, ast.Pow):
            return _power(left, int(ast.literal_eval(node.right)))
        return f"{_BIN[type(node.op)]}({left},{_expr(node.right, params)})"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        a, b = node.args
        return f"{_CALLS[node.func.id]}({_expr(a, params)},{_expr(b, params)})"
    raise Unsupported(f"dimension {ast.unparse(node)}")


def _power(base: str, n: int) -> str:
    return base if n <= 1 else f"mul({base},{_power(base, n - 1)})"


def dim_text(dim: Any, params: dict[str, None]) -> str:
    """A dimension as text; names of shape parameters are added to `params`."""
    if type(dim) is int:
        return str(dim)
    try:
        return str(dim.__index__())
    except Exception:
        pass
    text = str(dim).replace("^", "**")
    try:
        return _expr(ast.parse(text, mode="eval").body, params)
    except (SyntaxError, KeyError, ValueError) as e:
        raise Unsupported(f"dimension {dim}") from e


# --- memory spaces ------------------------------------------------------------------------------------------------


def _space_table() -> dict[Any, str]:
    table: dict[Any, str] = {}
    for key, names in (
        ("pallas_core", {"ANY": "any", "DEFAULT": "deflt", "ERROR": "error", "INDEX": "index", "KEY": "key", "HOST": "host"}),
        ("tpu_core", {"VMEM": "vmem", "VMEM_SHARED": "vmem_shared", "SMEM": "smem", "CMEM": "cmem",
                      "SEMAPHORE": "semaphore", "HBM": "hbm", "ANY": "any"}),
        ("gpu_core", {"GMEM": "gmem", "SMEM": "gsmem", "TMEM": "tmem", "REGS": "regs"}),
        ("core", {"Device": "any", "Host": "host"}),
    ):
        enum = getattr(jaxver.module(key), "MemorySpace", None)
        for member in enum or ():
            if member.name in names:
                table[member] = names[member.name]
    return table


_spaces: dict[Any, str] = {}
_spaces_for = -1


def space_text(space: Any) -> tuple[str, Any]:
    """(space, mesh or None) of a Pallas memory space; None is "any"."""
    global _spaces, _spaces_for
    if _spaces_for != jaxver.imported():
        _spaces, _spaces_for = _space_table(), jaxver.imported()
    if space is None:
        return "any", None
    text = _spaces.get(space)
    if text is not None:
        return text, None
    inner = getattr(space, "memory_space", None)
    if inner is not None:
        return space_text(inner)[0], getattr(space, "mesh", None)
    raise Unsupported(f"memory space {space}")
