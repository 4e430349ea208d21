"""The jobs of this home: the index, updated from the job folders whenever it is read.

The folders are authoritative. An index that is missing, damaged, locked or on a full disk costs
time but never a result. `team_catalog.py` publishes to a database that several homes share.
"""

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import field, replace
from threading import Event
from typing import TypeVar

from trackside.errors import JobError, ObjectNotFound
from trackside.files.json_record import DamagedRecord, parsed_object
from trackside.files.permissions import make_folder
from trackside.jobs.index import Index, JobSummary, Page
from trackside.jobs.records import UNREADABLE, publish_journal, read_stored_history
from trackside.jobs.sqlite_index import MEMORY, is_damage, opened, set_aside
from trackside.quick_dataclass import dataclass
from trackside.records.journal import Journal
from trackside.records.layout import Home, JobKeys
from trackside.storage.locate import locate

T = TypeVar("T")
logger = logging.getLogger(__name__)

_COMPARE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Catalog:
    home: Home
    _versions: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    """Size and mtime of the journals of unfinished jobs as of the last index update."""
    _compared: dict[str, tuple[int | None, float]] = field(default_factory=dict, compare=False)
    """When the index was last compared with all folders: their time and the monotonic time."""
    _behind: Event = field(default_factory=Event, compare=False)
    """Set while a change could not be written to the index."""
    _added: deque[str] = field(default_factory=deque, compare=False)
    """Jobs that the next refresh adds, all at once."""
    _failures: set[str] = field(default_factory=set, compare=False)
    """Why the index cannot be used at present, as last logged."""
    identity = ""
    """A home without a shared database needs no name."""
    database = None

    def select(self, page: Page) -> list[JobSummary]:
        """Scans all folders that may have changed."""
        return self._use(lambda index: index.page(page))

    def claimed(self, name: str, draft: str) -> AbstractContextManager[None]:
        """The name is reserved inside the block; without a shared database the folder alone does
        that.

        `draft` is the folder's name until then.
        """
        return nullcontext()

    def request_stop(self, name: str) -> None:
        """Request a stop from the home that has the job: without a database, always this one."""

    def requested_stops(self) -> set[str]:
        """Jobs of this home that other homes requested to stop."""
        return set()

    def unfinished(self) -> list[str]:
        """Jobs with a folder here whose end is not recorded yet."""
        if self._is_compared():
            with suppress(sqlite3.OperationalError, OSError):
                return self._use_file(lambda index: sorted(index.unfinished()), refresh=False)
        finished = self._use(lambda index: index.finished(), refresh=False)
        return sorted(self.folder_names() - finished)

    def find(self, name: str) -> JobSummary | None:
        """For a job without a folder here: scanning the folders would not find it either."""
        return self._use(lambda index: index.find(name), refresh=False)

    def page(self, page: Page) -> list[JobSummary]:
        """Scans only the folders of unfinished jobs; `refresh` finds new ones."""

        def use(index: Index) -> list[JobSummary]:
            self._refresh_unfinished(index)
            return index.page(page)

        return self._use(use, refresh=False)

    def in_progress(self) -> dict[str, JobSummary]:
        """Of known jobs, as `page` returns them."""

        def use(index: Index) -> dict[str, JobSummary]:
            self._refresh_unfinished(index)
            return index.unfinished()

        return self._use(use, refresh=False)

    def num_by_status(self) -> dict[str, int]:
        """Of known jobs, as of the last refresh."""
        return self._use(lambda index: index.num_by_status(), refresh=False)

    def name_in_any_case(self, name: str) -> str | None:
        """See `Index.name_in_any_case`."""
        return self._use(lambda index: index.name_in_any_case(name), refresh=False)

    def starting(self, text: str, most: int) -> list[str]:
        """See `Index.starting`."""
        return self._use(lambda index: index.starting(text, most), refresh=False)

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keeps the file open, so that other processes need not checkpoint it on closing."""
        with ExitStack() as stack:
            make_folder(self.home.root)
            with suppress(sqlite3.DatabaseError):  # the next reader reports it
                stack.enter_context(opened(self.home.index))
            yield

    def refresh(self) -> None:
        """Compares all folders when one was added or removed; else those of unfinished jobs."""
        if self._is_compared():
            self.in_progress()
        else:
            self._use(lambda index: None)

    def add(self, name: str) -> None:
        """A job that was just submitted, for the next read in this process."""
        self._added.append(name)

    def forget(self, name: str) -> None:
        self._use(lambda index: index.put([], forget=[name]), refresh=False)

    def reindex(self, locations: Sequence[str]) -> int:
        """Clear the index, then read the folders and every job below these locations."""
        self.store_journals()
        stored = {row.name: row for row in self.stored_jobs(locations)}

        def rebuild(index: Index) -> int:
            index.clear()
            self._refresh(index)
            known = index.finished() | index.unfinished().keys()
            index.put(row for name, row in stored.items() if name not in known)
            return len(known | stored.keys())

        try:
            return self._use_file(rebuild)
        except (sqlite3.OperationalError, OSError) as error:
            raise JobError(
                f"The index {str(self.home.index)!r} cannot be written: {error}. "
                "Free space or end the program that locks it, then reindex again."
            ) from error

    def store_journals(self) -> None:
        """A job whose supervisor died right at the end may have its journal only in its folder."""
        for name in self.folder_names():
            folder = self.home.job(name)
            try:
                if Journal(folder.journal).read().state.is_final:
                    publish_journal(folder, self.home)
            except UNREADABLE as error:
                logger.warning("job %s: its journal is not in storage: %s", name, error)

    def _use(self, use: Callable[[Index], T], *, refresh: bool = True) -> T:
        """Run it on the index, or on the folders alone when the index cannot be used now."""
        is_behind = self._behind.is_set()
        try:
            found = self._use_file(use, refresh=refresh or is_behind)
        except (sqlite3.OperationalError, OSError) as error:
            self._warn(error)
        else:
            self._failures.clear()
            if is_behind:
                self._behind.clear()
            return found
        self._behind.set()
        with opened(MEMORY) as index:
            self._refresh(index)
            self._compared.clear()  # the file was not
            return use(index)

    def _warn(self, error: Exception) -> None:
        """Once: a server polls every second."""
        if str(error) not in self._failures:
            self._failures.add(str(error))
            logger.warning(
                "the index %s cannot be used (%s); reading the job folders", self.home.index, error
            )

    def _use_file(self, use: Callable[[Index], T], *, refresh: bool = True) -> T:
        make_folder(self.home.root)
        try:
            with opened(self.home.index) as index:
                self._take_in(index)
                if refresh:
                    self._refresh(index)
                return use(index)
        except (DamagedRecord, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.OperationalError) and not is_damage(error):
                raise
            logger.warning(
                "the index %s is damaged (%s); making it anew from the job folders. "
                "`trackside reindex` also finds jobs that are only in object storage",
                self.home.index,
                error,
            )
        set_aside(self.home.index)
        with opened(self.home.index) as index:
            self._refresh(index)
            return use(index)

    def _take_in(self, index: Index) -> None:
        names = []
        with suppress(IndexError):
            while True:
                names.append(self._added.popleft())
        if names:
            rows = [self._read_folder(name, None) for name in names]
            index.put([row for row in rows if row is not None])

    def _is_compared(self) -> bool:
        """False now and then, whatever the folders' times: the index may have been removed."""
        changed_at, at = self._compared.get("folders", (None, 0.0))
        is_recent = time.monotonic() - at < _COMPARE_SECONDS
        return is_recent and changed_at is not None and changed_at == self.home.jobs_changed_at()

    def _refresh(self, index: Index) -> None:
        """Read what may have changed: the folders of jobs that are new or were unfinished."""
        changed_at = self.home.jobs_changed_at()
        unfinished = index.unfinished()
        folders = self.folder_names()
        present = {
            name: self._read_folder(name, unfinished.get(name))
            for name in folders - index.settled()
        }
        for name in unfinished.keys() - folders:
            present[name] = self.stored_row(unfinished[name])
        changed = [row for name, row in present.items() if row and row != unfinished.get(name)]
        gone = [name for name, row in present.items() if row is None and name in unfinished]
        if changed or gone:
            index.put(changed, forget=gone)
        self._compared["folders"] = changed_at, time.monotonic()

    def _refresh_unfinished(self, index: Index) -> None:
        changed, versions = [], {}
        for name, known in index.unfinished().items():
            look = self._journal_version(name)
            if look is None:
                continue
            row = known if look == self._versions.get(name) else self._read_folder(name, known)
            if row == known:
                versions[name] = look
            elif row is not None:
                changed.append(row)
        self._versions.clear()
        self._versions.update(versions)
        if changed:
            index.put(changed)

    def _journal_version(self, name: str) -> tuple[int, int] | None:
        try:
            status = self.home.job(name).journal.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def folder_names(self) -> set[str]:
        """Whatever their content."""
        try:
            return {name for name in os.listdir(self.home.jobs) if name[0] != "."}
        except FileNotFoundError:
            return set()

    def _read_folder(self, name: str, known: JobSummary | None) -> JobSummary | None:
        folder = self.home.job(name)
        try:
            history = Journal(folder.journal).read()
            output = known.output if known else _output_of(folder.spec.read_bytes())
        except UNREADABLE as error:
            logger.warning("%s is not a readable job folder: %r", folder.root, error)
            return None
        return JobSummary.of(name, output, history)

    def stored_row(self, row: JobSummary) -> JobSummary | None:
        """A job that was unfinished while its folder existed: only storage may have its end."""
        try:
            history = read_stored_history(JobKeys(row.output, row.name), self.home)
        except ObjectNotFound:
            return None
        except UNREADABLE as error:
            logger.warning("job %s: where it stands is not known: %s", row.name, error)
            return row
        found = JobSummary.of(row.name, row.output, history)
        return found if row.owner is None else replace(found, owner=row.owner)

    def stored_jobs(self, locations: Sequence[str]) -> Iterator[JobSummary]:
        """Finished jobs below each of these."""
        for uri in locations:
            yield from self._stored_below(uri)

    def _stored_below(self, uri: str) -> Iterator[JobSummary]:
        location = locate(uri, home=self.home.root)
        above = location.uri.removesuffix(location.key).rstrip("/") + "/"
        for entry in location.store.list(location.key):
            keys = JobKeys.found_at(above + entry.key)
            if keys is None:
                continue
            try:
                history = read_stored_history(keys, self.home)
            except ObjectNotFound:
                logger.info("%s has no journal: it runs elsewhere, or was lost", keys.prefix)
            except UNREADABLE as error:
                logger.warning("%s is not a readable job: %r", keys.prefix, error)
            else:
                yield JobSummary.of(keys.name, keys.output, history)


def _output_of(request: bytes) -> str:
    """Without validation: a listing includes jobs that a later version may reject."""
    return str(parsed_object(request)["OutputDataConfig"]["S3OutputPath"]).rstrip("/")
