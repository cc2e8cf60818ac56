"""Still pictures of a launch: the time line of one core as SVG, for documents. What moves is the page (`_report`, docs/report.md)."""
from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import accumulate
from typing import Any

# Colours that people with any colour vision tell apart, those of the page in the light; and stripes, as the page has them: up, down, upright.
_COLOURS = {"compute": "#015cb8", "in": "#c08a10", "out": "#7d2f60", "sync": "#168a61", "step": "#7194dd", "wait": "#868d98"}
_STRIPES = {"in": "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", "out": "M-1 -1L7 7M-1 5L1 7M5 -1L7 1", "sync": "M3 0V6"}
_WHITE_ON = ("compute", "out")
_FAR = ("hbm", "gmem", "any")
_MEANS = {"compute": "computes", "in": "copies in", "out": "stores, copies out", "sync": "signals, barriers", "step": "runs", "wait": "waits"}
_KINDS = (("wait", re.compile("^wait")), ("compute", re.compile("wgmma|tcgen05_mma|contraction|dot")), ("out", re.compile("store|peer")),
          ("in", re.compile("dma|tma|load|copy|block|indirect|fetch")), ("sync", re.compile("signal|arrive|barrier|sem|commit|scope|spawn")))
_THREAD, _UNIT, _FLIGHT = 1, 2, 3  # kinds of tracks, as in interp/timeline.h
_LEFT, _WIDTH, _ROW, _HEAD = 190, 960, 20, 26
_MOST_ROWS, _FEWEST_PIXELS = 24, 0.4
_LETTER = 6.2  # pixels, about


def picture(launch: dict[str, Any], core: int = 0, begin: float = 0.0, end: float | None = None, title: str = "") -> str:
    """SVG of the rows of one core between two moments, in the launch's unit (seconds; steps where there are no times); end None: its end.

    Raises ValueError where there is no such core, or nothing between the moments.
    """
    tick, unit = launch["tick"], launch["unit"]
    first, last = begin / tick, launch["end"] if end is None else end / tick
    if not first < last:
        raise ValueError(f"nothing lies between {begin:g} and {(last * tick):g}")
    groups = [n for n, t in enumerate(launch["tracks"]) if t["kind"] == 0 and any(x["parent"] == n and x["kind"] != 0 for x in launch["tracks"])]
    if not 0 <= core < len(groups):
        raise ValueError(f"the launch has {len(groups)} cores, and no core {core}")
    rows = _rows(launch, groups[core], first, last)
    if not rows:
        raise ValueError(f"core {core} does nothing between {begin:g} and {(last * tick):g}")
    return "\n".join(_svg(rows, first, last, tick, unit, title or f"{launch['kernel']} on {launch['chip']}")) + "\n"


def _rows(launch: dict[str, Any], group: int, first: float, last: float) -> list[tuple[str, list[tuple[float, float, str, str]]]]:
    """(name, slices) of each row; a slice is begin, length, what it is about, its name."""
    tracks, names = launch["tracks"], launch["names"]
    lanes = [x for x in launch["lanes"] if tracks[x["track"]]["parent"] == group]
    rows, away = [], _away(launch)
    for lane in sorted(lanes, key=lambda x: tracks[x["track"]]["kind"]):
        kind, track = tracks[lane["track"]]["kind"], tracks[lane["track"]]["name"]
        inside = [(b, n, "out" if kind == _FLIGHT and (b, n, k) in away else _about(track if kind == _FLIGHT else names[k], kind == _UNIT), names[k])
                  for b, n, k in zip(accumulate(lane["begin"]), lane["length"], lane["name"]) if b < last and b + n > first]
        if inside and len(rows) < _MOST_ROWS:
            rows.append((tracks[lane["track"]]["name"], inside))
    return rows


def _away(launch: dict[str, Any]) -> set[tuple[int, int, int]]:
    """Of movements to the memory of a device, or to another device: begin, length, name."""
    if not launch.get("moves"):
        return set()
    m, rooms = launch["moves"], launch["rooms"]

    def leaves(a: dict[str, Any], b: dict[str, Any]) -> bool:
        return b["space"] in _FAR and (a["space"] not in _FAR or a["device"] != b["device"])

    return {(b, n, k) for b, n, k, x, y in zip(accumulate(m["begin"]), m["length"], m["name"], m["from"], m["to"]) if leaves(rooms[x], rooms[y])}


def _about(name: str, unit: bool) -> str:
    return next((kind for kind, words in _KINDS if words.search(name)), "compute" if unit else "step")


def _svg(rows: list[tuple[str, list[tuple[float, float, str, str]]]], first: float, last: float, tick: float, unit: str, title: str) -> Iterator[str]:
    scale = (_WIDTH - _LEFT - 10) / (last - first)
    height = _HEAD + _ROW * len(rows) + 44
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
           f'font-family="sans-serif" font-size="12">')
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/><text x="10" y="17" font-weight="bold" fill="#1c2733">{escape(title)}</text>'
    used, y = set(), float(_HEAD)
    yield "<defs>" + "".join(
        f'<pattern id="pallasim-{k}" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="{_COLOURS[k]}"/>'
        f'<path d="{d}" stroke="#ffffff" stroke-opacity=".6" stroke-width="1.4" fill="none"/></pattern>' for k, d in _STRIPES.items()) + "</defs>"
    for name, slices in rows:
        yield f'<text x="10" y="{y + 14:g}" fill="#1c2733">{escape(_short(name, _LEFT - 16))}</text>'
        for begin, length, kind, what in slices:
            x, w = _LEFT + (max(begin, first) - first) * scale, (min(begin + length, last) - max(begin, first)) * scale
            if w < _FEWEST_PIXELS:
                continue
            used.add(kind)
            high = 7 if kind == "wait" else 15
            yield f'<rect x="{x:.1f}" y="{y + (17 - high) / 2 + 1:g}" width="{max(w, 0.8):.1f}" height="{high}" {_fill(kind, w)}/>'
            if kind != "wait" and w > _LETTER * (len(what) + 1):
                halo = f' stroke="{_COLOURS[kind]}" stroke-width="3" paint-order="stroke"' if kind in _STRIPES else ""
                yield f'<text x="{x + 3:.1f}" y="{y + 13:g}" font-size="10" fill="{"#ffffff" if kind in _WHITE_ON else "#000000"}"{halo}>{escape(what)}</text>'
        y += _ROW
    yield from _axis(first, last, tick, unit, scale, y)
    x = float(_LEFT)
    for kind in [k for k in _COLOURS if k in used]:
        yield f'<rect x="{x:g}" y="{y + 28:g}" width="12" height="10" {_fill(kind, 12)}/><text x="{x + 16:g}" y="{y + 37:g}" fill="#4a5663">{_MEANS[kind]}</text>'
        x += 34 + _LETTER * len(_MEANS[kind])
    yield "</svg>"


def _fill(kind: str, wide: float) -> str:
    if wide > 4 and kind in _STRIPES:
        return f'fill="url(#pallasim-{kind})"'
    return f'fill="#ffffff" stroke="{_COLOURS[kind]}" stroke-width="1.5"' if wide > 4 and kind == "step" else f'fill="{_COLOURS[kind]}"'


def _axis(first: float, last: float, tick: float, unit: str, scale: float, y: float) -> Iterator[str]:
    """A line with about eight moments."""
    span = (last - first) * tick
    step = 10.0 ** len(str(int(span))) if unit != "s" else 1.0
    while span / step < 4:
        step /= 10
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 10)
    at = -(-first * tick // step) * step
    yield f'<line x1="{_LEFT}" y1="{y + 4:g}" x2="{_WIDTH - 10}" y2="{y + 4:g}" stroke="#8a939e"/>'
    while at <= last * tick * (1 + 1e-9):
        x = _LEFT + (at / tick - first) * scale
        yield f'<line x1="{x:.1f}" y1="{y + 1:g}" x2="{x:.1f}" y2="{y + 7:g}" stroke="#8a939e"/>'
        yield f'<text x="{min(x, _WIDTH - 24.0):.1f}" y="{y + 19:g}" text-anchor="middle" fill="#4a5663">{_moment(at, unit)}</text>'
        at += step


def _moment(at: float, unit: str) -> str:
    if unit != "s":
        return f"{at:.0f}"
    for size, name in ((1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if abs(at) >= size * 0.9999 or name == "ns":
            return f"{round(at / size, 3):g} {name}"
    raise AssertionError


def _short(name: str, pixels: int) -> str:
    most = int(pixels / _LETTER)
    return name if len(name) <= most else name[:most - 1] + "…"
