"""Every comparison must prove that the emulator ran, and must fail on an all-zero output."""
from __future__ import annotations

import os
import zlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest

import pallasim

import capture_account

capture_account.install()  # every kernel that these tests capture is accounted for
pallasim.launch_count()  # fails at once where the extension is not built


@pytest.fixture(autouse=True)
def own_numbers(request, monkeypatch):
    """A module's `RNG` starts anew in each test, so that its numbers do not depend on which tests ran before in this process."""
    if hasattr(request.module, "RNG"):
        monkeypatch.setattr(request.module, "RNG", np.random.default_rng(zlib.crc32(request.node.name.encode())))


@pytest.fixture
def emulated():
    """`emulated(f, *args)` runs f on the emulator and checks that a kernel of ours ran."""

    def call(f, *args, machine: str = "generic", **options):
        before = pallasim.launch_count()
        pallasim.findings()
        with pallasim.emulate(machine, **options):
            out = f(*args)
            out = [np.asarray(x) for x in out] if isinstance(out, (tuple, list)) else np.asarray(out)
        assert pallasim.launch_count() > before, "no kernel ran on the emulator"
        assert not [f for f in pallasim.findings() if f.severity == "error"]
        return out

    return call


@pytest.fixture
def same():
    """`same(actual, expected)`: equal within a tolerance, and the expectation is not all zeros."""

    def check(actual, expected, **tolerance):
        expected = np.asarray(expected)
        assert np.any(expected), "an expectation of zeros proves nothing"
        actual = np.asarray(actual)
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        if tolerance:
            np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), **tolerance)
        else:
            np.testing.assert_array_equal(actual, expected)

    return check
