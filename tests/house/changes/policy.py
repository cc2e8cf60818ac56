"""`pallasim explore --policy round-robin` gives threads turns in their order."""
import os
import subprocess

done = subprocess.run([os.environ["PALLASIM"], "explore", "tests/pass/semaphore_ring.psir", "--policy", "round-robin", "--schedules", "3"], text=True, capture_output=True)
assert done.returncode == 0, done.stderr
assert "3 schedules of policy round-robin" in done.stdout and "outcome 1: 3 of them: ends, no finding" in done.stdout, done.stdout
