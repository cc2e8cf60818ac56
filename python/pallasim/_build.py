"""Which Pallasim this is: its version, and a digest of its files, so that processes that work together are of one build."""
from __future__ import annotations

import functools
import hashlib
import os


@functools.cache
def build() -> str:
    """Such as "0.1.0 (3f2a9c17)"."""
    from . import __version__, _core

    here = os.path.dirname(os.path.abspath(__file__))
    files = [os.path.join(folder, name) for folder, _, names in os.walk(here, followlinks=True) for name in names if name.endswith(".py")]
    digest = hashlib.sha256()
    for path in sorted([*files, str(_core.__file__)]):
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{__version__} ({digest.hexdigest()[:8]})"
