"""What JAX's own lowering for a chip's platform makes of a kernel: it needs no chip, and refuses what it cannot compile."""
from __future__ import annotations

import dataclasses
import math
import os
import traceback
from collections.abc import Sequence
from typing import Any

_PLATFORMS = {"tpu": "tpu", "mosaic_gpu": "cuda", "triton": "cuda"}


def lowered(eqn: Any, axes: Sequence[tuple[str, int]], machine: str) -> Any:
    """The program of a launch alone, lowered for the platform of a machine; inside `emulate(chip)`, so that JAX takes it for that chip.

    axes: of the devices around it, with their sizes. Raises what JAX raises.
    """
    import jax
    from jax._src import config

    def launch(*args: Any) -> Any:
        return eqn.primitive.bind(*args, **eqn.params)

    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    call: Any = launch
    if axes:
        everywhere = jax.sharding.PartitionSpec()
        call = jax.shard_map(launch, mesh=_mesh(axes), in_specs=everywhere, out_specs=everywhere, check_vma=False)
    with config.use_shardy_partitioner(False):
        return jax.jit(call).trace(*shapes).lower(lowering_platforms=(_PLATFORMS[machine],))


def _mesh(axes: Sequence[tuple[str, int]]) -> Any:
    """That of the devices here, where there are so many: values inside of the kernel name it."""
    import jax
    import numpy as np

    names, sizes = tuple(name for name, _ in axes), tuple(n for _, n in axes)
    devices = jax.devices()
    if len(devices) < math.prod(sizes):
        return jax.sharding.AbstractMesh(sizes, names)
    return jax.sharding.Mesh(np.array(devices[:math.prod(sizes)]).reshape(sizes), names).abstract_mesh


@dataclasses.dataclass(frozen=True)
class Refusal:
    """What it says, and the line of the kernel that it is about; "", 0 where it does not say."""

    said: str
    file: str = ""
    line: int = 0


def refusal(eqn: Any, axes: Sequence[tuple[str, int]], machine: str) -> Refusal | None:
    """None where it takes the kernel, or there is none for the machine."""
    if machine not in _PLATFORMS:
        return None
    try:
        lowered(eqn, axes, machine)
    except Exception as e:  # whatever it raises refuses the kernel
        return Refusal(words(f"{type(e).__name__}: {e}"), *_place(e))
    return None


def _place(e: BaseException) -> tuple[str, int]:
    """Where the operation stands: JAX hands the stack of the trace on as the cause."""
    import jax

    cause = e.__cause__
    if cause is None or type(cause).__name__ != "JaxStackTraceBeforeTransformation":
        return "", 0
    theirs = (os.path.dirname(jax.__file__), os.path.dirname(os.path.abspath(__file__)))
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if not os.path.abspath(f.filename).startswith(theirs)]
    return (frames[-1].filename, frames[-1].lineno or 0) if frames else ("", 0)


def words(text: str) -> str:
    """Without requests to report a bug."""
    return "\n".join(s.rstrip() for s in text.splitlines() if "Please report a bug" not in s).strip()
