"""Tables on a terminal; the same columns, uncoloured and uncut, where the output goes elsewhere."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trackside.harmless import one_line, visible

_STYLES = {
    "Completed": "green",
    "Failed": "bold red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}
_UNCUT = 10_000
"""Columns of a terminal that is none: no cell is shortened for it."""
_GAP = 2
_LEAST_LAST = 20
"""Columns that the last one keeps, even if lines then run over the terminal's edge."""
_IN_ONE_LINE: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}


@dataclass(frozen=True, slots=True)
class Cell:
    """Untrusted text is made harmless when drawn, and never read as markup."""

    text: str
    style: str = ""


def status_style(status: str) -> str:
    return _STYLES.get(status, "")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Collection[str] = ()
) -> None:
    """On a narrow terminal the last column gives way; names and statuses are never cut.

    Columns of `numbers` stand one below the other by their last digits.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=True)
    table.add_column(columns[-1], justify="right" if columns[-1] in numbers else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell.text), cell.style, **_IN_ONE_LINE) for cell in row))
    console = new_console()
    console.width = max(console.width, _least_width(columns, rows))
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def print_text(text: str, *, stderr: bool = False) -> None:
    """Sentences, wrapped at words on a terminal."""
    console = new_console(stderr=stderr)
    console.print(visible(text), soft_wrap=not console.is_terminal)


def _least_width(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> int:
    texts = [[one_line(cell.text) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *texts, strict=True)]
    return sum(width + _GAP for width in widths[:-1]) + min(widths[-1], _LEAST_LAST)


def new_console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNCUT
    return console
