"""What launches leave behind lies in memory of its own, and not between the results of some megabytes that come and go."""
from __future__ import annotations

import ctypes
import gc
import resource

import jax
import jax.numpy as jnp
import pallasim
import pytest
from jax.experimental import pallas as pl

pytestmark = pytest.mark.one_jax

C = ctypes.CDLL(None)
LAUNCHES = 128  # fewer than `runs` keeps: none of them replaces an earlier one


class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def in_use() -> int:
    """Bytes that the C allocator has given away, beside those of mappings of their own."""
    C.mallinfo2.restype = Info
    return C.mallinfo2().uordblks


def double_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


def kernel(shape, name="a_kernel_with_a_name_of_its_own"):
    rows = pl.BlockSpec((shape[0] // 4, shape[1]), lambda i: (i, 0))
    return jax.jit(lambda x: pl.pallas_call(double_kernel, out_shape=x, grid=(4,), in_specs=[rows], out_specs=rows, name=name)(x))


@pytest.mark.skipif(not hasattr(C, "mallinfo2"), reason="counts what glibc has given away")
@pytest.mark.parametrize("checked", [False, True])
def test_launches_leave_nothing_in_the_general_allocator(checked):
    """31 bytes of each launch, between its result and the next one, were a hole of the size of a result for 256 launches."""
    x = jnp.ones((32, 128), jnp.float32)
    with pallasim.emulate("tpu-v5e", detect_races=checked, workers=1):
        f = kernel(x.shape)
        for _ in range(32):
            f(x).block_until_ready()
        gc.collect()
        gc.disable()
        try:
            first, before = in_use(), pallasim.launch_count()
            for _ in range(LAUNCHES):
                f(x).block_until_ready()
            left = in_use() - first
        finally:
            gc.enable()
    assert pallasim.launch_count() == before + LAUNCHES
    latest = pallasim.runs()[-1]
    assert (latest.kernel, latest.chip, latest.checked) == ("a_kernel_with_a_name_of_its_own", "tpu-v5e", checked)
    assert left < 16 * LAUNCHES, f"{left} bytes in {LAUNCHES} launches"


def test_results_of_some_megabytes_find_the_places_of_earlier_ones():
    """Beside calls of XLA, as somebody compares the two. 1,024 pages are a result: as many faults a call, and 4 MiB of the process. Which of
    the small things that a launch keeps comes to lie behind a result depends on their sizes, so names of several lengths are tried."""
    x = jnp.ones((1024, 1024), jnp.float32)
    plain = jax.jit(lambda x: jax.nn.softmax(x, -1))
    worst, before = 0.0, pallasim.launch_count()
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for length in (20, 40, 60, 80, 100, 120):
        with pallasim.emulate("tpu-v5e"):
            ours = kernel(x.shape, "k" * length).lower(x).compile()
        faults = 0
        for _ in range(10):
            for f in (ours, plain):
                first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                for _ in range(10):
                    y = f(x)
                    y.block_until_ready()
                faults += (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first) * (f is ours)
        worst = max(worst, faults / 100)
    assert pallasim.launch_count() == before + 600
    assert worst < 800, f"{worst:.0f} faults a call"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size) / 1024
    assert grown < 200, f"{grown:.0f} MiB more for results of 4 MiB, one at a time"


def test_runs_are_the_latest_with_all_that_was_kept_of_them():
    """More of them than are kept, with texts that need more room than one has."""
    x = jnp.ones((8, 128), jnp.float32)

    def named(name, n):
        def body(*refs):
            refs[-1][...] = sum((r[...] for r in refs[:-1]), jnp.zeros_like(refs[-1]))

        body.__name__ = name
        return lambda x: pl.pallas_call(body, out_shape=x, name=name)(*[x] * n)

    wide, narrow = "wide_" + 400 * "w", "narrow"
    with pallasim.emulate("tpu-v5e", detect_races=True):
        many, one = jax.jit(named(wide, 24)), jax.jit(named(narrow, 1))
        for i in range(300):
            (many if i % 5 == 0 else one)(x).block_until_ready()
    runs = pallasim.runs()
    assert [r.number for r in runs] == list(range(runs[-1].number - 255, runs[-1].number + 1))
    for i, r in zip(range(300 - 256, 300), runs):
        assert (r.kernel, len(r.traffic)) == ((wide, 25) if i % 5 == 0 else (narrow, 2))
        assert {t.bytes_read for t in r.traffic[:-1]} == {x.nbytes} and r.traffic[-1].bytes_written == x.nbytes
        assert all(t.name and t.space for t in r.traffic)
