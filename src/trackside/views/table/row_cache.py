"""What the table of jobs shows of jobs that have ended, in a SQLite file beside the index.

A cache: what is missing, damaged, or of another version is read again from the jobs. Processes may
share it. Names of metrics are stored once for all jobs that have the same.
"""

import hashlib
import json
import logging
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trackside.files.permissions import make_folder, open_file
from trackside.views.table.row_facts import NO_METRICS, Found, Given, Loss, Made, MetricNames, Use

logger = logging.getLogger(__name__)

_FORMAT = 3
_BUSY_SECONDS = 2.0
_TABLES = """
    CREATE TABLE names (digest TEXT PRIMARY KEY, names TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE jobs (
        name TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        given_version TEXT NOT NULL,
        given TEXT NOT NULL,
        names TEXT NOT NULL,
        made BLOB NOT NULL
    ) WITHOUT ROWID;
"""
_DAMAGE = (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class CachedRow:
    version: str
    """Of the row in the index: another one means that everything is read again."""
    given_version: str
    """Of the journal: tags and notes are added to it later."""
    given: Given
    made: Made


class RowCache:
    """Errors are logged, and cost only time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, CachedRow]:
        try:
            with self._opened() as connection:
                names = {
                    digest: MetricNames(_texts(json.loads(text)))
                    for digest, text in connection.execute("SELECT digest, names FROM names")
                }
                rows = connection.execute(
                    "SELECT name, version, given_version, given, names, made FROM jobs"
                ).fetchall()
            return {name: _row(names, *rest) for name, *rest in rows}
        except _DAMAGE as error:
            self._remove(error)
            return {}

    def store(self, rows: Mapping[str, CachedRow], gone: Iterable[str] = ()) -> None:
        texts = {row.made.names.names: "" for row in rows.values()}
        for names in texts:
            texts[names] = _digest(names)
        try:
            with self._opened() as connection, connection:
                connection.executemany(
                    "INSERT OR IGNORE INTO names VALUES (?, ?)",
                    [(digest, json.dumps(names)) for names, digest in texts.items()],
                )
                connection.executemany(
                    "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?)",
                    [
                        (name, *_columns(row, texts[row.made.names.names]))
                        for name, row in rows.items()
                    ],
                )
                connection.executemany(
                    "DELETE FROM jobs WHERE name = ?", [(name,) for name in gone]
                )
                connection.execute("DELETE FROM names WHERE digest NOT IN (SELECT names FROM jobs)")
        except _DAMAGE as error:
            self._remove(error)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        make_folder(self._path.parent)
        with suppress(OSError):  # SQLite raises its own error
            os.close(open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # a lost file is made again
            _prepare(connection)
            yield connection
        finally:
            connection.close()

    def _remove(self, error: Exception) -> None:
        """A file that is only in use, or on a full disk, stays."""
        logger.debug("the cache of the job table %s cannot be used: %r", self._path, error)
        code = getattr(error, "sqlite_errorcode", None)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
            return
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(self._path.name + suffix).unlink()


def _prepare(connection: sqlite3.Connection) -> None:
    """Empties a file of another format."""
    if _format(connection) == _FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        if _format(connection) != _FORMAT:  # another process may have been faster
            for table in ("names", "jobs"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _digest(names: tuple[str, ...]) -> str:
    text = json.dumps(names).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest() if names else ""


def _columns(row: CachedRow, digest: str) -> tuple[str, str, str, str, str]:
    made = row.made
    members = {
        "values": list(made.values),
        "step": made.step,
        "of": made.of,
        "loss": made.loss and _members(made.loss),
        "found": made.found and _members(made.found),
        "use": made.use and _members(made.use),
    }
    given = json.dumps(_members(row.given), separators=(",", ":"))
    return row.version, row.given_version, given, digest, json.dumps(members, separators=(",", ":"))


def _members(record: Given | Loss | Found | Use) -> dict[str, Any]:
    """As `asdict`, which also copies everything."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _row(names: Mapping[str, MetricNames], *stored: str) -> CachedRow:
    version, given_version, given, digest, made = stored
    return CachedRow(
        version, given_version, Given(**json.loads(given)), _made(names, digest, json.loads(made))
    )


def _made(names: Mapping[str, MetricNames], digest: str, members: dict[str, Any]) -> Made:
    found = names[digest] if digest else NO_METRICS
    values = array("d", members["values"])
    if len(values) != len(found.names):
        raise ValueError("a job's metrics have no names")
    loss, use, findings = members["loss"], members["use"], members["found"]
    return Made(
        found,
        values,
        members["step"],
        members["of"],
        Loss(**loss) if loss else None,
        Found(**findings) if findings else None,
        Use(**use) if use else None,
    )


def _texts(names: list[Any]) -> list[str]:
    return [str(name) for name in names]
