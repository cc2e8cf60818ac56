"""What a kernel calls its refs, where JAX hands them on as `*refs`: read off the `def` line of the kernel."""
from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
from collections.abc import Sequence
from typing import Any

_ANONYMOUS = re.compile(r"\w+\[\d+\]")


def of_kernel(jaxpr: Any, names: Sequence[str]) -> list[str]:
    """`names` of the refs of a whole kernel, or those of its own signature. plgpu.kernel wraps the kernel in a function of `*refs` whose
    first scope calls it with the scratch: the parameters that are no scratch and have no default are the refs, if they are as many."""
    own = list(names)
    if not own or not all(_ANONYMOUS.fullmatch(n) for n in own):
        return own
    scope = next((e.params["jaxpr"] for e in jaxpr.eqns if e.primitive.name == "run_scoped"), None)
    info = getattr(scope, "debug_info", None)
    site = re.fullmatch(r"(\S+) at (.*):(\d+)", getattr(info, "func_src_info", None) or "")
    if site is None:
        return own
    scratch = frozenset(re.split(r"[.\[]", n or "")[0] for n in getattr(info, "arg_names", None) or ())
    refs = [p for p in _parameters(site.group(2), int(site.group(3))) if p not in scratch]
    return refs if len(refs) == len(own) else own


def of_decorated(file: str, line: int) -> tuple[str, ...]:
    """Positional parameters of the function whose decorator is in that line."""
    return _parameters(file, line) if linecache.getline(file, line).lstrip().startswith("@") else ()


@functools.lru_cache(maxsize=256)
def _parameters(file: str, line: int) -> tuple[str, ...]:
    """Positional parameters without defaults of the function that begins in that line; none where its text is not to be had."""
    try:
        block = inspect.getblock(linecache.getlines(file)[line - 1:])
        tree = ast.parse(textwrap.dedent("".join(block)))
    except (SyntaxError, IndexError, ValueError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            args = node.args
            if args.vararg is not None:
                return ()
            every = [a.arg for a in [*args.posonlyargs, *args.args]]
            return tuple(every[:len(every) - len(args.defaults)])
    return ()
