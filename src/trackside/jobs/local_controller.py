"""Stops, changes and deletes jobs of this machine, and keeps running ones supervised.

The data of a deleted job (model, output, checkpoints, tensors, event files under a TensorBoard
location) belongs to the user and stays, unless the caller requests its removal: `stored_data`
decides what may be removed.
"""

import logging
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from trackside.containers.job_containers import remove_container
from trackside.errors import JobElsewhere, JobNotFinished, JobNotFound
from trackside.jobs import pending_jobs
from trackside.jobs.curve_claims import release
from trackside.jobs.disk_use import DiskUse
from trackside.jobs.drafts import sweep_drafts
from trackside.jobs.elsewhere import remove_coordination
from trackside.jobs.garbage_collection import Disk
from trackside.jobs.index import JobSummary, Page
from trackside.jobs.local_submitter import SUPERVISOR_COMMAND, LocalSubmitter
from trackside.jobs.reconcile import Reconciler
from trackside.jobs.records import UNREADABLE, Record
from trackside.jobs.scheduler import SchedulerSignal
from trackside.jobs.start_supervisor import JobEnvironment
from trackside.jobs.stored_data import Stored, is_removed, judged, remove, stored_by, uses
from trackside.jobs.submit import withdraw
from trackside.jobs.update_job import note, note_of, note_tags, note_text, tags_of
from trackside.records import evaluator_process, pending_uploads
from trackside.records.finding import RuleKey
from trackside.records.host_processes import is_supervised, wake_supervisors
from trackside.records.job_updates import UPDATE, Update, note_stopped_rule
from trackside.records.journal import LOCK_SECONDS, History, Journal
from trackside.records.layout import Home, HostFolder, JobFolder, JobKeys
from trackside.records.placed import LOCAL
from trackside.records.status import Secondary
from trackside.settings import Settings
from trackside.storage.locate import locate

logger = logging.getLogger(__name__)

_LAST_UPLOADS_SECONDS = 30.0
"""A supervisor stores the journal after it has published the final status, then exits; on a busy
machine or store that takes a while.
"""
_POLL_SECONDS = 0.05


class LocalController(LocalSubmitter):
    """`JobController` of this machine, and what else changes a job or its files."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        supervisor_command: Sequence[str] = SUPERVISOR_COMMAND,
        job_environment: JobEnvironment | None = None,
        buckets_url: str = "",
    ) -> None:
        """As for `LocalSubmitter`."""
        super().__init__(
            settings,
            environ,
            supervisor_command=supervisor_command,
            job_environment=job_environment,
            buckets_url=buckets_url,
        )
        self._reconciler = Reconciler(self._home, self._launcher)
        self._scheduler_signal = SchedulerSignal()
        self._disk_use = DiskUse(self._home)

    def stop(self, name: str) -> History:
        if not self._is_here(name):
            history = self._record(name).history
            if not history.state.is_final:
                self._catalog.request_stop(name)
            return history
        folder = self._home.job(name)
        history = pending_jobs.end(folder, self._home, Secondary.STOPPED)
        if history.state.is_final:  # it had finished, or was queued and never started
            self._scheduler_signal.notify(name)
            return history
        if (group := self._reconciler.group_of(name)) is not None:
            return group.stop()
        journal = Journal(folder.journal, lock_seconds=LOCK_SECONDS)
        history = journal.try_move(Secondary.STOPPING)
        wake_supervisors(folder)
        self._reconcile_job(name)
        return history

    def stop_rule(self, name: str, rule: RuleKey) -> None:
        """Request that one rule of a job stops; its findings remain."""
        self._check_may_change(name)
        journal = Journal(self._folder(name).journal, lock_seconds=LOCK_SECONDS)
        note_stopped_rule(journal, rule)
        self._reconcile_job(name)

    def change_tags(
        self, name: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> dict[str, str]:
        self._check_may_change(name)
        note_tags(self._record(name), self._home, dict(put or {}), remove)
        self._scheduler_signal.notify(name)
        return tags_of(self._record(name))

    def set_note(self, name: str, text: str) -> str:
        self._check_may_change(name)
        note_text(self._record(name), self._home, text)
        return note_of(self._record(name))

    def update(self, name: str, update: Update) -> None:
        """Change a job. While it runs, its supervisors and the evaluator of its rules apply that
        within seconds; afterwards it is only recorded."""
        self._check_may_change(name)
        note(self._record(name), self._home, UPDATE, **update.to_note())

    def stored(self, name: str) -> list[Stored]:
        return [*self._judged(self._record(name))]

    def delete(self, name: str, *, data: bool = False, checkpoints: bool = False) -> list[Stored]:
        self._check_is_here(name)
        try:
            record = self._record(name)
        except JobNotFound:
            if self._catalog.find(name) is None:
                raise
            retained = []  # an earlier call removed the files, but could not update the database
        else:
            _check_finished(record)
            self._end_group(name)
            stored = self._judged(record) if data else stored_by(record, self._home)
            retained = [each for each in stored if not is_removed(each, data, checkpoints)]
            delete(record, self._home, [each for each in stored if each not in retained])
        self._catalog.forget(name)
        return retained

    @property
    def disk(self) -> Disk:
        """What can be removed from this home."""

        def rows() -> Sequence[JobSummary]:
            known = self._catalog.select(Page(limit=None))
            return [row for row in known if not self._is_elsewhere(row)]

        return Disk(self._home, rows, self._record, self._is_listed_as_finished, self._disk_use)

    def reconcile(self, name: str | None = None) -> None:
        if name is not None:
            return self._reconcile_job(name) if self._is_here(name) else None
        sweep_drafts(self._home)
        for requested in self._catalog.requested_stops():
            self._stop_as_requested(requested)
        for unfinished in {*self._catalog.unfinished(), *pending_uploads.noted(self._home)}:
            self._reconcile_job(unfinished)

    def _stop_as_requested(self, name: str) -> None:
        """Stops requested by a client of another server."""
        try:
            if self._is_here(name):
                self.stop(name)
        except UNREADABLE as error:
            logger.warning("job %s could not be stopped: %s", name, error)

    def _reconcile_job(self, name: str) -> None:
        """Errors are logged and retried next time; they do not fail the caller."""
        try:
            self._reconciler.reconcile(name)
        except JobNotFound:
            pending_uploads.forget(self._home, name)
        except UNREADABLE as error:
            logger.warning("job %s could not be reconciled: %s", name, error)

    def _is_listed_as_finished(self, name: str) -> bool:
        for _ in range(2):
            row = self._catalog.find(name)
            if row is not None and row.ended is not None:
                return True
            self._catalog.refresh()
        return False

    def _judged(self, record: Record) -> Sequence[Stored]:
        stored = stored_by(record, self._home)
        if not stored:
            return []
        rows = self._catalog.select(Page(limit=None))
        others = [row for row in rows if row.name != record.spec.name]
        return judged(stored, [use for row in others for use in uses(row, self._home)], self._home)

    def _check_may_change(self, name: str) -> None:
        """The journal of a job on other machines is its lead's until it has ended."""
        self._check_is_here(name)
        record = self._record(name)
        is_here = record.folder is not None or record.spec.options.placement == LOCAL
        if not is_here and not record.history.state.is_final:
            raise JobNotFinished(
                f"Job {name!r} runs on other machines ({record.spec.options.placement}): it can be "
                "stopped, and changed once it has ended."
            )

    def _end_group(self, name: str) -> None:
        """`JobNotFinished` while a host of other machines is at work."""
        group = self._reconciler.group_of(name) if self._is_here(name) else None
        if group is None:
            return
        deadline = time.monotonic() + _LAST_UPLOADS_SECONDS
        while not group.is_gone():
            if time.monotonic() > deadline:
                raise _still_at_work(name)
            time.sleep(1.0)

    def _check_is_here(self, name: str) -> None:
        """A job's files are changed only by the home that has them."""
        if self._is_here(name):
            return
        row = self._catalog.find(name)
        if row is not None and self._is_elsewhere(row):
            raise JobElsewhere(name, row.home)


def delete(record: Record, home: Home, data: Iterable[Stored] = ()) -> None:
    """Data first, then the record in storage: after a crash in between the job can be deleted
    again. `JobNotFinished` while any of its processes runs."""
    _check_finished(record)
    for each in data:
        remove(each, home)
    _delete_record(record.keys, home)
    release(record.spec, home)
    is_elsewhere = record.folder is None and record.spec.options.placement != LOCAL
    if is_elsewhere:
        remove_coordination(record.keys, home)
    if record.folder is not None:
        for path in record.folder.hosts.glob("*/*"):
            remove_container(HostFolder(path))
    if is_elsewhere or record.folder is not None:
        with suppress(FileNotFoundError):  # removed in between to free the disk
            withdraw(home.job(record.spec.name), home)
    home.series_of(record.spec.name).unlink(missing_ok=True)
    shutil.rmtree(home.figures_of(record.spec.name), ignore_errors=True)
    for path in home.log_indexes_of(record.spec.name):
        path.unlink(missing_ok=True)


def _check_finished(record: Record) -> None:
    if not record.history.state.is_final:
        raise JobNotFinished(
            f"Job {record.spec.name!r} is {record.history.state.secondary}. "
            "Only jobs that have ended can be deleted; stop it first."
        )
    if record.folder is not None:
        _await_exit_of_processes(record.folder)


def _await_exit_of_processes(folder: JobFolder) -> None:
    deadline = time.monotonic() + _LAST_UPLOADS_SECONDS
    while is_supervised(folder) or evaluator_process.is_alive(folder.rules):
        if time.monotonic() > deadline:
            raise _still_at_work(folder.root.name)
        time.sleep(_POLL_SECONDS)


def _still_at_work(name: str) -> JobNotFinished:
    return JobNotFinished(
        f"Job {name!r} has ended, but its last processes are still at work: "
        "rules that read what it saved, or uploads. Try again in a few minutes."
    )


def _delete_record(keys: JobKeys, home: Home) -> None:
    """`job.json` last: it is what makes the rest a job."""
    # From the output on, so that folders that become empty are removed too.
    spec = locate(keys.output, home=home.root).child(keys.spec.removeprefix(f"{keys.output}/"))
    folder = spec.key.rpartition("/")[0]
    others = [entry.key for entry in spec.store.list(f"{folder}/") if entry.key != spec.key]
    spec.store.delete(others)
    spec.store.delete([spec.key])
