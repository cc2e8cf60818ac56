"""Programs of the pages print what the pages show."""
from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import doc_programs  # noqa: E402


@pytest.mark.parametrize("page", doc_programs.pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_shows_what_its_programs_print(page):
    text = page.read_text()
    assert doc_programs.with_outputs(text) == text


def test_these_pages_have_programs():
    assert {p.name for p in doc_programs.pages()} >= {"README.md", "first_kernel.md", "check.md", "python.md"}


def test_an_output_that_is_not_the_programs_is_seen():
    page = "```python\nprint(6 * 7)\n```\n\nIt prints:\n\n<!-- output: the program above as answer.py -->\n```\n41\n```\n"
    assert doc_programs.with_outputs(page) == page.replace("41", "42")


def test_the_first_report_is_on_the_first_screen():
    text = (ROOT / "README.md").read_text()
    assert text.index("warning[PS-") < 3500
