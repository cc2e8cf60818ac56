"""Capsules: a recorded program as a zip that `pallasim run` repeats without Python (docs/capsule.md)."""
from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from . import _cells

VERSION = 1
# A plain zip directory counts to 65,534; what does not fit is left out and counted.
_MAX_MEMBERS = 60_000
_MAX_BYTES = 3 << 30
_CONTEXT = 2  # lines around a quoted one
_SYNC = {"sem": np.uint32, "dma_sem": np.uint32, "barrier_sem": np.uint32, "mbarrier": np.uint64, "cluster_barrier": np.uint64}

_README = """A capsule of Pallasim: a program's Pallas kernels, with what each launch read and wrote.

    pallasim run FILE      repeats every launch and compares its outputs
    pallasim info FILE     lists the launches

manifest.json   the launches in order
modules/        the kernels as text, with the source lines they come from
launches/       arrays of each launch (.npy); equal arrays are stored once
sources/        the quoted lines of the kernels' sources
"""


class Recording:
    """Records the launches of a `with` block, of every thread; `save` writes them as a capsule. Blocks may nest.

    launches: what was recorded, in order. omitted: launches left out because `max_bytes` of arrays were exceeded.
    """

    def __init__(self, max_bytes: int = 2 << 30) -> None:
        if not 0 < max_bytes <= _MAX_BYTES:
            raise ValueError(f"max_bytes is between 1 and {_MAX_BYTES}")
        self.max_bytes = max_bytes
        self.launches: list[dict[str, Any]] = []
        self.omitted = 0
        self.params: Any = None
        self._number = 0

    def __enter__(self) -> Recording:
        from . import _core

        self._number = _core.start_recording(self.max_bytes)
        return self

    def __repr__(self) -> str:
        state = "recording" if self._number else f"{len(self.launches)} launches"
        return f"<pallasim.Recording: {state}{f', {self.omitted} left out' if self.omitted else ''}>"

    def stop(self) -> None:
        """Ends the recording; launches that have not ended are left out."""
        if self._number:
            from . import _core

            self.launches, self.omitted = _core.stop_recording(self._number)
            self._number = 0

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def refused(self, error: BaseException) -> None:
        """Adds the kernel that was refused before it ran, if `error` is about one: its text without arrays."""
        from . import _findings

        if isinstance(error, _findings.KernelError) and error.refused is not None and error.finding is not None:
            self.stop()
            kernel, module, options = error.refused
            self.launches.append({"kernel": kernel, "module": module, "options": options, "device": 0, "arguments": [], "results": [],
                                  "error": error.finding.code, "report": error.finding.report})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the capsule; a file at `path` is replaced at once or not at all."""
        temporary = f"{os.fspath(path)}.{os.getpid()}.part"
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                _Writer(archive).write(self)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]|^[.]", "_", name)[:80] or "unnamed"


def _numpy(array: dict[str, Any]) -> np.ndarray:
    """The recorded bytes as an array of its .npy file: words of keys in a trailing dimension, semaphores as words."""
    from ._text import numpy_dtype

    name, shape = array["dtype"], list(array["shape"])
    if name.startswith("key_"):
        return np.frombuffer(array["bytes"], np.uint32).reshape([*shape, 4 if name in ("key_rbg", "key_urbg") else 2])
    dtype = _SYNC.get(name) or numpy_dtype(name)
    if name == "f8e5m2":  # np.save would write '<f1', which np.load refuses
        dtype = np.dtype("V1")
    return np.frombuffer(array["bytes"], dtype).reshape(shape)


def _compression(content: str | bytes) -> int:
    """Deflate, except for what it would not shorten: random floats cost a second per 50 MiB for a few per cent."""
    middle = len(content) // 2
    sample = content[middle:middle + (1 << 16)]
    if isinstance(sample, str) or len(zlib.compress(sample, 1)) < 0.8 * len(sample):
        return zipfile.ZIP_DEFLATED
    return zipfile.ZIP_STORED


class _Writer:
    """One capsule being written."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._count = 0
        self._arrays: dict[bytes, str] = {}   # content -> member
        self._modules: dict[str, str] = {}    # text -> member
        self._used: set[str] = set()

    def write(self, recording: Recording) -> None:
        launches, omitted = [], recording.omitted
        for i, launch in enumerate(recording.launches):
            if self._count + len(launch["arguments"]) + len(launch["results"]) > _MAX_MEMBERS:
                omitted += len(recording.launches) - i
                break
            launches.append(self._launch(i + 1, launch))
        for name, text in _sources(self._modules):
            self._add(self._fresh(f"sources/{name}", ".txt"), text)
        self._add("README.txt", _README)
        self._add("manifest.json", json.dumps(_manifest(recording.params, launches, omitted), indent=1) + "\n")

    def _add(self, name: str, content: str | bytes) -> str:
        info = zipfile.ZipInfo(name)  # of 1980: equal recordings are equal files
        info.external_attr = 0o644 << 16
        self._archive.writestr(info, content, _compression(content), 1)
        self._count += 1
        return name

    def _fresh(self, stem: str, suffix: str) -> str:
        name, n = stem + suffix, 2
        while name in self._used:
            name, n = f"{stem}_{n}{suffix}", n + 1
        self._used.add(name)
        return name

    def _launch(self, number: int, launch: dict[str, Any]) -> dict[str, Any]:
        text = launch["module"]
        if text not in self._modules:
            self._modules[text] = self._add(self._fresh(f"modules/{_file_name(launch['kernel'])}", ".psir"), text)
        folder = f"launches/{number:04}-{_file_name(launch['kernel'])}"
        out = {key: launch[key] for key in ("kernel", "device", "options")}
        out["module"] = self._modules[text]
        for key, prefix in (("arguments", "in"), ("results", "out")):
            out[key] = [self._array(a, f"{folder}/{prefix}{i}-{_file_name(a['name'])}") for i, a in enumerate(launch[key])]
        out |= {key: launch[key] for key in ("findings", "predicted") if key in launch}
        if launch["error"]:
            out["error"] = {"code": launch["error"], "report": launch["report"]}
        return out

    def _array(self, array: dict[str, Any], stem: str) -> dict[str, Any]:
        out = {key: array[key] for key in ("name", "dtype", "shape")}
        if "bytes" not in array:
            return out
        key = hashlib.sha256(repr((array["dtype"], array["shape"])).encode() + array["bytes"]).digest()
        if key not in self._arrays:
            file = io.BytesIO()
            np.lib.format.write_array(file, _numpy(array), allow_pickle=False)
            self._arrays[key] = self._add(self._fresh(stem, ".npy"), file.getvalue())
        return out | {"file": self._arrays[key]}


def _manifest(params: Any, launches: list[dict[str, Any]], omitted: int) -> dict[str, Any]:
    import jax

    from . import __version__

    manifest: dict[str, Any] = {"pallasim-capsule": VERSION, "pallasim": __version__, "jax": jax.__version__}
    if params is not None:
        manifest["params"] = dataclasses.asdict(params)  # machine and seed among them; each launch has its own options
    manifest["devices"] = sorted({launch["device"] for launch in launches})
    if omitted:
        manifest["omitted"] = omitted
    manifest["launches"] = launches
    return manifest


_LOC = re.compile(r'^loc \d+ \{file = ("(?:[^"\\]|\\.)*"), line = (\d+)', re.M)


def _sources(modules: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, text) per source file: the lines that locations name, with what stands around them."""
    lines: dict[str, set[int]] = {}
    for text in modules:
        for file, line in _LOC.findall(text):
            lines.setdefault(json.loads(file), set()).add(int(line))
    for file, quoted in sorted(lines.items()):
        near = sorted({n + d for n in quoted for d in range(-_CONTEXT, _CONTEXT + 1)})
        out, content = [f"# {file}"], _cells.lines(file)
        last = None
        for n in near:
            if not 0 < n <= len(content):
                continue
            if last is not None and n != last + 1:
                out.append("  ...")
            out.append(f"{'>' if n in quoted else ' '} {n:5} | {content[n - 1].rstrip()}")
            last = n
        if last is not None:
            yield _file_name(os.path.basename(file)), "\n".join(out) + "\n"
