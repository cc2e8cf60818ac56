"""The client of debugpy, its messages held against Microsoft's schema of the protocol, which debugpy carries."""
from __future__ import annotations

import functools
import json
import pathlib
import queue
import subprocess

import debugpy
import jsonschema
from debugpy.common import messaging

from pallasim import _program

SCHEMA = pathlib.Path(debugpy.__file__).parent / "_vendored" / "pydevd" / "_pydevd_bundle" / "_debug_adapter" / "debugProtocol.json"


@functools.cache
def schema():
    return json.loads(SCHEMA.read_text())


@functools.cache
def of(name):
    """A checker of one kind of message; None: the protocol has no such kind."""
    if name not in schema()["definitions"]:
        return None
    return jsonschema.Draft4Validator({"$ref": f"#/definitions/{name}", "definitions": schema()["definitions"]})


def kind_of(message):
    if message["type"] == "response" and not message["success"]:
        return "ErrorResponse"
    name = message.get("command") or message["event"]
    return name[0].upper() + name[1:] + message["type"].capitalize()


def problems(message):
    checker = of(kind_of(message))
    if checker is None:
        return [f"the protocol has no {kind_of(message)}"]
    return [f"{kind_of(message)}: {'.'.join(map(str, e.absolute_path))}: {e.message}" for e in checker.iter_errors(message)]


class Stream(messaging.JsonIOStream):
    """Keeps what was wrong with messages, of either side."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.wrong, self.kinds = [], set()

    def _see(self, message):
        plain = json.loads(json.dumps(message))
        self.kinds.add(kind_of(plain))
        self.wrong += problems(plain)

    def read_json(self, decoder=None):
        message = super().read_json(decoder)
        self._see(message)
        return message

    def write_json(self, value, encoder=None):
        self._see(value)
        super().write_json(value, encoder)


class Conversation:
    """`pallasim dap` at the other end of debugpy's channel."""

    def __init__(self):
        self.process = subprocess.Popen([_program.path(), "dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_program.environment())
        self.stream = Stream.from_process(self.process)
        self._events = queue.Queue()
        self.channel = messaging.JsonMessageChannel(self.stream, messaging.MessageHandlers(event=self._events.put, disconnect=lambda: None))
        self.channel.start()

    def ask(self, command, **arguments):
        return self.channel.request(command, arguments)

    def event(self, name):
        while True:
            e = self._events.get(timeout=120)
            if e.event == name:
                return e.body

    def go(self, command, **arguments):
        self.ask(command, threadId=1, **arguments)
        return self.event("stopped")

    def refused(self, command, **arguments):
        try:
            self.ask(command, **arguments)
        except messaging.MessageHandlingError as e:
            return str(e)
        raise AssertionError(f"{command} was not refused")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.channel.wait()
        self.channel.close()
