"""`pallasim eval --serve`: the same by HTTP on this machine, with a queue (docs/eval.md)."""
from __future__ import annotations

import dataclasses
import http.server
import itertools
import json
import queue
import threading
from typing import Any

from . import _build, _eval

_MOST_BODY = 64 << 20
_MOST_KEPT = 1000
_FIELDS = {"kernel", "reference", "chips", "entry", "reference_entry", "time_limit", "memory_limit", "tolerance", "checked", "values"}


class Full(Exception):
    """The queue is full."""


class Evaluations:
    """Requests in the order in which they come, a few at a time; the latest verdicts are kept."""

    def __init__(self, limits: _eval.Limits, jobs: int, most: int) -> None:
        self._limits = limits
        self._queue: queue.Queue[int] = queue.Queue(most)
        self._known: dict[int, dict[str, Any]] = {}
        self._ends: dict[int, threading.Event] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        for n in range(max(1, jobs)):
            threading.Thread(target=self._work, name=f"pallasim eval {n}", daemon=True).start()

    def add(self, request: dict[str, Any]) -> int:
        """Its number. Raises ValueError for a request that cannot be, Full."""
        arguments = self._arguments(request)
        with self._lock:
            n = next(self._numbers)
            self._known[n] = {"id": n, "state": "queued", "arguments": arguments}
            self._ends[n] = threading.Event()
            try:
                self._queue.put_nowait(n)
            except queue.Full:
                del self._known[n], self._ends[n]
                raise Full from None
        return n

    def find(self, n: int, seconds: float = 0.0) -> dict[str, Any] | None:
        """What is known of a request, after so many seconds at most where it has not ended."""
        with self._lock:
            end = self._ends.get(n)
        if end is None:
            return None
        end.wait(seconds)
        with self._lock:
            return {k: v for k, v in self._known[n].items() if k != "arguments"} if n in self._known else None

    def waiting(self) -> int:
        return self._queue.qsize()

    def _arguments(self, r: dict[str, Any]) -> tuple[Any, ...]:
        from ._params import require_machine

        if unknown := sorted(set(r) - _FIELDS):
            raise ValueError(f"no field is called {', '.join(unknown)}; there are {', '.join(sorted(_FIELDS))}")
        chips = r.get("chips")
        if not isinstance(r.get("kernel"), str) or not isinstance(chips, list) or not chips:
            raise ValueError("kernel (source) and chips (a list of names) are needed")
        for chip in chips:
            require_machine(chip)
        most = self._limits
        limits = dataclasses.replace(
            most, seconds=_at_most(r.get("time_limit"), most.seconds), bytes=int(_at_most(r.get("memory_limit"), most.bytes)),
            checked=bool(r.get("checked", most.checked)), values=bool(r.get("values", most.values)), tolerance=r.get("tolerance", most.tolerance))
        kernel = _eval.Source(r["kernel"], "kernel.py", str(r.get("entry", "kernel")))
        reference = _eval.Source(str(r["reference"]), "reference.py", str(r.get("reference_entry", "reference"))) if r.get("reference") else None
        return kernel, reference, chips, limits

    def _work(self) -> None:
        while True:
            n = self._queue.get()
            with self._lock:
                entry = self._known[n]
                entry["state"] = "running"
            try:
                entry |= {"state": "done", "verdict": _eval.evaluate(*entry["arguments"])}
            except Exception as e:
                entry |= {"state": "failed", "error": f"{type(e).__name__}: {e}"}
            del entry["arguments"]
            self._ends[n].set()
            with self._lock:
                ended = [k for k, v in self._known.items() if v["state"] in ("done", "failed")]
                for k in ended[:-_MOST_KEPT]:
                    del self._known[k], self._ends[k]


def _at_most(given: Any, most: float) -> float:
    """Who asks may take less than the server allows."""
    if given is None:
        return most
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
        raise ValueError("limits are numbers above 0")
    return min(given, most) if most > 0 else given


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._local():
            return
        if self.path == "/":
            self._say(200, {"pallasim_eval": _eval.SCHEMA, "build": _build.build(), "waiting": self.server.evaluations.waiting()})
            return
        path, _, query = self.path.partition("?")
        number = path.removeprefix("/eval/")
        wait = query.removeprefix("wait=") if query.startswith("wait=") else "0"
        known = self.server.evaluations.find(int(number), min(float(wait), 3600)) if number.isdigit() and wait.replace(".", "", 1).isdigit() else None
        self._say(200, known) if known is not None else self._say(404, {"error": "there is no such evaluation"})

    def do_POST(self) -> None:
        if not self._local():
            return
        length = self.headers.get("Content-Length", "")
        if self.path != "/eval" or self.headers.get_content_type() != "application/json" or not length.isdigit() or int(length) > _MOST_BODY:
            self._drop()
            self._say(400, {"error": f"POST /eval takes application/json of at most {_MOST_BODY} bytes"})
            return
        try:
            request = json.loads(self.rfile.read(int(length)))
            if not isinstance(request, dict):
                raise ValueError("the request is a JSON object")
            self._say(202, self.server.evaluations.find(self.server.evaluations.add(request)))
        except Full:
            self._say(503, {"error": "the queue is full"})
        except ValueError as e:
            self._say(400, {"error": str(e)})

    def _local(self) -> bool:
        """Pages of the web that a browser of this machine shows do not get here: they have another host's name, or an origin."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host in ("127.0.0.1", "localhost") and "Origin" not in self.headers:
            return True
        self._drop()
        self._say(403, {"error": "this server is for programs of this machine"})
        return False

    def _drop(self) -> None:
        """Nothing more is read of this connection but what the client is about to write, so that it gets to the answer."""
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        self.rfile.read(min(int(length), 1 << 16) if length.isdigit() else 0)

    def _say(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, limits: _eval.Limits, jobs: int, most: int) -> None:
        self.evaluations = Evaluations(limits, jobs, most)
        super().__init__(("127.0.0.1", port), _Handler)


def serve(port: int, limits: _eval.Limits, jobs: int, most: int) -> int:
    """Until Ctrl-C."""
    with Server(port, limits, jobs, most) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
    return 0
