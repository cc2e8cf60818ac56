"""What programs ask CUDA's libraries, and what they ask XLA of a GPU that the CPU does not have, answered for an emulated GPU."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import _platform

CUDA_RUNTIME = 13000  # CUDA 13.0, with which what a Hopper GPU computes was recorded


class _Versions:
    """Versions of CUDA's libraries, as `jaxlib.cuda` reports them: of the runtime alone."""

    def cuda_runtime_get_version(self) -> int:
        return CUDA_RUNTIME

    cuda_runtime_build_version = cuda_runtime_get_version


def _answer_versions(lib: Any) -> None:
    """`jax._src.lib.cuda_versions` is None without CUDA; libraries of kernels take that for a missing installation. JAX itself keeps
    its answer."""
    if vars(lib).get("cuda_versions", _Versions) is not None:  # there is CUDA, or the answer is there already
        return
    versions = _Versions()
    for name, module in list(sys.modules.items()):
        if _platform.is_outside(name) and getattr(module, "__dict__", {}).get("cuda_versions", versions) is None:
            setattr(module, "cuda_versions", versions)
    del lib.cuda_versions

    def answer(name: str) -> Any:
        if name != "cuda_versions":
            raise AttributeError(f"module {lib.__name__!r} has no attribute {name!r}")
        return versions if _platform.is_outside(sys._getframe(1).f_globals.get("__name__") or "") else None

    lib.__getattr__ = answer


def _widen_dots(lax: Any, is_gpu: Callable[[], bool]) -> None:
    """Algorithms of products that XLA's CPU does not have, of programs around kernels: f32 operands and sums, which are at least
    as precise."""
    original = getattr(lax, "_handle_dot_precision", None)
    preset = getattr(lax, "DotAlgorithmPreset", None)
    if original is None or preset is None:
        return
    wide = {getattr(preset, n) for n in ("F16_F16_F32", "TF32_TF32_F32", "TF32_TF32_F32_X3", "BF16_BF16_F32_X9") if hasattr(preset, n)}

    def handle(ctx: Any, lhs: Any, rhs: Any, precision: Any, platform: str) -> Any:
        if platform == "cpu" and precision in wide and is_gpu():
            precision = preset.F32_F32_F32
        return original(ctx, lhs, rhs, precision, platform)

    handle.__wrapped__ = original  # type: ignore[attr-defined]
    lax._handle_dot_precision = handle


def patch(is_gpu: Callable[[], bool] | None = None) -> None:
    """Wraps the answers; to be called once. `is_gpu`: whether a GPU is emulated now, by default what the thread's block says."""
    from jax._src import lib
    from jax._src.lax import lax

    _answer_versions(lib)
    _widen_dots(lax, is_gpu or (lambda: _platform.emulated() == "gpu"))
