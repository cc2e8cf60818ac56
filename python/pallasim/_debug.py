"""The debugger on what a function launches."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from . import _captured, _cells, _debug_session


def debug(f: Callable[..., Any], *args: Any, chip: str | None = None, params: Any = None, checked: bool = False, launch: int | None = None,
          commands: Sequence[str] | None = None, **kwargs: Any) -> Any:
    """Runs `f(*args, **kwargs)` on the emulator, then opens the debugger on one of its launches: the one that failed, or the first. That is at the
    terminal; in a notebook it returns a `Stepper`, which is shown.

    chip, params: as `emulate` and `capture` take them. checked: also shows what nobody has written, and can stop at races.
    launch: another one, the first being 1.
    commands: what a person would type. Nobody is asked then, and the session is returned as text.

    docs/debugger.md has the commands. Raises RuntimeError when f launches no kernel.
    """
    with tempfile.TemporaryDirectory(prefix="pallasim-debug-") as folder:
        path = os.path.join(folder, "program.capsule")
        try:
            _captured.capture(f, *args, path=path, params=params if params is not None else chip, **kwargs)
        except Exception:
            if not os.path.exists(path):  # it failed before a kernel ran
                raise
        if commands is None and _cells.in_notebook():
            from ._stepper import Stepper

            return Stepper(path, checked=checked, launch=launch)
        return _debug_session.session(path, checked, launch, commands)
