"""A fill that is awaited gives its value under every schedule; one that is not is a race, with both lines."""
import os
import pathlib
import subprocess
import tempfile

KERNEL = """pallasim-ir 1
module "fill" {{machine = tpu}}
mesh "cores" {{kind = tensorcore, axes = [axis("core", 2)]}}
output "o" : i32[2,8] {{space = any}}
scratch "filled" : ref<dma_sem[], semaphore>
scratch "ready" : ref<sem[], semaphore>
body "cores" (%0 "o": ref<i32[2,8], any>, %1 "filled": ref<dma_sem[], semaphore>, %2 "ready": ref<sem[], semaphore>) {{
  %3 = axis_index {{axis = "core"}} : i32[]
  %4 = constant {{value = i32 0x1}} : i32[]
  %5 = constant {{value = i32 0x0}} : i32[]
  %6 = eq %3, %5 : bool[]
  cond %6 () {{
    {first}
    %7 = get %0 {{view = [index(0, slice(0, 8))]}} : i32[8] @1
    %8 = add %7, %4 : i32[8] @1
    store %0, %8 {{view = [index(1, slice(0, 8))]}} @1
    yield
  }} () {{
    fill_start %0, %1 {{dst = view($0, [index(0, slice(0, 8))]), dst_sem = view($1, []), value = i32 0x29}} @0
    {second}
    yield
  }}
  yield
}}
loc 0 {{file = "k.py", line = 1, column = 0, function = "k", text = "fill"}}
loc 1 {{file = "k.py", line = 2, column = 0, function = "k", text = "o[1] = o[0] + 1"}}
"""
WAIT = "dma_wait %0, %0, %1 {src = view($0, [index(0, slice(0, 8))]), dst = view($1, [index(0, slice(0, 8))]), dst_sem = view($2, [])}"
SIGNAL = "sem_signal %2, %4, %4 {inc = $1, core_index = $2}"


def run(first, second, *options):
    file = pathlib.Path(tempfile.mkdtemp()) / "fill.psir"
    file.write_text(KERNEL.format(first=first, second=second))
    return subprocess.run([os.environ["PALLASIM"], "run", str(file), "--checked", *options], text=True, capture_output=True)


for options in ([], ["--copies", "on_wait"], ["--copies", "scheduled", "--schedule-seed", "3"]):
    right = run("sem_wait %2, %4 {value = $1}", f"{WAIT}\n    {SIGNAL}", *options)
    assert right.returncode == 0 and "[41, 41, 41, 41, 41, 41, 41, 41, ...]  min 41  max 42" in right.stdout, right.stdout + right.stderr
    assert "RACE" not in right.stderr, right.stderr
    wrong = run("sem_wait %2, %4 {value = $1}", f"{SIGNAL}\n    {WAIT}", *options)
    assert "[PS-RACE-" in wrong.stderr and "k.py:1" in wrong.stderr and "k.py:2" in wrong.stderr, wrong.stderr
