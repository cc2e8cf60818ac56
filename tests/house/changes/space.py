"""A kernel allocates in the new memory; too much of it is refused, and the report names it."""
import os
import pathlib
import subprocess
import tempfile

KERNEL = """pallasim-ir 1
module "sums" {{machine = tpu}}
input "x" : f32[{n},128] {{space = any}}
output "o" : f32[{n},128] {{space = any}}
scratch "sums" : ref<f32[{n},128], accumulators>
scratch "sem" : ref<dma_sem[], semaphore>
body (%0 "x": ref<f32[{n},128], any>, %1 "o": ref<f32[{n},128], any>, %2 "sums": ref<f32[{n},128], accumulators>, %3 "sem": ref<dma_sem[], semaphore>) {{
  dma_start %0, %2, %3 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
  dma_wait %0, %2, %3 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
  dma_start %2, %1, %3 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
  dma_wait %2, %1, %3 {{src = view($0, []), dst = view($1, []), dst_sem = view($2, [])}}
  yield
}}
"""


def run(n):
    file = pathlib.Path(tempfile.mkdtemp()) / "sums.psir"
    file.write_text(KERNEL.format(n=n))
    return subprocess.run([os.environ["PALLASIM"], "run", str(file), "--chip", "tpu-v5e", "--checked", "--fill", "iota"], text=True, capture_output=True)


small, large = run(8), run(4096)
assert small.returncode == 0 and "max 1023" in small.stdout and "warning" not in small.stderr, small.stdout + small.stderr
assert large.returncode != 0 and "accumulator memory" in large.stderr and "1048576" in large.stderr, large.stderr
