"""`pallasim.capture`: a function's launches as a capsule."""
from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

from ._capsule import Recording


def capture(f: Callable[..., Any], *args: Any, path: str | os.PathLike[str], params: Any = None, max_bytes: int = 2 << 30, **kwargs: Any) -> Any:
    """Runs `f(*args, **kwargs)` on the emulator and writes a capsule of all its launches to `path`; returns f's result.

    params: a `Params`, or a machine's name; without it, the options of the `emulate` block around the call, or none.
    max_bytes: of the arrays that are recorded; launches beyond are left out and counted in the manifest.

    A program that fails is recorded up to the launch that failed, or to the kernel that was refused before it could run,
    and its error is raised again. Raises RuntimeError
    when f launches no kernel.
    """
    import jax

    recording = Recording(max_bytes)
    recording.params = _params(params)
    try:
        with recording, _scope(recording.params):
            result = jax.block_until_ready(f(*args, **kwargs))
    except Exception as e:
        recording.refused(e)
        if recording.launches:
            recording.save(path)
            e.add_note(f"capsule: {os.fspath(path)}")
        raise
    if not recording.launches:
        raise RuntimeError("nothing to record: no Pallas kernel ran on the emulator")
    recording.save(path)
    return result


def _params(params: Any) -> Any:
    from . import _context
    from ._params import Params

    if isinstance(params, str):
        return Params(machine=params)
    if params is None:
        return _context.active() or Params()
    return params


@contextlib.contextmanager
def _scope(params: Any) -> Iterator[None]:
    from . import _context, _emulate

    if _context.active() is params:
        yield
        return
    options = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    with _emulate.emulate(**options):
        yield
