"""The static site is built without a warning, and no link of it leads nowhere."""
from __future__ import annotations

import importlib.util
import pathlib
import re
import shutil
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


WIDTH = 1100
# Tables that scroll: the theme makes each a block of its own, as wide as its place.
MEASURE = """<script>window.addEventListener("load", () => setTimeout(() => {
  const tables = [...document.querySelectorAll("table")];
  document.title = "measured " + tables.length + " wide " + tables.filter(t => t.scrollWidth > t.clientWidth).length;
}, 300))</script></body>"""


def tables(browser, page, folder):
    """(how many tables the page has, how many of them do not fit a window of WIDTH pixels)."""
    measured = page.with_name(f"measured-{page.name}")
    measured.write_text(page.read_text().replace("</body>", MEASURE))
    try:
        shown = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", f"--user-data-dir={folder}", f"--window-size={WIDTH},1000", "--virtual-time-budget=3000",
             "--dump-dom", measured.resolve().as_uri()], capture_output=True, text=True, timeout=120).stdout
    finally:
        measured.unlink()
    return tuple(map(int, re.search(r"<title>measured (\d+) wide (\d+)</title>", shown).groups()))


def test_tables_fit_a_window(tmp_path):
    pytest.importorskip("mkdocs")
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("Chromium is not installed")
    site.main()
    pages = [p for p in sorted(site.SITE.glob("docs/*.html")) if "<table" in p.read_text()]
    found = {p.name: tables(browser, p, tmp_path / p.stem) for p in pages}
    assert len(found) > 8 and all(count for count, _ in found.values())
    assert {name: wide for name, (_, wide) in found.items() if wide} == {}
    wide = site.SITE / "docs" / "wide.html"
    wide.write_text((site.SITE / "docs" / "ops.html").read_text().replace("<td>", "<td>" + "x" * 300, 1))
    try:
        assert tables(browser, wide, tmp_path / "wide")[1] == 1
    finally:
        wide.unlink()
