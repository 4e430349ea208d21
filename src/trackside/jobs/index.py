"""The index: a SQLite file with one row per job, for listing. Only here is SQL written.

It holds nothing that the jobs' folders and object storage do not; `catalog.py` keeps it true.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from trackside.journal import History
from trackside.status import Status

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
)
"""Each brings the file one `user_version` further. Never edited, only added to."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job in a listing, and one row. Times are seconds since the epoch."""

    name: str
    output: str
    """The location that holds the job's folder in storage."""
    status: str
    secondary: str
    created: float
    modified: float
    training_started: float | None = None
    ended: float | None = None

    @classmethod
    def of(cls, name: str, output: str, history: History) -> "JobSummary":
        return cls(
            name,
            output,
            history.state.status,
            history.state.secondary,
            history.created,
            history.modified,
            history.training_started,
            history.ended,
        )

    @property
    def is_final(self) -> bool:
        return Status(self.status).is_final


class Order(Enum):
    """What a listing may be sorted by; each ends in the name, so that no two jobs are equal."""

    NAME = ("name",)
    CREATED = ("created", "name")
    MODIFIED = ("modified", "name")
    STATUS = ("status", "created", "name")

    def key(self, row: JobSummary) -> tuple[Any, ...]:
        """Where a listing in this order goes on after this row."""
        return tuple(getattr(row, column) for column in self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a listing. Bounds of time are exclusive, seconds since the epoch."""

    order: Order = Order.CREATED
    descending: bool = True
    limit: int = 100
    after: tuple[Any, ...] | None = None
    """The `key` of the last row of the page before."""
    status: str | None = None
    name_contains: str | None = None
    name_starts: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    modified_after: float | None = None
    modified_before: float | None = None
    alive_since: float | None = None
    """Only jobs that had not ended before."""


_CONDITIONS = {
    "status": "status = ?",
    "name_contains": "instr(name, ?) > 0",
    "name_starts": "name GLOB ? || '*'",
    "created_after": "created > ?",
    "created_before": "created < ?",
    "modified_after": "modified > ?",
    "modified_before": "modified < ?",
    "alive_since": "coalesce(ended, 9e99) >= ?",
}


class Index:
    """One open index; see `opened`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def finished(self) -> set[str]:
        return {name for (name,) in self._query("SELECT name FROM jobs WHERE ended IS NOT NULL")}

    def unfinished(self) -> dict[str, JobSummary]:
        rows = self._query("SELECT * FROM jobs WHERE ended IS NULL")
        return {row[0]: JobSummary(*row) for row in rows}

    def num_by_status(self) -> dict[str, int]:
        return dict(self._query("SELECT status, COUNT(*) FROM jobs GROUP BY status"))

    def find(self, name: str) -> JobSummary | None:
        rows = self._query("SELECT * FROM jobs WHERE name = ?", name)
        return next((JobSummary(*row) for row in rows), None)

    def page(self, page: Page) -> list[JobSummary]:
        """As many steps as rows, whatever the number of jobs, where conditions let most through."""
        given = {name: getattr(page, name) for name in _CONDITIONS}
        conditions = [_CONDITIONS[name] for name, value in given.items() if value is not None]
        values = [value for value in given.values() if value is not None]
        columns = ", ".join(page.order.value)
        if page.after is not None:
            places = ", ".join("?" * len(page.order.value))
            conditions.append(f"({columns}) {'<' if page.descending else '>'} ({places})")
            values += page.after
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        direction = " DESC" if page.descending else ""
        order = ", ".join(f"{column}{direction}" for column in page.order.value)
        sql = f"SELECT * FROM jobs{where} ORDER BY {order} LIMIT ?"
        return [JobSummary(*row) for row in self._query(sql, *values, page.limit)]

    def name_in_any_case(self, name: str) -> str | None:
        """The job's of exactly this name, else of one that differs in case only."""
        sql = "SELECT name FROM jobs WHERE name = ? COLLATE NOCASE ORDER BY name = ? DESC LIMIT 1"
        return next((found for (found,) in self._query(sql, name, name)), None)

    def starting(self, text: str, most: int) -> list[str]:
        """The names whose first `most` characters and a dash begin this text, in any case."""
        sql = "SELECT name FROM jobs WHERE instr(lower(?), lower(substr(name, 1, ?)) || '-') = 1"
        return [name for (name,) in self._query(sql, text, most)]

    def select(
        self,
        *,
        status: str | None = None,
        name_contains: str | None = None,
        newest_first: bool = True,
        limit: int | None = None,
    ) -> list[JobSummary]:
        order = "DESC" if newest_first else "ASC"
        rows = self._query(
            "SELECT * FROM jobs WHERE (?1 IS NULL OR status = ?1)"
            " AND (?2 IS NULL OR instr(name, ?2) > 0)"
            f" ORDER BY created {order}, name {order} LIMIT ?3",
            status,
            name_contains,
            -1 if limit is None else limit,
        )
        return [JobSummary(*row) for row in rows]

    def put(self, rows: Iterable[JobSummary], forget: Iterable[str] = ()) -> None:
        """All in one transaction. An ended job's row is never overwritten by an older state."""
        with self._connection:
            self._connection.executemany(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
                " output = excluded.output, status = excluded.status,"
                " secondary = excluded.secondary, created = excluded.created,"
                " modified = excluded.modified, training_started = excluded.training_started,"
                " ended = excluded.ended"
                " WHERE jobs.ended IS NULL OR excluded.ended IS NOT NULL",
                [astuple(row) for row in rows],
            )
            self._connection.executemany(
                "DELETE FROM jobs WHERE name = ?", [(name,) for name in forget]
            )

    def clear(self) -> None:
        with self._connection:
            self._connection.execute("DELETE FROM jobs")

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()


@contextmanager
def opened(path: Path | str) -> Iterator[Index]:
    """The index in this file (or in `MEMORY`), made or migrated when need be.

    Raises `sqlite3.OperationalError` when a sound file cannot be used now (locked, full,
    read-only), other kinds of `sqlite3.DatabaseError` when it is damaged.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # A row that a power cut takes is read again from its folder; the file stays sound.
        connection.execute("PRAGMA synchronous = NORMAL")
        _migrate(connection)
        yield Index(connection)
    finally:
        connection.close()


def set_aside(path: Path) -> None:
    """Keep a damaged index for whoever wants to look at it, out of the way."""
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
