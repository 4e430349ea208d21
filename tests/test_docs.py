"""The documentation is true: its links resolve, its code runs, and what exists has a heading."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trackside import errors
from trackside.settings import Settings

PROJECT = Path(__file__).parent.parent
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
WITH_CODE = [page for page in PAGES if re.search(r"^```(python|sh)$", page.read_text(), re.M)]


def headings(page: str) -> set[str]:
    text = (PROJECT / page).read_text()
    return {line.lstrip("#").strip(" `") for line in text.splitlines() if line.startswith("#")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_resolve(page: Path):
    targets = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    runner = [sys.executable, str(PROJECT / "tests" / "page_runner.py"), str(page)]
    done = subprocess.run(runner, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def error_codes(cls: type[errors.TracksideError]) -> set[str]:
    return {cls.code}.union(*(error_codes(sub) for sub in cls.__subclasses__()))


def test_every_error_code_has_a_heading():
    assert error_codes(errors.TracksideError) - headings("docs/errors.md") == set()


def test_every_error_class_is_drawn_in_the_tree():
    for name in dir(errors):
        found = getattr(errors, name)
        if isinstance(found, type) and issubclass(found, errors.TracksideError):
            assert re.search(rf"\b{name}\b", errors.__doc__ or ""), name


def test_every_setting_has_a_heading():
    from dataclasses import fields

    variables = {field.metadata["variable"] for field in fields(Settings)}
    assert variables - headings("docs/settings.md") == set()


def test_the_version_is_the_changelog_s_newest():
    import trackside

    text = (PROJECT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", text, re.M)
    assert released[0] == trackside.__version__
    assert f"version: {trackside.__version__}\n" in (PROJECT / "CITATION.cff").read_text()


WIDTH = 100
OTHERS = PROJECT / "docs" / "rules"
"""The catalogue of rules, whose paragraphs are the texts of the classes."""


def too_long(page: Path) -> list[str]:
    """Lines of prose beyond the width: tables, code and what cannot be broken may be longer."""
    prose = re.sub(r"^\s*```.*?^\s*```", "", page.read_text(), flags=re.M | re.S)
    return [
        line
        for line in prose.splitlines()
        if len(line) > WIDTH and not line.lstrip().startswith("|")
        if not line.startswith("    ") and " " in re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "", line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path):
    if not page.is_relative_to(OTHERS):
        assert too_long(page) == []
