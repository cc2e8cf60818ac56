"""Pages that show launches (docs/report.md)."""
from __future__ import annotations

import html
import json
import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Any

from . import _still

_GAP, _ABOVE = 40, 30  # lines between two of a kernel that are shown as well, and above its first one up to its def
_DEF = re.compile(r"\s*(async\s+)?(def|class)\b")


class Page:
    """A page as text; a notebook shows it in place. `save(path)` writes it."""

    def __init__(self, text: str, launches: Sequence[str] = ()):
        self.text = text
        self._launches = launches

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def picture(self, launch: int = 1, *, core: int = 0, begin: float = 0.0, end: float | None = None, title: str = "") -> str:
        """SVG of the time line of one core, for documents, which the page shows with all else; the first launch is 1. begin, end: seconds (steps where the
        page has the order of steps), None: the launch's end. Raises ValueError where there is nothing of that."""
        if not 1 <= launch <= len(self._launches):
            raise ValueError(f"launch {launch}: the launches are 1 to {len(self._launches)}")
        return _still.picture(json.loads(self._launches[launch - 1]), core, begin, end, title)

    def __repr__(self) -> str:
        return f"<pallasim report, {len(self.text) // 1024} KiB>"

    def _repr_html_(self) -> str:
        return f'<iframe sandbox="allow-scripts" style="width:100%;height:720px;border:0" srcdoc="{html.escape(self.text)}"></iframe>'


def page(title: str, launches: Sequence[str]) -> Page:
    """The page of launches whose data the extension made."""
    from . import _core

    return Page(_core.report_page(title, [_with_source(x) for x in launches]), launches)


def latest(path: str = "") -> Page:
    """The page of the latest launch, written to `path` where one is given."""
    from . import _core

    title, data = _core.latest_report()
    made = page(title, [data])
    if path:
        made.save(path)
    return made


def _with_source(data: str) -> str:
    """The data with the lines of the kernel's functions between those that became operations. A file is read only where it has the text that
    the kernel was captured with: whatever else has its name is not shown."""
    launch = json.loads(data)
    by_file: dict[str, dict[int, Any]] = {}
    for line in launch["lines"]:
        by_file.setdefault(line["file"], {})[line["line"]] = line
    for file, known in by_file.items():
        text = linecache.getlines(file)
        if text and all(n <= len(text) and line["text"].strip() in ("", text[n - 1].strip()) for n, line in known.items()) and any(x["text"].strip() for x in known.values()):
            for n, line in known.items():
                line["text"] = text[n - 1].rstrip("\n")
            for n, like in list(_between(known, text)):
                launch["lines"].append(like | {"line": n, "text": text[n - 1].rstrip("\n"), "scope": "", "seconds": 0, "busy": 0})
    return json.dumps(launch, ensure_ascii=False, separators=(",", ":"))


def _between(known: dict[int, Any], text: list[str]) -> Iterator[tuple[int, Any]]:
    last = None
    for n in sorted(known):
        near = last is not None and known[last]["function"] == known[n]["function"] and n - last <= _GAP
        if near and last is not None:
            first = last + 1
        else:
            at = next((k for k in range(n, max(n - _ABOVE, 0), -1) if _DEF.match(text[k - 1])), n)
            first = max(at, last + 1 if last is not None else 1)
        for k in range(first, n):
            yield k, known[n]
        last = n
