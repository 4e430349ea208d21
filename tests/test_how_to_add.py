"""The how-to-add pages are true: paths and symbols on them exist, and their examples compile."""

import builtins
import inspect
import re
import sys
import types
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PAGES = sorted((PROJECT / "docs" / "how-to-add").glob("*.md"))
EXAMPLES = [page for page in PAGES if "```py\n" in page.read_text()]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SYMBOL = re.compile(r"[A-Za-z_][\w.]*")
_PATH = re.compile(r"(?:src|tests|docs|benchmarks|zoo)(?:/[\w.-]+)+|[A-Z]+\.md")
_PLAIN = {"train", "local", "torn", "parts", "operations", "ValidationException"}
"""Words in backticks that are commands or values, local variables, or codes of AWS."""


@pytest.fixture(scope="module")
def source() -> str:
    """All Python of the project, in which a symbol has to be defined or assigned."""
    folders = ("src", "tests", "benchmarks", "zoo")
    files = [path for folder in folders for path in (PROJECT / folder).rglob("*.py")]
    return "\n".join(path.read_text() for path in files if path != Path(__file__))


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in _FENCE.findall(page.read_text()) if kind == language]


def in_backticks(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", _FENCE.sub("", page.read_text()))


def is_defined(name: str, source: str) -> bool:
    if name in _PLAIN or hasattr(builtins, name):
        return True
    own = rf"^\s*(?:def|class) {name}\b|^\s*{name}\s*(?::|=)|[(,]\s*{name}:|self\.{name}\b"
    return re.search(own, source, re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_exists(page: Path):
    commands = " ".join(line for code in blocks(page, "text") for line in code.splitlines())
    named = {text for text in in_backticks(page) if _PATH.fullmatch(text)}
    named |= set(re.findall(r"(?<=\s)tests/[\w./-]+", commands))
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_symbol_exists(page: Path, source: str):
    own = "\n".join(blocks(page, "py") + blocks(page, "text"))
    named = [
        text for text in in_backticks(page) if _SYMBOL.fullmatch(text) and not _PATH.fullmatch(text)
    ]
    missing = [
        text
        for text in named
        if not is_defined(text.rpartition(".")[2], source) and not re.search(rf"\b{text}\b", own)
    ]
    assert missing == []


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_first_example_implements_all_that_it_must(page: Path, monkeypatch):
    """It is imported as a module; a class that leaves an abstract method out fails."""
    module = types.ModuleType(f"how_to_add_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(blocks(page, "py")[0], str(page), "exec"), module.__dict__)
    made = [each for each in vars(module).values() if inspect.isclass(each)]
    abstract = [
        each.__name__
        for each in made
        if each.__module__ == module.__name__ and inspect.isabstract(each)
    ]
    assert abstract == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_listed(page: Path):
    if page.stem != "index":
        assert f"({page.name})" in (PROJECT / "docs" / "how-to-add" / "index.md").read_text()
