"""A kernel allocates in the new memory; too much of it is refused, and the report names it."""
import os
import pathlib
import subprocess
import tempfile

KERNEL = """pallasim-ir 1
module "sums" {{machine = tpu}}
output "o" : f32[{n},128] {{space = vmem}}
scratch "sums" : ref<f32[{n},128], accumulators>
body (%0 "o": ref<f32[{n},128], vmem>, %1 "sums": ref<f32[{n},128], accumulators>) {{
  %2 = iota {{axis = 0}} : f32[{n},128]
  store %1, %2
  %3 = get %1 : f32[{n},128]
  store %0, %3
  yield
}}
"""


def run(n):
    file = pathlib.Path(tempfile.mkdtemp()) / "sums.psir"
    file.write_text(KERNEL.format(n=n))
    return subprocess.run([os.environ["PALLASIM"], "run", str(file), "--chip", "tpu-v5e", "--checked"], text=True, capture_output=True)


small, large = run(8), run(4096)
assert small.returncode == 0 and "max 7" in small.stdout and "warning" not in small.stderr, small.stdout + small.stderr
assert large.returncode != 0 and "accumulator memory" in large.stderr and "1048576" in large.stderr, large.stderr
