"""JAX's own interpreter options inside `emulate`, and what its interpreters let a program ask afterwards."""
from __future__ import annotations

import dataclasses
import sys
from typing import Any

from ._params import Params

_TPU = "jax._src.pallas.mosaic.interpret.interpret_pallas_call"
_GPU = "jax._src.pallas.mosaic_gpu.interpret.gpu_callbacks"


def merge(options: Params, given: Any) -> Params:
    """The options of a call whose `interpret` is `given`, under the options in force.

    A switch (True, False) asks for nothing more, another `Params` gives way as JAX's own argument does to JAX's context.
    Of InterpretParams and InterpretGPUParams these are followed: detect_races, uninitialized_memory, random_seed,
    skip_floating_point_ops. Cores are those of the emulated chip, and a checked run looks at `parallel` axes for any
    number of them; `out_of_bounds_reads="uninitialized"` still stops at such a read; clocks and logs are not ours.
    """
    if not _is_jax_params(given):
        return options
    _serve()
    changes: dict[str, Any] = {}
    if given.detect_races:
        changes["detect_races"] = True
    if given.uninitialized_memory != "nan":
        changes["uninitialized_memory"] = given.uninitialized_memory
    if given.skip_floating_point_ops:
        changes["skip_floating_point_ops"] = True
    if (seed := getattr(given, "random_seed", None)) is not None:
        changes["random_seed"] = int(seed)
    return dataclasses.replace(options, **changes)


def _is_jax_params(given: Any) -> bool:
    return type(given).__name__ in ("InterpretParams", "InterpretGPUParams") and hasattr(given, "detect_races")


# --- races ----------------------------------------------------------------------------------------------------------
class Races:
    """What `interpret_pallas_call.races` and `get_races()` give for launches of the emulator."""

    @property
    def races_found(self) -> bool:
        """Whether the latest launch raced."""
        from . import _core

        return bool(_core.last_run()["races"])


def _serve() -> None:
    """JAX's places for races answer for the emulator; an interpreter of JAX that starts puts its own object there."""
    for name, attribute in ((_TPU, "races"), (_GPU, "_races")):
        module = sys.modules.get(name)
        if module is not None and not isinstance(getattr(module, attribute), Races):
            setattr(module, attribute, Races())
