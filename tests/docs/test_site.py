"""The static site is built without a warning, and no link of it leads nowhere."""
from __future__ import annotations

import html
import importlib.util
import json
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
# Each page in a frame of its own, one browser for all. Tables that scroll: the theme makes each a block of its own, as wide as its place.
MEASURE = """<body><script>
const found = {};
async function measure(page) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "width: WIDTHpx; height: 1000px; border: 0";
  frame.scrolling = "no";  // a bar would take a part of the width
  frame.src = page;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  await frame.contentDocument.fonts.ready;
  await new Promise(done => setTimeout(done, 300));
  const tables = [...frame.contentDocument.querySelectorAll("table")];
  found[page] = [tables.length, tables.filter(t => t.scrollWidth > t.clientWidth).length];
  frame.remove();
}
(async () => {
  for (const page of PAGES) await measure(page);
  document.title = "measured " + JSON.stringify(found);
})();
</script></body>"""


def tables(browser, folder, pages, profile):
    """By page of the folder: how many tables it has, and how many of them do not fit a window of WIDTH pixels."""
    measure = folder / "measure.html"
    measure.write_text(MEASURE.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(WIDTH)))
    try:
        shown = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--allow-file-access-from-files", f"--user-data-dir={profile}", f"--window-size={WIDTH},1000",
             "--virtual-time-budget=60000", "--dump-dom", measure.resolve().as_uri()], capture_output=True, text=True, timeout=120).stdout
    finally:
        measure.unlink()
    return json.loads(html.unescape(re.search(r"<title>measured (.*?)</title>", shown).group(1)))


def test_tables_fit_a_window(tmp_path):
    pytest.importorskip("mkdocs")
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("Chromium is not installed")
    site.main()
    docs = site.SITE / "docs"
    pages = [p.name for p in sorted(docs.glob("*.html")) if "<table" in p.read_text()]
    wide = docs / "wide.html"
    wide.write_text((docs / "ops.html").read_text().replace("<td>", "<td>" + "x" * 300, 1))
    try:
        found = tables(browser, docs, [*pages, wide.name], tmp_path / "profile")
    finally:
        wide.unlink()
    assert found.pop(wide.name)[1] == 1
    assert len(pages) > 8 and found.keys() == set(pages) and all(count for count, _ in found.values())
    assert {name: wide for name, (_, wide) in found.items() if wide} == {}
