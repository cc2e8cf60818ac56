#!/usr/bin/env python3
"""Makes a static site of the documentation and the lessons with MkDocs (build/site), and checks every link of its pages.

Needs mkdocs (scripts/requirements.txt). Exits with 1 and a list where a link leads nowhere.
"""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "site-pages"
SITE = ROOT / "build" / "site"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def markdown():
    """The pages: the README, docs, the lessons, and the README of each folder."""
    yield from [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "THIRD_PARTY.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*/README.md"))]


def page_name(path):
    name = path.relative_to(ROOT)
    return pathlib.Path("index.md") if name == pathlib.Path("README.md") else name


def with_site_links(path, text):
    """Links to the first page and to lessons, which are pages of the site; what else is no page is copied beside it."""

    def link(match):
        target, anchor = match.group(1), match.group(2) or ""
        if "://" in target:
            return match.group(0)
        found = (path.parent / target).resolve()
        if found == ROOT / "README.md":
            return f"]({target.removesuffix('README.md')}index.md{anchor})"
        if found.parent == ROOT / "examples" and found.suffix in (".py", ".cc"):
            return f"]({target}.md)"
        if found.is_dir():
            return f"]({target.rstrip('/')}/README.md{anchor})" if (found / "README.md").exists() else f"]({target})"
        if found.is_file() and found.suffix != ".md" and found.is_relative_to(ROOT):
            copy = PAGES / found.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, copy)
        return match.group(0)

    return LINK.sub(link, text)


def collect():
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in markdown():
        to = PAGES / page_name(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(with_site_links(path, path.read_text()))
    for path in sorted((ROOT / "examples").glob("lesson_*")):
        language = "python" if path.suffix == ".py" else "cpp"
        (PAGES / "examples" / f"{path.name}.md").write_text(f"# {path.name}\n\n```{language}\n{path.read_text()}```\n")
    shutil.copyfile(ROOT / "LICENSE", PAGES / "LICENSE")
    shutil.copyfile(ROOT / "scripts" / "site.css", PAGES / "site.css")


class Page(html.parser.HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site):
    """Yields "page: link" for links to files and anchors that the site lacks. Addresses elsewhere are not looked at."""
    pages = {path.resolve(): Page(path.read_text(errors="replace")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            anchors = pages[target].anchors if target in pages else None
            if not target.exists() or (parts.fragment and anchors is not None and urllib.parse.unquote(parts.fragment) not in anchors):
                yield f"{path.relative_to(site.resolve())}: {link}"


def main():
    collect()
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean", "-f", str(ROOT / "mkdocs.yml")], check=True)
    broken = list(broken_links(SITE))
    print("\n".join(broken) or f"{sum(1 for _ in SITE.rglob('*.html'))} pages, every link leads somewhere: {SITE / 'index.html'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
