"""PALLASIM_EMULATE: a process whose Pallas kernels run on the emulator from the start, without a word in its program.

A .pth file of the installation imports this module in every Python process that has the variable: its value is a machine, then
options of `pallasim.Params`, separated by commas: `tpu-7x,detect_races=True,random_seed=3`.
"""
from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

VARIABLE = "PALLASIM_EMULATE"


def parse(value: str) -> tuple[str, dict[str, Any]]:
    """Machine and options. Raises ValueError for an option without a value."""
    from . import _params

    machine, *options = [part.strip() for part in value.split(",")]
    out: dict[str, Any] = {}
    for option in filter(None, options):
        name, equals, text = option.partition("=")
        if not equals:
            raise ValueError(f"{VARIABLE}={value}: '{option}' is no option; one reads name=value")
        out[name.strip()] = _params.read_value(text.strip())
    return machine, out


def install() -> None:
    """Emulates what the variable names. Raises ValueError, which names the variable, for what does not exist."""
    from . import _emulate

    value = os.environ[VARIABLE]
    machine, options = parse(value)
    try:
        _emulate.install(machine, **options)
    except (TypeError, ValueError) as e:
        raise ValueError(f"{VARIABLE}={value}: {e}") from e


class _AfterJax:
    """Installs once JAX has been imported: a process that never does pays nothing."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "jax":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                install()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get(VARIABLE):
    if "jax" in sys.modules:
        install()
    else:
        sys.meta_path.insert(0, _AfterJax())
