"""The command-line program that belongs to this installation."""
from __future__ import annotations

import functools
import os

_HERE = os.path.dirname(os.path.abspath(__file__))


@functools.cache
def path() -> str:
    """The program's file: inside the package of a wheel, or in the build tree around it. Raises FileNotFoundError."""
    places = (os.path.join(_HERE, "bin", "pallasim"), os.path.join(_HERE, "..", "..", "cli", "pallasim"))
    for place in places:
        if os.access(place, os.X_OK):
            return os.path.normpath(place)
    raise FileNotFoundError(f"this installation of pallasim has no program: {' nor '.join(map(os.path.normpath, places))}")


def environment() -> dict[str, str]:
    """The environment it runs in: the kernels for this CPU lie beside the extension."""
    return {"PALLASIM_KERNELS_DIR": _HERE} | os.environ if os.path.dirname(path()).startswith(_HERE) else dict(os.environ)
