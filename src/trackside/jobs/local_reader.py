"""Reads the jobs of this machine: `JobReader` without a server.

Each method imports what it needs when called, so that a command that only reads starts fast; a job
that needs reconciling is left to `Jobs`, which is imported then.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trackside.errors import JobElsewhere, JobFailed, JobNotFound, StorageError
from trackside.files import disk_space
from trackside.jobs.drafts import sweep_drafts
from trackside.jobs.index import JobSummary, Page
from trackside.jobs.record_reader import RecordReader
from trackside.jobs.records import (
    UNREADABLE,
    Record,
    read_folder,
    read_metrics,
    read_rules,
    read_stored,
)
from trackside.jobs.team_database import open_catalog
from trackside.records import evaluator_process, pending_uploads
from trackside.records.layout import JobFolder, JobKeys
from trackside.records.owners import local_owner
from trackside.records.placed import LOCAL
from trackside.records.spec import JOB_NAME
from trackside.records.status import Status
from trackside.settings import Settings

if TYPE_CHECKING:
    from trackside.jobs.details import JobDetails
    from trackside.jobs.index import Database
    from trackside.jobs.jobs import Jobs
    from trackside.jobs.logs import LogLine, SeenLogs
    from trackside.jobs.machine_resources import MachineResources
    from trackside.jobs.queue import LimitOf
    from trackside.jobs.queue_view import QueueView
    from trackside.records.hosts import HostRecord

logger = logging.getLogger(__name__)


class LocalReader(RecordReader):
    """All methods may be called from several threads and processes at once."""

    is_at_server = False

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """`environ` is passed to supervisors, if a job needs one."""
        self.settings = settings
        self._environ = environ
        self._home = settings.layout
        if mode := self._home.close_to_others():
            logger.warning(
                "%s was readable by other users (mode %04o); now it is not", self._home.root, mode
            )
        self._catalog = open_catalog(settings)

    @property
    def shared_database(self) -> "Database | None":
        return self._catalog.database

    def jobs(self) -> "Jobs":
        from trackside.jobs.jobs import Jobs

        return Jobs(self.settings, self._environ)

    @cached_property
    def capacity(self) -> "MachineResources":
        """What queued jobs may use together."""
        from trackside.jobs.machine_resources import capacity

        return capacity(self.settings.capacity, self._environ)

    def queue(self, limit_of: "LimitOf | None" = None) -> "QueueView":
        from trackside.jobs import queue, queue_view

        limits = limit_of or queue.no_limit
        return queue_view.look(self._home, self._catalog.unfinished(), self.capacity, limits)

    def describe(self, name: str, *, region: str | None = None) -> dict[str, Any]:
        from trackside.jobs.describe import REGION, describe

        if self._is_here(name):
            self._reconcile_job(name)
        record = self._record(name)
        metrics, rules = read_metrics(record, self._home), read_rules(record, self._home)
        hosts = self._hosts_elsewhere(record)
        return describe(record, metrics, rules, region=region or REGION, hosts=hosts)

    def exists(self, name: str) -> bool:
        is_name = re.fullmatch(JOB_NAME, name) is not None
        return is_name and (self._is_here(name) or self._catalog.find(name) is not None)

    def names_starting(self, text: str) -> list[str]:
        return [row.name for row in self._catalog.select(Page(name_starts=text, limit=None))]

    def record_of(self, row: JobSummary) -> Record:
        """The same for a job that is listed: the index is not read again."""
        return self._record(row.name, row)

    @property
    def owner(self) -> str:
        return local_owner()

    @property
    def disk_trouble(self) -> str:
        return disk_space.trouble(self.settings.home)

    def tags(self, name: str) -> dict[str, str]:
        from trackside.jobs.update_job import tags_of

        return tags_of(self._record(name))

    def logs(
        self, name: str, *, host: str | None = None, after: "SeenLogs | None" = None
    ) -> "Iterator[LogLine]":
        from trackside.jobs.logs import LogReader

        record = self._record(name)
        reader = LogReader(record, self._home, host, after)
        return reader.lines(record.history.attempt, whole=True)

    def failure_of(self, name: str) -> JobFailed | None:
        from trackside.jobs.end_reason import failure_of

        return failure_of(self._record(name), self._home)

    def details(self, rows: Sequence[JobSummary]) -> "Iterator[JobDetails]":
        from trackside.jobs.details import details_of

        for row in rows:
            try:
                record = self.record_of(row)
                yield details_of(record, read_metrics(record, self._home))
            except UNREADABLE as error:
                logger.warning("job %s is left out: %s", row.name, error)

    def list(
        self,
        *,
        status: Status | str | None = None,
        name_contains: str | None = None,
        owner: str | None = None,
        created_after: float | None = None,
        created_before: float | None = None,
        newest_first: bool = True,
        limit: int | None = None,
    ) -> list[JobSummary]:
        """Works without the index, only slower."""
        self.reconcile()
        page = Page(
            status=status,
            name_contains=name_contains,
            owner=owner,
            created_after=created_after,
            created_before=created_before,
            descending=newest_first,
            limit=limit,
        )
        return self._catalog.select(page)

    def reconcile(self, name: str | None = None) -> None:
        """Restart supervisors that died, of every unfinished job or of this one."""
        if name is not None:
            return self._reconcile_job(name) if self._is_here(name) else None
        sweep_drafts(self._home)
        unfinished = {*self._catalog.unfinished(), *pending_uploads.noted(self._home)}
        if self._catalog.requested_stops() or not all(map(self._needs_no_repair, unfinished)):
            self.jobs().reconcile()

    def _reconcile_job(self, name: str) -> None:
        if not self._needs_no_repair(name):
            self.jobs().reconcile(name)

    def _needs_no_repair(self, name: str) -> bool:
        """Whether it is queued, or its supervisors are alive; or it has finished, with its rules,
        and everything is stored. `reconcile` would do nothing then, and is not imported.
        """
        try:
            folder = self._folder(name)
            record = read_folder(folder)
        except UNREADABLE:
            return False
        if not record.history.state.is_final:
            from trackside.records.host_processes import supervised_hosts

            return record.history.state.is_queued or supervised_hosts(folder) >= set(
                record.spec.hosts
            )
        if pending_uploads.keeps_files(self._home, name) is not None:
            return False
        spec = record.spec
        return not evaluator_process.is_wanted(spec) or evaluator_process.is_done(
            folder.rules, spec
        )

    def _folder(self, name: str) -> JobFolder:
        if not re.fullmatch(JOB_NAME, name):
            raise JobNotFound(name)  # never becomes part of a path
        return self._home.job(name)

    def _is_here(self, name: str) -> bool:
        return self._folder(name).journal.exists()

    def _record(self, name: str, listed: JobSummary | None = None) -> Record:
        try:
            found = read_folder(self._folder(name))
        except JobNotFound:
            row = listed or self._catalog.find(name)
        else:
            return found if found.spec.options.placement == LOCAL else self._current(found)
        if row is None:
            raise JobNotFound(name)
        keys = JobKeys(row.output, name)
        if not self._is_elsewhere(row):
            return read_stored(keys, self._home, owner=row.owner)
        try:
            return read_stored(keys, self._home, row.history, row.owner)
        except JobNotFound:
            raise JobElsewhere(name, row.home) from None

    def _current(self, found: Record) -> Record:
        from trackside.jobs.elsewhere import current

        return current(found, self._home)

    def _hosts_elsewhere(self, record: Record) -> "Mapping[str, HostRecord]":
        """Of a job that runs on other machines."""
        is_here = record.folder is not None or record.spec.options.placement == LOCAL
        if is_here or record.history.state.is_final or record.unreachable:
            return {}
        from trackside.jobs.elsewhere import host_records

        try:
            return host_records(record, self._home)
        except StorageError as error:
            logger.warning("job %s: its hosts are not known: %s", record.spec.name, error)
            return {}

    def _is_elsewhere(self, row: JobSummary) -> bool:
        return row.home not in ("", self._catalog.identity)
