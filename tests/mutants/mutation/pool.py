"""Mutants in processes of this machine, or by an executor, as sweeps run their configurations: each with a limit of time, and none lost with its process."""
from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from pallasim import _many

from . import worker

_KINDS = {"time limit": "slow", "died": "crash", "memory limit": "crash"}


def run(names: Iterable[str], mode: str = "", jobs: int = 2, seconds: float = 180.0, executor: Any = None) -> Iterator[dict[str, Any]]:
    """The answers of `worker.mutant` as they come. One that takes longer than `seconds` is of the kind "slow", one that ends its process "crash".

    executor: any `concurrent.futures.Executor` whose workers find this package (PYTHONPATH); None: so many processes of this machine.
    """
    items = list(names)
    come: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def all_of_them() -> None:
        try:
            _many.run(worker.Mutants(mode), items, lambda n, outcome: come.put((items[n], outcome)), executor=executor, jobs=jobs, seconds=seconds,
                      most_bytes=16 << 30)
            come.put(None)
        except BaseException as e:
            come.put(e)

    threading.Thread(target=all_of_them, daemon=True).start()
    while (told := come.get()) is not None:
        if isinstance(told, BaseException):
            raise told
        name, outcome = told
        yield outcome["answer"] if outcome["status"] == "ok" else lost(name, outcome)


def lost(name: str, outcome: dict[str, Any]) -> dict[str, Any]:
    kind = _KINDS.get(outcome["status"], "error")
    return {"name": name, "verdict": {"kind": kind, "why": outcome.get("reason") or outcome["status"], "lines": [], "schedules": 0}, "said": [], "seconds": [0, 0]}
