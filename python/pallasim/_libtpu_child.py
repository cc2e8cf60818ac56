"""The process in which libtpu compiles (`_libtpu` is its other end): frames of a topology and a module in, JSON with what it says out."""
from __future__ import annotations

import json
import os
import sys
from typing import Any

from ._child import go_with, read, write


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    go_with(os.getppid())
    problem = ""
    try:
        from jax.experimental import topologies

        topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    except Exception as e:
        problem = f"{type(e).__name__}: {e}"
    write(answers, json.dumps({"problem": problem}).encode())
    known: dict[str, Any] = {}
    while (head := read(requests)) is not None:
        module = read(requests)
        if module is None:
            return
        write(answers, json.dumps({"said": _compile(json.loads(head), module, known)}).encode())


def _compile(head: dict[str, Any], module: bytes, known: dict[str, Any]) -> str:
    import numpy as np
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    name = head["topology"]
    try:
        if name not in known:
            known[name] = topologies.get_topology_desc(platform="tpu", topology_name=name, **head["more"])
        devices = known[name].devices
        with mlir.make_ir_context():
            parsed = ir.Module.parse(module)
            some = tuple(devices[:head["devices"]])
            # A program that is lowered for devices that are not there counts one.
            parsed.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), len(some))
            options = compiler.get_compile_options(1, len(some), device_assignment=np.array([[d.id for d in some]]))
            some[0].client.compile(parsed, executable_devices=xla_client.DeviceList(some), compile_options=options)
    except Exception as e:
        return f"{e}" or type(e).__name__
    return ""


if __name__ == "__main__":
    main()
    sys.exit()
