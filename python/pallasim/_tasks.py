"""A task is plain data: a program and items of it, pickled, and limits. Any process of the same build runs it and answers with JSON's types, so that engines
that exist serve: threads of this process, `concurrent.futures`, Dask, MPI, Ray."""
from __future__ import annotations

import hashlib
import io
import os
import pickle
import socket
import types
from typing import Any

from . import _build, _workers


class NotSendable(TypeError):
    """A program that cannot go to another process."""


class _Plain(pickle.Pickler):
    """Without cloudpickle: functions go by their names, which those of the main program do not have elsewhere."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is a name of the main program")
        return NotImplemented


def dumps(obj: Any) -> bytes:
    """Raises NotSendable."""
    try:
        import cloudpickle
    except ImportError:
        data = io.BytesIO()
        try:
            _Plain(data, protocol=5).dump(obj)
        except Exception as e:
            raise NotSendable(f"{e} (with cloudpickle it would be sent: pip install cloudpickle)") from None
        return data.getvalue()
    try:
        return cloudpickle.dumps(obj)  # type: ignore[no-any-return]
    except Exception as e:
        raise NotSendable(str(e)) from None


def make(program: bytes, items: list[tuple[int, bytes]], seconds: float, most_bytes: int) -> dict[str, Any]:
    return {"build": _build.build(), "program": program, "items": items, "seconds": seconds, "bytes": most_bytes, "config": _workers.flags()}


def name() -> str:
    """Of this process, for people."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def run(task: dict[str, Any], pool: _workers.Pool | None = None) -> dict[str, Any]:
    """The outcomes of a task's items, in a process of their own; or why this worker does not take it."""
    if task["build"] != _build.build():
        return {"refused": f"the worker {name()} has Pallasim {_build.build()}, who asks has {task['build']}: install one build for both"}
    pool = pool or _workers.shared()
    key = hashlib.sha256(task["program"]).hexdigest()
    outcomes = [(index, pool.ask(task["program"], key, item, task["config"], task["seconds"], task["bytes"])) for index, item in task["items"]]
    return {"worker": name(), "outcomes": outcomes}
