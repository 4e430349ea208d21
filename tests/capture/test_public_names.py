"""What `import trackside.capture as tc` offers: there, seen by type checkers, and explained."""

import ast
import re
from pathlib import Path

import pytest

import trackside.capture as tc

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", tc.__all__)
def test_every_public_name_is_there_and_on_a_page(name: str):
    assert getattr(tc, name) is not None
    assert name in dir(tc)
    pages = "".join((DOCS / page).read_text() for page in ("capture.md", "trial.md"))
    assert re.search(rf"\b{name}\b", pages)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(tc.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(tc.__all__)
