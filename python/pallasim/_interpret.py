"""JAX's own interpreter options inside `emulate`, and what its interpreters let a program ask afterwards."""
from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._breakpoint import Callback
from ._params import Params

_TPU = "jax._src.pallas.mosaic.interpret.interpret_pallas_call"
_GPU = "jax._src.pallas.mosaic_gpu.interpret.gpu_callbacks"


def merge(options: Params, given: Any) -> Params:
    """The options of a call whose `interpret` is `given`, under the options in force.

    A switch (True, False) asks for nothing more (but see `met`), another `Params` gives way as JAX's own argument does to JAX's context.
    Of InterpretParams and InterpretGPUParams these are followed: detect_races, uninitialized_memory, random_seed,
    grid_point_recorder, skip_floating_point_ops, out_of_bounds_reads; the former makes a TPU of the generic machine, the latter a GPU
    with Mosaic's kernels. Of the former also num_cores_or_threads (cores of a TPU that share a grid), dma_execution_mode and
    buffer_bounds, and outputs are not revisited; what else it refuses in a kernel is in `_jax_checks`. Clocks and logs are not ours,
    races are findings whatever on_race says, and inline_mgpu="ignore" is not followed: such a body is refused by name.
    """
    if not _is_jax_params(given):
        return options
    _serve()
    changes: dict[str, Any] = {}
    if given.detect_races:
        changes["detect_races"] = True
    changes["uninitialized_memory"] = {"nan": "most"}.get(given.uninitialized_memory, given.uninitialized_memory)
    changes["out_of_bounds"] = "uninitialized" if given.out_of_bounds_reads == "uninitialized" else "error"
    if given.skip_floating_point_ops:
        changes["skip_floating_point_ops"] = True
    if type(given).__name__ == "InterpretParams":
        changes |= {"dma_execution_mode": given.dma_execution_mode, "cores": given.num_cores_or_threads}
        changes["revisits"] = "error"
        changes["padding"] = "all" if given.buffer_bounds == "padded" else "nobody"
    if options.machine == "generic":
        changes["kernels_for"] = "tpu" if type(given).__name__ == "InterpretParams" else "mosaic_gpu"
    if (seed := getattr(given, "random_seed", None)) is not None:
        changes["random_seed"] = int(seed)
    if (recorder := getattr(given, "grid_point_recorder", None)) is not None:
        changes["grid_point_recorder"] = recorder
    return dataclasses.replace(options, **changes)


def without_bounds(options: Params, compiler_params: Any) -> Params:
    """The options of a kernel that forbids its compiler to check bounds: what it reads outside is what fresh memory holds.
    Writes outside stay errors."""
    if options.out_of_bounds == "chip" and getattr(compiler_params, "disable_bounds_checks", False):
        return dataclasses.replace(options, out_of_bounds="uninitialized")
    return options


def met(options: Params, given: Any, captured: Any) -> Params:
    """The options of a kernel that copies to other devices. With `interpret=True` JAX makes a collective of such a copy: it moves when
    its receiver has come as far, too. Here it moves when it is awaited then, unless the options say when copies move."""
    many = any(size > 1 for _, size in captured.device_axes)
    if given is True and many and "communicates" in captured.facts and options.dma_execution_mode == "eager":
        return dataclasses.replace(options, dma_execution_mode="on_wait")
    return options


def _is_jax_params(given: Any) -> bool:
    return type(given).__name__ in ("InterpretParams", "InterpretGPUParams") and hasattr(given, "detect_races")


# --- the grid -------------------------------------------------------------------------------------------------------
def in_order(options: Params, captured: Any) -> Params:
    """The options with the grid's order for their seed, if they name none: JAX's own permutations of the `parallel` axes."""
    seed = options.random_seed
    if seed is None or options.grid_order or not captured.parallel or captured.machine not in ("generic", "tpu"):
        return options
    import jax
    import jax.numpy as jnp

    orders = [""] * (1 + max(captured.parallel))
    with jax.ensure_compile_time_eval():
        key = jax.random.key(seed)
        for axis, size in captured.parallel.items():
            key, own = jax.random.split(key)
            orders[axis] = ",".join(map(str, jax.random.permutation(own, jnp.arange(size, dtype=jnp.int32)).tolist()))
    return dataclasses.replace(options, grid_order="|".join(orders))


_recordings = itertools.count(1)


def recording(option: str) -> tuple[int, str]:
    """A new recording, of `grid` points or of the `calls` of debug_callback: its number and the setting that asks for it."""
    number = next(_recordings)
    return number, f"record_{option}={number}"


def after_launch(ctx: Any, results: Sequence[Any], take: Callable[[], None]) -> list[Any]:
    """Adds to a program, behind a launch with these results, a call of `take` on the host."""
    from jax._src.interpreters import mlir
    from jax.experimental import io_callback

    def program(*outs: Any) -> Any:
        io_callback(lambda *_: take(), None, *[o.ravel()[:1] for o in outs[:1] if isinstance(o.dtype, np.dtype)])
        return outs

    inner = ctx.replace(primitive=None, avals_in=ctx.avals_out, tokens_in=mlir.TokenSet(), tokens_out=None)
    return list(mlir.lower_fun(program, multiple_results=True)(inner, *results))


def tell_recorder(recorder: Callable[..., Any], number: int) -> Callable[[], None]:
    """Calls the recorder for every grid point of the oldest launch of this recording."""
    from . import _core

    def take() -> None:
        for point, core in _core.take_grid_points(number):
            recorder(np.int32(0), tuple(np.int32(i) for i in point), np.int32(core))

    return take


def make_calls(callbacks: Sequence[Callback], number: int) -> Callable[[], None]:
    """Makes the calls of debug_callback of the oldest launch of this recording, in the order of the grid."""
    from . import _core

    def take() -> None:
        for index, arguments in _core.take_calls(number):
            callbacks[index](arguments)

    return take


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
