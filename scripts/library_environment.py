"""pytest plugin: what the test files of public libraries want around them, where a library's own servers are not installed.

Named by `scripts/library_tests.py`. Kernels and tests stay as they are; packages are found without their `__init__` (which start
servers), modules that no kernel computes with answer to every name, and JAX's test utilities are told of a TPU.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
from jax._src import test_util

ROOT = Path(os.environ["PALLASIM_LIBRARIES"])
PACKAGES = {"tpu_inference": "tpu-inference/tpu_inference", "maxtext": "maxtext/src/maxtext", "sgl_jax": "sglang-jax/python/sgl_jax"}
ABSENT = ["transformers", "pathwaysutils", "huggingface_hub", "safetensors", "torch", "triton", "orjson", "zmq", "pandas", "PIL", "omegaconf",
          "fastapi", "uvicorn", "msgspec", "pybase64", "partial_json_parser", "modelscope", "setproctitle", "IPython", "openai",
          "llguidance", "xgrammar", "vllm", "torchax", "soundfile", "librosa", "imageio", "diffusers", "datasets", "torchvision"]
ANSWERED = {n for n in ABSENT if importlib.util.find_spec(n) is None} | {
    "sgl_jax.srt.eplb.expert_location", "sgl_jax.srt.configs.model_config", "sgl_jax.srt.hf_transformers_utils"}
# Reasons of tests to skip that hold of machines where the library is tested, and not here.
ELSEWHERE = {"no sharding on runners", "SparseCore tests do not support simulated TPU7x platform constraints"}


class Answers(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of ANSWERED, and those inside."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        known = name in ANSWERED or name.split(".")[0] in ANSWERED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = mock.MagicMock(name=spec.name)
        module.__name__, module.__path__, module.__version__ = spec.name, [], "4.50.0"
        module.get_ipython.return_value = None  # no notebook
        return module

    def exec_module(self, module: Any) -> None:
        pass


class Logger(logging.Logger):
    def info_once(self, *args: Any, **kwargs: Any) -> None:
        pass

    warning_once = info_once


def _module(name: str, **members: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def _skip(self: unittest.TestCase, reason: str, skip: Any = unittest.TestCase.skipTest) -> None:
    if reason not in ELSEWHERE:
        skip(self, reason)


sys.meta_path.insert(0, Answers())
for _name, _path in PACKAGES.items():
    _module(_name, __path__=[str(ROOT / _path)])
_module("tpu_inference.logger", init_logger=Logger)
if (ROOT / PACKAGES["tpu_inference"]).is_dir():
    importlib.import_module("tpu_inference.utils").make_optimized_mesh = lambda shape, names: jax.sharding.Mesh(
        np.array(jax.devices()).reshape(shape), names)
unittest.TestCase.skipTest = _skip  # type: ignore[method-assign]
test_util.device_under_test = lambda: "tpu"
test_util.is_device_tpu = lambda version=None, variant="": version in (None, 7)
test_util.is_device_tpu_at_least = lambda version: version <= 7
test_util.get_tpu_version = lambda: 7


def pytest_terminal_summary(terminalreporter: Any) -> None:
    import pallasim

    terminalreporter.write_line(f"launches: {pallasim.launch_count()}")
