"""The program `pallasim debug` on a capsule."""
from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence

from . import _cells, _program
from ._capsule import Recording


def session(path: str, checked: bool, launch: int | None, commands: Sequence[str] | None) -> str | None:
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


def post_mortem(recording: Recording, error: BaseException | None) -> None:
    """The debugger on the launch that stopped, if one did."""
    recording.stop()
    if error is None or not any(launch.get("error") for launch in recording.launches):
        return
    with tempfile.TemporaryDirectory(prefix="pallasim-debug-") as folder:
        path = os.path.join(folder, "program.capsule")
        recording.save(path)
        if _cells.in_notebook():
            from IPython.display import display

            from ._stepper import Stepper

            display(Stepper(path))
        else:
            session(path, False, None, None)
