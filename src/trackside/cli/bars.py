"""Progress bars on a terminal for transfers, one per host."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trackside.cli.text import size
from trackside.texts.terminal_text import one_line

_BAR_COLUMNS = 30
Hosts = Mapping[str, Mapping[str, Any]]


def live_bars(hosts: Callable[[], Hosts], *, stderr: bool = False) -> Live:
    """Redrawn from what `hosts` returns while it is started; removed once it is stopped."""

    def drawn() -> Group:
        return Group(*bars(hosts()))

    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return Live(get_renderable=drawn, console=console, transient=True)


def bars(hosts: Hosts) -> Iterator[RenderableType]:
    """For each host that transfers files: what, the number of files, the bytes."""
    for host, record in hosts.items():
        progress = record["progress"]
        if not progress["num_files"]:
            continue
        row = Table.grid(padding=(0, 1))
        total, done = progress["size_bytes"], progress["done_bytes"]
        row.add_row(
            Text(one_line(f"{host} {progress['what']}").strip()),
            ProgressBar(total=total or 1, completed=done if total else 1, width=_BAR_COLUMNS),
            Text(f"{size(done)} of {size(total)}"),
            Text(f"{progress['done_files']} of {progress['num_files']} files"),
        )
        yield row
