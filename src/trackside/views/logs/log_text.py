"""The text of a log line as a terminal would show it: what a progress bar overwrote is gone,
colours are kept, and nothing else can control a terminal or a page.
"""

import re
from itertools import groupby

from trackside.texts.terminal_text import visible

KEPT_BYTES = 1 << 16
"""Of a longer line, only this much of its beginning or its end is looked at."""
MOST_CHARACTERS = 20_000
_MOST_COLUMNS = 2 * KEPT_BYTES
_MOST_COLOURS = 8
_RESET = "\x1b[0m"

_SEQUENCE = re.compile(
    r"\x1b\[(?P<values>[0-?]*)[ -/]*(?P<final>[@-~])"  # colours, erasing, movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # character sets, modes
    r"|(?P<step>[\r\x08])"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MOVES = re.compile(r"[\r\x08]|\x1b\[[0-9;]*[GK]")


def shown_text(line: bytes, num_left_out: int = 0) -> str:
    """For people: the line without its end, with colours as ANSI sequences.

    `num_left_out` is how many bytes of the line are not in `line`: see `is_overwritten`.
    """
    text = line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
    if _CONTROL.search(text):
        text = _drawn(text) if _MOVES.search(text) else _without_movement(text)
    if len(text) > MOST_CHARACTERS or num_left_out:
        text = _cut(text, num_left_out)
    return text


def plain_text(text: str) -> str:
    """Without colours and all other sequences: what is searched."""
    return _SEQUENCE.sub(_kept_step, text) if "\x1b" in text else text


def is_overwritten(end: bytes) -> bool:
    """Whether the end of a long line is enough, because a terminal shows nothing else."""
    return b"\r" in end.removesuffix(b"\n").removesuffix(b"\r")


def _kept_step(found: re.Match[str]) -> str:
    return found["step"] or ""


def _cut(text: str, num_left_out: int) -> str:
    left_out = max(0, len(text) - MOST_CHARACTERS) + num_left_out
    text = text[:MOST_CHARACTERS]
    begun = text.rfind("\x1b", -32)
    if begun >= 0 and not _SEQUENCE.match(text, begun):
        text = text[:begun]
    return f"{text}{_RESET if _COLOUR.search(text) else ''} … [{left_out:,} more bytes]"


def _without_movement(text: str) -> str:
    parts = []
    at = 0
    for found in _SEQUENCE.finditer(text):
        parts.append(visible(text[at : found.start()]))
        if _COLOUR.fullmatch(found[0]):
            parts.append(found[0])
        at = found.end()
    return "".join([*parts, visible(text[at:])])


def _drawn(text: str) -> str:
    """What is left on the screen's line in the end."""
    row = _Row()
    at = 0
    for found in _SEQUENCE.finditer(text):
        row.write(text[at : found.start()])
        row.control(found)
        at = found.end()
    row.write(text[at:])
    return row.text()


class _Row:
    """One line of a screen, as wide as needed."""

    def __init__(self) -> None:
        self._characters: list[str] = []
        self._colours: list[str] = []
        """Of each character, the sequences that colour it."""
        self._column = 0
        self._colour = ""

    def write(self, text: str) -> None:
        missing = self._column - len(self._characters)
        if missing > 0:
            self._characters += " " * missing
            self._colours += [""] * missing
        end = self._column + len(text)
        self._characters[self._column : end] = text
        self._colours[self._column : end] = [self._colour] * len(text)
        self._column = end

    def control(self, found: re.Match[str]) -> None:
        if found["step"]:
            self._column = 0 if found["step"] == "\r" else max(0, self._column - 1)
        elif found["final"] == "K":
            self._erase(found["values"])
        elif found["final"] == "G":
            self._column = min(_MOST_COLUMNS, max(0, _number(found["values"]) - 1))
        elif _COLOUR.fullmatch(found[0]):
            self._paint(found[0])

    def text(self) -> str:
        parts = []
        colour = ""
        for of_part, part in groupby(zip(self._colours, self._characters, strict=True), _first):
            if of_part != colour:
                parts.append((_RESET if colour else "") + of_part)
                colour = of_part
            parts.append(visible("".join(character for _, character in part)))
        return "".join(parts) + (_RESET if colour else "")

    def _erase(self, values: str) -> None:
        if values in ("", "0"):
            del self._characters[self._column :], self._colours[self._column :]
        elif values in ("1", "2"):
            end = len(self._characters) if values == "2" else self._column + 1
            end = min(end, len(self._characters))
            self._characters[:end] = " " * end
            self._colours[:end] = [""] * end

    def _paint(self, sequence: str) -> None:
        if sequence in ("\x1b[m", _RESET):
            self._colour = ""
        else:
            self._colour = "".join([*_COLOUR.findall(self._colour), sequence][-_MOST_COLOURS:])


def _first(cell: tuple[str, str]) -> str:
    return cell[0]


def _number(values: str) -> int:
    digits = values.partition(";")[0]
    return int(digits) if digits.isdigit() and len(digits) < 7 else 1
