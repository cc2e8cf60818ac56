"""Pages that show launches (docs/report.md)."""
from __future__ import annotations

import html
from collections.abc import Sequence


class Page:
    """A page as text; a notebook shows it in place. `save(path)` writes it."""

    def __init__(self, text: str):
        self.text = text

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __repr__(self) -> str:
        return f"<pallasim report, {len(self.text) // 1024} KiB>"

    def _repr_html_(self) -> str:
        return f'<iframe sandbox="allow-scripts" style="width:100%;height:720px;border:0" srcdoc="{html.escape(self.text)}"></iframe>'


def write(path: str, title: str, launches: Sequence[str]) -> None:
    """The page of launches whose data the extension made."""
    from . import _core

    Page(_core.report_page(title, list(launches))).save(path)


def latest(path: str = "") -> Page:
    """The page of the latest launch, written to `path` where one is given."""
    from . import _core, _findings

    try:
        title, data = _core.latest_report()
    except _core.DiagnosticError as e:
        raise _findings.from_error(e) from None
    page = Page(_core.report_page(title, [data]))
    if path:
        page.save(path)
    return page
