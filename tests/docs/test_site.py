"""The static site is built without a warning, and no link of it leads nowhere."""
from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("pallasim_site", ROOT / "scripts" / "make_site.py")
site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)


def test_broken_links_are_found(tmp_path):
    (tmp_path / "index.html").write_text('<a href="page.html#there">1</a> <a href="page.html#gone">2</a> <a href="none.html">3</a> <img src="x.png"> <a href="https://x.y/z">4</a>')
    (tmp_path / "page.html").write_text('<h1 id="there">a</h1> <a href="index.html">5</a> <a href="#there">6</a>')
    assert list(site.broken_links(tmp_path)) == ["index.html: page.html#gone", "index.html: none.html", "index.html: x.png"]


def test_the_site_has_no_broken_links():
    pytest.importorskip("mkdocs")
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "make_site.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
