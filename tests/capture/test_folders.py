"""The folders of capture, and which of them may import which (see ARCHITECTURE.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import trackside.capture

CAPTURE = Path(trackside.capture.__file__).parent
WORDS = {"current_hook", "dtypes", "environment", "exceptions", "failures", "modes", "trial_layout"}

MAY_IMPORT = {
    "selection": set(),
    "model": {"selection"},
    "writing": set(),
    "copying": {"selection", "model", "writing"},
    "checkpoints": {"model"},
    "hangs": {"selection", "model"},
    "vitals": {"model", "copying", "writing", "checkpoints"},
    "sinks": {"copying", "writing"},
    "steps": {
        "selection",
        "model",
        "copying",
        "vitals",
        "sinks",
        "writing",
        "hangs",
        "checkpoints",
    },
    "reading": {"selection", "writing", "hangs"},
}


def test_every_folder_imports_only_folders_before_it():
    wrong = [
        f"{path.relative_to(CAPTURE)} imports {imported}"
        for folder, allowed in MAY_IMPORT.items()
        for path in sorted((CAPTURE / folder).rglob("*.py"))
        for imported in imported_parts(ast.parse(path.read_text()))
        if imported not in allowed | WORDS | {folder}
    ]
    assert wrong == []


def test_every_folder_is_on_the_map():
    folders = {path.parent.name for path in CAPTURE.glob("*/__init__.py")}
    assert folders == set(MAY_IMPORT)


def imported_parts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(without_types_only(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trackside.capture"):
            for alias in node.names:
                yield f"{node.module}.{alias.name}".split(".")[2]


def without_types_only(tree: ast.Module) -> ast.Module:
    """Without what is imported for type checkers only."""
    tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
    return tree
