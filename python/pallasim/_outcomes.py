"""Outcomes of configurations in a folder, by what they depend on: build, chip, options, kernels without the places of their lines, and, of those that
ran, the program around the kernels and what its arguments hold."""
from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np


def key_of(program: Any, launches: Sequence[Any], chip: str, jaxpr: Any) -> str:
    from . import _build

    digest = hashlib.sha256()

    def add(*parts: Any) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(data).to_bytes(8, "little") + data)

    add(_build.build(), chip, sorted(program.options.items()), program.most_steps, program.values)
    for c in launches:
        add(c.text.partition("\nloc 0 ")[0])
    if program.values:
        import jax

        add(program.checked, program.tolerance, jax.__version__, jaxpr)
        for x in (*jax.tree.leaves(jaxpr.consts), *jax.tree.leaves((program.args, program.kwargs)), *(program.expected() or ())):
            array = np.asarray(x)
            add(array.dtype, array.shape, array.tobytes())
        add(program.reference is not None)
    return digest.hexdigest()


def _path(folder: str, key: str) -> str:
    return os.path.join(folder, key[:2], f"{key}.json")


def find(folder: str, key: str) -> dict[str, Any] | None:
    try:
        with open(_path(folder, key), encoding="utf-8") as file:
            return json.load(file)  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return None


def keep(folder: str, key: str, outcome: dict[str, Any]) -> None:
    """All or nothing: others may read and write the same folder."""
    path = _path(folder, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd, made = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".part")
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(outcome, file)
    os.replace(made, path)
