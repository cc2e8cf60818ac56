"""Where the arguments of a launch were written: a BlockSpec, a scratch shape, an alias, a collective_id.

JAX keeps the place of the whole call alone. The text of the file has the others: the call is the one that the launch's line
belongs to, or the only one in the file that is given the kernel's name. What the text does not show (a list that a function
made, `**options`) is named by the argument's own line, or by nothing.
"""
from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Iterator, Mapping

_CALLS = {"pallas_call": ("kernel", "out_shape"), "kernel": ("body", "out_type"), "core_map": ("mesh",)}  # and what comes by place
_SAME = {"out_shape": "out_type", "out_type": "out_shape", "scratch_shapes": "scratch_types", "scratch_types": "scratch_shapes"}
_LARGEST = 2_000_000  # characters of a file that is still read

Line = tuple[str, int, int, str]  # file, line, column, function


class _Call:
    """A call that makes a launch: its span, the name of its kernel, its arguments, and the functions around it."""

    def __init__(self, kind: str, node: ast.Call, given: list[ast.expr], around: tuple[ast.AST, ...], outer: ast.AST, kernel: str | None) -> None:
        self.first, self.last = outer.lineno, outer.end_lineno or outer.lineno  # type: ignore[attr-defined]
        self.around = around
        self.function = ".".join(getattr(f, "name", "") for f in around if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)))
        names = _CALLS[kind] if kernel is None else _CALLS[kind][1:]
        self.arguments: dict[str, ast.expr] = dict(zip(names, given))
        self.arguments.update({k.arg: k.value for k in node.keywords if k.arg})
        if isinstance(spec := self.value(self.arguments.get("grid_spec")), ast.Call):
            for k in spec.keywords:
                self.arguments.setdefault(k.arg or "", k.value)
        self.kernel = kernel or _name(self.arguments.get(names[0]))

    def surrounds(self, line: int) -> bool:
        """Whether the line is of the function in which the call stands."""
        f = self.around[-1]
        return isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) and f.lineno <= line <= (f.end_lineno or f.lineno)

    def value(self, node: ast.expr | None) -> ast.expr | None:
        """What a name was set to, where the functions around the call set it once; else the expression. A name of the module is what
        several calls share: the line that gives it to this one says more."""
        if not isinstance(node, ast.Name):
            return node
        for scope in reversed(self.around):
            if isinstance(scope, ast.Module):
                break
            sets = [a.value for a in _own(scope) if isinstance(a, ast.Assign) and [_name(t) for t in a.targets] == [node.id]]
            if len(sets) == 1:
                return sets[0] if _describes(sets[0]) else node
            if sets or _binds(scope, node.id):
                break
        return node


def _describes(node: ast.expr) -> bool:
    """A specification, a shape, or several: not an array that only has the shape."""
    return isinstance(node, (ast.List, ast.Tuple, ast.Dict)) or (isinstance(node, ast.Call) and _last(node.func)[:1].isupper())


def _name(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Call) and _last(node.func) == "partial" and node.args:
        return _name(node.args[0])
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function or a module without those of functions inside."""
    inside = list(ast.iter_child_nodes(scope))
    while inside:
        node = inside.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            inside += ast.iter_child_nodes(node)


def _binds(scope: ast.AST, name: str) -> bool:
    args = getattr(scope, "args", None)
    given = [] if args is None else [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return any(a is not None and a.arg == name for a in given) or any(
        isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name for n in _own(scope))


def _made(node: ast.Call) -> tuple[str, list[ast.expr]] | None:
    """Which launch the call makes, and what it is given by place; functools.partial(pl.pallas_call, ...) makes one, too."""
    if (kind := _last(node.func)) in _CALLS:
        return kind, node.args
    if kind == "partial" and node.args and (of := _last(node.args[0])) in _CALLS:
        return of, node.args[1:]
    return None


def _calls(node: ast.AST, around: tuple[ast.AST, ...], outer: ast.AST | None = None) -> Iterator[_Call]:
    for child in ast.iter_child_nodes(node):
        inside = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = (*around, child)
            for d in child.decorator_list:
                if isinstance(d, ast.Call) and (made := _made(d)):
                    yield _Call(made[0], d, made[1], around, d, child.name)
        span = outer
        if isinstance(child, ast.Call):
            span = outer or child  # pl.pallas_call(...)(x): the launch is the outer one
            if made := _made(child):
                yield _Call(made[0], child, made[1], around, span, None)
            if not isinstance(child.func, ast.Call):
                span = None
        else:
            span = None
        yield from _calls(child, inside, span)


@functools.lru_cache(maxsize=64)
def _calls_of(file: str, text: str) -> tuple[_Call, ...]:
    del file
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(_calls(tree, (tree,)))


class Arguments:
    """Of one launch. `site`: its line, None where nobody knows; `kernel`: the name of its function."""

    def __init__(self, site: Line | None, kernel: str) -> None:
        self._file, self._call = "", None
        if site is None:
            return
        text = "".join(linecache.getlines(site[0]))
        if not text or len(text) > _LARGEST:
            return
        calls = _calls_of(site[0], text)
        here = [c for c in calls if c.first <= site[1] <= c.last]
        near = [c for c in calls if c.surrounds(site[1])]  # made in the function that calls it
        for some in here, near, calls:
            fits = [c for c in some if c.kernel == kernel] or (here if some is here else [])
            if len(fits) == 1:
                self._file, self._call = site[0], fits[0]
            if fits:
                return

    def line(self, argument: str, index: int | None = None, of: int = -1) -> Line | None:
        """Of an argument, or of an element of it where it is a list of `of`, whose elements are written one by one."""
        call = self._call
        if call is None:
            return None
        node = call.arguments.get(argument) or call.arguments.get(_SAME.get(argument, ""))
        if node is None:
            return None
        listed = call.value(node)
        if index is not None and isinstance(listed, (ast.List, ast.Tuple)):
            if len(listed.elts) == of and not any(isinstance(e, ast.Starred) for e in listed.elts):
                node = listed.elts[index]
        elif index is not None and of == 1 and listed is not None:
            node = listed
        made = call.value(node) or node
        return self._file, made.lineno, made.col_offset, call.function

    def note(self, argument: str, allocs: list[list[tuple[str, str]]], row: Callable[[Line], int]) -> None:
        """Adds the lines of an argument's elements to the facts of allocations that know no line of their own."""
        for i, facts in enumerate(allocs):
            if all(k != "made" for k, _ in facts) and (made := self.line(argument, i, len(allocs))):
                facts.append(("made", str(row(made))))

    def inside(self, argument: str, keyword: str) -> Line | None:
        """Of a keyword of the call that an argument is: `collective_id` of `compiler_params`."""
        call = self._call
        made = None if call is None else call.value(call.arguments.get(argument))
        for k in made.keywords if isinstance(made, ast.Call) else ():
            if k.arg == keyword and call is not None:
                return self._file, k.value.lineno, k.value.col_offset, call.function
        return self.line(argument)


def rows(lines: Mapping[str, Line | None], row: Callable[[Line], int]) -> str | None:
    """Text of the module's attribute `lines`; `row` numbers a line."""
    known = [f"{k} = {row(v)}" for k, v in lines.items() if v is not None]
    return "{" + ", ".join(known) + "}" if known else None
