"""Running IR text on NumPy arrays."""
from __future__ import annotations

import pathlib

import numpy as np
import pytest

import pallasim

PASS = pathlib.Path(__file__).parents[1] / "pass"


def read(name):
    return (PASS / f"{name}.psir").read_text()


def test_add_vectors(same):
    x = np.arange(8, dtype=np.float32)
    same(pallasim.run(read("add_vectors"), [x, x + 1])[0], 2 * x + 1)


def test_loop_carry(same):
    x = np.arange(16, dtype=np.int32)
    total = int(x.sum())
    same(pallasim.run(read("loop_carry"), [x])[0], np.asarray([total, total], np.int32))


def test_dynamic_grid_and_alias(same):
    x = np.arange(512, dtype=np.float32).reshape(4, 128)
    same(pallasim.run(read("alias_inplace"), [np.int32(4), x])[0], x + 1)


def test_wrong_shape_is_an_error():
    with pytest.raises(pallasim.KernelError):
        pallasim.run(read("add_vectors"), [np.zeros(9, np.float32), np.zeros(8, np.float32)])
    assert pallasim.findings()


def test_check_reports_the_first_violation():
    with pytest.raises(pallasim.KernelError, match="PS-IR"):
        pallasim.check("pallasim-ir 1\nmodule \"m\" {machine = nowhere}\n")


def test_canonical_text_is_kept():
    for path in sorted(PASS.glob("*.psir")):
        t = path.read_text()
        if pallasim.fmt(t) != t:
            assert "//" in t, path  # comments do not survive
