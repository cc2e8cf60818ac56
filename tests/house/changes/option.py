"""The option is there on the command line, in Python and in the help; a run keeps to it."""
import os
import pathlib
import subprocess
import tempfile

import pallasim

KERNEL = """pallasim-ir 1
module "idle" {machine = tpu}
output "a" : i32[8] {space = vmem}
output "b" : i32[8] {space = vmem}
body (%0 "a": ref<i32[8], vmem>, %1 "b": ref<i32[8], vmem>) {
  yield
}
"""
file = pathlib.Path(tempfile.mkdtemp()) / "idle.psir"
file.write_text(KERNEL)


def findings(*options):
    run = subprocess.run([os.environ["PALLASIM"], "run", str(file), "--checked", *options], text=True, capture_output=True)
    assert run.returncode == 0, run.stderr
    return run.stderr.count("[PS-OUT-001]")


assert findings() == 2 and findings("--max-findings", "1") == 1
assert "--max-findings" in subprocess.run([os.environ["PALLASIM"], "run", "--help"], text=True, capture_output=True).stdout
assert pallasim.Params(max_findings=1) != pallasim.Params()
