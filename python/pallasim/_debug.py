"""The debugger on what a function launches."""
from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from . import _capsule, _program


def debug(f: Callable[..., Any], *args: Any, chip: str | None = None, params: Any = None, checked: bool = False, launch: int | None = None,
          commands: Sequence[str] | None = None, **kwargs: Any) -> str | None:
    """Runs `f(*args, **kwargs)` on the emulator, then opens the debugger on one of its launches, in the terminal: the one that failed, or the first.

    chip, params: as `emulate` and `capture` take them. checked: also shows what nobody has written, and can stop at races.
    launch: another one, the first being 1.
    commands: what a person would type. Nobody is asked then, and the session is returned as text.

    docs/debugger.md has the commands. Raises RuntimeError when f launches no kernel.
    """
    with tempfile.TemporaryDirectory(prefix="pallasim-debug-") as folder:
        path = os.path.join(folder, "program.capsule")
        try:
            _capsule.capture(f, *args, path=path, params=params if params is not None else chip, **kwargs)
        except Exception:
            if not os.path.exists(path):  # it failed before a kernel ran
                raise
        return _session(path, checked, launch, commands)


def _session(path: str, checked: bool, launch: int | None, commands: Sequence[str] | None) -> str | None:
    line = [_program.path(), "debug", path]
    if checked:
        line.append("--checked")
    if launch is not None:
        line += ["--launch", str(launch)]
    if commands is None:
        subprocess.run(line, env=_program.environment(), check=False)
        return None
    done = subprocess.run(line, env=_program.environment(), check=False, text=True, capture_output=True, input="".join(f"{c}\n" for c in commands))
    if done.returncode != 0:
        raise RuntimeError(done.stderr or done.stdout)
    return done.stdout


def post_mortem(recording: _capsule.Recording, error: BaseException | None) -> None:
    """The debugger on the launch that stopped, if one did."""
    recording.stop()
    if error is None or not any(launch.get("error") for launch in recording.launches):
        return
    with tempfile.TemporaryDirectory(prefix="pallasim-debug-") as folder:
        path = os.path.join(folder, "program.capsule")
        recording.save(path)
        _session(path, False, None, None)
