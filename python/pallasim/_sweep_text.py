"""Tables of a sweep: text, HTML, CSV, a plot."""
from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _cells, _display

if TYPE_CHECKING:
    from ._sweep import Sweep, SweepRow

_TOP = 10      # rows of a chip that the text shows
_GROUPS = 8    # reasons of those that do not run


def columns(config: Any) -> dict[str, Any]:
    """The parts of a configuration, by name."""
    if isinstance(config, dict):
        return {str(k): v for k, v in config.items()}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    if isinstance(config, tuple):
        names = getattr(config, "_fields", None) or [f"config[{n}]" for n in range(len(config))]
        return dict(zip(names, config))
    return {"config": config}


def plain(config: Any) -> Any:
    """A configuration as JSON has it: names and values of its parts, what is no number as text."""
    keep = lambda v: v if isinstance(v, (bool, int, float, str)) or v is None else str(v)  # noqa: E731
    if isinstance(config, (bool, int, float, str)):
        return config
    return {k: keep(v) for k, v in columns(config).items()}


def seconds(s: float | None) -> str:
    if s is None:
        return ""
    scale, unit = next((x for x in ((1, "s"), (1e3, "ms"), (1e6, "us")) if s * x[0] >= 1), (1e9, "ns"))
    return f"{s * scale:.4g} {unit}"


def why(r: SweepRow) -> str:
    if r.status != "ok":
        place = f" ({_cells.said(r.file, r.line)})" if r.file else ""
        return f"{r.status}{f' [{r.code}]' if r.code else ''}: {r.reason}{place}{f'; {r.hint}' if r.hint else ''}"
    parts = f"bound by {r.bound}{f', next {r.next}' if r.next else ''}"
    first = f"{r.ratio:.2f} x the best" if r.ratio is not None and r.ratio > 1 else "the best"
    whole = sum(s for _, s in r.shares) or 1.0
    spent = ", ".join(f"{name} {s / max(r.seconds or whole, 1e-30):.0%}" for name, s in r.shares[:2])
    return f"{first}: {parts}{f' ({spent})' if spent else ''}{f'; {r.advice[0]}' if r.advice and first != 'the best' else ''}"


def _names(rows: Sequence[SweepRow]) -> list[str]:
    """Of the configurations' parts."""
    return list(dict.fromkeys(name for r in rows for name in columns(r.config)))


def records(rows: Sequence[SweepRow]) -> list[list[Any]]:
    """A head, and a line per row."""
    names = _names(rows)
    spaces = list(dict.fromkeys(s for r in rows for s in r.memories))
    head: list[Any] = [*names, "chip", "status", "seconds", "ratio", "bound", "next", "roofline", "error", *(f"{s}_bytes" for s in spaces), "findings", "code", "why"]
    out = [head]
    for r in rows:
        parts = columns(r.config)
        out.append([*(parts.get(n) for n in names), r.chip, r.status, r.seconds, r.ratio, r.bound, r.next, r.roofline, r.error,
                    *(r.memories[s][0] if s in r.memories else None for s in spaces), len(r.findings), r.code, r.why])
    return out


def csv_of(rows: Sequence[SweepRow]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(["" if c is None else c for c in line] for line in records(rows))
    return out.getvalue()


# --- text -----------------------------------------------------------------------------------------------------------
def _head(s: Sweep, chip: str) -> str:
    on = [r for r in s.rows if r.chip == chip]
    good = [r for r in on if r.ok]
    best = s.best.get(chip)
    said = f"the best takes {seconds(best.seconds)}, predicted" if best else "none runs"
    return f"{chip}: {len(on)} configurations, {len(good)} run{' and are right' if s.values and any(r.error is not None for r in good) else ''}; {said}"


def _rows_of(s: Sweep, rows: Sequence[SweepRow]) -> list[tuple[str, ...]]:
    names = _changing(s.rows)
    memory = any(r.memories for r in rows)
    head: tuple[str, ...] = (*names, "predicted", "ratio", *(["memory"] if memory else []), "why")
    out = [head]
    for r in rows:
        parts = columns(r.config)
        out.append((*(str(parts.get(n, "")) for n in names), seconds(r.seconds), f"{r.ratio:.2f}" if r.ratio is not None else "", *([_fullest(r)] if memory else []), why(r)))
    return out


def _changing(rows: Sequence[SweepRow]) -> list[str]:
    """Parts that differ between configurations; all of them where none does."""
    names = _names(rows)
    first = columns(rows[0].config) if rows else {}
    return [n for n in names if any(str(columns(r.config).get(n)) != str(first.get(n)) for r in rows)] or names


def _fullest(r: SweepRow) -> str:
    parts = [(b / c, s) for s, (b, c) in r.memories.items() if c and s != "semaphore"]
    return f"{max(parts)[0]:.0%} of {max(parts)[1].upper()}" if parts else ""


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(c.rjust(w) if i < len(widths) - 1 else c for i, (c, w) in enumerate(zip(r, widths))).rstrip() for r in rows]


def table(s: Sweep, chip: str, most: int | None = None) -> str:
    rows = s.ranked(chip)[:most]
    return "\n".join(_aligned(_rows_of(s, rows))) if rows else "  nothing"


def _lost(s: Sweep, chip: str) -> list[str]:
    """Those that do not run, by reason: how many, and the first of them."""
    groups: dict[tuple[str, str], list[SweepRow]] = {}
    for r in s.ranked(chip):
        if not r.ok:
            groups.setdefault((r.status, r.code or r.reason.partition(":")[0]), []).append(r)
    lines = []
    for rows in sorted(groups.values(), key=len, reverse=True)[:_GROUPS]:
        r = min(rows, key=lambda r: r.index)
        lines.append(f"  {len(rows)} {'is' if len(rows) == 1 else 'are'} {_said(r)}, such as {_config(s, r)}")
    if len(groups) > _GROUPS:
        lines.append(f"  and {len(groups) - _GROUPS} reasons more")
    return lines


def _said(r: SweepRow) -> str:
    return f"not taken, {why(r)}"


def _config(s: Sweep, r: SweepRow) -> str:
    return ", ".join(f"{n}={v}" for n, v in columns(r.config).items() if n in _changing(s.rows))


def text(s: Sweep) -> str:
    lines: list[str] = []
    for chip in s.chips:
        good = [r for r in s.ranked(chip) if r.ok]
        lines.append(_head(s, chip))
        if good:
            lines += _aligned(_rows_of(s, good[:_TOP]))
        if len(good) > _TOP:
            lines.append(f"  and {len(good) - _TOP} slower ones, up to {good[-1].ratio:.2f} x")
        lines += _lost(s, chip)
    return "\n".join([*lines, *_last(s)])


def _last(s: Sweep) -> list[str]:
    left = [f"{s.left} configurations were not judged{' (interrupted)' if s.interrupted else ''}"] if s.left else []
    return [*left, *(f"note: {n}" for n in s.notes)]


def html(s: Sweep) -> str:
    parts = []
    for chip in s.chips:
        rows = s.ranked(chip)
        parts.append(f"<details{' open' if len(s.chips) == 1 else ''}><summary>{_display.text(_head(s, chip))}</summary>{_display.table(_rows_of(s, rows)) if rows else ''}</details>")
    return "".join(parts) + "".join(f"<p>{_display.text(line)}</p>" for line in _last(s))


def plot(s: Sweep, path: str) -> Any:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    for chip in s.chips:
        good = [r.seconds for r in s.ranked(chip) if r.ok]
        axes.plot(range(1, len(good) + 1), [(x or 0) * 1e6 for x in good], marker=".", label=f"{chip} ({len(good)} run)")
    axes.set(xlabel="configuration, the fastest first", ylabel="predicted, us", yscale="log")
    axes.legend()
    if path:
        figure.savefig(path)
        pyplot.close(figure)
    return figure
