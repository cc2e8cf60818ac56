"""A copy to shared memory in the thread's groups brings its bytes whenever they move; read before its group is awaited, it is a race
that its value shows."""
import os
import pathlib
import subprocess
import tempfile

KERNEL = """pallasim-ir 1
module "cp_async" {{machine = mosaic_gpu}}
mesh "gpu" {{kind = gpu, axes = [axis("wg", 1)], grid = 0, cluster = 0, threads = 1}}
output "o_ref" : i32[4,8] {{space = gmem}}
output "p_ref" : i32[4,8] {{space = gmem}}
body "gpu" (%0 "o_ref": ref<i32[4,8], gmem>, %1 "p_ref": ref<i32[4,8], gmem>) {{
  run_scoped {{allocs = [none]}} (%2 "smem": ref<i32[4,8], gsmem, cta>) {{
    %3 = constant {{value = i32 0x29}} : i32[]
    %4 = broadcast_in_dim %3 {{dims = []}} : i32[4,8]
    %5 = constant {{value = i32 0x0}} : i32[]
    %6 = broadcast_in_dim %5 {{dims = []}} : i32[4,8]
    store %1, %4
    store %2, %6
    cp_async %1, %2 {{src = view($0, []), dst = view($1, [])}} @0
    commit_group
    {first}
    %7 = get %2 : i32[4,8] @1
    store %0, %7 @1
    {second}
    yield
  }}
  yield
}}
loc 0 {{file = "k.py", line = 1, column = 0, function = "k", text = "cp_async(p_ref, smem)"}}
loc 1 {{file = "k.py", line = 2, column = 0, function = "k", text = "o_ref[...] = smem[...]"}}
"""
WAIT = "wait_smem_to_gmem %5 {wait_read_only = false}"


def run(first, second, *options):
    file = pathlib.Path(tempfile.mkdtemp()) / "cp_async.psir"
    file.write_text(KERNEL.format(first=first, second=second))
    done = subprocess.run([os.environ["PALLASIM"], "run", str(file), *options], text=True, capture_output=True)
    assert done.returncode == 0 or "PS-RACE" in done.stderr, done.stdout + done.stderr
    return done


for options in ([], ["--copies", "on_wait"], ["--copies", "scheduled", "--schedule-seed", "3"]):
    right = run(WAIT, "", "--checked", *options)
    assert "o_ref  i32[4,8]  [41, 41" in right.stdout and "RACE" not in right.stderr, right.stdout + right.stderr
    wrong = run("", WAIT, "--checked", *options)
    assert "[PS-RACE-001]" in wrong.stderr and "k.py:1" in wrong.stderr and "k.py:2" in wrong.stderr, wrong.stderr
assert "o_ref  i32[4,8]  [0, 0" in run("", WAIT, "--copies", "on_wait").stdout
events = run(WAIT, "", "--observe", "events").stdout
assert all(f"copy     0 of thread 0 {what}" in events for what in ("is issued", "has moved", "has told")), events
