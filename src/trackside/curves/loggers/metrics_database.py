"""mlflow's and trackio's SQLite files.

They are not opened in place: the script may be writing to them, and they may be malicious. A copy
that did not change while it was made is queried, with a time limit.
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from trackside.curves.loggers.logged_values import (
    Logged,
    LoggerFile,
    State,
    Unreadable,
    as_name,
    flat,
    json_value,
    moment,
    number,
    position,
    whole,
)

HEAD = b"SQLite format 3\x00"
MOST_BYTES = 128 << 20
MOST_ROWS = 20_000
"""Per pass; the rest waits for the next."""
_MOST_TEXT_BYTES = 1 << 20
_MOST_STEPS = 5_000
"""Thousands of SQLite instructions: about a second."""

_MLFLOW = """
    SELECT m.rowid, m.key, m.value, m.is_nan, m.step, m.timestamp / 1000.0, r.name, m.run_uuid
    FROM metrics m LEFT JOIN runs r ON r.run_uuid = m.run_uuid
    WHERE m.rowid > ? ORDER BY m.rowid LIMIT ?
"""
_TRACKIO = """
    SELECT id, run_name, step, timestamp, metrics FROM metrics WHERE id > ? ORDER BY id LIMIT ?
"""


def read(file: LoggerFile, state: State) -> Iterator[Logged]:
    if file.seen.size > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES >> 20} MiB")
    with tempfile.TemporaryDirectory(prefix="trackside-") as folder:
        if not _copied(file, Path(folder)):
            state["again"] = True  # being written: the next scan is soon
            return
        before = position(state, "row")
        try:
            with _opened(Path(folder) / "copy") as database:
                yield from _points(database, file, state)
        except (sqlite3.Error, UnicodeDecodeError) as error:  # its own text may be damaged too
            raise Unreadable(f"SQLite says: {error}") from None
        state["again"] = position(state, "row") - before >= MOST_ROWS


def _copied(file: LoggerFile, to: Path) -> bool:
    """Whether the file and SQLite's journal were copied in one consistent state."""
    before = _stamps(file)
    for suffix, stamp in before.items():
        if suffix and stamp is None:
            continue
        descriptor = file.folder.open(file.path + suffix)
        with open(descriptor, "rb") as source, (to / f"copy{suffix}").open("wb") as copy:
            if not suffix and source.read(len(HEAD)) != HEAD:
                raise Unreadable("it is not an SQLite file")
            source.seek(0)
            left = MOST_BYTES
            while left > 0 and (data := source.read(min(left, 1 << 20))):
                copy.write(data)
                left -= len(data)
    return _stamps(file) == before


def _stamps(file: LoggerFile) -> dict[str, tuple[int, int, int] | None]:
    found: dict[str, tuple[int, int, int] | None] = {}
    for suffix in ("", "-wal", "-journal"):
        try:
            status = file.folder.lstat(file.path + suffix)
        except (FileNotFoundError, NotADirectoryError):
            found[suffix] = None
        else:
            found[suffix] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return found


@contextmanager
def _opened(copy: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.text_factory = lambda data: data.decode(errors="replace")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT_BYTES)
        steps = iter(range(_MOST_STEPS))
        database.set_progress_handler(lambda: next(steps, None) is None, 1000)
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY"):
            database.execute(f"PRAGMA {pragma}")
        yield database


def _points(database: sqlite3.Connection, file: LoggerFile, state: State) -> Iterator[Logged]:
    tables = {
        str(name)
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    if "metrics" not in tables:
        raise Unreadable("it has no table of metrics")
    if "runs" in tables and "experiments" in tables:
        yield from _of_mlflow(database, file, state)
    elif {"run_name", "step", "metrics"} <= _columns(database):
        yield from _of_trackio(database, file, state)
    else:
        raise Unreadable("its table of metrics is neither mlflow's nor trackio's")


def _columns(database: sqlite3.Connection) -> set[str]:
    return {str(row[1]) for row in database.execute("PRAGMA table_info(metrics)")}


def _of_mlflow(database: sqlite3.Connection, file: LoggerFile, state: State) -> Iterator[Logged]:
    for row in database.execute(_MLFLOW, (position(state, "row"), MOST_ROWS)):
        at, tag, value, is_nan, step, time, name, identity = row
        run = as_name(f"{name or 'run'}-{str(identity)[:8]}")
        found = float("nan") if is_nan else number(value)
        if found is not None:
            yield Logged(
                f"mlflow/{run}", str(tag), found, whole(step) or 0, moment(time, file.time)
            )
        state["row"] = at


def _of_trackio(database: sqlite3.Connection, file: LoggerFile, state: State) -> Iterator[Logged]:
    project = as_name(file.path.rpartition("/")[2].rpartition(".")[0])
    for at, name, step, stamp, metrics in database.execute(
        _TRACKIO, (position(state, "row"), MOST_ROWS)
    ):
        run = f"trackio/{project}/{as_name(name)}"
        time = _time_of(stamp, file.time)
        for tag, value in flat(json_value(metrics)) if isinstance(metrics, bytes | str) else ():
            found = number(value) if not isinstance(value, str) else None
            if found is not None:
                yield Logged(run, tag, found, whole(step) or 0, time)
        state["row"] = at


def _time_of(stamp: Any, default: float) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        return moment(datetime.fromisoformat(stamp).timestamp(), default)
    return default
