"""`ref[i * 8 : (i + 1) * 8]` with traced bounds: the size is the bounds' difference, where that is a number whatever they are."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

# A sum of values times numbers: value's id -> (value, factor); None -> (None, the number alone).
_Linear = dict[Any, tuple[Any, int]]


def _number(x: Any) -> int | None:
    from jax._src import core

    value = x if isinstance(x, int) else core.to_concrete_value(x)
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None


def _combined(a: _Linear, b: _Linear, factor: int) -> _Linear:
    """a + factor * b."""
    out = dict(a)
    for key, (value, n) in b.items():
        total = out.get(key, (value, 0))[1] + factor * n
        out[key] = (value, total)
    return {key: term for key, term in out.items() if term[1] or key is None}


def _linear(x: Any) -> _Linear:
    """A scalar integer as such a sum, followed back through the operations that made it."""
    if (n := _number(x)) is not None:
        return {None: (None, n)}
    value = getattr(getattr(x, "val", None), "val", None)  # a literal of the trace
    if value is not None and (n := _number(value)) is not None:
        return {None: (None, n)}
    eqn = getattr(x, "parent", None)
    name = getattr(getattr(eqn, "primitive", None), "name", "")
    operands = getattr(eqn, "in_tracers", ())
    if name in ("add", "sub"):
        return _combined(_linear(operands[0]), _linear(operands[1]), 1 if name == "add" else -1)
    if name == "neg":
        return _combined({}, _linear(operands[0]), -1)
    if name == "mul":
        a, b = map(_linear, operands)
        for one, other in ((a, b), (b, a)):
            if set(one) <= {None}:
                return _combined({}, other, one.get(None, (None, 0))[1])
    if name == "convert_element_type":
        return _linear(operands[0])
    key = id(getattr(x, "val", x))  # the variable: tracers of one variable are many
    return {key: (x, 1)}


def difference(stop: Any, start: Any) -> int | None:
    """`stop - start` where that is one number, else None."""
    rest = _combined(_linear(stop), _linear(start), -1)
    return rest.get(None, (None, 0))[1] if set(rest) <= {None} else None


def from_slice(original: Callable[..., Any], warn: Callable[[], None]) -> Callable[..., Any]:
    """JAX's `Slice.from_slice` for slices that may have traced bounds."""

    def patched(cls: Any, slc: Any, size: Any) -> Any:
        from jax._src import core

        bounds = (slc.start, slc.stop)
        if not any(isinstance(b, core.Tracer) for b in bounds):
            return original(cls, slc, size)
        if slc.step not in (None, 1):
            raise TypeError("a slice with traced bounds and a step: write pl.ds(start, size, stride)")
        start, stop = 0 if slc.start is None else slc.start, size if slc.stop is None else slc.stop
        length = difference(stop, start)
        if length is None:
            raise TypeError("the size of a slice must be a number while JAX traces, and the difference of these bounds is none: write pl.ds(start, size)")
        warn()
        return cls(start, max(length, 0), 1)

    return patched
