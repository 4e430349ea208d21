"""The index: a table with one row per job, and its queries.

Contains the portable SQL; `sqlite_index` and `postgres_index` each provide a schema and a
connection. A row has nothing that is not also in the job folders and object storage.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from typing import Any

from trackside.files.json_record import MOMENT_END, DamagedRecord
from trackside.quick_dataclass import dataclass
from trackside.records.journal import History, Transition
from trackside.records.owners import Submitter
from trackside.records.status import MESSAGES, Secondary, State, Status

Change = tuple[str, Sequence[Sequence[object]]]
"""A statement, and the values of each execution."""


class Database(ABC):
    """The connection to the table. Statements have `?` as placeholders."""

    @abstractmethod
    def read(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows."""

    @abstractmethod
    def write(self, *changes: Change) -> int:
        """All or none of them; returns the number of rows affected."""


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
    attempt: int = 1
    home: str = ""
    """The home, among those that share a database, that has the job's folder; empty without a
    shared database, and for a job that is only in storage.
    """
    owner: str | None = ""
    """Empty for a job without one; None in rows of an older version until the job is read."""

    @classmethod
    def of(cls, name: str, output: str, history: History) -> "JobSummary":
        return cls(
            name,
            output,
            str(history.state.status),
            str(history.state.secondary),
            history.created,
            history.modified,
            history.training_started,
            history.ended,
            history.attempt,
            owner=Submitter.of(history).owner,
        )

    @property
    def is_final(self) -> bool:
        return Status(self.status).is_final

    @property
    def history(self) -> History:
        """The part of the journal that a row has: no intermediate moves, messages or notes."""
        present = Secondary(self.secondary)
        first = present if self.modified == self.created else Secondary.STARTING
        moves = [(first, self.created)]
        if self.training_started is not None:
            moves.append((Secondary.DOWNLOADING, self.training_started))
        if moves[-1][0] is not present:
            moves.append((present, self.modified))
        ends = [*(start for _, start in moves[1:]), self.ended]
        transitions = tuple(
            Transition(secondary, start, MESSAGES[secondary], end, self.attempt)
            for (secondary, start), end in zip(moves, ends, strict=True)
        )
        return History(State(Status(self.status), present), 0, transitions, self.attempt)


class Order(Enum):
    """Sort keys of a listing; each ends with the name, so that the order is total."""

    NAME = ("name",)
    CREATED = ("created", "name")
    MODIFIED = ("modified", "name")
    STATUS = ("status", "created", "name")

    def key(self, row: JobSummary) -> tuple[Any, ...]:
        """The position after this row in this order."""
        return tuple(getattr(row, column) for column in self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a listing. Time bounds are exclusive, in seconds since the epoch."""

    order: Order = Order.CREATED
    descending: bool = True
    limit: int | None = 100
    after: tuple[Any, ...] | None = None
    """The `key` of the last row of the previous page."""
    status: str | None = None
    owner: str | None = None
    name_contains: str | None = None
    name_starts: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    modified_after: float | None = None
    modified_before: float | None = None
    alive_since: float | None = None
    """Only jobs that had not ended before this time."""


_CONDITIONS = {
    "status": "status = ?",
    "owner": "owner = ?",
    "name_contains": "length(replace(name, ?, '')) < length(name)",
    "name_starts": "name >= ?",
    "created_after": "created > ?",
    "created_before": "created < ?",
    "modified_after": "modified > ?",
    "modified_before": "modified < ?",
    "alive_since": "(ended IS NULL OR ended >= ?)",
}
_STATUSES, _SECONDARIES = frozenset(map(str, Status)), frozenset(map(str, Secondary))
_AFTER_ALL_LETTERS = "~"
"""Sorts after every possible job name."""
_COLUMNS = ", ".join(field.name for field in fields(JobSummary))
_values = attrgetter(*(field.name for field in fields(JobSummary)))
_KEPT = tuple(field.name for field in fields(JobSummary) if field.name != "name")
_JOBS = f"SELECT {_COLUMNS} FROM jobs WHERE claim IS NULL"
_NAMES = "SELECT name FROM jobs WHERE claim IS NULL"
_PUT = (
    f"INSERT INTO jobs ({_COLUMNS}) VALUES ({', '.join('?' * (len(_KEPT) + 1))})"
    f" ON CONFLICT (name) DO UPDATE SET claim = NULL,"
    f" {', '.join(f'{column} = excluded.{column}' for column in _KEPT)}"
    " WHERE jobs.home IN ('', excluded.home)"
    " AND (jobs.ended IS NULL OR excluded.ended IS NOT NULL)"
)
# A repeated claim is no error: the response to the first may have been lost.
_CLAIM = (
    "INSERT INTO jobs (name, output, status, secondary, created, modified, home, claim)"
    f" VALUES (?, '', '{Status.IN_PROGRESS}', '{Secondary.STARTING}', ?, ?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET claim = excluded.claim"
    " WHERE jobs.claim = excluded.claim AND jobs.home = excluded.home"
)


class Index:
    def __init__(self, database: Database) -> None:
        self._database = database

    def finished(self, home: str | None = None) -> set[str]:
        """All, or those of one home and those without one."""
        ours, values = _of_home(home)
        return self._names(f"{_NAMES} AND ended IS NOT NULL{ours}", *values)

    def settled(self, home: str | None = None) -> set[str]:
        """Finished jobs with complete rows: rows of an older version have no owner."""
        ours, values = _of_home(home)
        known = "ended IS NOT NULL AND owner IS NOT NULL"
        return self._names(f"{_NAMES} AND {known}{ours}", *values)

    def unfinished(self, home: str | None = None) -> dict[str, JobSummary]:
        ours, values = _of_home(home)
        rows = self._rows(f"{_JOBS} AND ended IS NULL{ours}", *values)
        return {row.name: row for row in rows}

    def num_by_status(self) -> dict[str, int]:
        return dict(
            self._database.read(
                "SELECT status, COUNT(*) FROM jobs WHERE claim IS NULL GROUP BY status"
            )
        )

    def find(self, name: str) -> JobSummary | None:
        return next(iter(self._rows(f"{_JOBS} AND name = ?", name)), None)

    def page(self, page: Page) -> list[JobSummary]:
        """Cost is proportional to the rows returned if the conditions match most jobs."""
        asked = ((name, getattr(page, name)) for name in _CONDITIONS)
        given = {name: value for name, value in asked if value not in (None, "")}
        conditions = [_CONDITIONS[name] for name in given]
        values = [*given.values()]
        if page.name_starts:
            conditions.append("name < ?")
            values.append(page.name_starts + _AFTER_ALL_LETTERS)
        if page.after is not None:
            columns, places = ", ".join(page.order.value), ", ".join("?" * len(page.order.value))
            conditions.append(f"({columns}) {'<' if page.descending else '>'} ({places})")
            values += page.after
        direction = " DESC" if page.descending else ""
        order = ", ".join(f"{column}{direction}" for column in page.order.value)
        sql = f"{' AND '.join([_JOBS, *conditions])} ORDER BY {order}"
        if page.limit is not None:
            sql, values = f"{sql} LIMIT ?", [*values, page.limit]
        return self._rows(sql, *values)

    def name_in_any_case(self, name: str) -> str | None:
        """The job with exactly this name, else one that differs in case only."""
        found = self._names(f"{_NAMES} AND lower(name) = ?", name.lower())
        return name if name in found else min(found, default=None)

    def starting(self, text: str, most: int) -> list[str]:
        """Names whose first `most` characters and a dash begin this text, ignoring case."""
        dashes = [place for place, letter in enumerate(text[: most + 1]) if letter == "-"]
        whole = [text[:place].lower() for place in dashes]
        if not whole:
            return []
        conditions, values = f"lower(name) IN ({', '.join('?' * len(whole))})", [*whole]
        if dashes[-1] == most:
            conditions += " OR lower(name) >= ? AND lower(name) < ?"
            values += [whole[-1], whole[-1] + _AFTER_ALL_LETTERS]
        return sorted(self._names(f"{_NAMES} AND ({conditions})", *values))

    def put(self, rows: Iterable[JobSummary], forget: Iterable[str] = ()) -> None:
        """In one transaction. A finished job's row is never overwritten by an older state, nor one
        of another home.
        """
        self._database.write(
            (_PUT, [_values(row) for row in rows]),
            ("DELETE FROM jobs WHERE name = ?", [(name,) for name in forget]),
        )

    def clear(self) -> None:
        self._database.write(("DELETE FROM jobs WHERE claim IS NULL", [()]))

    def claim(self, name: str, home: str, draft: str, now: float) -> bool:
        """Whether this draft now owns the name: it was free. `put` turns the claim into a row."""
        return self._database.write((_CLAIM, [(name, now, now, home, draft)])) > 0

    def claims(self, home: str) -> dict[str, str]:
        """Drafts whose claimed names are not jobs yet."""
        sql = "SELECT name, claim FROM jobs WHERE claim IS NOT NULL AND home = ?"
        return dict(self._database.read(sql, (home,)))

    def release(self, name: str, draft: str) -> None:
        """Remove this claim, if it still is one."""
        sql = "DELETE FROM jobs WHERE name = ? AND claim = ?"
        self._database.write((sql, [(name, draft)]))

    def request_stop(self, name: str, now: float) -> None:
        """Leave a stop request for the home that has the job."""
        sql = "UPDATE jobs SET stop_asked = ? WHERE name = ? AND ended IS NULL"
        self._database.write((sql, [(now, name)]))

    def requested_stops(self, home: str) -> set[str]:
        asked = "stop_asked IS NOT NULL AND ended IS NULL AND home = ?"
        return self._names(f"{_NAMES} AND {asked}", home)

    def _rows(self, sql: str, *values: object) -> list[JobSummary]:
        """`DamagedRecord` for a row that no job can have."""
        return [_checked(*row) for row in self._database.read(sql, values)]

    def _names(self, sql: str, *values: object) -> set[str]:
        return {name for (name,) in self._database.read(sql, values)}


def _checked(name: Any, output: Any, status: Any, secondary: Any, *rest: Any) -> JobSummary:
    created, modified, started, ended, attempt, home, owner = rest
    moments = (created, modified, *(each for each in (started, ended) if each is not None))
    is_job = (
        all(isinstance(each, str) for each in (name, output, home, owner or ""))
        and status in _STATUSES
        and secondary in _SECONDARIES
        and isinstance(attempt, int)
        and all(isinstance(each, float | int) and 0 <= each < MOMENT_END for each in moments)
    )
    if not is_job:
        raise DamagedRecord(f"the index has a row that no job can have, {name!r:.80}")
    return JobSummary(name, output, status, secondary, *rest)


def _of_home(home: str | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if home is None else (" AND home IN ('', ?)", (home,))
