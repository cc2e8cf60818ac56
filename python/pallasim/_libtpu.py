"""The TPU compiler's own word on a kernel, where the package `libtpu` is installed (the extra `pallasim[libtpu]`; its own terms hold).

JAX lowers the kernel in this process, which never loads libtpu; the compiler runs in a process of its own (`_libtpu_child`), as it may end
it. No chip is needed: it compiles for a topology by name.
"""
from __future__ import annotations

import atexit
import dataclasses
import importlib.metadata
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import Any

from . import _child, _jax_lowering

# Topologies of jax.experimental.topologies and what else it takes, by chip, with their devices: the two cores of a v4 as one.
_TOPOLOGIES: dict[str, tuple[tuple[str, dict[str, Any], int], ...]] = {
    "tpu-v4": (("v4:2x2x1", {"chip_config_name": "megacore"}, 4), ("v4:2x2x4", {"chip_config_name": "megacore"}, 16)),
    "tpu-v5e": (("v5e:2x2", {}, 4), ("v5e:4x4", {}, 16)), "tpu-v5p": (("v5p:2x2x1", {}, 4), ("v5p:2x2x4", {}, 16)),
    "tpu-v6e": (("v6e:2x2", {}, 4), ("v6e:4x4", {}, 16)), "tpu-7x": (("tpu7x:2x2x1", {}, 8), ("tpu7x:2x2x4", {}, 32))}
_LIMIT = 300.0  # seconds for one kernel


class Unavailable(RuntimeError):
    """libtpu cannot be asked: it is not installed, or does not start here."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the compiler says of a kernel. accepted: None where it could not be asked, and `said` is why. stage: "lowering" (JAX's, to
    Mosaic) or "compiler" (libtpu). said: its words where it refuses, without its requests to report a bug."""

    accepted: bool | None
    stage: str
    said: str
    version: str

    @property
    def line(self) -> str:
        """The first line of what it says."""
        return next((s.strip() for s in self.said.splitlines() if s.strip()), "")


def version() -> str:
    """Of the installed package. Raises Unavailable."""
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable("with_libtpu=True asks the TPU compiler, and the package libtpu is not installed: pip install 'pallasim[libtpu]' "
                          "(it is Google's, under terms of its own; no chip is needed)") from None


def ask(eqn: Any, axes: Sequence[tuple[str, int]], chip: str) -> Answer:
    """Whether JAX and libtpu compile the launch of an equation for a chip; inside `emulate(chip)`, so that JAX takes it for that chip.

    axes: of the devices around it, with their sizes. Raises Unavailable.
    """
    number = version()
    if chip not in _TOPOLOGIES:
        return Answer(None, "", f"libtpu compiles for {', '.join(_TOPOLOGIES)}, not for {chip}", number)
    devices = math.prod(n for _, n in axes)
    topology = next((t for t in _TOPOLOGIES[chip] if t[2] >= devices), None)
    if topology is None:
        return Answer(None, "", f"{devices} devices are more than it is asked for here", number)
    from jax._src.interpreters import mlir

    try:
        module = mlir.module_to_bytecode(_jax_lowering.lowered(eqn, axes, "tpu").compiler_ir())
    except Exception as e:  # whatever JAX's lowering raises refuses the kernel
        return Answer(False, "lowering", _jax_lowering.words(f"{type(e).__name__}: {e}"), number)
    said = _compiler().compile({"topology": topology[0], "more": topology[1], "devices": devices}, module)
    return Answer(not said, "compiler" if said else "", _jax_lowering.words(said), number)


class _Compiler:
    """The process that compiles; a new one where the last was ended. For one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()

    def compile(self, head: dict[str, Any], module: bytes) -> str:
        """"" or why it refuses. A kernel at which the compiler breaks down is refused."""
        with self._lock:
            process = self._process if self._process is not None and self._process.poll() is None else self._start()
            assert process.stdin is not None and process.stdout is not None
            timer = threading.Timer(_LIMIT, process.kill)
            timer.start()
            try:
                _child.write(process.stdin, json.dumps(head).encode())
                _child.write(process.stdin, module)
                answer = _child.read(process.stdout)
            except OSError:
                answer = None
            finally:
                timer.cancel()
            if answer is None:
                process.kill()
                process.wait()
                return self._last_words()
            return str(json.loads(answer)["said"])

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = next((s.split("] ", 1)[-1] for s in lines if s.startswith("F") and "] " in s), "")
        return f"the compiler broke down: {said}" if said else f"the compiler broke down, or took longer than {_LIMIT:.0f} s"

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)
        self._errors.truncate()
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env = dict(os.environ, JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost",
                   TPU_ACCELERATOR_TYPE="v5litepod-4", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH", "")]))
        env.pop("PALLASIM_EMULATE", None)
        process = subprocess.Popen([sys.executable, "-m", "pallasim._libtpu_child"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=self._errors)
        assert process.stdout is not None
        ready = _child.read(process.stdout)
        if ready is None or (problem := json.loads(ready)["problem"]):
            process.kill()
            self._errors.seek(0)
            said = problem if ready is not None else self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise Unavailable(f"libtpu {version()} does not start: {said}")
        self._process = process
        return process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


_the_compiler: list[_Compiler] = []


def _compiler() -> _Compiler:
    if not _the_compiler:
        _the_compiler.append(_Compiler())
        atexit.register(_the_compiler[0].end)
    return _the_compiler[0]
