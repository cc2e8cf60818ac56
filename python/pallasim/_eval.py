"""One call, one verdict: a kernel's source on chips, in a process that cannot touch what is its caller's (docs/eval.md)."""
from __future__ import annotations

import base64
import dataclasses
import linecache
import math
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from . import _build, _confine, _judge, _workers

SCHEMA = 1
_FILE_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of one question (the reference; each chip): seconds and bytes. checked: runs look at every access. tolerance: as of `sweep`."""

    seconds: float = 60.0
    bytes: int = 8 << 30
    checked: bool = True
    values: bool = True
    tolerance: float | None = None
    trust: bool = False


@dataclasses.dataclass
class Source:
    """A file of Python, and the name of its function."""

    text: str
    path: str
    entry: str

    def load(self) -> dict[str, Any]:
        linecache.cache[self.path] = (len(self.text), None, self.text.splitlines(keepends=True), self.path)
        if os.path.dirname(self.path):
            sys.path.insert(0, os.path.dirname(self.path))
        space: dict[str, Any] = {"__name__": "pallasim_eval", "__file__": self.path}
        exec(compile(self.text, self.path, "exec"), space)
        return space

    def function(self, space: dict[str, Any], name: str = "") -> Any:
        name = name or self.entry
        if not callable(space.get(name)):
            raise NameError(f"{self.path} has no function {name}")
        return space[name]


@dataclasses.dataclass
class _Reference:
    """Asked in a process of its own: what it says is not the kernel's to change."""

    source: Source
    values: bool
    compares: bool

    def run(self, _: Any) -> dict[str, Any]:
        import jax

        space = self.source.load()
        inputs = self.source.function(space, "inputs")()
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        said: dict[str, Any] = {"inputs": [_data(x) for x in inputs], "expected": None}
        if self.compares and self.values and _judge.concrete(inputs):
            results = self.source.function(space)(*inputs)
            said["expected"] = [_data(x) for x in jax.tree.leaves(results)]
        return said


@dataclasses.dataclass
class _Kernel:
    source: Source
    inputs: list[dict[str, Any]]
    expected: list[dict[str, Any]] | None
    limits: Limits

    def run(self, chip: str) -> dict[str, Any]:
        inputs = tuple(_array(x) for x in self.inputs)
        expected = None if self.expected is None else [_array(x) for x in self.expected]
        program = _judge.Program(self._function, inputs, {}, expected, self.limits.values and _judge.concrete(inputs), self.limits.checked, self.limits.tolerance)
        return _judge.judge(program, None, chip)

    def _function(self, _: Any) -> Any:
        return self.source.function(self.source.load())


def _data(x: Any) -> dict[str, Any]:
    """An array as JSON has it; without "base64" its shape alone."""
    import jax
    import numpy as np

    if isinstance(x, jax.ShapeDtypeStruct):
        return {"dtype": str(x.dtype), "shape": list(x.shape)}
    a = np.asarray(x)
    if a.dtype == object:
        raise TypeError(f"inputs() and the reference give arrays, numbers or jax.ShapeDtypeStruct, not {type(x).__name__}")
    return {"dtype": str(a.dtype), "shape": list(a.shape), "base64": base64.b64encode(a.tobytes()).decode()}


def _array(d: dict[str, Any]) -> Any:
    import jax
    import jax.numpy as jnp
    import numpy as np

    if "base64" not in d:
        return jax.ShapeDtypeStruct(tuple(d["shape"]), jnp.dtype(d["dtype"]))
    return np.frombuffer(base64.b64decode(d["base64"]), jnp.dtype(d["dtype"])).reshape(d["shape"])


def evaluate(kernel: Source, reference: Source | None, chips: Sequence[str], limits: Limits) -> dict[str, Any]:
    """The verdict (docs/eval.md), which is data of JSON's types. Raises ValueError for a chip that does not exist."""
    from ._params import require_machine

    for chip in chips:
        require_machine(chip)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pallasim-eval-") as folder:
        outcomes, held = _asked(kernel, reference, chips, limits, folder)
    parts = [_on_chip(chip, o) for chip, o in zip(chips, outcomes)]
    worst = next((p for p in parts if not p["ok"]), parts[0])
    return {"pallasim_eval": SCHEMA, "build": _build.build(), "ok": all(p["ok"] for p in parts), "status": worst["status"], "reason": worst["reason"],
            "change": worst["change"], "chips": parts, "held": held,
            "limits": {"seconds": limits.seconds, "bytes": limits.bytes}, "took": round(time.monotonic() - begun, 3)}


def _asked(kernel: Source, reference: Source | None, chips: Sequence[str], limits: Limits, folder: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    asker = _Asker(limits, folder)
    try:
        given = asker.ask(_Reference(reference or kernel, limits.values, reference is not None), None)
        if given.get("status") == "unconfined":
            return [given] * len(chips), asker.held
        if "status" in given:
            whose = "the reference" if reference is not None else "inputs() of the kernel's file"
            return [given | {"reason": f"{whose}: {given['reason']}"}] * len(chips), asker.held
        asker.anew()
        program = _Kernel(kernel, given["inputs"], given["expected"], limits)
        return [asker.ask(program, chip) for chip in chips], asker.held
    finally:
        asker.close()


class _Asker:
    """A confined process for one program at a time."""

    def __init__(self, limits: Limits, folder: str) -> None:
        cpu = 0 if limits.seconds <= 0 else math.ceil(limits.seconds * (os.cpu_count() or 1)) + 600
        self._limits = limits
        self._confine = {"folder": folder, "cpu_seconds": cpu, "file_bytes": _FILE_BYTES}
        self._worker: _workers.Worker | None = None
        self.held: dict[str, str] = {}

    def ask(self, program: Any, item: Any) -> dict[str, Any]:
        worker = self._worker or _workers.Worker(_workers.flags(), self._confine)
        self._worker = worker
        try:
            self.held = worker.begin()
            if (missing := _confine.open_parts(self.held)) and not self._limits.trust:
                return {"status": "unconfined", "reason": f"this system does not hold what a kernel may do: {'; '.join(missing)}",
                        "hint": "--trust runs it all the same"}
            data = pickle.dumps(program)
            return worker.ask(data, str(hash(data)), pickle.dumps(item), self._limits.seconds, self._limits.bytes)
        except _workers.Gone as e:
            self.anew()
            return {"status": e.status, "reason": e.reason}

    def anew(self) -> None:
        self.close()
        self._worker = None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


_LEGAL: dict[str, bool | None] = {"refused": False, "memory": False, "error": None, "unsupported": None, "unconfined": None}
_EMPTY: dict[str, Any] = {"code": "", "hint": "", "file": "", "line": 0, "text": "", "kernels": [], "memories": [], "findings": [], "error": None, "seconds": None,
                          "bound": "", "next": "", "shares": [], "roofline": None, "zeros": False, "advice": []}


def _on_chip(chip: str, o: dict[str, Any]) -> dict[str, Any]:
    status = o["status"]
    right = False if status == "wrong" else None if o.get("error") is None else True
    known = bool(o.get("kernels"))  # it came as far as the rules
    said = _EMPTY | {k: v for k, v in o.items() if k in _EMPTY} | {"chip": chip, "status": status, "ok": status == "ok", "reason": o["reason"]}
    return said | {"legal": _LEGAL.get(status, True if known else None), "right": right, "change": _change(o)}


def _change(o: dict[str, Any]) -> str:
    """What to change first."""
    if o["status"] != "ok":
        return str(o.get("hint") or o["reason"])
    advice = o.get("advice") or []
    return str(advice[0]) if advice else ""
