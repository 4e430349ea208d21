"""A CSV that counts epochs or steps: Lightning's CSVLogger, Keras's, timm's summary, and others.

Its first row names the columns, among them one of `STEPS`; every other column of numbers is a
curve. A cell may be empty, and columns may be added to a file that was started without them:
Lightning then rewrites it.
"""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence

from trackside.curves.loggers.logged_values import (
    Logged,
    LoggerFile,
    State,
    Unreadable,
    as_name,
    number,
    position,
    whole,
)

STEPS = ("step", "global_step", "iteration", "iter", "epoch")
"""Columns with a row's step; the first that exists is used."""
MOST_COLUMNS = 500
MOST_HEAD_BYTES = 64 << 10
MOST_READ_BYTES = 4 << 20
"""Per pass; the rest waits for the next."""


def read(file: LoggerFile, state: State) -> Iterator[Logged]:
    with file.opened() as descriptor:
        head, end = _head(os.pread(descriptor, MOST_HEAD_BYTES, 0))
        if state.get("head") != head or position(state, "offset") > file.seen.size:
            # Rewritten: rows that were read before are not returned twice.
            state.update(head=head, offset=end, known=position(state, "rows"), rows=0)
        data = os.pread(descriptor, MOST_READ_BYTES, position(state, "offset"))
    columns = _columns(head)
    run = "/".join(map(as_name, file.path.removesuffix(".csv").split("/")))
    whole_bytes = data.rfind(b"\n") + 1
    if not whole_bytes and len(data) == MOST_READ_BYTES:
        raise Unreadable("it has a line without end")
    for line in data[:whole_bytes].splitlines():
        state["rows"] = position(state, "rows") + 1
        if state["rows"] > position(state, "known"):
            yield from _points(_cells(line), columns, run, file.time)
    state["offset"] = position(state, "offset") + whole_bytes


def _head(data: bytes) -> tuple[str, int]:
    line, end, _ = data.partition(b"\n")
    if not end:
        raise Unreadable("its first line is not whole")
    return line.decode(errors="replace").removeprefix("\ufeff"), len(line) + 1


def _columns(head: str) -> Mapping[str, int]:
    """By name. `Unreadable` for a file that is something else."""
    names = [name.strip() for name in _cells(head.encode())]
    found = {name: at for at, name in enumerate(names) if name}
    if len(names) > MOST_COLUMNS or not any(name.lower() in STEPS for name in found):
        raise Unreadable("none of its columns counts steps or epochs, or it has too many")
    return found


def _cells(line: bytes) -> Sequence[str]:
    try:
        return next(csv.reader([line.decode(errors="replace")]), [])
    except csv.Error:
        return []


def _points(
    cells: Sequence[str], columns: Mapping[str, int], run: str, time: float
) -> Iterator[Logged]:
    by_name = {name: cells[at].strip() for name, at in columns.items() if at < len(cells)}
    counted = {name.lower(): whole(value) for name, value in by_name.items()}
    step = next((counted[name] for name in STEPS if counted.get(name) is not None), None)
    if step is None:
        return
    for name, value in by_name.items():
        found = number(value) if value else None
        if found is not None and name.lower() not in STEPS:
            yield Logged(run, name, found, step, time)
