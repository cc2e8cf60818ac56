"""A client of the Debug Adapter Protocol for tests: what an editor says, over pipes or a socket."""
from __future__ import annotations

import json
import socket
import subprocess
import time

from pallasim import _program


class Client:
    def __init__(self, port: int | None = None):
        command = [_program.path(), "dap", *(["--port", str(port)] if port else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_program.environment())
        self.number = 0
        self.events = []
        if port:
            assert str(port) in self.process.stderr.readline().decode()
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
            stream = self.socket.makefile("rwb")
            self.reader = self.writer = stream
        else:
            self.reader, self.writer = self.process.stdout, self.process.stdin

    def receive(self):
        length = 0
        while line := self.reader.readline().strip():
            name, value = line.split(b":", 1)
            if name == b"Content-Length":
                length = int(value)
        assert length, "the adapter is gone"
        return json.loads(self.reader.read(length))

    def send(self, command: str, **arguments):
        self.number += 1
        body = json.dumps({"seq": self.number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.writer.flush()
        return self.number

    def ask(self, command: str, **arguments):
        """The body of the response; events that come before it are kept."""
        response = self.response(self.send(command, **arguments))
        assert response["success"], response.get("message")
        return response.get("body")

    def refused(self, command: str, **arguments):
        response = self.response(self.send(command, **arguments))
        assert not response["success"]
        return response["message"]

    def response(self, number: int):
        while True:
            message = self.receive()
            if message["type"] == "response" and message["request_seq"] == number:
                return message
            assert message["type"] == "event"
            self.events.append(message)

    def event(self, name: str):
        while True:
            for i, e in enumerate(self.events):
                if e["event"] == name:
                    return self.events.pop(i)["body"]
            message = self.receive()
            assert message["type"] == "event"
            self.events.append(message)

    def go(self, command: str, **arguments):
        """Until it stops again: why."""
        self.ask(command, **arguments)
        return self.event("stopped")

    def start(self, program, breakpoints=(), **options):
        """Stands at the first line, or where it goes on to."""
        capabilities = self.ask("initialize", adapterID="pallasim", linesStartAt1=True, columnsStartAt1=True)
        assert capabilities["supportsStepBack"] and capabilities["supportsDataBreakpoints"]
        self.ask("launch", program=str(program), **options)
        self.event("initialized")
        found = [self.ask("setBreakpoints", source={"path": str(path)}, breakpoints=lines)["breakpoints"] for path, lines in breakpoints]
        self.ask("setExceptionBreakpoints", filters=[])
        self.ask("configurationDone")
        self.stop = self.event("stopped")
        return found

    def frame(self, thread: int = 1):
        return self.ask("stackTrace", threadId=thread)["stackFrames"][0]

    def scope(self, name: str, thread: int = 1):
        scopes = {s["name"]: s["variablesReference"] for s in self.ask("scopes", frameId=self.frame(thread)["id"])["scopes"]}
        return {v["name"]: v for v in self.ask("variables", variablesReference=scopes[name])["variables"]}

    def value(self, expression: str, thread: int = 1):
        return self.ask("evaluate", expression=expression, frameId=self.frame(thread)["id"], context="watch")["result"]

    def close(self):
        if self.process.poll() is None:
            try:
                self.ask("disconnect")
            except (AssertionError, OSError, ValueError):
                self.process.kill()
        code = self.process.wait(timeout=60)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def milliseconds(self, command: str, **arguments):
        begin = time.perf_counter()
        self.go(command, **arguments)
        return (time.perf_counter() - begin) * 1e3
