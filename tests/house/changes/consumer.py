"""`--observe traffic` counts what each ref of a kernel reads and writes."""
import os
import subprocess

done = subprocess.run([os.environ["PALLASIM"], "run", "tests/pass/prefetch_gather.psir", "--observe", "traffic"], text=True, capture_output=True)
assert done.returncode == 0, done.stderr
lines = [line for line in done.stdout.splitlines() if line.startswith("bytes")]
assert lines == ["bytes    idx_ref: 16 read, 0 written", "bytes    o_ref: 0 read, 16384 written", "bytes    x_ref: 16384 read, 0 written"], done.stdout
