"""Styled text: its width on a terminal, and line breaks. Pure; `terminal` prints it.

Wide characters are measured by rich, which is imported only for text beyond ASCII.
"""

import re
from collections.abc import Iterator
from itertools import groupby

_WORDS = re.compile(r"\s*\S+\s*")
_CODES = {
    "bold": "1",
    "dim": "2",
    "underline": "4",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}
_ATTRIBUTES = ("bold", "dim", "underline")


def cell_len(text: str) -> int:
    """How many columns it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def chopped(text: str, width: int) -> list[str]:
    """Pieces of at most so many columns."""
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)]
    from rich.cells import chop_cells

    return chop_cells(text, width)


class Text:
    """Spans with a style each, such as `bold red`, on top of the whole text's style."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._style = style
        self._pieces: list[tuple[str, str]] = [(text, style)] if text else []

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self._pieces)

    def append(self, text: str, style: str = "") -> "Text":
        if text:
            self._pieces.append((text, f"{self._style} {style}"))
        return self

    def append_text(self, other: "Text") -> "Text":
        for text, style in other._pieces:
            self.append(text, style)
        return self

    def rstrip(self) -> None:
        while self._pieces:
            text, style = self._pieces.pop()
            if kept := text.rstrip():
                self._pieces.append((kept, style))
                return

    def replace(self, at: int, letter: str, style: str) -> None:
        """Replace one character; `at` may be one past the end."""
        before, after = self.part(0, at), self.part(at + 1)
        self._pieces = [*before._pieces, (letter, f"{self._style} {style}"), *after._pieces]

    def part(self, start: int, end: int | None = None) -> "Text":
        """The characters from `start` to `end`, with their styles."""
        found, place = Text("", self._style), 0
        for text, style in self._pieces:
            last = len(text) if end is None else end - place
            if kept := text[max(0, start - place) : max(0, last)]:
                found._pieces.append((kept, style))
            place += len(text)
        return found

    def wrapped(self, width: int) -> Iterator["Text"]:
        """Lines broken at words; a word wider than a line continues on the next."""
        start = 0
        for line in self.plain.split("\n"):
            breaks = [0, *_breaks(line, width), len(line)]
            for first, last in zip(breaks, breaks[1:], strict=False):
                piece = self.part(start + first, start + last)
                piece.rstrip()
                yield piece
            start += len(line) + 1

    def cropped(self, width: int) -> "Text":
        """No wider than that."""
        plain = self.plain
        return self if cell_len(plain) <= width else self.part(0, len(chopped(plain, width)[0]))

    def rendered(self, *, with_colours: bool = True) -> str:
        """With terminal escape sequences."""
        pieces = groupby(self._pieces, lambda piece: _codes(piece[1], with_colours))
        joined = ((codes, "".join(text for text, _ in alike)) for codes, alike in pieces)
        return "".join(f"\x1b[{codes}m{text}\x1b[0m" if codes else text for codes, text in joined)


def _breaks(line: str, width: int) -> Iterator[int]:
    taken = 0
    for word in _WORDS.finditer(line):
        shown = word[0].rstrip()
        if taken + cell_len(shown) <= width:
            taken += cell_len(word[0])
            continue
        if word.start():
            yield word.start()
        at = word.start()
        *whole, rest = chopped(shown, width)
        for piece in whole:
            at += len(piece)
            yield at
        taken = cell_len(rest + word[0][len(shown) :])


def _codes(style: str, with_colours: bool) -> str:
    words = style.split()
    codes = [_CODES[each] for each in _ATTRIBUTES if each in words]
    colours = [each for each in words if each not in _ATTRIBUTES]
    if colours and with_colours:
        codes.append(_CODES[colours[-1]])  # the innermost
    return ";".join(codes)
