"""Mutants in worker processes, with a limit of time for each."""
from __future__ import annotations

import collections
import json
import os
import pathlib
import selectors
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parents[1]


class _Worker:
    def __init__(self) -> None:
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
        command = [sys.executable, "-c", "from mutation.worker import main; main()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.name, self.since = "", 0.0

    def spent(self) -> float:
        """Seconds of CPU time of the process."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def give(self, name: str, mode: str) -> None:
        self.name, self.since = name, self.spent()
        self.process.stdin.write(f"{name} {mode}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def run(names: Iterable[str], mode: str = "", jobs: int = 2, seconds: float = 90.0) -> Iterator[dict[str, Any]]:
    """The answers of `worker.mutant` as they come. One that takes longer than `seconds` is of CPU time is of the kind "slow", one that ends the process "crash"."""
    waiting, workers = collections.deque(names), []
    with selectors.DefaultSelector() as selector:

        def begin() -> None:
            worker = _Worker()
            workers.append(worker)
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            worker.give(waiting.popleft(), mode)

        def stop(worker: _Worker) -> None:
            selector.unregister(worker.process.stdout)
            workers.remove(worker)
            worker.end()
            if waiting:
                begin()

        try:
            while waiting and len(workers) < jobs:
                begin()
            while workers:
                for key, _ in selector.select(1.0):
                    worker = key.data
                    if not (line := worker.process.stdout.readline()):
                        yield _lost(worker, "crash", f"the process ended with {worker.process.wait()}")
                        stop(worker)
                        continue
                    yield json.loads(line)
                    if waiting:
                        worker.give(waiting.popleft(), mode)
                    else:
                        worker.name = ""
                        stop(worker)
                for worker in [w for w in workers if w.spent() - w.since > seconds]:
                    yield _lost(worker, "slow", f"more than {seconds:.0f} s")
                    stop(worker)
        finally:
            for worker in workers:
                worker.end()


def _lost(worker: _Worker, kind: str, why: str) -> dict[str, Any]:
    return {"name": worker.name, "verdict": {"kind": kind, "why": why, "lines": [], "schedules": 0}, "said": [],
            "seconds": [0, 0]}
