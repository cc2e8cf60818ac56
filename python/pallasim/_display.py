"""What notebooks show: findings, runs, traffic and checks as HTML without scripts, style sheets or addresses.

Colours are the theme's own; only bars at the left say how bad something is, and lines are half transparent, so that dark themes can be read, too.
"""
from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _cells

if TYPE_CHECKING:
    from ._findings import Finding, Run, Traffic

_COLOURS = {"error": "#d93838", "warning": "#e69500", "note": "#3b8ad8"}
_PLAIN = "#888888"
_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"border-bottom:{_LINE};padding:1px 10px 1px 0;color:inherit;background:transparent"
_PRE = "margin:0;color:inherit;background:transparent;overflow-x:auto"

text = html.escape


def bar(colour: str, inner: str) -> str:
    """A box with a coloured bar at its left."""
    return f'<div style="border-left:4px solid {_COLOURS.get(colour, _PLAIN)};padding:2px 8px;margin:2px 0;color:inherit">{inner}</div>'


def pre(content: str) -> str:
    return f'<pre style="{_PRE}">{text(content)}</pre>'


def report(severity: str, content: str, note: str = "") -> str:
    """A report: its first line, and the rest under it. `note` stands behind the first line."""
    first, _, rest = content.rstrip("\n").partition("\n")
    return bar(severity, f"<b>{text(first)}</b>{f' <i>{text(note)}</i>' if note else ''}{pre(rest) if rest else ''}")


def finding(f: Finding, note: str = "") -> str:
    return report(f.severity, f.report, note)


def table(rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> str:
    """A table whose first row is its head. `numbers`: columns that are flush right. Cells are text, or HTML that was made here (`Html`)."""
    right = set(numbers)

    def row(tag: str, cells: Sequence[Any]) -> str:
        aligned = (("right" if i in right else "left", c if isinstance(c, Html) else text(str(c))) for i, c in enumerate(cells))
        return "<tr>" + "".join(f'<{tag} style="text-align:{side};{_CELL}">{c}</{tag}>' for side, c in aligned) + "</tr>"

    head, *body = rows
    return (f'<table style="border-collapse:collapse;margin:2px 0;color:inherit"><thead>{row("th", head)}</thead>'
            f'<tbody>{"".join(row("td", r) for r in body)}</tbody></table>')


class Html(str):
    """HTML that needs no escaping."""


def pretty(p: Any, shown: Any) -> None:
    """IPython's text of an object: `str` of it, line by line where it stands in a list."""
    for n, line in enumerate(str(shown).rstrip("\n").split("\n")):
        if n:
            p.break_()
        p.text(line)


# --- runs -----------------------------------------------------------------------------------------------------------
def facts(r: Run) -> str:
    points = "" if r.failed else f"{r.grid_points:,} grid point{'s' * (r.grid_points != 1)}, "
    plan = f"planned in {r.plan_seconds * 1e3:.1f} ms" if r.planned else "plan from the cache"
    chip = f", {r.time.seconds * 1e6:.3g} us on the chip as predicted" if r.time else ""
    return f"{points}{r.seconds * 1e3:.3f} ms, {plan}{', checked' if r.checked else ''}{', failed' if r.failed else ''}{chip}"


def run(r: Run) -> str:
    worst = next((s for s in _COLOURS if any(f.severity == s for f in r.findings)), "")
    head = bar(worst, f"<b>{text(r.kernel)} on {text(r.chip)}</b>: {text(facts(r))}{'' if r.findings else ': nothing found'}")
    return head + "".join(map(finding, r.findings)) + (traffic(r.traffic) if r.traffic else "") + (r.time._repr_html_() if r.time else "")


def runs(latest: Sequence[Run]) -> str:
    rows: list[Sequence[Any]] = [("run", "kernel", "chip", "grid points", "ms", "plan, ms", "", "found")]
    for r in latest:
        kind = "failed" if r.failed else "checked" if r.checked else ""
        rows.append((r.number, r.kernel, r.chip, f"{r.grid_points:,}", f"{r.seconds * 1e3:.3f}", f"{r.plan_seconds * 1e3:.1f}" if r.planned else "cached",
                     kind, _codes(r.findings)))
    return table(rows, (0, 3, 4, 5)) if latest else "<p>no kernel ran on the emulator</p>"


def _codes(found: Iterable[Finding]) -> Html:
    return Html(", ".join(f'<span style="border-bottom:2px solid {_COLOURS[f.severity]}" title="{text(f.message)}">{text(f.code)}</span>' for f in found))


# --- traffic --------------------------------------------------------------------------------------------------------
def traffic_rows(moved: Sequence[Traffic]) -> list[tuple[str, ...]]:
    """Head and rows; what no operand does has no columns."""
    named = ("ref", "name", ""), ("space", "space", "")
    counted = (("reads", "reads", "bytes_read"), ("writes", "writes", "bytes_written"), ("blocks fetched", "fetches", "bytes_fetched"),
               ("blocks written back", "write_backs", "bytes_written_back"))
    used = [c for c in counted if any(getattr(t, c[1]) for t in moved)]
    out: list[tuple[str, ...]] = [(*(n[0] for n in named), *(x for title, _, _ in used for x in (title, "bytes")))]
    for t in moved:
        out.append((t.name, t.space, *(f"{getattr(t, field):,}" for _, *fields in used for field in fields)))
    return out


def traffic(moved: Sequence[Traffic]) -> str:
    rows = traffic_rows(moved)
    return table(rows, range(2, len(rows[0]))) if moved else f"<p>{traffic_text(moved)}</p>"


def traffic_text(moved: Sequence[Traffic]) -> str:
    rows = traffic_rows(moved)
    return aligned(rows, range(2, len(rows[0]))) if moved else "no traffic: only runs with detect_races=True count it"


def aligned(rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table as text."""
    right, widths = set(numbers), [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows)


# --- checks ---------------------------------------------------------------------------------------------------------
def remark(r: Any) -> str:
    lines = [f"{r.severity}{f'[{r.code}]' if r.code else ''}: {r.message}"]
    if r.file:
        lines += [f"  at {_cells.said(r.file, r.line)}", f"      {r.text}"]
    return report(r.severity, "\n".join([*lines, f"  hint: {r.hint}"] if r.hint else lines))
