"""`Catalog` for several homes that share a database.

Each home has its own index and publishes its changes to the database. The database is never queried
about this home's jobs, so that without it only new names and other homes' jobs are unavailable.
"""

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from operator import attrgetter
from threading import Lock

from trackside.errors import DatabaseError, JobExists, ServerRefused
from trackside.files import damaged_files, durable
from trackside.files.permissions import make_folder
from trackside.jobs.catalog import Catalog
from trackside.jobs.index import Index, JobSummary, Order, Page
from trackside.jobs.postgres_index import Postgres
from trackside.jobs.start_supervisor import locked, new_nonce
from trackside.records.layout import Home, JobFolder

logger = logging.getLogger(__name__)

_RECENT_SECONDS = 120.0
"""Jobs changed within this time are read again: other processes may have updated the index."""
_COMPARE_SECONDS = 600.0
"""How often everything is compared, regardless of changes."""
_ROWS_AT_ONCE = 500


class TeamCatalog:
    """The same methods as `Catalog`. Those that need the database raise a `DatabaseError`."""

    def __init__(self, home: Home, database: Postgres) -> None:
        self.home = home
        self._local = Catalog(home)
        self.database = self._database = database
        self._index = Index(database)
        self._published: dict[str, JobSummary] = {}
        """What the database knows of the jobs that may yet change, or did a moment ago."""
        self._num_outages_seen = -1
        self._compare_at = 0.0
        self._publishing = Lock()

    @cached_property
    def identity(self) -> str:
        """This home's name in the database; created once."""
        return _identity(self.home)

    def select(self, page: Page) -> list[JobSummary]:
        self._local.refresh()
        return self.page(page)

    def page(self, page: Page) -> list[JobSummary]:
        self._catch_up()
        return self._index.page(page)

    def unfinished(self) -> list[str]:
        return self._local.unfinished()

    def find(self, name: str) -> JobSummary | None:
        try:
            return self._index.find(name)
        except DatabaseError:
            row = self._local.find(name)
            if row is None or not row.is_final:
                raise
            return row

    def num_by_status(self) -> dict[str, int]:
        """Of this home only: each server reports its own, so that a sum counts no job twice."""
        return self._local.num_by_status()

    def name_in_any_case(self, name: str) -> str | None:
        return self._local.name_in_any_case(name) or self._index.name_in_any_case(name)

    def starting(self, text: str, most: int) -> list[str]:
        here = self._local.starting(text, most)
        try:
            return sorted({*here, *self._index.starting(text, most)})
        except DatabaseError:
            if not here:
                raise
            return here

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        with self._local.kept_open(), closing(self._database):
            yield

    def refresh(self) -> None:
        """Does not fail without the database: changes are published once it is back."""
        self._local.refresh()
        with suppress(DatabaseError):
            self._release_abandoned()
            self._catch_up(recent=True)

    def add(self, name: str) -> None:
        """Never fails: the job exists, and its name is claimed."""
        self._local.add(name)
        row = self._local.find(name)
        if row is not None:
            with suppress(DatabaseError), self._publishing:
                self._publish([row])

    def forget(self, name: str) -> None:
        with self._publishing:
            self._index.put([], forget=[name])
            self._published.pop(name, None)
        self._local.forget(name)

    def reindex(self, locations: Sequence[str]) -> int:
        """Rows of other homes are not changed; no name becomes free in between."""
        self._local.reindex(locations)
        with self._publishing:
            rows = self._local.select(Page(limit=None))
            finished = self._index.finished(self.identity)
            known = finished | self._index.unfinished(self.identity).keys()
            self._publish(rows, forget=known - {row.name for row in rows})
        return len(self._index.finished() | self._index.unfinished().keys())

    @contextmanager
    def claimed(self, name: str, draft: str) -> Iterator[None]:
        """The name is reserved inside the block; afterwards too, unless the block raised."""
        self._claim(name, draft)
        try:
            yield
        except BaseException:
            with suppress(DatabaseError):  # then it is recognized as abandoned
                self._index.release(name, draft)
            raise

    def request_stop(self, name: str) -> None:
        self._index.request_stop(name, time.time())

    def requested_stops(self) -> set[str]:
        with suppress(DatabaseError):
            return self._index.requested_stops(self.identity)
        return set()

    def _claim(self, name: str, draft: str) -> None:
        if self._index.claim(name, self.identity, draft, time.time()):
            return
        earlier = self._index.claims(self.identity).get(name)
        if earlier is not None and self._is_abandoned(name, earlier):
            self._index.release(name, earlier)
            if self._index.claim(name, self.identity, draft, time.time()):
                return
        raise JobExists(name)

    def _release_abandoned(self) -> None:
        for name, draft in self._index.claims(self.identity).items():
            if self._is_abandoned(name, draft):
                logger.warning("job %s: its submitter died before it was made", name)
                self._index.release(name, draft)

    def _is_abandoned(self, name: str, draft: str) -> bool:
        """A submitter holds its draft's lock from before the claim until the folder is the job's:
        so the draft is read first.
        """
        with suppress(FileNotFoundError), locked(JobFolder(self.home.jobs / draft)) as is_free:
            if not is_free:
                return False
        return not self.home.job(name).root.exists()

    def _catch_up(self, *, recent: bool = False) -> None:
        with self._publishing:
            is_due = time.monotonic() > self._compare_at
            if is_due or self._num_outages_seen != self._database.num_outages:
                return self._compare()
            present = self._local.in_progress()
            if recent:
                since = time.time() - _RECENT_SECONDS
                page = Page(order=Order.MODIFIED, limit=None, modified_after=since)
                present |= {row.name: row for row in self._local.page(page)}
            ended = {
                name: self._local.find(name)
                for name, row in self._published.items()
                if not row.is_final and name not in present
            }
            present |= {name: row for name, row in ended.items() if row is not None}
            self._publish(present.values(), forget=[name for name, row in ended.items() if not row])
            if recent:
                self._published = {
                    name: row for name, row in self._published.items() if name in present
                }

    def _compare(self) -> None:
        """Compares everything of this home, when it is unknown which changes the database lacks."""
        num_outages = self._database.num_outages
        rows = {row.name: row for row in self._local.select(Page(limit=None))}
        settled = self._index.settled(self.identity)
        unfinished = self._index.unfinished(self.identity)
        lost = {
            name: self._local.stored_row(unfinished[name])
            for name in unfinished.keys() - rows.keys()
        }
        self._published = dict(unfinished)
        changed = [row for name, row in rows.items() if name not in settled]
        changed += [row for row in lost.values() if row is not None]
        self._publish(changed, forget=[name for name, row in lost.items() if row is None])
        self._published = {name: row for name, row in self._published.items() if not row.is_final}
        self._num_outages_seen = num_outages
        self._compare_at = time.monotonic() + _COMPARE_SECONDS

    def _publish(self, rows: Iterable[JobSummary], forget: Iterable[str] = ()) -> None:
        here = self._local.folder_names()
        owned = (replace(row, home=self.identity if row.name in here else "") for row in rows)
        changed = [row for row in owned if row != self._published.get(row.name)]
        changed.sort(key=attrgetter("name"))  # locks rows in one order: no deadlock
        gone = [*forget]
        for start in range(0, max(len(changed), len(gone)), _ROWS_AT_ONCE):
            end = start + _ROWS_AT_ONCE
            self._index.put(changed[start:end], forget=gone[start:end])
        self._published |= {row.name: row for row in changed}
        for name in gone:
            self._published.pop(name, None)


def _identity(home: Home) -> str:
    path = home.server.identity
    make_folder(path.parent)
    while not path.exists():
        draft = path.with_name(f".{path.name}.{new_nonce()}")
        durable.write_json(draft, {"id": f"{socket.gethostname()}-{new_nonce()[:8]}"})
        with suppress(FileExistsError):  # another process was faster
            os.link(draft, path)
        draft.unlink()
    found = damaged_files.read_object(path)
    if found is None or not isinstance(found.get("id"), str):
        raise ServerRefused(
            f"{str(path)!r} no longer tells what this home is called in the database. "
            "Put it back from a copy: the database knows this home's jobs by that name."
        )
    return str(found["id"])
