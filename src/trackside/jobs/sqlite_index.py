"""The index of one home: a SQLite file beside the jobs' folders."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trackside.files.permissions import open_file
from trackside.jobs.index import Change, Database, Index

BUSY_SECONDS = 5.0
MEMORY = ":memory:"

MIGRATIONS = (
    """
    CREATE TABLE jobs (
        name TEXT PRIMARY KEY,
        output TEXT NOT NULL,
        status TEXT NOT NULL,
        secondary TEXT NOT NULL,
        created REAL NOT NULL,
        modified REAL NOT NULL,
        training_started REAL,
        ended REAL
    ) WITHOUT ROWID;
    CREATE INDEX jobs_by_creation ON jobs (created, name);
    """,
    """
    CREATE INDEX jobs_by_status ON jobs (status, created, name);
    CREATE INDEX jobs_by_modification ON jobs (modified, name);
    CREATE INDEX jobs_by_any_case ON jobs (name COLLATE NOCASE);
    CREATE INDEX jobs_unfinished ON jobs (created) WHERE ended IS NULL;
    """,
    """
    ALTER TABLE jobs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE jobs ADD COLUMN home TEXT NOT NULL DEFAULT '';
    ALTER TABLE jobs ADD COLUMN claim TEXT;
    ALTER TABLE jobs ADD COLUMN stop_asked REAL;
    DROP INDEX jobs_by_any_case;
    CREATE INDEX jobs_by_lower_name ON jobs (lower(name));
    """,
    """
    ALTER TABLE jobs ADD COLUMN owner TEXT;
    CREATE INDEX jobs_by_owner ON jobs (owner, created, name);
    """,
)
"""Each upgrades the file by one `user_version`. Never edited, only appended to."""


class SqliteDatabase(Database):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def write(self, *changes: Change) -> int:
        with self._connection:
            return sum(self._connection.executemany(*change).rowcount for change in changes)


@contextmanager
def opened(path: Path | str) -> Iterator[Index]:
    """The index in this file (or in `MEMORY`), created or migrated if needed.

    Raises `sqlite3.OperationalError` when a valid file cannot be used now (locked, full,
    read-only), other kinds of `sqlite3.DatabaseError` when it is damaged.
    """
    if path != MEMORY:
        _create(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # A row lost in a power cut is read again from its folder; the file stays valid.
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection)
        yield Index(SqliteDatabase(connection))
    finally:
        connection.close()


def _create(path: Path | str) -> None:
    """With the mode that SQLite then also gives to its auxiliary files."""
    with suppress(OSError):  # SQLite raises its own error
        os.close(open_file(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))


def is_damage(error: sqlite3.OperationalError) -> bool:
    """Whether the file is damaged, rather than in use: a table is missing, or a text is invalid.
    Errors that this module itself raises have no code.
    """
    is_undecodable = str(error).startswith("Could not decode")
    return is_undecodable or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR


def set_aside(path: Path) -> None:
    """Move a damaged index aside, for inspection."""
    path.replace(path.with_name(f"{path.name}.damaged"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _migrate(connection: sqlite3.Connection) -> None:
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version = _version(connection)  # another process may have been faster
        if version > len(MIGRATIONS):
            raise sqlite3.OperationalError(
                f"its format {version} is of a newer Trackside; this one knows {len(MIGRATIONS)}"
            )
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            for statement in script.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
