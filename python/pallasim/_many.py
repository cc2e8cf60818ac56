"""Many items of a program: in this process, in processes of this machine, or by an executor. What comes is told as it comes, once each."""
from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from . import _tasks, _workers

_WINDOW = 64   # tasks that an executor is given at a time
_TRIES = 3     # of a task whose worker is lost
_SILENT = 20.0  # seconds without an outcome, at least, until what runs is given out once more: executors forget results of workers that were killed


class BrokenRun(RuntimeError):
    """The executor does no more."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def here(program: Any, items: Sequence[Any], told: Callable[[int, dict[str, Any]], None]) -> bool:
    """One after the other in this process, without limits. Whether Ctrl-C ended it."""
    try:
        for n, item in enumerate(items):
            told(n, program.run(item))
    except KeyboardInterrupt:
        return True
    return False


def run(program: Any, items: Sequence[Any], told: Callable[[int, dict[str, Any]], None], *, executor: Any, jobs: int, seconds: float, most_bytes: int) -> bool:
    """In processes: of this machine, `jobs` at a time, or as `executor` has them. Whether Ctrl-C ended it; what was told until then stays.

    Raises _tasks.NotSendable, RuntimeError where a worker is of another build, BrokenRun where the executor does no more.
    """
    sent = _tasks.dumps(program)
    if executor is not None:
        return _Runs(sent, items, told, seconds, most_bytes, executor, _tasks.run, max(1, min(16, len(items) // _WINDOW)), _WINDOW).all()
    pool = _workers.Pool()
    with concurrent.futures.ThreadPoolExecutor(max(1, min(jobs, len(items))), "pallasim items") as threads:
        try:
            return _Runs(sent, items, told, seconds, most_bytes, threads, lambda task: _tasks.run(task, pool), 1, 4 * jobs).all()
        finally:
            pool.close()


class _Runs:
    def __init__(self, program: bytes, items: Sequence[Any], told: Callable[[int, dict[str, Any]], None], seconds: float, most_bytes: int, executor: Any,
                 function: Callable[[dict[str, Any]], dict[str, Any]], batch: int, window: int) -> None:
        self._program, self._items, self._told = program, items, told
        self._limits = seconds, most_bytes
        self._executor, self._function, self._window = executor, function, window
        numbers = range(len(items))
        self._waiting: deque[tuple[list[int], int]] = deque((list(numbers[i:i + batch]), 0) for i in range(0, len(items), batch))
        self._running: dict[Any, tuple[list[int], int]] = {}
        self._done: set[int] = set()
        self._again: set[Any] = set()  # of what runs: given out once more
        self._heard, self._pause, self._told_of = time.monotonic(), 0.0, 0  # the last outcome, and the longest time to the next one
        self._changed = threading.Condition()
        self._ended: deque[Any] = deque()

    def all(self) -> bool:
        try:
            while len(self._done) < len(self._items):
                self._submit()
                for future in self._next():
                    self._take(future, *self._running.pop(future))
                self._hear()
        except KeyboardInterrupt:
            return True
        finally:
            for future in self._running:
                future.cancel()
        return False

    def _submit(self) -> None:
        while self._waiting and len(self._running) < self._window:
            numbers, tries = self._waiting.popleft()
            task = _tasks.make(self._program, [(n, _tasks.dumps(self._items[n])) for n in numbers], *self._limits)
            try:
                future = self._executor.submit(self._function, task)
            except (concurrent.futures.BrokenExecutor, RuntimeError) as e:
                raise BrokenRun(f"the executor takes nothing more: {e}") from None
            self._running[future] = numbers, tries
            future.add_done_callback(self._tell)

    def _tell(self, future: Any) -> None:
        with self._changed:
            self._ended.append(future)
            self._changed.notify()

    def _next(self) -> list[Any]:
        with self._changed:
            if not self._ended:
                self._changed.wait(0.2)  # now and then, for Ctrl-C and for what never comes
            ended = [f for f in self._ended if f in self._running]
            self._ended.clear()
            return ended

    def _hear(self) -> None:
        """Behind each look. Where nothing came for long, whoever ran what is left may be gone without a word: others get it too, and the first outcome counts."""
        silent = time.monotonic() - self._heard
        if len(self._done) != self._told_of:
            self._told_of, self._heard, self._pause = len(self._done), time.monotonic(), max(self._pause, silent)
        elif not self._waiting and silent > max(_SILENT, 8 * self._pause):
            for future, (numbers, tries) in self._running.items():
                if future not in self._again:
                    self._waiting.extend(([n], tries) for n in numbers if n not in self._done)
            self._again |= set(self._running)
            self._heard = time.monotonic()

    def _take(self, future: Any, numbers: list[int], tries: int) -> None:
        try:
            answer = future.result()
        except concurrent.futures.BrokenExecutor as e:
            raise BrokenRun(f"the executor broke: {e}") from None
        except (Exception, concurrent.futures.CancelledError) as e:
            self._lost(numbers, tries + 1, e)
            return
        if "refused" in answer:
            raise RuntimeError(answer["refused"])
        for n, outcome in answer["outcomes"]:
            if n not in self._done:
                self._done.add(n)
                self._told(n, outcome)

    def _lost(self, numbers: list[int], tries: int, error: BaseException) -> None:
        """A worker went with its task: its items are tried again, one by one."""
        left = [n for n in numbers if n not in self._done]
        if tries < _TRIES:
            self._waiting.extend(([n], tries) for n in left)
            return
        for n in left:
            self._done.add(n)
            self._told(n, {"status": "died", "reason": f"{type(error).__name__}: {error}"})
