"""Starts a queued job, or ends it before it has started.

Both make one move in the journal, so that of a concurrent start and stop exactly one wins.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum, auto

from trackside.coordination.host_files import files_of
from trackside.errors import JobFailed, JobNotFound, ObjectNotFound, StorageError
from trackside.files.permissions import make_folder
from trackside.jobs.records import publish_journal, publish_spec, read_spec
from trackside.jobs.start_supervisor import (
    FIRST_ATTEMPT,
    Launcher,
    locked,
    new_group,
    start_all,
)
from trackside.jobs.submit import announced
from trackside.records import evaluator_process, pending_uploads
from trackside.records.death import Death, Evidence, cause_of
from trackside.records.journal import History, Journal
from trackside.records.layout import Home, JobFolder, JobKeys
from trackside.records.owners import Submitter
from trackside.records.rule_status import RuleStatus, write_evaluations
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.storage.locate import locate_object

logger = logging.getLogger(__name__)


class Begun(Enum):
    YES = auto()
    GONE = auto()
    """No longer queued: stopped, or withdrawn by its submitter."""
    NOT_YET = auto()
    """Its submission is incomplete, or its output location cannot be reached."""


def begin(
    folder: JobFolder, home: Home, launcher: Launcher, gpus: Sequence[str] | None = None
) -> Begun:
    """Start its supervisors, with these GPUs for all of them together.

    After the move in the journal, `reconcile` recovers from a crash. The job's record is uploaded
    now: its submitter did not wait for that.
    """
    try:
        with locked(folder) as mine:
            if not mine:
                return Begun.NOT_YET
            journal = Journal(folder.journal)
            if not journal.read().state.is_queued:
                return Begun.GONE
            if not announced(folder, home):
                return Begun.NOT_YET if folder.journal.exists() else Begun.GONE
            return _start(folder, journal, launcher, gpus)
    except (FileNotFoundError, JobNotFound):
        return Begun.GONE


def end(folder: JobFolder, home: Home, how: Secondary, message: str = "") -> History:
    """End it if it is queued; returns its history either way.

    A note is written before the end, so that `reconcile` uploads what cannot be uploaded now.
    Should the job start at the same time, its supervisor removes the note; therefore the note keeps
    the job's files.
    """
    journal = Journal(folder.journal)
    history = journal.read()
    if not history.state.is_queued:
        return history
    pending_uploads.note(home, folder.root.name, keeps_files=True)
    is_overdue = how is Secondary.MAX_WAIT_EXCEEDED
    death = Death(cause=cause_of(Evidence(is_time_over=True))) if is_overdue else None
    history = journal.try_move(how, only_from=Secondary.PENDING, message=message, death=death)
    if has_ended_waiting(history):
        try:
            keep_end(folder, home)
        except StorageError as error:
            logger.warning("job %s has ended, which is not in storage: %s", folder.root.name, error)
    return history


def has_ended_waiting(history: History) -> bool:
    """Whether the job ended without ever having started: no supervisor publishes its end."""
    before = history.transitions[-2:-1]
    return history.state.is_final and any(each.secondary is Secondary.PENDING for each in before)


def keep_end(folder: JobFolder, home: Home) -> None:
    """Upload the record of a job that never started. Idempotent; a `StorageError`, within seconds,
    if the store is unreachable.
    """
    spec = read_spec(folder)
    with suppress(ObjectNotFound):
        location = locate_object(JobKeys.of(spec).spec, home=home.root, hurried=True)
        location.store.stat(location.key)
    publish_spec(spec, home)
    publish_journal(folder, home)
    if evaluator_process.has_rules(spec):
        _end_rules(folder, spec, home)
    if evaluator_process.is_wanted(spec) and not evaluator_process.is_done(folder.rules, spec):
        return  # `reconcile` starts the notifier and calls this again
    pending_uploads.forget(home, spec.name)


def _start(
    folder: JobFolder, journal: Journal, launcher: Launcher, gpus: Sequence[str] | None
) -> Begun:
    spec = read_spec(folder)
    for host in spec.hosts:  # what `reconcile` goes by once the job is `Starting`
        make_folder(files_of(folder, host, FIRST_ATTEMPT).root)
    if gpus is not None:
        new_group(spec, gpus).write(folder)
    journal.note_run_as(launcher.run_as.choose(Submitter.of(journal.read()).owner))
    history = journal.try_move(Secondary.STARTING, only_from=Secondary.PENDING)
    if history.state.secondary is not Secondary.STARTING:
        return Begun.GONE
    try:
        start_all(launcher, folder, spec)
    except JobFailed as error:
        logger.warning("%s", error)
    return Begun.YES


def _end_rules(folder: JobFolder, spec: JobSpec, home: Home) -> None:
    """No evaluator will run for them: there is no data."""
    now = time.time()
    ended = [
        replace(each, status=RuleStatus.STOPPED, details="The job never started.", is_over=True)
        for each in evaluator_process.first_evaluations(spec, now)
    ]
    make_folder(folder.rules.root)
    write_evaluations(folder.rules.statuses, ended)
    location = locate_object(f"{JobKeys.of(spec).rules}/statuses.json", home=home.root)
    location.store.put(location.key, folder.rules.statuses.read_bytes())
