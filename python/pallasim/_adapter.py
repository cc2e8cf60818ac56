"""The program `pallasim dap`, and what it answers (Microsoft's Debug Adapter Protocol)."""
from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import weakref
from typing import Any

from . import _program

# How a kernel goes on, and back: what buttons and the methods of a stepper are called, and the requests.
GOING = {"next": "next", "step": "stepIn", "finish": "stepOut", "continue": "continue", "back": "stepBack", "reverse-continue": "reverseContinue", "restart": "restart"}


class Refused(RuntimeError):
    """The debugger cannot do what it was asked: there is no such name, line, thread."""


class Adapter:
    """Runs until it is closed, or nobody has it any more."""

    def __init__(self) -> None:
        # Who interrupts a notebook does not mean this one.
        self._process = subprocess.Popen([_program.path(), "dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_program.environment(), start_new_session=True)
        self._sent, self._bytes = 0, b""
        self._events: list[dict[str, Any]] = []
        self.close = weakref.finalize(self, _end, self._process)

    def ask(self, command: str, **arguments: Any) -> Any:
        """The body of the response. Raises Refused."""
        number = self._send(command, arguments)
        while (message := self._receive())["type"] != "response" or message["request_seq"] != number:
            self._keep(message)
        if not message["success"]:
            raise Refused(message.get("message", command))
        return message.get("body")

    def event(self, name: str) -> dict[str, Any]:
        """The next event of this kind; earlier ones of other kinds stay. An interrupt asks the kernel to stop, which is such an event."""
        while True:
            for i, e in enumerate(self._events):
                if e["event"] == name:
                    return self._events.pop(i).get("body", {})  # type: ignore[no-any-return]
            try:
                self._keep(self._receive())
            except KeyboardInterrupt:
                self._send("pause", {"threadId": 1})

    def events(self, name: str) -> list[dict[str, Any]]:
        """Those that came."""
        came = [e.get("body", {}) for e in self._events if e["event"] == name]
        self._events = [e for e in self._events if e["event"] != name]
        return came

    def _keep(self, message: dict[str, Any]) -> None:
        if message["type"] == "event":
            self._events.append(message)

    def _send(self, command: str, arguments: dict[str, Any]) -> int:
        self._sent += 1
        body = json.dumps({"seq": self._sent, "type": "request", "command": command, "arguments": arguments}).encode()
        to = self._process.stdin
        assert to is not None
        try:
            to.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            to.flush()
        except (OSError, ValueError):
            raise Refused("the debugger has ended") from None
        return self._sent

    def _receive(self) -> dict[str, Any]:
        head = self._until(lambda: self._bytes.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in self._bytes else None)
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return json.loads(self._until(lambda: length if len(self._bytes) >= length else None))  # type: ignore[no-any-return]

    def _until(self, enough: Any) -> bytes:
        """As many bytes as `enough` says when it says it. What came before an interrupt stays."""
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        while (length := enough()) is None:
            select.select([source], [], [])
            if not (more := os.read(source, 1 << 16)):
                raise Refused("the debugger has ended")
            self._bytes += more
        taken, self._bytes = self._bytes[:length], self._bytes[length:]
        return taken


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
