"""Programs of the pages, and what they print.

    <!-- output: the program above as first.py -->

stands before a block that shows what the Python block above it prints, results and reports, when it is saved as `first.py` and run. `scripts/docs.py` writes such
blocks, `scripts/docs.py --check` and tests/docs/test_programs.py compare them. Programs of a page run in one folder, in their order.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = re.compile(r"(?P<code>```python\n(?P<program>(?:(?!^```).)*?)```\n(?:(?!^```).)*?<!-- output: the program above as (?P<name>\S+) -->\n)```\n.*?^```\n", re.S | re.M)


def pages():
    """The pages that show what a program prints."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if SHOWN.search(page.read_text())]


def run(folder, name):
    """What the program prints, files of its folder without the folder."""
    done = subprocess.run([sys.executable, "-u", name], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=os.environ | {"JAX_PLATFORMS": "cpu"})
    return done.stdout.replace(f"{folder}{os.sep}", "")


def with_outputs(text):
    """A page's text with what its programs print now."""
    with tempfile.TemporaryDirectory() as folder:

        def shown(match):
            (pathlib.Path(folder) / match["name"]).write_text(match["program"])
            return f"{match['code']}```\n{run(folder, match['name'])}```\n"

        return SHOWN.sub(shown, text)


def problems():
    for page in pages():
        text = page.read_text()
        if text != with_outputs(text):
            yield f"{page.relative_to(ROOT)}: a program does not print what the page shows: run scripts/docs.py"
