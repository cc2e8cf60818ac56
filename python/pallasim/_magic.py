"""`%load_ext pallasim`: the magics `%%pallasim tpu-v5e` of a cell and `%pallasim tpu-v5e` of a notebook."""
from __future__ import annotations

import ast
import contextlib
import dataclasses
import difflib
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import _cells, _context, _core, _deliver, _display, _emulate, _findings
from ._params import MACHINES, Params, given, read_value

# What the command line calls options besides their names.
SPELLINGS = {"checked": "detect_races", "schedule_seed": "random_seed", "uninitialized": "uninitialized_memory", "copies": "dma_execution_mode"}
_CHOICES = {row["name"]: row["values"] for row in _core.options()}


def parse(line: str) -> Params:
    """The options of a magic's line: a chip, then `name=value`, `--name value`, `--name=value` or `--name`; runs are checked ones unless the line says
    otherwise. Raises ValueError and TypeError for what does not exist."""
    words = shlex.split(line)
    chip = words.pop(0) if words and not words[0].startswith("-") and "=" not in words[0] else "generic"
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        name = _name(name)
        if not equals and not word.startswith("--"):
            near = _near(word)
            raise ValueError(f"'{word}' is no option: write NAME=VALUE or --NAME VALUE{f', such as {near}=True' if near else ''}")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") and "=" not in words[0] else "True"
        if name in ("machine", "chip"):
            chip = value
        else:
            options[name] = _value(name, value)
    if chip not in MACHINES and (near := difflib.get_close_matches(chip, MACHINES, n=2, cutoff=0.5)):
        raise ValueError(f"unknown chip '{chip}'; did you mean {' or '.join(near)}? There are {', '.join(MACHINES)}")
    return given(chip, {"detect_races": True} | options)


def _name(text: str) -> str:
    name = text.replace("-", "_")
    return SPELLINGS.get(name, name)


def _near(word: str) -> str:
    known = [f.name for f in dataclasses.fields(Params)[1:]]
    return next(iter(difflib.get_close_matches(_name(word), known, n=1, cutoff=0.6)), "")


def _value(name: str, text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return text if _CHOICES.get(name) and text in _CHOICES[name] else read_value(text)


@dataclasses.dataclass(frozen=True, repr=False)
class CellReport:
    """What the launches of a cell found. kernels: launches of each, of the latest 256; others: earlier launches. counts: how often each finding was made,
    once for a line and a code. failed: launches whose error is that of the cell."""

    params: Params
    kernels: dict[str, int]
    others: int
    findings: tuple[_findings.Finding, ...]
    counts: tuple[int, ...]
    collected: int
    failed: int

    @property
    def head(self) -> str:
        if not self.kernels:
            return f"{self.params.machine}: no Pallas kernel ran on the emulator"
        ran = ", ".join(f"{name}{f' {n:,} times' if n > 1 else ''}" for name, n in self.kernels.items())
        ran += f" and {self.others:,} launches before" if self.others else ""
        how = "checked" if self.params.detect_races else "races and undefined data not looked for"
        return f"{self.params.machine}: {ran}, {how}: {self._found()}"

    def _found(self) -> str:
        if self.collected and not self.failed:
            return f"{self.collected} kept for pallasim.findings()"
        kinds = [(s, sum(f.severity == s for f in self.findings) + self.failed * (s == "error")) for s in ("error", "warning", "note")]
        return ", ".join(f"{n} {s}{'s' * (n > 1)}" for s, n in kinds if n) or "nothing found"

    def _notes(self) -> list[str]:
        return [f"({n} times)" if n > 1 else "" for n in self.counts]

    def __str__(self) -> str:
        return "\n".join([self.head, *(f"{f.report.rstrip()}{f'{chr(10)}  {n}' if n else ''}" for f, n in zip(self.findings, self._notes()))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        worst = "error" if self.failed else self.findings[0].severity if self.findings else ""
        return _display.bar(worst, _display.text(self.head)) + "".join(map(_display.finding, self.findings, self._notes()))


class _Cell:
    """Gathers what launches find while a cell runs."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self._told: list[_findings.Finding] = []
        latest = _findings.runs()
        self._before = latest[-1].number if latest else 0
        self._launches = _core.launch_count()

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        _deliver.start()
        _deliver.redirect(self._told.append)
        try:
            yield
        finally:
            _deliver.redirect(None)

    def report(self) -> CellReport:
        ran = [r for r in _findings.runs() if r.number > self._before]
        kernels: dict[str, int] = {}
        for r in ran:
            kernels[r.kernel] = kernels.get(r.kernel, 0) + 1
        found: dict[Any, list[_findings.Finding]] = {}
        for f in self._told:
            found.setdefault((f.code, f.file, f.line) if f.file else (f.code, f.kernel, f.message), []).append(f)
        ranks = {"error": 0, "warning": 1, "note": 2}
        groups = sorted(found.values(), key=lambda g: ranks[g[0].severity])
        collected = sum(len(r.findings) for r in ran) if self.params.findings == "collect" else 0
        others = max(0, _core.launch_count() - self._launches - len(ran))
        return CellReport(self.params, kernels, others, tuple(g[0] for g in groups), tuple(map(len, groups)), collected, sum(r.failed for r in ran))


def _failed_arrays() -> list[tuple[Any, Exception]]:
    """Waits until the arrays of the process are there; those that never will be, with why. Launches end with the cell that began them."""
    import jax

    failed = []
    for array in jax.live_arrays():
        try:
            if not array.is_deleted():
                array.block_until_ready()
        except Exception as e:
            failed.append((array, e))
    while _core.running_launches():  # for arrays that nobody kept
        time.sleep(0.001)
    return failed


def _compiled(shell: Any, cell: str) -> tuple[Any, Any]:
    """The code of a cell's body and of the expression that it ends with, None without one, under a name that says the cell and its lines."""
    code = shell.transform_cell(cell)
    empty = len(cell) - len(cell.lstrip("\n"))  # IPython drops empty lines at the top
    code = "\n" * (1 + empty) + code  # the line of the magic
    number = _cells.running()
    name = shell.compile.cache(code, shell.execution_count if number is None else number, raw_code=f"%%pallasim\n{cell}")
    tree = shell.transform_ast(shell.compile.ast_parse(code, name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    return shell.compile(tree, name, "exec"), None if last is None else shell.compile(ast.Expression(last.value), name, "eval")


def _run(shell: Any, cell: str, params: Params) -> Any:
    """Runs a cell on the emulator, shows what was found, and returns the value of its last expression."""
    __tracebackhide__ = True  # IPython leaves such frames out
    code, last = _compiled(shell, cell)
    value = None
    old = [array for array, _ in _failed_arrays()]
    found = _Cell(params)
    try:
        with _emulate._again(params), found.gathering():
            exec(code, shell.user_global_ns, shell.user_ns)
            if last is not None:
                value = eval(last, shell.user_global_ns, shell.user_ns)
            for array, error in _failed_arrays():
                if not any(array is a for a in old):
                    raise error
    finally:
        _show(found.report())
    return value


def _show(report: CellReport) -> None:
    from IPython.display import display

    display(report)


# --- what IPython is told -------------------------------------------------------------------------------------------
def _options(line: str) -> Params:
    """Options of a magic. Raises IPython's UsageError, which is shown as one line."""
    from IPython.core.error import UsageError

    try:
        return parse(line)
    except (TypeError, ValueError) as e:
        raise UsageError(str(e)) from None


def _magics(shell: Any) -> tuple[Callable[[str, str], Any], Callable[[str], None]]:
    def cell_magic(line: str, cell: str) -> Any:
        """%%pallasim [CHIP] [NAME=VALUE | --NAME VALUE]...

        Runs the cell inside `with pallasim.emulate(CHIP, NAME=VALUE, ...)` and shows what its launches found. Runs are checked ones unless
        the line says detect_races=False. Options are those of `pallasim.Params`; the command line's spellings are understood.
        """
        __tracebackhide__ = True
        return _run(shell, cell, _options(line))

    def line_magic(line: str) -> None:
        """%pallasim CHIP [NAME=VALUE | --NAME VALUE]...    the kernels of all further cells run on the emulator
        %pallasim off                                       no longer
        %pallasim                                           says what is on, and the chips that there are

        It is `pallasim.install`, with checked runs unless the line says detect_races=False. What a launch finds is shown when it ends.
        """
        if line.strip() == "off":
            _emulate.uninstall()
        elif line.strip():
            params = _options(line)
            _emulate.install(params.machine, **{f.name: getattr(params, f.name) for f in dataclasses.fields(params)[1:]})
        params = _context.active()
        print("Pallas kernels run where JAX runs them; chips: " + ", ".join(MACHINES) if params is None else f"Pallas kernels run on the emulator: {params!r}")

    with contextlib.suppress(ImportError):  # of an IPython before 8.8: a semicolon at the end of the cell does not silence it
        from IPython.core.magic import output_can_be_silenced

        cell_magic = output_can_be_silenced(cell_magic)
    return cell_magic, line_magic


def _complete(shell: Any, event: Any) -> list[str]:
    """Chips and options of a line that begins with the magic."""
    magic, *words = event.text_until_cursor.split()
    if not magic.startswith("%"):
        return []
    if event.text_until_cursor.endswith(" "):
        words.append("")
    if len(words) == 1 and "=" not in words[0]:
        return [*MACHINES, *(["off"] if magic == "%pallasim" else ())]
    name, equals, _ = words[-1].partition("=") if words else ("", "", "")
    if equals:
        return _values(name.removeprefix("--"))
    names = [f.name for f in dataclasses.fields(Params)[1:]]
    return [f"--{n.replace('_', '-')}" for n in names] if name.startswith("--") else [f"{n}=" for n in names]


def _values(name: str) -> list[str]:
    default = {f.name: f.default for f in dataclasses.fields(Params)}.get(_name(name))
    return ["True", "False"] if isinstance(default, bool) else list(_CHOICES.get(_name(name), ()))


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext pallasim`."""
    cell_magic, line_magic = _magics(shell)
    shell.register_magic_function(cell_magic, "cell", "pallasim")
    shell.register_magic_function(line_magic, "line", "pallasim")
    for key in ("%pallasim", "%%pallasim"):
        shell.set_hook("complete_command", _complete, str_key=key)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext pallasim`: the magics are gone; what `%pallasim CHIP` switched on is off."""
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("pallasim", None)
    _emulate.uninstall()
