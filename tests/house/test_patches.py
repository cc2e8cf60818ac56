"""Changes that somebody will want to make touch few files. What they do is proven by patches.py --prove, which builds them."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import patches  # noqa: E402

CHANGES = sorted(patches.CHANGES.glob("*.patch"))


def test_there_are_changes():
    assert {p.stem for p in CHANGES} >= {"async", "core", "diagnostic", "elementwise", "operation", "option", "space"}


@pytest.mark.parametrize("patch", CHANGES, ids=lambda p: p.stem)
def test_it_applies_and_touches_few_files(patch):
    _, most = patches.header(patch)
    assert not patches.applies(patch)
    assert 0 < len(patches.touched(patch)) <= most
    assert patch.with_suffix(".py").exists()


def test_tests_and_pages_are_not_counted(tmp_path):
    p = tmp_path / "x.patch"
    p.write_text("Change: x\nAt most: 1\n\n" + "".join(f"+++ b/{f}\n" for f in ("tests/a.cc", "docs/ops.md", "ir/README.md", "python/pallasim/_options.py", "ir/src/a.cc")))
    assert patches.header(p) == ("x", 1) and patches.touched(p) == ["ir/src/a.cc"]
