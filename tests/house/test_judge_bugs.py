"""The mended bugs that scripts/judge_bugs.sh puts back can still be put back."""

import pathlib
import re

import patches
import pytest

BUGS = sorted((pathlib.Path(__file__).parents[1] / "judge" / "bugs").glob("*.patch"))


def test_there_are_bugs():
    assert len(BUGS) >= 30


@pytest.mark.parametrize("patch", BUGS, ids=lambda p: p.stem)
def test_it_applies(patch):
    assert re.match(r"Bug: .+\nBy: (modules( --\w+)?|pytest \S+|\w+ \S+)\n", patch.read_text())
    assert not patches.applies(patch)
