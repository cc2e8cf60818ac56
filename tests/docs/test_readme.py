"""What the README's first screen shows is what its program prints."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_first_report_is_real(tmp_path):
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    shown = re.search(r"<!-- output: the program above as (\S+) -->\n```\n(.*?)```", text, re.S)
    (tmp_path / shown.group(1)).write_text(program)
    done = subprocess.run([sys.executable, shown.group(1)], cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr.replace(f"{tmp_path}{os.sep}", "") == shown.group(2)
    assert text.index(shown.group(2)) < 3500, "the report is not on the first screen"
