"""Keeps what issues need of jobs that have ended, so that each is read once: a SQLite file beside
the index. It is a cache: a missing, damaged or older file is made again from the jobs.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import trackside
from trackside.files.json_record import DamagedRecord, parsed_object, record
from trackside.files.permissions import make_folder, open_file
from trackside.views.problems.fingerprints import VERSION
from trackside.views.problems.job_findings import JobFindings

logger = logging.getLogger(__name__)

BUSY_SECONDS = 2.0
_FORMAT = f"2 {VERSION} {trackside.__version__}"
"""What another version read may be grouped otherwise."""
_TABLES = """
CREATE TABLE IF NOT EXISTS format (text TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY, created REAL NOT NULL, findings TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS suspects (
    healthy TEXT NOT NULL, sick TEXT NOT NULL, issue TEXT NOT NULL, found TEXT NOT NULL,
    PRIMARY KEY (healthy, sick, issue)
) WITHOUT ROWID;
"""

Known = dict[str, tuple[float, JobFindings]]
"""By the job's name: when it was created, as a name may be used again, and what was found."""


class FindingsCache:
    """All methods may be called from several threads and processes at once. If the file cannot be
    used, nothing is kept, and nothing raised."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def jobs(self) -> Known:
        known: Known = {}
        for name, created, text in self._rows("SELECT name, created, findings FROM jobs"):
            with suppress(DamagedRecord, TypeError):
                known[name] = float(created), record(JobFindings, parsed_object(text))
        return known

    def put_jobs(self, found: Mapping[str, tuple[float, JobFindings]]) -> None:
        rows = [
            (name, created, json.dumps(asdict(each))) for name, (created, each) in found.items()
        ]
        self._write("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", rows)

    def forget(self, names: set[str]) -> None:
        """Of jobs that are no more."""
        self._write("DELETE FROM jobs WHERE name = ?", [(name,) for name in names])

    def suspects(self) -> dict[tuple[str, str, str], list[Any]]:
        found = {}
        for healthy, sick, issue, text in self._rows("SELECT * FROM suspects"):
            with suppress(ValueError):
                found[healthy, sick, issue] = json.loads(text)
        return found

    def put_suspects(self, found: Mapping[tuple[str, str, str], list[Any]]) -> None:
        rows = [(*key, json.dumps(each)) for key, each in found.items()]
        self._write("INSERT OR REPLACE INTO suspects VALUES (?, ?, ?, ?)", rows)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._opened() as connection:
                return connection.execute(sql).fetchall()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return []

    def _write(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        try:
            with self._opened() as connection, connection:
                connection.executemany(sql, rows)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            make_folder(self._path.parent)
            os.close(open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
        connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            self._prepare(connection)
            yield connection
        finally:
            connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Empty what another version has written."""
        with suppress(sqlite3.OperationalError):
            if connection.execute("SELECT text FROM format").fetchall() == [(_FORMAT,)]:
                return
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in ("format", "jobs", "suspects"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO format VALUES (?)", (_FORMAT,))

    def _give_up(self, error: Exception) -> None:
        """A damaged file is removed; one that is locked or read-only stays."""
        logger.warning("%s is not used: %s", self._path, error)
        is_damage = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        if is_damage:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    self._path.with_name(self._path.name + suffix).unlink()
