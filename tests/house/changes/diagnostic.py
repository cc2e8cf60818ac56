"""A checked run reports scratch that nobody writes, and other runs do not."""
import os
import pathlib
import subprocess
import tempfile

KERNEL = """pallasim-ir 1
module "idle" {machine = tpu}
output "o" : i32[8] {space = vmem}
scratch "unused" : ref<i32[8], vmem>
body (%0 "o": ref<i32[8], vmem>, %1 "unused": ref<i32[8], vmem>) {
  %2 = iota {axis = 0} : i32[8]
  store %0, %2
  yield
}
"""
file = pathlib.Path(tempfile.mkdtemp()) / "idle.psir"
file.write_text(KERNEL)
for checked in (False, True):
    run = subprocess.run([os.environ["PALLASIM"], "run", str(file), *(["--checked"] if checked else [])], text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    assert ("PS-UNINIT-900" in run.stderr) == checked and ("nothing was ever written to scratch unused" in run.stderr) == checked, run.stderr
