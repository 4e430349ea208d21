"""Cuts text to a length: at words and complete lines, each cut marked with an ellipsis."""

from __future__ import annotations

import re
from collections.abc import Sequence

ELLIPSIS = "…"

# Terminal escape sequences, complete or cut off, and single control characters.
_ORDERS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Without colours and control characters; tabs and newlines stay."""
    return _ORDERS.sub("", text)


def shortened(text: str, most: int) -> str:
    """At most so many characters; a word is broken only if it alone is longer than half of them."""
    if len(text) <= most:
        return text
    if most < 1:
        return ""
    space = most - len(ELLIPSIS)
    cut = text[:space]
    if not text[space].isspace():
        stripped = cut.rstrip()
        at = max(stripped.rfind(blank) for blank in (" ", "\n", "\t"))
        cut = stripped[:at] if at > space // 2 else stripped
    return cut.rstrip() + ELLIPSIS


def from_whole_line(text: str) -> str:
    """The end of a longer text, without the partial line at its beginning."""
    _, _, lines = text.partition("\n")
    if lines.strip():
        return lines
    return ELLIPSIS + text.partition(" ")[2]


def last_lines(lines: Sequence[str], most: int) -> str:
    """The last complete lines that fit; of a single one that does not, its beginning."""
    whole = "\n".join(lines)
    if len(whole) <= most:
        return whole
    left = most - len(ELLIPSIS)
    kept: list[str] = []
    for line in reversed(lines):
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    if not kept:
        return shortened(lines[-1], most)
    return "\n".join([ELLIPSIS, *reversed(kept)])
