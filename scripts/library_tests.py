#!/usr/bin/env python3
"""SparseCore and multi-device kernels of public libraries, unmodified, under the libraries' own tests: sizes, references, bounds.

    python scripts/library_tests.py CHECKOUTS [WORD]

CHECKOUTS holds clones by their names (tpu-inference, tokamax, sglang-jax, TPU-Collectives); what is not there is left out. WORD:
only the cases whose line contains it. Needs JAX 0.12 or newer, and what the tests import (absl, chex, tokamax' dependencies).
Exit status 1 where a test fails that is not said to, or where no kernel ran.
"""
from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent


@dataclasses.dataclass
class Case:
    what: str
    library: str
    tests: str  # the file
    chosen: str = ""  # pytest -k: all of them take minutes to hours
    devices: int = 1
    options: tuple[str, ...] = ()
    fails: int = 0  # tests that find an error of the library


T, V = "tokamax/_src/ops", "tests/kernels"
CASES = [
    Case("ragged gather", "tpu-inference", f"{V}/ragged_gather_v2_test.py", "sc_gather"),
    Case("ragged scatter", "tpu-inference", f"{V}/ragged_scatter_test.py"),
    Case("ragged gather-reduce", "tpu-inference", f"{V}/ragged_gather_reduce_v2_test.py", "reduce48 or reduce50"),
    Case("dense gather-reduce", "tpu-inference", f"{V}/dense_gather_reduce_test.py"),
    Case("gather of compressed sparse attention", "tpu-inference", f"{V}/deepseek_v4/csa_gather_test.py"),
    Case("streaming top-k of an indexer", "tpu-inference", f"{V}/deepseek_v4/test_streamindex_topk.py"),
    Case("all-gather matmul", "tpu-inference", f"{V}/collectives/all_gather_matmul_kernel_test.py", "matmul0 or matmul4 or matmul9", devices=8),
    Case("fused mixture of experts", "tpu-inference", f"{V}/fused_moe_v1_test.py", "basic0 or activation2 or bias", devices=8,
         options=("out_of_bounds=machine",)),
    Case("ragged gather", "tokamax", f"{T}/ragged_gather/pallas_mosaic_tpu_test.py", "gather0 or gather5"),
    Case("ragged gather, second version", "tokamax", f"{T}/ragged_gather/pallas_mosaic_v2_tpu_test.py", "gather0 or gather5"),
    Case("ragged scatter", "tokamax", f"{T}/ragged_scatter/pallas_mosaic_tpu_test.py", "0 or 5"),
    Case("top-k", "tokamax", f"{T}/experimental/tpu/topk/pallas_mosaic_tpu_test.py"),
    Case("ring attention", "tokamax", f"{T}/experimental/tpu/splash_attention/ring_attention_kernel_test.py", "attention0 or attention7", devices=4),
    Case("fused mixture of experts", "sglang-jax", "python/sgl_jax/test/kernels/fused_moe_v2_test.py",
         "basic0 or grouped_topk or fp8_block_wise or rolling_wb", devices=4),
    Case("grouped top-k", "sglang-jax", "python/sgl_jax/test/kernels/grouped_topk_test.py"),
    Case("biased top-k", "sglang-jax", "python/sgl_jax/test/kernels/biased_topk_test.py",
         "matches"),
    Case("reads outside that it does not use", "tpu-inference", str(SCRIPTS / "library_cases.py"), "not_used and tpu_inference", devices=2),
    Case("reads outside that it does not use", "sglang-jax", str(SCRIPTS / "library_cases.py"), "not_used and sgl_jax", devices=2),
    Case("reads outside that it does not use", "tokamax", str(SCRIPTS / "library_cases.py"), "not_used and tokamax"),
    Case("hierarchical reduce-scatter", "tpu-inference", str(SCRIPTS / "library_cases.py"), "hierarchical", devices=8),
    Case("ring collectives", "TPU-Collectives", str(SCRIPTS / "library_cases.py"), "ring_of_four", devices=4, fails=1),
]


def run(case: Case, root: Path, limit: int = 1800) -> bool:
    home = root / case.library
    paths = [str(SCRIPTS), str(home), str(home / "src"), str(home / "python"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PALLASIM_LIBRARIES": str(root), "PYTHONPATH": os.pathsep.join(filter(None, paths)), "JAX_PLATFORMS": "cpu",
                        "XLA_FLAGS": f"--xla_force_host_platform_device_count={case.devices}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "library_environment", "-p", "no:cacheprovider", "--tb=line", "--pallasim=tpu-7x",
               "--pallasim-option=detect_races=False"]
    command += [x for o in case.options for x in ("--pallasim-option", o)] + (["-k", case.chosen] if case.chosen else [])
    done = subprocess.run([*command, case.tests], cwd=home, env=env, capture_output=True, text=True, timeout=limit)
    numbers = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)}
    launches = int((re.findall(r"launches: (\d+)", done.stdout) or [0])[0])
    passed, failed = numbers.get("passed", 0), numbers.get("failed", 0) + numbers.get("error", 0)
    held = launches > 0 and passed > 0 and failed == case.fails
    print(f"{case.library:15} {case.what:38} {case.devices} devices {passed:3} passed, {failed} failed, {launches:5} launches"
          f"{'' if held else '  WRONG'}", flush=True)
    if not held:
        print(*done.stdout.splitlines()[-12:], done.stderr[-500:], sep="\n")
    return held


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    root, word, held = Path(sys.argv[1]).resolve(), " ".join(sys.argv[2:]), True
    for case in CASES:
        if word not in f"{case.library} {case.what}":
            continue
        if not (root / case.library).is_dir():
            print(f"{case.library:15} is not here")
        else:
            held &= run(case, root)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
