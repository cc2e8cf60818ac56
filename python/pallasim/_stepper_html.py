"""What a stepper shows, as HTML without scripts and addresses, and as text. Colours are the theme's own, but those of arrays."""
from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _cells, _display

if TYPE_CHECKING:
    from ._stepper import Picture, Shown, View

_AROUND = 6  # source lines above and below
_FAINT = "border:1px solid rgba(128,128,128,.4);border-radius:4px"
_BOX = f"{_FAINT};padding:4px 8px;margin:2px;display:inline-block;vertical-align:top;max-width:100%;box-sizing:border-box"
_HERE = "border-left:4px solid #3b8ad8;font-weight:bold"

escaped = _display.text


def page(view: View, plain: bool = False) -> str:
    """`plain`: there are no buttons, which says how to step."""
    parts = [_head(view), source(view), *map(_display.pre, view.said), *_threads(view), _part("Watched", view.watched), _part("Values", view.values), _memories(view),
             *_list("Semaphores and barriers", view.semaphores), *_list("In flight", view.flight)]
    if plain:
        parts.append("<div><i>next(), step(), finish(), go_on(), back(), go_back() and restart() move it; anywidget brings buttons</i></div>")
    return f'<div class="pallasim-view" style="color:inherit">{"".join(parts)}</div>'


def _place(view: View) -> str:
    if not view.frames:
        return "it stands nowhere"
    frame = view.frames[0]
    return f"{frame['name']}, {_cells.said(os.path.basename(_file(frame)), frame['line'])}" if _file(frame) else str(frame["name"])


def _file(frame: dict[str, Any]) -> str:
    return str(frame.get("source", {}).get("path", ""))


def _thread_name(view: View) -> str:
    return next((t["name"] for t in view.threads if t["id"] == view.thread), "")


def _head(view: View) -> str:
    name = _thread_name(view)
    path = _file(view.frames[0]) if view.frames else ""
    return f'<div><b title="{escaped(path)}">{escaped(_place(view))}</b>{f", {escaped(name)}" if name else ""}{f" <i>{escaped(view.why)}</i>" if view.why else ""}</div>'


def _lines(view: View) -> list[tuple[int, str]]:
    """Source lines around the one where it stands."""
    if not view.frames or view.frames[0]["line"] < 1:
        return []
    frame = view.frames[0]
    at, text = frame["line"], _cells.lines(_file(frame))
    return [(n, text[n - 1].rstrip("\n")) for n in range(max(1, at - _AROUND), min(len(text), at + _AROUND) + 1)]


def source(view: View) -> str:
    """A row for each line; `data-line` is what a click on its number sends."""
    rows = []
    for n, text in _lines(view):
        here, file = n == view.frames[0]["line"], _file(view.frames[0])
        dot = "&#9679;" if (file, n) in view.breakpoints else "&#8195;"
        rows.append(f'<div style="white-space:pre;font-family:monospace;{_marked(here)}">'
                    f'<span data-file="{escaped(file)}" data-line="{n}" style="opacity:.7">{dot} {n:>4}</span>  {escaped(text)}</div>')
    return f'<div style="{_FAINT};margin:4px 0;padding:2px;overflow-x:auto">{"".join(rows)}</div>' if rows else ""


def _marked(here: bool) -> str:
    return f"padding-left:2px;{_HERE}" if here else "padding-left:6px"


def _title(text: str) -> str:
    return f'<div style="margin-top:6px"><b>{escaped(text)}</b></div>'


def _threads(view: View) -> Iterable[str]:
    if len(view.threads) > 1:
        yield _title("Threads")
        for t in view.threads:
            yield f'<div data-thread="{t["id"]}" style="{_marked(t["id"] == view.thread)}">{escaped(t["name"])}</div>'


def _list(title: str, rows: Sequence[tuple[str, str]]) -> Iterable[str]:
    if rows:
        yield _title(title)
        yield _display.table([("", ""), *rows])


def _part(title: str, values: Sequence[Shown]) -> str:
    return _title(title) + "".join(map(box, values)) if values else ""


def _memories(view: View) -> str:
    """Refs by the memory that they show, then what no ref shows."""
    by_space: dict[str, list[str]] = {}
    for ref in view.refs:
        by_space.setdefault(_space(ref.text), []).append(box(ref))
    named = {ref.name for ref in view.refs}
    for name, text in view.memory:
        if name not in named:
            by_space.setdefault(_space(text), []).append(f'<div style="{_BOX}"><b>{escaped(name or "(no name)")}</b> {escaped(text)}</div>')
    return "".join(_title(f"Memory: {space}" if space else "Refs") + "".join(boxes) for space, boxes in by_space.items())


def _space(text: str) -> str:
    """Of "f32[8,128] in vmem  min 0"."""
    _, found, rest = text.partition(" in ")
    return rest.split(" ")[0].rstrip(",") if found else ""


def box(value: Shown) -> str:
    """A value with its picture, its elements behind a fold."""
    head = f"<div><b>{escaped(value.name)}</b> {escaped(value.text.partition(chr(10))[0])}</div>"
    shown = picture(value.picture) if value.picture else ""
    if value.whole:
        shown += f"<div>{escaped(value.name)} in its array, {escaped(value.whole.summary)}</div>{picture(value.whole, value.picture)}"
    return f'<div style="{_BOX}">{head}{shown}</div>'


def picture(of: Picture, part: Picture | None = None) -> str:
    """The array as an image, what its colours are, and a corner of it. `part`: a block of it, which gets a frame."""
    c = of.cells
    width, height = c["columns"] * c["cell"], c["rows"] * c["cell"]
    image = (f'<img data-cell="{c["cell"]}" alt="{escaped(of.expression)}: {escaped(of.summary)}" width="{width}" height="{height}" '
             f'src="data:image/png;base64,{base64.b64encode(of.png).decode()}" style="width:100%;height:auto;image-rendering:pixelated;display:block"/>')
    inner = image + (_outline(of, part) if part else "")
    scale = ""
    if c["least"] != c["most"]:
        scale = (f'{escaped(c["least"])} <span style="display:inline-block;width:96px;height:10px;background:linear-gradient(to right,{",".join(c["scale"])})"></span> '
                 f'{escaped(c["most"])}')
    legend = "; ".join(filter(None, [scale, escaped(of.legend)]))
    return (f'<div style="position:relative;width:{width}px;max-width:100%">{inner}</div>'
            f'<div style="font-size:85%">{legend}</div><details><summary style="font-size:85%">elements</summary>{_display.pre(of.elements)}</details>')


def _outline(of: Picture, part: Picture) -> str:
    """A frame around the block, white within black: it shows on every colour."""
    c, at, size = of.cells, _matrix(part.block), _matrix(part.dims, end=True)
    lead = [math.prod(of.dims[k + 1:-2]) for k in range(max(0, len(of.dims) - 2))]
    first = sum(i * n for i, n in zip(part.block[:-2], lead))
    shape = (1,) * (len(of.dims) - len(part.dims)) + part.dims
    last = first + sum((d - 1) * n for d, n in zip(shape[:-2], lead))
    top = first * (c["plane"] + 1) + at[0] / c["down"]
    bottom = last * (c["plane"] + 1) + (at[0] + size[0]) / c["down"]
    left, right = at[1] / c["across"], (at[1] + size[1]) / c["across"]
    share = lambda n, all_of: f"{100 * min(max(n / all_of, 0), 1):.2f}%"
    return (f'<div title="the block" style="position:absolute;box-sizing:border-box;border:2px solid white;outline:2px solid black;'
            f'left:{share(left, c["columns"])};top:{share(top, c["rows"])};width:{share(right - left, c["columns"])};height:{share(bottom - top, c["rows"])}"></div>')


def _matrix(numbers: tuple[int, ...], end: bool = False) -> tuple[int, int]:
    """The last two of them."""
    missing = 1 if end else 0
    return (numbers[-2] if len(numbers) > 1 else missing, numbers[-1] if numbers else missing)


def text(view: View) -> str:
    """As a terminal's IPython shows it."""
    lines = [f"{_place(view)}{f', {name}' if (name := _thread_name(view)) else ''}{f'  ({view.why})' if view.why else ''}"]
    lines += [f"{'->' if n == view.frames[0]['line'] else '  '}{n:>5}  {line}" for n, line in _lines(view)]
    lines += [f"{v.name:<12} {v.text.partition(chr(10))[0]}" for v in (*view.watched, *view.values, *view.refs)]
    return "\n".join(lines)
