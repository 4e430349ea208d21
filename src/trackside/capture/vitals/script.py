"""Reads the running script's syntax tree once, for faults that rules confirm by what they see."""

import sys
from pathlib import Path
from typing import Any

from trackside.check.check import check_program
from trackside.check.program import program_of
from trackside.check.rules import JOINED

_MOST_TEXT = 200_000
"""Characters of the script and the files beside it: more would take noticeable time."""
_MOST_REMARKS = 20


def remarks_on_script() -> list[dict[str, Any]]:
    """Empty where there is no script, or none that can be read."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None or not script.endswith(".py"):
        return []
    left = _MOST_TEXT

    def text_of(path: str) -> str | None:
        nonlocal left
        place = Path(script).parent / path
        if not place.is_file() or place.stat().st_size > left:
            return None
        text = place.read_text(encoding="utf-8")
        left -= len(text)
        return text

    try:
        found = check_program(program_of(Path(script).name, text_of), JOINED)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []
    return [
        {"rule": each.rule, "place": f"{each.path}:{each.line}", "message": each.message}
        for each in found[:_MOST_REMARKS]
    ]
