"""Tables on a terminal; the same columns, uncoloured and uncut, where the output goes elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trackside.cli.text import one_line

_STYLES = {
    "Completed": "green",
    "Failed": "bold red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}
_UNCUT = 10_000
"""Columns of a terminal that is none: no cell is shortened for it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Untrusted text is made harmless when drawn, and never read as markup."""

    text: str
    style: str = ""


def status_style(status: str) -> str:
    return _STYLES.get(status, "")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    console = new_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        # Names are there to be copied: other columns give way first.
        table.add_column(column, overflow="fold" if column == "NAME" else "ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(cell.text), cell.style) for cell in row))
    console.print(table)


def new_console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNCUT
    return console
