"""A TensorCore and two of the new cores exchange rows, each by its own body; too much memory names the new core."""
import os
import pathlib
import subprocess
import tempfile

ARGS = ('%0 "x": ref<i32[4], hbm>, %1 "o": ref<i32[4], hbm>, %2 "rows": ref<i32[4], hbm, grid>, %3 "own": ref<i32[{n},128], vmem, @"ac">, '
        '%4 "ready": ref<sem[], semaphore, @"ac">, %5 "done": ref<sem[], semaphore, @"tc">')
KERNEL = """pallasim-ir 1
module "beside" {{machine = tpu}}
mesh "tc" {{kind = tensorcore, axes = [axis("core", 1)]}}
mesh "ac" {{kind = array_core, axes = [axis("unit", 2)]}}
input "x" : i32[4] {{space = hbm}}
output "o" : i32[4] {{space = hbm}}
scratch "rows" : ref<i32[4], hbm, grid>
scratch "own" : ref<i32[{n},128], vmem, @"ac">
scratch "ready" : ref<sem[], semaphore, @"ac">
scratch "done" : ref<sem[], semaphore, @"tc">
body "tc" (""" + ARGS + """) {{
  %6 = constant {{value = i32 0x0}} : i32[]
  %7 = constant {{value = i32 0x1}} : i32[]
  %8 = get %0 : i32[4]
  %9 = add %8, %8 : i32[4]
  store %2, %9
  sem_signal %4, %6 {{inc = 1, core_index = $1}}
  sem_signal %4, %7 {{inc = 1, core_index = $1}}
  sem_wait %5 {{value = 2}}
  yield
}}
body "ac" (""" + ARGS + """) {{
  %6 = axis_index {{axis = "unit"}} : i32[]
  %7 = constant {{value = i32 0x2}} : i32[]
  %8 = mul %6, %7 : i32[]
  %9 = constant {{value = i32 0x0}} : i32[]
  sem_wait %4 {{value = 1}}
  %10 = get %2, %8 {{view = [index(slice($1, 2))]}} : i32[2]
  %11 = add %10, %7 : i32[2]
  store %1, %11, %8 {{view = [index(slice($2, 2))]}}
  sem_signal %5, %9 {{inc = 1, core_index = $1}}
  yield
}}
"""


def run(n, *options):
    file = pathlib.Path(tempfile.mkdtemp()) / "beside.psir"
    file.write_text(KERNEL.format(n=n))
    return subprocess.run([os.environ["PALLASIM"], "run", str(file), "--fill", "iota", *options], text=True, capture_output=True)


for options in ([], ["--checked"], ["--schedule-seed", "5"]):
    r = run(8, *options)
    assert r.returncode == 0 and "[2, 4, 6, 8]" in r.stdout and "3 threads" in r.stdout, r.stdout + r.stderr
full = run(4096, "--chip", "tpu-v5p")
assert full.returncode != 0 and "an array core" in full.stderr, full.stdout + full.stderr
