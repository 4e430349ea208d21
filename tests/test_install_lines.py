"""Install lines of all pages work as they are typed: from a clone, with extras that there are."""

import re
import tomllib
from pathlib import Path

import pytest

from trackside.errors import MissingExtra

PROJECT = Path(__file__).parent.parent
PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "examples").rglob("*.md")),
]
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

_LINE = re.compile(r"pip install\s+(?P<words>[^`\n#&|]+)")
_OURS = re.compile(r"'?(?:\.|/src)(?:\[(?P<extras>[\w,]+)\])?'?")
_FILE = re.compile(r"requirements/|/requirements\.txt$")
_OTHERS = {"boto3", "torch", "pip-audit", "'protobuf<4'"}
"""Packages of others that an index has."""
_OF_SCRIPTS = re.compile(r"`pip install \.`, then `python -m")
"""What the toolkit does with a script's own setup.py."""


def installed_by(page: Path) -> list[tuple[str, str]]:
    """What each line names, and the paragraph or block that it is in."""
    text = page.read_text().replace("\\\n", " ")
    found = []
    for part in re.split(r"\n\s*\n", text):
        for line in _LINE.finditer(_OF_SCRIPTS.sub("", part)):
            words = [word for word in line["words"].split() if not word.startswith("-")]
            found += [(word, part) for word in words if not _FILE.search(word)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_named_can_be_installed(page: Path):
    for named, where in installed_by(page):
        if named in _OTHERS:
            continue
        ours = _OURS.fullmatch(named)
        assert ours is not None, f"{page.name}: no index has {named!r}"
        unknown = set(filter(None, (ours["extras"] or "").split(","))) - EXTRAS.keys()
        assert not unknown, f"{page.name}: there are no such extras"
        if named != "/src" and page.name != "README.md":
            assert "clone" in where, f"{page.name} does not say where {named!r} is typed"


def test_the_readme_says_where_they_are_typed():
    text = " ".join((PROJECT / "README.md").read_text().split())
    assert "from a clone of this repository" in text
    assert "on no package index yet" in text


def test_an_image_copies_what_it_installs():
    for page in (PROJECT / "docs/operations.md", PROJECT / "docs/toolkit.md"):
        [image] = [
            block
            for block in re.findall(r"```dockerfile\n(.*?)```", page.read_text(), re.DOTALL)
            if "pip install" in block
        ]
        copied = {word for line in re.findall(r"COPY (.+) /src", image) for word in line.split()}
        assert {"pyproject.toml", "build_native.py", "README.md", "LICENSE", "src"} <= copied
        for name in copied:
            assert (PROJECT / name).exists()


def test_every_extra_that_an_error_names_is_one():
    """Where Trackside is installed, `pip install 'trackside[extra]'` adds it, from wherever."""
    for source in (PROJECT / "src").rglob("*.py"):
        for extra in re.findall(r'MissingExtra\((?:[^()]*?), "(\w+)"\)', source.read_text()):
            assert extra in EXTRAS, f"{source.name} names {extra!r}"
    assert "pip install 'trackside[gpu]'" in str(MissingExtra("x", "y", "gpu"))
