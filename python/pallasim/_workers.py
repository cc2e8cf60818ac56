"""Processes of this machine that run items of a program, with limits of time and memory (`_child` is their other end)."""
from __future__ import annotations

import atexit
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from . import _child

_START = 300.0  # seconds for importing JAX on a busy machine
_LOOK = 0.1     # seconds between looks at a process's memory
_MOST_ANSWER = 1 << 30
_MOST_ITEMS = 2000  # of one process: what JAX keeps of each program goes with it
_FLAGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_default_prng_impl",
          "jax_threefry_partitionable", "jax_debug_nans")


class Gone(Exception):
    """A process that was ended, or ended itself: a status, and why."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Closed(Exception):
    """The pool is closed: nobody wants the outcome any more."""


def flags() -> dict[str, Any]:
    """JAX's switches that programs depend on, as they are in this process."""
    jax = sys.modules.get("jax")
    return {} if jax is None else {name: getattr(jax.config, name) for name in _FLAGS if hasattr(jax.config, name)}


class Worker:
    """One process. `ask` is for one thread at a time; `end` for any."""

    def __init__(self, config: dict[str, Any], confine: dict[str, Any] | None = None) -> None:
        self.config, self._confine = config, confine
        self.held: dict[str, str] = {}
        self.items = 0
        self._known = ""
        self._errors = tempfile.TemporaryFile()
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env = dict(os.environ)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH", "")]))
        env.setdefault("JAX_PLATFORMS", "cpu")
        env.pop("PALLASIM_EMULATE", None)
        if confine is not None:
            env |= {"TMPDIR": confine["folder"], "HOME": confine["folder"], "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen([sys.executable, "-m", "pallasim._child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
                                         env=env, start_new_session=True, cwd=None if confine is None else confine["folder"])
        self._ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, program: bytes, key: str, item: bytes, seconds: float, most_bytes: int) -> dict[str, Any]:
        """What the program says of the item. Raises Gone; the process is of no use then."""
        try:
            self.begin()
            request = {"program": key, "item": item} | ({} if key == self._known else {"bytes": program})
            _child.write(self._process.stdin, pickle.dumps(request))  # type: ignore[arg-type]
            self._known = key
            self.items += 1
            answer = self._receive(seconds, most_bytes)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None
        if "error" in answer:
            return {"status": "error", "reason": answer["error"]}
        return answer["outcome"]  # type: ignore[no-any-return]

    def begin(self) -> dict[str, str]:
        """Waits until it can be asked; what holds it (`_confine`). Raises Gone."""
        if self._ready:
            return self.held
        head = {"path": [p or os.getcwd() for p in sys.path], "config": self.config, "confine": self._confine, "parent": os.getpid()}
        _child.write(self._process.stdin, pickle.dumps(head))  # type: ignore[arg-type]
        ready = self._receive(_START, 0)
        if "error" in ready:
            raise Gone("died", f"a worker does not start: {ready['error']}")
        self.held, self._ready = ready["held"], True
        return self.held

    def _receive(self, seconds: float, most_bytes: int) -> dict[str, Any]:
        out = self._process.stdout
        assert out is not None
        until = time.monotonic() + seconds if seconds > 0 else None
        data = bytearray()
        while len(data) < 8 or len(data) < 8 + int.from_bytes(data[:8], "little"):
            left = _LOOK if until is None else until - time.monotonic()
            if left <= 0:
                self.end()
                raise Gone("time limit", f"it took more than {seconds:g} s")
            if select.select([out], [], [], min(left, _LOOK) if most_bytes > 0 or until is None else left)[0]:
                part = os.read(out.fileno(), 1 << 20)
                if not part:
                    raise self._died()
                data += part
                if len(data) > _MOST_ANSWER:
                    self.end()
                    raise Gone("died", "its answer has no end")
            elif most_bytes > 0 and (taken := resident(self.pid)) > most_bytes:
                self.end()
                raise Gone("memory limit", f"it took {taken >> 20:,} MiB, more than {most_bytes >> 20:,}")
        try:
            answer = json.loads(bytes(data[8:]))
            return answer if isinstance(answer, dict) else {"error": "its answer is no object"}
        except ValueError:
            raise Gone("died", "its answer is no JSON") from None

    def _died(self) -> Gone:
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - 4096))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return Gone("died", f"its process ended with {how}{': ' + lines[-1].strip() if lines else ''}")

    def end(self) -> None:
        """Kills it, and what it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()

    def close(self) -> None:
        self.end()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                stream.close()  # type: ignore[union-attr]
            except OSError:
                pass


def resident(pid: int) -> int:
    """Bytes of memory that a process takes, 0 where that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


class Pool:
    """Workers that wait for the next item; there are as many as threads that ask at a time."""

    def __init__(self, confine: dict[str, Any] | None = None) -> None:
        self._lock = threading.Lock()
        self._all: list[Worker] = []
        self._idle: list[Worker] = []
        self._confine = confine
        self.closed = False

    def ask(self, program: bytes, key: str, item: bytes, config: dict[str, Any], seconds: float, most_bytes: int) -> dict[str, Any]:
        """The outcome of an item, which may be that its process died. One that dies is tried again once, in another process: somebody may have killed it."""
        for again in (True, False):
            worker = self._take(config)
            try:
                outcome = worker.ask(program, key, item, seconds, most_bytes)
            except Gone as e:
                self._drop(worker)
                if self.closed:
                    raise Closed from None
                if e.status != "died" or not again:
                    return {"status": e.status, "reason": e.reason}
            else:
                self._put(worker)
                return outcome
        raise AssertionError

    def _take(self, config: dict[str, Any]) -> Worker:
        with self._lock:
            if self.closed:
                raise Closed
            for n, idle in enumerate(self._idle):
                if idle.config == config:
                    return self._idle.pop(n)
            worker = Worker(config, self._confine)
            self._all.append(worker)
            return worker

    def _put(self, worker: Worker) -> None:
        with self._lock:
            keep = worker.items < _MOST_ITEMS and not self.closed
            if keep:
                self._idle.append(worker)
        if not keep:
            self._drop(worker)

    def _drop(self, worker: Worker) -> None:
        worker.close()
        with self._lock:
            if worker in self._all:
                self._all.remove(worker)

    def close(self) -> None:
        with self._lock:
            self.closed = True
            workers = list(self._all)
        for w in workers:
            w.end()


_shared: Pool | None = None
_shared_lock = threading.Lock()


def shared() -> Pool:
    """That of this process, where it works for another one."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.closed:
            _shared = Pool()
            atexit.register(_shared.close)
        return _shared
