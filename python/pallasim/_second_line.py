"""What an error of JAX's means for somebody who writes a kernel: a line below it, said where it leaves an `emulate` block."""
from __future__ import annotations

import itertools
import linecache
import re
from types import CodeType, TracebackType
from typing import Any

from . import _platform


def explain(error: BaseException) -> None:
    """Adds the line to the error's text, where there is one to add."""
    if isinstance(error, (AttributeError, TypeError)):
        line = _of_ref(error)
    elif isinstance(error, RecursionError):
        line = _of_recursion()
    else:
        return
    if line and error.args and isinstance(error.args[0], str) and "pallasim:" not in error.args[0]:
        error.args = (f"{error.args[0]}\npallasim: {line}", *error.args[1:])


def _user_traceback(error: BaseException) -> TracebackType | None:
    """The innermost one of code that is neither JAX's nor ours."""
    found, tb = None, error.__traceback__
    while tb is not None:
        if _platform.is_outside(tb.tb_frame.f_globals.get("__name__") or ""):
            found = tb
        tb = tb.tb_next
    return found


def _expression(tb: TracebackType, text: str) -> str:
    """What of the line was computed; the line itself where nobody knows."""
    first, last, begin, end = next(itertools.islice(tb.tb_frame.f_code.co_positions(), tb.tb_lasti // 2, None), (None,) * 4)
    whole = first is None or first != last or begin is None or end is None
    return text if whole else text.encode()[begin:end].decode(errors="replace")


def _is_ref(value: Any) -> bool:
    """Whether a value of a kernel that is traced is a ref; its type alone does not say so."""
    aval = getattr(value, "aval", None)
    return aval is not None and any(c.__name__ == "AbstractRef" for c in type(aval).__mro__)


def _names(code: CodeType) -> set[str]:
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}


def _of_ref(error: BaseException) -> str:
    """Arithmetic with a ref instead of its value."""
    tb = _user_traceback(error)
    if tb is None:
        return ""
    frame = tb.tb_frame
    line = linecache.getline(frame.f_code.co_filename, tb.tb_lineno, frame.f_globals)
    text = _expression(tb, line)
    bare = lambda name: re.search(rf"\b{re.escape(name)}\b(?!\s*(\[|\.at\b))", text)  # noqa: E731
    refs = [n for n in sorted(_names(frame.f_code)) if _is_ref(frame.f_locals.get(n)) and bare(n)]
    if not refs:
        return ""
    where = f"{frame.f_code.co_filename}:{tb.tb_lineno}: {line.strip()}"
    if len(refs) == 1:
        return f"{refs[0]} is a ref, a place in memory; the array in it is {refs[0]}[...] ({where})"
    return f"{', '.join(refs)} are refs, places in memory; the array in {refs[0]} is {refs[0]}[...] ({where})"


def _of_recursion() -> str:
    import jax

    switches = [name for name in ("jax_debug_nans", "jax_debug_infs") if getattr(jax.config, name)]
    if not switches:
        return ""
    return (f"{' and '.join(switches)} found what it looks for in what a kernel returned, and to find the operation JAX calls the kernel again and again, "
            f"into which it cannot see. Leave it off around the kernel (jax.{switches[0].removeprefix('jax_')}(False)) and ask "
            f"pallasim.emulate for the operation: nans=\"report\"")
