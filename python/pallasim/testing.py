"""Executors for test harnesses: `lower` runs kernels, `lower_only` checks that they become text and runs nothing."""
from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from . import _cuda

_seen: dict[bytes, str] = {}


def _machine_of(kind: str) -> str:
    """The machine whose devices bear this kind, "generic" where none does."""
    from ._params import MACHINES

    return "generic" if kind == "cpu" else next((n for n, m in MACHINES.items() if m.device_kind == kind), "generic")


def _count_cores() -> None:
    """A device that bears a chip's name has that chip's cores. JAX asks for them only where the platform is the chip's, so that
    inside shard_map a test that pretends to be on a TPU has a device without cores."""
    from jax._src.mesh import AbstractDevice

    from ._params import MACHINES

    original = AbstractDevice.__init__

    def init(self: Any, device_kind: str, num_cores: int | None, platform: str) -> None:
        if num_cores is None and (name := _machine_of(device_kind)) != "generic":
            num_cores = MACHINES[name].num_cores
        original(self, device_kind, num_cores, platform)

    AbstractDevice.__init__ = init  # type: ignore[method-assign]


_count_cores()


def lower(ctx: Any, *in_nodes: Any, primitive: str, **params: Any) -> Sequence[Any]:
    """Lowers a `pallas_call` or `mpmd_map` (named by `primitive`) to a Pallasim launch on the CPU.

    `ctx` is JAX's lowering rule context, `params` are the primitive's parameters. Returns one value per output.
    """
    from . import _interpret, _lowering

    options = _interpret.merge(_options(), params.get("interpret"))
    return _lowering.lower(ctx, *in_nodes, primitive=primitive, options=options, **params)


def _options() -> Any:
    """Default options for the machine whose name the device of the test bears."""
    import jax

    from ._params import Params

    return Params(machine=_machine_of(jax.devices()[0].device_kind))


def _is_gpu() -> bool:
    from ._params import MACHINES

    return MACHINES[_options().machine].ir_machine == "gpu"


_cuda.patch(_is_gpu)  # references of tests ask XLA for a GPU's products


def launch_count() -> int:
    """Kernels that ran in this process."""
    from . import _core

    return _core.launch_count()


def lower_only(ctx: Any, *in_nodes: Any, primitive: str, **params: Any) -> Sequence[Any]:
    """Captures a kernel, checks its text and returns zeros.

    The text must parse, verify and print back byte for byte. One JSON object per site goes to the file named by the
    environment variable PALLASIM_SITES: family, test, kernel, ok, stage and error, operations, microseconds.
    """
    import numpy as np
    from jax._src.interpreters import mlir

    record = examine(ctx, primitive, params)
    if path := os.environ.get("PALLASIM_SITES"):
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")
    if getattr(ctx, "tokens_in", None) is not None:
        ctx.set_tokens_out(ctx.tokens_in)
    out = []
    for aval in ctx.avals_out:
        zero = mlir.ir_constant(np.zeros((), aval.dtype))
        shape = mlir.ir_constant(np.zeros((), aval.dtype)) if not aval.shape else None
        out.append(shape if shape is not None else mlir.broadcast_in_dim(ctx, zero, aval, broadcast_dimensions=()))
    return out


def examine(ctx: Any, primitive: str, params: dict[str, Any]) -> dict[str, Any]:
    """What became of one site, as the record that `lower_only` writes."""
    from . import _core, _site
    from ._capture.types import Unsupported

    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    record: dict[str, Any] = {
        "family": test.partition("::")[0].rpartition("/")[2], "test": test.partition("::")[2], "primitive": primitive,
        "kernel": str(params.get("name")), "ok": False,
    }
    begin = time.perf_counter()
    try:
        captured = _site.capture(ctx, primitive, params, _options())
    except Exception as e:
        record |= {"stage": "capture", "error": f"{type(e).__name__}: {e}"[:2000]}
        if not isinstance(e, Unsupported):
            import traceback

            record["trace"] = traceback.format_exc()[-1500:]
        return record
    record |= {"us": round(1e6 * (time.perf_counter() - begin)), "ops": captured.text.count("\n"), "machine": captured.machine,
               "externs": list(captured.externs), "hash": hashlib.sha256(captured.text.encode()).hexdigest()[:16]}
    key = hashlib.sha256(captured.text.encode()).digest()
    if key not in _seen:
        _seen[key] = _check(_core, captured.text)
        if _seen[key] and (folder := os.environ.get("PALLASIM_SITES_TEXT")):
            with open(os.path.join(folder, record["hash"] + ".psir"), "w", encoding="utf-8") as f:
                f.write(captured.text)
    if _seen[key]:
        stage, _, error = _seen[key].partition("|")
        return record | {"stage": stage, "error": error[:2000]}
    return record | {"ok": True}


def _check(core: Any, text: str) -> str:
    if error := core.check(text):
        return f"verify|{error}"
    printed = core.fmt(text)
    if printed != text:
        for a, b in zip(text.splitlines(), printed.splitlines()):
            if a != b:
                return f"print|{a[:400]} -> {b[:400]}"
        return "print|line count differs"
    return ""
