"""Each sentence of the pages that says what Pallasim does has a test (claims/PAGE.txt); none is there that a page no longer says, or whose test is gone."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import claims  # noqa: E402


@pytest.mark.parametrize("name", claims.PAGES)
def test_each_sentence_has_a_test(name):
    assert list(claims.problems(name, claims.PAGES[name].read_text(), (claims.FOLDER / f"{name}.txt").read_text())) == []


def test_every_list_is_of_a_page():
    assert {p.stem for p in claims.FOLDER.glob("*.txt")} == set(claims.PAGES)


PAGE = """# A page

It runs. It stops where `a. b` is
wrong. pytest too, e.g. here. Does it?

| Option | Does |
|---|---|
| `x` | one thing |

* An item that
  goes on

```
a block
```
"""
HERE = "  tests/docs/test_claims.py::test_every_list_is_of_a_page\n"


def test_what_a_page_says():
    assert list(claims.units(PAGE)) == [("It runs.", ""), ("It stops where `a. b` is wrong.", ""), ("pytest too, e.g. here.", ""), ("| `x` | one thing |", "| Option | Does |"),
                                        ("An item that goes on", ""), ("a block", "")]


@pytest.mark.parametrize("listed, found", [
    ("It runs\nIt stops\npytest too\none thing\nAn item\na block\n" + HERE, []),
    ("It runs\nIt stops\npytest too\nrows: | Option\nAn item\na block\n" + HERE, []),
    ("It runs\npytest too\nrows: | Option\nAn item\na block\n" + HERE, ["page: nothing shows 'It stops where `a. b` is wrong.'"]),
    ("It flies\nIt runs\nIt stops\npytest too\none thing\nAn item\na block\n" + HERE, ["page: the page does not say 'It flies'"]),
    ("It runs\nIt stops\npytest too\none thing\nAn item\na block\n" + HERE.replace("every", "no"), ["page: there is no test tests/docs/test_claims.py::test_no_list_is_of_a_page"]),
    ("It runs\nIt stops\npytest too\none thing\nAn item\n" + HERE + "a block\n", ["page: no test is named for 'a block'"]),
])
def test_what_is_missing_is_said(listed, found):
    assert list(claims.problems("page", PAGE, listed)) == found


@pytest.mark.parametrize("shown, there", [
    ("tests/interp/options_test.cc::Options.NamesAreDistinct", True), ("tests/interp/options_test.cc::Options.NamesAreEqual", False),
    ("tests/fail/run/oob_index.expected", True), ("tests/fail/run/none.expected", False), ("ctest: ir_op_reference_is_current", True), ("ctest: none", False),
    ("says no behaviour: where to read on", True), ("says no behaviour: too hard", False), ("README.md", False), ("scripts/wheel.sh", True),
])
def test_a_test_is_there_or_not(shown, there):
    assert claims.exists(shown) == there
