"""A kernel's source with one place changed.

Changes are made in the text, by the places that the syntax tree names, so that every line that is not changed stays where it was.
"""
from __future__ import annotations

import ast
import dataclasses
import functools
import pathlib
import textwrap
from collections.abc import Callable, Iterator

KERNELS = pathlib.Path(__file__).resolve().parents[1] / "kernels"
NOT_THE_KERNEL = {"inputs", "reference"}  # functions of a kernel's file that operators leave alone


@dataclasses.dataclass(frozen=True)
class Change:
    """What an operator proposes: this part of the source (`start` and `end` are offsets) becomes `text`."""

    node: ast.AST
    start: int
    end: int
    text: str


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A kernel with one place changed. `name` is unique; `line` is where the place is; `lines` are all lines that changed, in the mutant's
    own numbering; `synchronises`: the place orders things (a wait, a signal, a fence, what they name or count); `about`: the statement that the
    place is in, as it was."""

    name: str
    kernel: str
    operator: str
    line: int
    lines: tuple[int, ...]
    before: str
    after: str
    synchronises: bool
    about: str = dataclasses.field(repr=False)
    source: str = dataclasses.field(repr=False)


class Source:
    """A kernel's text and its tree. Nodes know their parents: `node.parent`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Offsets of the node; a decorated function begins at its first decorator."""
        start = self.starts[node.lineno - 1] + node.col_offset
        if decorators := getattr(node, "decorator_list", None):
            start = self.starts[decorators[0].lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def code(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def block(self, statement: ast.stmt) -> str:
        """The statement as a text of its own."""
        return textwrap.dedent(" " * statement.col_offset + self.code(statement))

    def replace(self, node: ast.AST, text: str) -> Change:
        return Change(node, *self.span(node), text)

    def drop(self, statement: ast.stmt) -> Change:
        """Nothing instead of the statement; the lines behind it stay where they are."""
        return self.replace(statement, "pass" + "\n" * self.code(statement).count("\n"))

    def swap(self, first: ast.stmt, second: ast.stmt, node: ast.stmt) -> Change:
        """The two in the other order; `node` is the one that is meant to move."""
        (start, middle), (behind, end) = self.span(first), self.span(second)
        return Change(node, start, end, self.text[behind:end] + self.text[middle:behind] + self.text[start:middle])

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the kernel, in the order of the text."""

        def walk(node: ast.AST) -> Iterator[ast.AST]:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef) and child.name in NOT_THE_KERNEL:
                    continue
                if isinstance(child, (ast.Import, ast.ImportFrom, ast.arguments)):
                    continue
                if isinstance(child, ast.Assign) and any(getattr(t, "id", "") in ("MACHINE", "DEVICES") for t in child.targets):
                    continue
                yield child
                yield from walk(child)

        yield from walk(self.tree)


Operator = Callable[[Source], Iterator[Change]]
OPERATORS: dict[str, tuple[Operator, bool | None]] = {}


def operator(synchronises: bool | None = None) -> Callable[[Operator], Operator]:
    """Registers an operator under its function's name. `synchronises`: what it changes orders things; None: that depends on the place."""

    def add(f: Operator) -> Operator:
        assert f.__name__ not in OPERATORS
        OPERATORS[f.__name__] = f, synchronises
        return f

    return add


def called(node: ast.AST | None) -> str:
    """The name of the function that the node calls, "" where it calls none: `plgpu.barrier_wait(b)` calls "barrier_wait"."""
    if isinstance(node, ast.Expr):
        node = node.value
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def siblings(statement: ast.stmt) -> tuple[ast.stmt | None, ast.stmt | None]:
    """The statements before and behind it in the same block."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement.parent, field, None)
        if isinstance(block, list) and statement in block:
            at = block.index(statement)
            return block[at - 1] if at else None, block[at + 1] if at + 1 < len(block) else None
    return None, None


def around(node: ast.AST) -> Iterator[ast.AST]:
    """Its parents, innermost first."""
    while node := getattr(node, "parent", None):
        yield node


def statement_of(node: ast.AST) -> ast.stmt:
    return node if isinstance(node, ast.stmt) else next(n for n in around(node) if isinstance(n, ast.stmt))


@functools.cache
def kernels() -> dict[str, pathlib.Path]:
    return {p.stem: p for p in sorted(KERNELS.glob("*.py")) if p.stem != "__init__"}


def machine_of(path: pathlib.Path) -> str:
    """What the kernel's file says in `MACHINE`."""
    return next(ast.literal_eval(n.value) for n in ast.parse(path.read_text()).body if isinstance(n, ast.Assign) and n.targets[0].id == "MACHINE")


@functools.cache
def mutants_of(kernel: str) -> tuple[Mutant, ...]:
    """All mutants of a kernel, in a fixed order; of those with the same text the first."""
    from . import operators_data, operators_sync  # noqa: F401

    source = Source(kernels()[kernel].read_text())
    seen, found = {source.text}, []
    for name, (propose, synchronises) in OPERATORS.items():
        numbers: dict[int, int] = {}
        for change in propose(source):
            text = source.text[:change.start] + change.text + source.text[change.end:]
            if text in seen or not _parses(text):
                continue
            seen.add(text)
            line = change.node.lineno
            numbers[line] = numbers.get(line, 0) + 1
            first = source.text.count("\n", 0, change.start) + 1
            lines = tuple(range(first, first + change.text.rstrip("\n").count("\n") + 1))
            found.append(Mutant(f"{kernel}:{name}:{line}:{numbers[line]}", kernel, name, line, lines, _short(source.text[change.start:change.end]),
                                _short(change.text), _synchronises(source, name, change, synchronises),
                                source.block(statement_of(change.node)), text))
    return tuple(found)


def _synchronises(source: Source, name: str, change: Change, synchronises: bool | None) -> bool:
    from .meaning import nobody_can_tell, orders_things

    if nobody_can_tell(source, name, change):
        return False
    return orders_things(change.node) if synchronises is None else synchronises


def all_mutants() -> list[Mutant]:
    return [m for kernel in kernels() for m in mutants_of(kernel)]


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _short(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())
