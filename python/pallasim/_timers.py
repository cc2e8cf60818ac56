"""Timers of tuners: where launches are predicted as well (`time=True`), those of JAX and tokamax tell the predicted seconds of the chip.

The seconds that pass here say nothing of one. JAX's tuners ask `jax.experimental.mosaic.gpu.profiler.measure`, tokamax's its own benchmark.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pallasim

from . import _context, _findings, _platform
from ._params import MACHINES, Params

if TYPE_CHECKING:
    from ._times import KernelTime

_PROFILER, _TOKAMAX = "jax.experimental.mosaic.gpu.profiler", "tokamax._src.benchmarking"
_wrapped: set[str] = set()


def in_force() -> Params | None:
    """The options in force, where they ask for predicted times."""
    params = _context.active()
    return params if params is not None and params.time else None


def timed(f: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, list[KernelTime]]:
    """What `f(*args, **kwargs)` gives, and the times of its launches, predicted with the values that they are given. Options with `time=True` are in force.

    Raises RuntimeError where it launches more than are kept.
    """
    import jax

    before = _findings.launch_count()
    results = jax.block_until_ready(f(*args, **kwargs))
    count = _findings.launch_count() - before
    latest = _findings.runs()
    if count > len(latest):
        raise RuntimeError(f"{count} launches: the time of up to {len(latest)} can be told")
    return results, [run.time for run in latest[len(latest) - count:] if run.time is not None]


def patch(params: Params) -> None:
    """Wraps the timers, each once; tokamax's where tokamax is loaded. Without predicted times in force they are as they were."""
    if not params.time:
        return
    if MACHINES[params.machine].ir_machine == "gpu":
        with contextlib.suppress(ImportError):  # a JAX without Mosaic GPU has no such timer
            importlib.import_module(_PROFILER)
    for name, wrap in ((_PROFILER, _profiler), (_TOKAMAX, _tokamax)):
        module = sys.modules.get(name)
        if module is not None and name not in _wrapped:
            wrap(module)
            _wrapped.add(name)


def _profiler(module: Any) -> None:
    """JAX's profiler of GPUs: results, and milliseconds of all launches together or (kernel, milliseconds) of each; a list of those for several iterations."""
    original = module.Cupti.measure

    @functools.wraps(original)
    def measure(self: Any, f: Any, *, aggregate: bool = True, iterations: int = 1) -> Any:
        asks_hardware = original(self, f, aggregate=aggregate, iterations=iterations)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if in_force() is None:
                return asks_hardware(*args, **kwargs)
            results, launches = timed(f, args, kwargs)
            if not launches:
                return results, None
            each = [(k.kernel, 1e3 * k.seconds) for k in launches]
            once: Any = sum(ms for _, ms in each) if aggregate else each
            return results, once if iterations == 1 else [once] * iterations  # a prediction is the same each time

        return wrapper

    module.Cupti.measure = measure


def _tokamax(module: Any) -> None:
    """tokamax's benchmark of a function: nothing is run that time does not depend on. A configuration that the chip refuses raises."""
    original = module.compile_benchmark

    @functools.wraps(original)
    def compile_benchmark(f: Callable[[Any], Any], x: Any) -> Any:
        params = in_force()
        if params is None:
            return original(f, x)
        begin = time.perf_counter()
        options = {o.name: getattr(params, o.name) for o in dataclasses.fields(params) if o.name not in ("machine", "time")}
        predicted = functools.partial(pallasim.predict, f, chip=params.machine, sensitivity=False, sample=True, options=options)
        by_shapes = predicted(x)
        took = time.perf_counter() - begin
        depends = any(k.reads_inputs for k in by_shapes)

        def runner(x: Any, *, iterations: int = 5, method: Any = None) -> Any:
            seconds = (predicted(x) if depends else by_shapes).seconds
            return module.BenchmarkData(lower_time_ms=1e3 * took, compile_time_ms=0.0, evaluation_times_ms=(1e3 * seconds,) * iterations,
                                        metadata={"predicted": params.machine})

        return runner

    _platform.everywhere({id(original): (original, compile_benchmark)})
