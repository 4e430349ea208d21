"""The table of jobs: filtered, sorted, a part at a time, and what of it has changed.

Answers come from memory. A thread reads jobs while somebody asks: those that have ended once, those
that run whenever they have more. What it read of ended jobs is kept in `row_cache`.
"""

import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition, RLock, Thread
from typing import TYPE_CHECKING, Any

from trackside.storage.credentials import looked_up_once
from trackside.texts.shown_names import wire_name
from trackside.views.query.query import Query, parse
from trackside.views.query.query_fields import FIELD
from trackside.views.query.query_tree import named
from trackside.views.query.search_conditions import Name, Value, as_number
from trackside.views.table.job_row import (
    KnownJob,
    Viewer,
    row_json,
    sort_value,
    values_of,
)
from trackside.views.table.row_cache import CachedRow, RowCache
from trackside.views.table.row_facts import Given, Made, MetricNames
from trackside.views.table.row_reader import READ_ERRORS, RowReader

if TYPE_CHECKING:
    from trackside.jobs.index import JobSummary
    from trackside.jobs.job_service import JobReader
    from trackside.jobs.records import Record
    from trackside.views.curves.curve_digest import CurveDigest

logger = logging.getLogger(__name__)

FRESH_SECONDS = 0.5
"""A request within this time after the last look at the index does not look again."""
WHOLE_SECONDS = 30.0
"""After which the index is read even if no file has changed."""
LIVE_SECONDS = 1.0
"""Between two looks at a job that runs."""
RETRY_SECONDS = 30.0
"""Between two tries to read a job that cannot be read."""
JUDGED_SECONDS = 3600.0
"""After its end, a job's rules are not waited for any longer."""
IDLE_SECONDS = 20.0
"""After the last request the thread reads no more."""
_CLOSE_SECONDS = 5.0
"""A thread that waits for a store longer than this ends with the process."""
AT_ONCE = 4
BATCH = 50
CHECKED_AT_ONCE = 250
"""Ended jobs whose journals are looked at each time: for tags and notes of other processes."""
MOST_GONE = 10_000
MOST_COLUMNS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    query: str = ""
    sort: str = "created"
    """A field, a hyperparameter, a metric or a tag."""
    is_descending: bool = True
    offset: int = 0
    limit: int = 100
    columns: Sequence[str] = ()
    """What else is to be shown: `param.lr`, `metric.val_loss`, `tag.team`."""


@dataclass(frozen=True, slots=True)
class JobList:
    revision: str
    total: int
    matching: int
    rows: list[dict[str, Any]]
    columns: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "total": self.total,
            "matching": self.matching,
            "rows": self.rows,
            "columns": [*self.columns],
        }


@dataclass(frozen=True, slots=True)
class Changes:
    revision: str
    rows: list[dict[str, Any]]
    """Of jobs that are new or have changed, newest first."""
    gone: list[str]
    """Names of jobs that were deleted."""
    is_whole: bool
    """Whether the revision asked for is not known any more: the rows are all there are."""


@dataclass(slots=True)
class _Entry(KnownJob):
    changed: int = 0
    """The count of changes at its last."""
    is_settled: bool = False
    """Has ended, and everything was read."""
    due: float = 0.0
    """When it is to be read, by the monotonic clock."""
    journal: str = ""
    """The version of it that was read."""
    findings: str | None = None
    digest: "CurveDigest | None" = None
    record: "Record | None" = None
    """Until everything was read."""


@dataclass(slots=True)
class _Listing:
    """What is known of the index."""

    version: object = None
    looked: float = -math.inf
    read: float = -math.inf
    next_checked: int = 0
    names: dict[tuple[str, ...], MetricNames] = field(default_factory=dict)


class JobTable:
    """May be used by several threads. `close` ends its own."""

    def __init__(
        self, jobs: "JobReader", *, cache: RowCache | None = None, is_read_on_demand: bool = False
    ) -> None:
        """With `is_read_on_demand` there is no thread: `read_all` reads."""
        self._reader = RowReader(jobs)
        self._cache = cache
        self._is_read_on_demand = is_read_on_demand
        self._lock = RLock()
        """Held while the table is read or changed, for a moment."""
        self._looking, self._reading = RLock(), RLock()
        """Held by the one thread that looks at the index, and by the one that reads jobs."""
        self._entries: dict[str, _Entry] = {}
        self._listing = _Listing()
        self._epoch = secrets.token_hex(4)
        self._count = 0
        self._gone: deque[tuple[int, str]] = deque(maxlen=MOST_GONE)
        self._columns: Sequence[str] | None = ()
        self._wake = Condition()
        self._asked = -math.inf
        self._is_closed = False
        self._thread: Thread | None = None

    def close(self) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def find(self, request: TableRequest | None = None, viewer: Viewer | None = None) -> JobList:
        """`BadQuery` for a query that cannot be understood."""
        asked = request or TableRequest()
        query = parse(asked.query)
        self._ask()
        now, revision = time.time(), self.revision
        matching = self._matching(query, now)
        with self._lock:
            ordered = _sorted(matching, named(asked.sort), asked.is_descending, now)
            end = asked.offset + asked.limit
            columns = [*map(Name.parse, asked.columns)]
            rows = [
                row_json(each, columns, viewer or Viewer(), now)
                for each in ordered[asked.offset : end]
            ]
            total = len(self._entries)
            return JobList(revision, total, len(matching), rows, self._all_columns())

    def row(self, name: str, viewer: Viewer | None = None) -> dict[str, Any] | None:
        """One job's; None if it is not known."""
        self._ask()
        with self._lock:
            entry = self._entries.get(wire_name(name))
            return None if entry is None else row_json(entry, (), viewer or Viewer(), time.time())

    def changed_since(
        self, revision: str, viewer: Viewer | None = None, columns: Sequence[str] = ()
    ) -> Changes:
        self._ask()
        with self._lock:
            epoch, _, count = revision.partition("-")
            is_known = epoch == self._epoch and count.isdecimal() and self._remembers(int(count))
            since = int(count) if is_known else -1
            found = [each for each in self._entries.values() if each.changed > since]
            names, now = [*map(Name.parse, columns)], time.time()
            rows = [row_json(each, names, viewer or Viewer(), now) for each in found]
            gone = [name for number, name in self._gone if number > since] if is_known else []
            return Changes(self.revision, rows, gone, not is_known)

    @property
    def revision(self) -> str:
        return f"{self._epoch}-{self._count}"

    def changed(self, name: str) -> None:
        """Somebody has just changed the job's tags or note: read them at once."""
        entry = self._entries.get(name)
        if entry is not None:
            self._read_given([entry])

    def jobs(self, query: str = "") -> list[KnownJob]:
        """What is known of all jobs that match, newest first."""
        parsed = parse(query)
        self._ask()
        return [*self._matching(parsed, time.time())]

    def all_have(self, name: Name) -> bool:
        """Whether every job has a value of this name."""
        now = time.time()
        with self._lock:
            return all(values_of(each, name, now) for each in self._entries.values())

    def read_all(self, *, needs_made: bool = True) -> None:
        """Read every job that was not read yet, or that runs; without `needs_made`, only what
        each was given."""
        with self._reading:
            self._look()
            waiting = [each for each in self._entries.values() if not each.is_settled]
            if not needs_made:
                self._read_given([each for each in waiting if each.given is None])
                return
            for batch in _batches(waiting):
                self._read(batch)

    def is_complete(self) -> bool:
        """Whether every job was read at least once."""
        with self._lock:
            return all(each.made is not None for each in self._entries.values())

    def _matching(self, query: Query, now: float) -> list[_Entry]:
        """Without the lock: a query may take seconds, and others ask meanwhile."""
        entries = [*self._entries.values()]
        if query.is_empty:
            return entries
        self._check_names(query, now)

        def is_found(entry: _Entry) -> bool:
            return query.matches(lambda name: values_of(entry, name, now))

        return [*filter(is_found, entries)]

    def _check_names(self, query: Query, now: float) -> None:
        """Only when all jobs were read: a name may be one of those that were not."""
        wanted = [name for name in query.names if name.kind != FIELD]
        if not wanted or not self._entries or not self.is_complete():
            return

        def is_known(name: Name) -> bool:
            return any(values_of(each, name, now) for each in self._entries.values())

        with self._lock:
            columns = self._all_columns()
        query.check_names(is_known, [*map(Name.parse, columns)])

    def _all_columns(self) -> Sequence[str]:
        if self._columns is None:
            entries = self._entries.values()
            given = [each.given for each in entries if each.given is not None]
            shared = {id(each.made.names): each.made.names for each in entries if each.made}
            names = {f"param.{name}" for each in given for name in each.parameters}
            names |= {f"metric.{name}" for each in given for name in each.metrics}
            names |= {f"metric.{name}" for each in shared.values() for name in each.names}
            names |= {f"tag.{name}" for each in given for name in each.tags}
            self._columns = sorted(names)[:MOST_COLUMNS]
        return self._columns

    def _remembers(self, count: int) -> bool:
        is_cut = len(self._gone) == MOST_GONE and self._gone[0][0] > count
        return count <= self._count and not is_cut

    def _ask(self) -> None:
        """Called by every request: looks at the index, and keeps the thread reading."""
        self._look()
        if self._is_read_on_demand:
            return
        with self._wake:
            self._asked = time.monotonic()
            if self._thread is None and not self._is_closed:
                self._thread = Thread(target=self._run, name="trackside-table", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_closed and time.monotonic() - self._asked > IDLE_SECONDS:
                    self._wake.wait()
                if self._is_closed:
                    return
            try:
                has_more = self._read_due()
            except Exception:
                logger.exception("the table of jobs was not read")
                has_more = False
            with self._wake:
                if not self._is_closed and not has_more:
                    self._wake.wait(FRESH_SECONDS)

    def _read_due(self) -> bool:
        """One batch: jobs that run first. Whether more are due."""
        with self._reading:
            self._look()
            self._check_journals()
            now = time.monotonic()
            due = [
                each for each in self._entries.values() if not each.is_settled and each.due <= now
            ]
            due.sort(key=lambda each: each.row.is_final)
            batch = due[:BATCH]
            self._read(batch)
            return len(due) > len(batch)

    def _look(self) -> None:
        """At the index; while another thread does, what is known is good enough."""
        is_first = self._listing.read == -math.inf
        if not self._looking.acquire(blocking=is_first):
            return
        try:
            self._look_if_due(self._listing, time.monotonic())
        finally:
            self._looking.release()

    def _look_if_due(self, listing: _Listing, now: float) -> None:
        if now - listing.looked < FRESH_SECONDS:
            return
        is_first = listing.read == -math.inf
        live = [name for name, each in self._entries.items() if not each.row.is_final]
        version = self._reader.listing_version(live)
        is_same = version is not None and version == listing.version
        if not is_same or now - listing.read >= WHOLE_SECONDS:
            rows = self._reader.rows()
            with self._lock:
                self._take_rows(rows)
            if is_first:
                self._take_cached()
            listing.read = time.monotonic()
            live = [row.name for row in rows if not row.is_final]
            listing.version = self._reader.listing_version(live)
        listing.looked = time.monotonic()

    def _take_rows(self, rows: "Sequence[JobSummary]") -> None:
        found: dict[str, _Entry] = {}
        for row in rows:
            entry = self._entries.get(row.name)
            if entry is None or entry.row.created != row.created:
                entry = _Entry(row, changed=self._next())
            elif entry.row != row:
                entry.row, entry.changed = row, self._next()
                entry.is_settled, entry.due, entry.findings = False, 0.0, None
            found[row.name] = entry
        for name in self._entries.keys() - found.keys():
            self._gone.append((self._next(), name))
            self._columns = None
        self._entries = found

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _take_cached(self) -> None:
        if self._cache is None:
            return
        taken = []
        for name, cached in self._cache.load().items():
            entry = self._entries.get(name)
            if entry is None or not entry.row.is_final or cached.version != _version(entry.row):
                continue
            entry.journal, entry.is_settled = cached.given_version, True
            with self._lock:
                self._take_facts(entry, cached.given, cached.made)
            taken.append(entry)
        self._read_given(self._moved(taken))  # tags and notes were added since

    def _moved(self, entries: "Sequence[_Entry]") -> "list[_Entry]":
        with looked_up_once():
            return [
                each
                for each in entries
                if each.given is None or self._reader.journal_version(each.row) != each.journal
            ]

    def _check_journals(self) -> None:
        """Of some ended jobs, others next time."""
        settled = [each for each in [*self._entries.values()] if each.is_settled]
        start = self._listing.next_checked
        part = settled[start : start + CHECKED_AT_ONCE]
        self._listing.next_checked = start + len(part) if part else 0
        changed = self._moved(part)
        if changed:
            self._read_given(changed)
            self._store(changed)

    def _read(self, entries: "Sequence[_Entry]") -> None:
        """All that has changed of these."""
        self._read_given(self._moved(entries))
        if len(entries) == 1:
            self._read_made(entries[0])
        elif entries:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="trackside-table") as pool:
                deque(pool.map(self._read_made, entries), maxlen=0)
        self._store([each for each in entries if each.is_settled])

    def _read_given(self, entries: "Sequence[_Entry]") -> None:
        if not entries:
            return
        try:
            with looked_up_once():
                versions = {
                    each.row.name: self._reader.journal_version(each.row) for each in entries
                }
                found = self._reader.given([each.row for each in entries])
        except READ_ERRORS as error:
            logger.debug("records of jobs cannot be read: %s", error)
            return
        with self._lock:
            for each in entries:
                each.journal = versions[each.row.name]
                given, each.record = found.get(each.row.name, (Given(), None))
                self._take_facts(each, given, None)

    def _read_made(self, entry: _Entry) -> None:
        from trackside.views.curves.curve_digest import CurveDigest  # needs numpy

        row, name = entry.row, entry.row.name
        digest = entry.digest or CurveDigest()
        try:
            with looked_up_once():
                findings = self._reader.findings_version(name)
                is_grown = self._reader.grow(name, entry.record, digest)
                is_moved = findings is None or findings != entry.findings
                made = None
                if is_grown or is_moved or entry.made is None:
                    made = self._reader.made(row, entry.record, digest)
                is_settled = row.is_final and self._is_judged(row, entry.record)
        except READ_ERRORS as error:
            logger.debug("job %s cannot be read: %s", name, error)
            with self._lock:
                self._take_facts(entry, None, entry.made or Made())
                entry.due = time.monotonic() + RETRY_SECONDS
            return
        with self._lock:
            entry.findings = findings
            self._take_facts(entry, None, made)
            entry.due = time.monotonic() + LIVE_SECONDS
            if entry.row is row:  # it may have moved on meanwhile
                entry.is_settled = is_settled
            entry.digest = None if entry.is_settled else digest
            if entry.is_settled:
                entry.record = None

    def _is_judged(self, row: "JobSummary", record: "Record | None") -> bool:
        is_old = row.ended is not None and time.time() - row.ended > JUDGED_SECONDS
        return is_old or self._reader.is_judged(row.name, record)

    def _take_facts(self, entry: _Entry, given: Given | None, made: Made | None) -> None:
        is_changed = False
        if given is not None and given != entry.given:
            entry.given = given
            is_changed, self._columns = True, None
        if made is not None:
            made = self._with_shared_names(made)
            if entry.made is None or entry.made.names is not made.names:
                self._columns = None
            is_changed = is_changed or made != entry.made
            entry.made = made
        if is_changed:
            entry.changed = self._next()

    def _with_shared_names(self, made: Made) -> Made:
        known = self._listing.names
        if len(known) > 2 * len(self._entries) + BATCH:  # of jobs that are gone, or had fewer
            used = (each.made.names for each in self._entries.values() if each.made)
            known = self._listing.names = {names.names: names for names in used}
        names = known.setdefault(made.names.names, made.names)
        return (
            made
            if names is made.names
            else Made(names, made.values, made.step, made.of, made.loss, made.found, made.use)
        )

    def _store(self, entries: "Sequence[_Entry]") -> None:
        if self._cache is None or not entries:
            return
        rows = {
            each.row.name: CachedRow(_version(each.row), each.journal, each.given, each.made)
            for each in entries
            if each.given is not None and each.made is not None
        }
        gone = [name for _, name in self._gone if name not in self._entries]
        self._cache.store(rows, gone)


def _version(row: "JobSummary") -> str:
    return f"{row.created} {row.modified} {row.ended} {row.attempt} {row.output}"


def _batches(entries: "Sequence[_Entry]") -> "Iterator[Sequence[_Entry]]":
    for start in range(0, len(entries), BATCH):
        yield entries[start : start + BATCH]


def _sorted(
    entries: "Sequence[_Entry]", name: Name, is_descending: bool, now: float
) -> "list[_Entry]":
    """Jobs without a value, or with one that is not a number, come last in either direction."""
    keyed = [(_sortable(sort_value(each, name, now)), each) for each in entries]
    having = [pair for pair in keyed if pair[0] is not None]
    having.sort(key=lambda pair: pair[0], reverse=is_descending)  # type: ignore[arg-type, return-value]
    return [each for _, each in having] + [each for key, each in keyed if key is None]


def _sortable(value: Value | None) -> tuple[int, float, str] | None:
    """Numbers before texts: the two cannot be compared."""
    if value is None:
        return None
    number = as_number(value)
    if number is None:
        return (1, 0.0, str(value).casefold())
    return None if math.isnan(number) else (0, number, "")
