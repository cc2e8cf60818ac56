"""Pallasim runs JAX Pallas kernels without the hardware they were written for.

    import pallasim
    with pallasim.emulate("tpu-v5e"):
        y = f(x)                       # every Pallas kernel inside runs on the emulator, under jit, vmap, grad, ...

Names are loaded on first use, so importing the package costs next to nothing.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = ("compat", "testing")
_OPTIONAL = ("torch",)  # need a package that may be missing, so that `from pallasim import *` leaves them out
_WHERE = {
    "Params": "_params", "MACHINES": "_params",
    "emulate": "_emulate", "install": "_emulate", "uninstall": "_emulate", "prepare": "_lowering",
    "Finding": "_findings", "SourceLine": "_findings", "Site": "_findings", "KernelError": "_findings", "RefusedError": "_findings",
    "UnsupportedError": "_findings", "findings": "_findings", "last_report": "_findings", "launch_count": "_findings",
    "last_run": "_findings", "runs": "_findings", "Run": "_findings", "Traffic": "_findings",
    "breakpoint": "_breakpoint", "Stop": "_breakpoint",
    "capture": "_captured", "Recording": "_capsule", "debug": "_debug",
    "Stepper": "_stepper",
    "explore": "_explore", "Exploration": "_explore", "ExploredOutcome": "_explore",
    "predict": "_predict", "Prediction": "_predict", "KernelTime": "_times",
    "sweep": "_sweep", "Sweep": "_sweep", "SweepRow": "_sweep", "RayExecutor": "_ray",
    "Check": "_check", "KernelCheck": "_check",
    "replay": "_replay", "Replay": "_replay", "ReplayedLaunch": "_replay",
    "register_lowering": "_lowerings", "unregister_lowering": "_lowerings",
    "run": "_text", "check": "_text", "fmt": "_text", "capture_text": "_text",
}
# Of `%load_ext pallasim`, and of blocks that open the debugger.
_HOOKS = {"load_ipython_extension": "_magic", "unload_ipython_extension": "_magic", "post_mortem": "_debug_session"}
__all__ = [*_WHERE, *_MODULES, "__version__"]

if TYPE_CHECKING:  # `as` exports a name to checkers
    from . import compat as compat, testing as testing
    from ._breakpoint import Stop as Stop, breakpoint as breakpoint
    from ._capsule import Recording as Recording
    from ._captured import capture as capture
    from ._debug import debug as debug
    from ._stepper import Stepper as Stepper
    from ._check import Check as Check, KernelCheck as KernelCheck
    from ._emulate import emulate as emulate, install as install, uninstall as uninstall
    from ._explore import Exploration as Exploration, ExploredOutcome as ExploredOutcome, explore as explore
    from ._findings import (
        Finding as Finding, KernelError as KernelError, RefusedError as RefusedError, Run as Run, Site as Site,
        SourceLine as SourceLine, UnsupportedError as UnsupportedError, findings as findings,
        Traffic as Traffic, last_report as last_report, last_run as last_run, launch_count as launch_count, runs as runs,
    )
    from ._lowering import prepare as prepare
    from ._lowerings import register_lowering as register_lowering, unregister_lowering as unregister_lowering
    from ._params import MACHINES as MACHINES, Params as Params
    from ._predict import Prediction as Prediction, predict as predict
    from ._times import KernelTime as KernelTime
    from ._ray import RayExecutor as RayExecutor
    from ._sweep import Sweep as Sweep, SweepRow as SweepRow, sweep as sweep
    from ._replay import Replay as Replay, ReplayedLaunch as ReplayedLaunch, replay as replay
    from ._text import capture_text as capture_text, check as check, fmt as fmt, run as run


if not TYPE_CHECKING:  # to a checker, a name that is not imported above does not exist
    def __getattr__(name: str) -> Any:
        where = _WHERE.get(name) or _HOOKS.get(name)
        if where is None and name not in _MODULES and name not in _OPTIONAL:
            raise AttributeError(f"module 'pallasim' has no attribute '{name}'")
        import importlib

        if where is None:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "Params":  # a program that asks for it writes `interpret=Params(...)`: our rules come before JAX's from now on
            importlib.import_module(f"{__name__}._lowering").register()
        value = getattr(importlib.import_module(f"{__name__}.{where}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


from . import _forgotten  # noqa: E402

_forgotten.watch()
