"""`make docs` builds a whole site: every page in its sidebar, every link good, nothing remote."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

PROJECT = Path(__file__).parent.parent


class Parsed(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and "href" in given:
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Parsed]:
    """Strict: a link, an anchor or an entry of the sidebar that leads nowhere ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {page: Parsed(page) for page in folder.rglob("*.html")}


def test_every_page_is_in_the_sidebar():
    nav = (PROJECT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = set(re.findall(r"(?:: |- )(\S+\.md)$", nav, re.MULTILINE))
    pages = {path.relative_to(PROJECT / "docs") for path in (PROJECT / "docs").rglob("*.md")}
    at_root = {path.name for path in PROJECT.glob("*.md")} - {"README.md"} | {"index.md"}
    assert listed == {page.as_posix() for page in pages} | at_root


def test_every_link_and_anchor_resolves(site: dict[Path, Parsed]):
    missing = []
    for page, parsed in site.items():
        if page.name == "404.html":
            continue  # its links are for the root of a web server
        for link in parsed.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchors = site[target].anchors | {""} if target in site else {parts.fragment}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                missing.append(f"{page.name}: {link}")
    assert missing == []


def test_a_page_loads_nothing_from_elsewhere(site: dict[Path, Parsed]):
    elsewhere = [
        address
        for parsed in site.values()
        for address in parsed.loaded
        if urlsplit(address).netloc and not address.startswith("data:")
    ]
    assert elsewhere == []
    folder = min(site, key=lambda page: len(page.parts)).parent
    for style in folder.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?https?:", style.read_text()), style.name
