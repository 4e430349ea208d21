"""Reads what the table shows of jobs, and tells whether it may have changed since."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.coordination.host_files import files_of
from trackside.errors import StorageError
from trackside.jobs.curve_locations import curve_places
from trackside.jobs.details import details_of
from trackside.jobs.local_reader import LocalReader
from trackside.jobs.records import UNREADABLE, fetch, read_metrics, read_rules
from trackside.jobs.rule_updates import RuleUpdates
from trackside.records import machine
from trackside.records.layout import Home, JobKeys
from trackside.storage.locate import locate_object
from trackside.views.table.row_facts import Given, Made, given_of, made_of
from trackside.views.table.total_steps import counted_steps, total_on_bar, total_on_own_bar

if TYPE_CHECKING:
    from trackside.jobs.index import JobSummary
    from trackside.jobs.job_service import JobReader
    from trackside.jobs.records import Record
    from trackside.views.curves.curve_digest import CurveDigest

logger = logging.getLogger(__name__)

READ_ERRORS = UNREADABLE
_MOST_PLACES = 100_000
MOST_MACHINES = 8
"""Of a job, read."""


class RowReader:
    """May be used by several threads; each `CurveDigest` by one at a time."""

    def __init__(self, jobs: "JobReader") -> None:
        self._jobs = jobs
        self._local = jobs if isinstance(jobs, LocalReader) else None
        self._home = None if self._local is None else self._local.settings.layout
        self._journals: dict[tuple[str, str], Path] = {}
        """What changes with the stored journal of a job, by name and output."""

    def rows(self) -> "list[JobSummary]":
        """Newest first."""
        return self._jobs.list()

    def listing_version(self, live: Iterable[str]) -> object:
        """Equal while no job was added, removed or has moved on; None if that is not known."""
        home = self._home
        if home is None:
            return None
        changed_at = home.jobs_changed_at() if home.jobs.exists() else 0
        if changed_at is None:  # it may change again within the clock's resolution
            return None
        index = home.index
        log = index.with_name(f"{index.name}-wal")
        journals = (home.job(name).journal for name in live)
        return (changed_at, *map(_stamp, (index, log, *journals)))

    def journal_version(self, row: "JobSummary") -> str:
        """Changes with the job's tags and its note."""
        if self._home is None:
            return ""
        if found := _stamp(self._home.job(row.name).journal):
            return found
        key = (row.name, row.output)
        if key not in self._journals:
            if len(self._journals) >= _MOST_PLACES:
                self._journals.clear()
            self._journals[key] = _stored_journal(row, self._home)
        return _stamp(self._journals[key])

    def findings_version(self, name: str) -> str | None:
        """None if it is not known."""
        if self._home is None:
            return None
        folder = self._home.job(name)
        return _stamp(folder.rules.findings) if folder.root.exists() else None

    def given(self, rows: "Sequence[JobSummary]") -> "dict[str, tuple[Given, Record | None]]":
        """Without jobs that cannot be read. On this machine with their records, which the methods
        below would read again."""
        if self._local is None:
            found = self._jobs.details(rows)
            return {details.name: (given_of(details), None) for details in found}
        return dict(self._given_here(rows))

    def _given_here(
        self, rows: "Sequence[JobSummary]"
    ) -> "Iterator[tuple[str, tuple[Given, Record | None]]]":
        assert self._local is not None
        for row in rows:
            try:
                record = self._local.record_of(row)
                metrics = read_metrics(record, self._local.settings.layout)
            except UNREADABLE as error:
                logger.debug("job %s cannot be read: %s", row.name, error)
            else:
                machines = machine_names(record, self._local.settings.layout)
                yield row.name, (given_of(details_of(record, metrics), machines), record)

    def grow(self, name: str, record: "Record | None", digest: "CurveDigest") -> bool:
        """Whether there are more points now."""
        if record is None or self._home is None:
            return digest.update(self._jobs.curve_places(name))
        return digest.update(curve_places(record, self._home))

    def made(self, row: "JobSummary", record: "Record | None", digest: "CurveDigest") -> Made:
        if record is None or self._home is None:
            findings = self._jobs.findings(row.name)
        else:
            updates = RuleUpdates(record, self._home).new()
            findings = [each for item in updates if isinstance(item, tuple) for each in item]
        total = None if record is None else total_on_bar(record)
        made = made_of(digest, findings, is_final=row.is_final, total_steps=total)
        if total is not None or row.is_final or record is None or self._home is None:
            return made
        counted = counted_steps(record, self._home)
        if counted is not None:
            return replace(made, step=counted[0], of=counted[1])
        own = total_on_own_bar(record)
        is_possible = own is not None and made.of is None and (made.step or 0) <= own
        return replace(made, of=own) if is_possible else made

    def is_judged(self, name: str, record: "Record | None") -> bool:
        """Whether its rules have read everything."""
        if record is None or self._home is None:
            evaluations = self._jobs.evaluations(name)
        else:
            evaluations = read_rules(record, self._home)
        return all(each.is_over for each in evaluations)


def _stored_journal(row: "JobSummary", home: Home) -> Path:
    """The journal itself or, in a remote store, what changes when this home adds to any."""
    try:
        stored = locate_object(JobKeys(row.output, row.name).journal, home=home.root).local
    except StorageError:
        stored = None
    return stored or home.notes_lock


def machine_names(record: "Record", home: Home) -> list[str]:
    """Of the first hosts; those that are not recorded are left out."""
    found = []
    for host in record.spec.hosts[:MOST_MACHINES]:
        with suppress(*UNREADABLE):
            if record.folder is None:
                data = fetch(record.keys.machine(host), home)
            else:
                lead = files_of(record.folder, host, record.history.attempt)
                data = lead.machine(host).read_bytes()
            found.append(machine.from_bytes(data).facts.get("host", ""))
    return [*dict.fromkeys(name for name in found if name)]


def _stamp(path: "os.PathLike[str]") -> str:
    """Of a file's content; empty without one."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size}.{status.st_mtime_ns}"
