"""Pages are read as text, too: their lines have at most 160 characters. Rows of tables and quoted output are as long as they are."""
from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIMIT = 160


def long_lines(text):
    quoted = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            quoted = not quoted
        elif len(line) > LIMIT and not quoted and not line.startswith("|"):
            yield number


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_are_short(page):
    assert list(long_lines(page.read_text())) == []


def test_a_long_line_is_seen():
    assert list(long_lines("x" * 160 + "\n" + "x" * 161 + "\n|" + "x" * 200 + "\n```\n" + "x" * 200 + "\n```\n")) == [2]
