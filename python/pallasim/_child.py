"""A process that runs items of a program for another one (`_workers`), one after the other, and may be ended at any moment.

It reads frames from its standard input: a head, then requests, both pickled; it answers with JSON, so that who asks never unpickles what a program made.
What programs print goes to standard error.
"""
from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from typing import Any, BinaryIO


def read(stream: BinaryIO) -> bytes | None:
    """A frame, None at the end."""
    size = stream.read(8)
    if len(size) < 8:
        return None
    data = stream.read(int.from_bytes(size, "little"))
    return data if len(data) == int.from_bytes(size, "little") else None


def write(stream: BinaryIO, data: bytes) -> None:
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def go_with(parent: int) -> None:
    """Ends this process soon after its parent."""
    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    first = read(requests)
    if first is None:
        return
    head = pickle.loads(first)
    sys.path[:] = head["path"]
    held: dict[str, str] = {}
    if head["confine"] is not None:
        from . import _confine

        held = _confine.confine(**head["confine"])
    go_with(head["parent"])
    ready: dict[str, Any] = {"held": held}
    try:
        import jax
        import jax.experimental.pallas  # noqa: F401

        for name, value in head["config"].items():
            jax.config.update(name, value)
        from . import _build

        ready["build"] = _build.build()
    except Exception as e:
        ready["error"] = f"{type(e).__name__}: {e}"
    write(answers, json.dumps(ready).encode())
    programs: dict[str, Any] = {}
    while (frame := read(requests)) is not None:
        write(answers, json.dumps(_answer(pickle.loads(frame), programs)).encode())


def _answer(request: dict[str, Any], programs: dict[str, Any]) -> dict[str, Any]:
    key = request["program"]
    try:
        if key not in programs:
            programs.clear()  # one at a time: another one comes with its bytes again
            programs[key] = pickle.loads(request["bytes"])
        return {"outcome": programs[key].run(pickle.loads(request["item"]))}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


if __name__ == "__main__":
    main()
