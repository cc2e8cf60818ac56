"""The options of `pallasim.Params`, as types of keyword arguments: checkers complain about others, editors complete these."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict


class Options(TypedDict, total=False):
    """What `emulate` and `install` take besides the machine; `Params` says what each one does."""

    numerics: Literal["ieee", "reference", "device", "oracle"]
    rules: bool | Literal["warn"]
    findings: Literal["warn", "collect", "raise"]
    detect_races: bool
    random_seed: int | None
    replay: str
    uninitialized_memory: Literal["nan", "most", "zero"]
    out_of_bounds: Literal["error", "machine", "uninitialized"]
    padding: Literal["copies", "nobody", "all"]
    pipeline: Literal["elided", "modelled"]
    revisits: Literal["note", "error"]
    cores: int
    kernels_for: Literal["", "generic", "tpu", "triton", "mosaic_gpu"]
    grid_point_recorder: Callable[..., Any] | None
    skip_floating_point_ops: bool
    dma_execution_mode: Literal["eager", "on_wait", "scheduled"]
    workers: int
    verify_split: bool
    max_steps: int
    platform: bool
    prints: Literal["chip", "anything"]
    progress: bool
