"""Prints tables on a terminal; the same columns, uncoloured and unwrapped, elsewhere."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest

from trackside.cli.styled_text import Text, cell_len
from trackside.cli.table_layout import (
    GAP,
    INDENT,
    LEAST_CURVE,
    LEAST_TEXT,
    Layout,
    broken,
    even,
    fitting,
)
from trackside.cli.terminal import Terminal
from trackside.quick_dataclass import dataclass
from trackside.texts.terminal_text import visible

_STYLES = {
    "Completed": "green",
    "Failed": "bold red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}
_HARD_SPACE = "\xa0"
_SPACES = re.compile(r"[ \t\n\r\f\v]+")
"""Without the no-break space, which holds a figure and its unit together until drawing."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Untrusted text is escaped when drawn, and never read as markup."""

    text: str
    style: str = ""
    at_width: Callable[[int], str] | None = None
    """For content that is redrawn to fit, such as a curve, instead of wrapped."""

    @property
    def shown(self) -> str:
        return visible(_SPACES.sub(" ", self.text).strip(" "))


Row = Sequence[Cell]


def together(text: str) -> str:
    """The text, not to be wrapped."""
    return text.replace(" ", _HARD_SPACE)


def status_style(status: str) -> str:
    return _STYLES.get(status, "")


def print_table(
    columns: Sequence[str],
    rows: Sequence[Row],
    *,
    numbers: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """See `table_lines`."""
    terminal = Terminal.of_stdout()
    for line in table_lines(columns, rows, terminal.width, numbers=numbers, spare=spare):
        terminal.print(line)


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Row],
    room: int,
    *,
    numbers: Collection[str] = (),
    spare: Sequence[str] = (),
) -> Iterator[Text]:
    """Columns of `numbers` are aligned by their last digits.

    On a narrow terminal, empty columns and those of `spare` are dropped in turn; all others are
    shown completely, the last one over several lines, the first above the others if needed.
    """
    least = LEAST_CURVE if any(row[-1].at_width for row in rows) else LEAST_TEXT
    widths = _widths(columns, rows)
    empty = [name for index, name in enumerate(columns) if not any(row[index].text for row in rows)]
    given_up = tuple(dict.fromkeys([*empty, *spare]))
    layout = fitting(columns, widths, room, spare=given_up, least=least)
    return _lines(layout, columns, rows, numbers)


def print_side_by_side(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """The first column labels what is compared. Nothing is left out."""
    terminal = Terminal.of_stdout()
    for number, layout in enumerate(even(_widths(columns, rows), terminal.width)):
        if number:
            print()
        for line in _lines(layout, columns, rows, ()):
            terminal.print(line)


def print_text(text: str, *, stderr: bool = False) -> None:
    """Sentences, wrapped at words on a terminal."""
    terminal = Terminal.of_stderr() if stderr else Terminal.of_stdout()
    terminal.print_wrapped(visible(text))


def _widths(columns: Sequence[str], rows: Sequence[Row]) -> list[int]:
    texts = [[cell.shown for cell in row] for row in rows]
    return [max(map(cell_len, column)) for column in zip(columns, *texts, strict=True)]


def _lines(
    layout: Layout, columns: Sequence[str], rows: Sequence[Row], numbers: Collection[str]
) -> Iterator[Text]:
    is_right = [columns[index] in numbers for index in layout.kept]
    header = [Cell(column, "bold") for column in columns]
    for row in (header, *rows):
        cells = [
            _drawn(row[index], width, in_words=layout.is_even)
            for index, width in zip(layout.kept, layout.widths, strict=True)
        ]
        if layout.is_stacked:
            yield from cells[0]
            beside = _beside(cells[1:], layout.widths[1:], is_right[1:])
            yield from (Text(" " * INDENT).append_text(line) for line in beside if line.plain)
        else:
            yield from _beside(cells, layout.widths, is_right)


def _drawn(cell: Cell, width: int, *, in_words: bool) -> list[Text]:
    text = cell.shown
    if cell.at_width is not None and cell_len(text) > width:
        text = cell.at_width(width)
    lines = broken(text, width, in_words=in_words)
    return [Text(line.replace(_HARD_SPACE, " "), cell.style) for line in lines]


def _beside(
    cells: Sequence[Sequence[Text]], widths: Sequence[int], is_right: Sequence[bool]
) -> Iterator[Text]:
    """The lines of one row: a wrapped cell continues below itself."""
    for parts in zip_longest(*cells, fillvalue=Text("")):
        line = Text("")
        for part, width, right in zip(parts, widths, is_right, strict=True):
            padding = " " * (width - cell_len(part.plain))
            line.append(padding if right else "").append_text(part)
            line.append("" if right else padding).append(" " * GAP)
        line.rstrip()
        yield line
