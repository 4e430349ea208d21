"""What a client on this machine can do with jobs, without a server.

Whoever looks at a job that has not ended also sees to it that it can end: `reconcile.py`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

from trackside.errors import (
    DamagedJob,
    InvalidSpec,
    JobElsewhere,
    JobFailed,
    JobNotFinished,
    JobNotFound,
    JobStopped,
    StorageError,
)
from trackside.jobs import failure, follow, pending_jobs
from trackside.jobs.curve_locations import curve_places, own_curve_places
from trackside.jobs.delete import check_ended, delete
from trackside.jobs.describe import RULE_JOB_PART, rule_job
from trackside.jobs.disk_use import DiskUse
from trackside.jobs.drafts import sweep_drafts
from trackside.jobs.follow import Look
from trackside.jobs.garbage_collection import Disk
from trackside.jobs.index import JobSummary, Page
from trackside.jobs.log_offsets import LogOffsets
from trackside.jobs.log_prefilter import MayHold
from trackside.jobs.logs import LogLine, LogPosition, LogReader, SeenLogs
from trackside.jobs.machine_resources import gpu_names
from trackside.jobs.queue import LimitOf
from trackside.jobs.reconcile import Reconciler
from trackside.jobs.records import (
    UNREADABLE,
    Record,
    read_metrics,
    read_rules,
)
from trackside.jobs.resource_request import violations
from trackside.jobs.rule_updates import Findings, RuleUpdates
from trackside.jobs.scheduler import Plan, Scheduler, SchedulerSignal
from trackside.jobs.start_supervisor import JobEnvironment
from trackside.jobs.stop_reason import stopped
from trackside.jobs.stored_data import Stored, is_removed, judged, stored_by, uses
from trackside.jobs.submit import Submission, anchored
from trackside.jobs.submitting import SUPERVISOR_COMMAND, Submitting
from trackside.jobs.update_job import note, note_tags, tags_of
from trackside.records import pending_uploads
from trackside.records.attached_process import AttachedProcess
from trackside.records.finding import RuleKey
from trackside.records.host_processes import wake_supervisors
from trackside.records.job_updates import UPDATE, Update, note_stopped_rule
from trackside.records.journal import LOCK_SECONDS, History, Journal
from trackside.records.layout import JobFolder
from trackside.records.metric_totals import JobMetrics
from trackside.records.owners import Submitter
from trackside.records.rule_status import Evaluation
from trackside.records.spec import JobSpec
from trackside.records.status import Secondary
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

logger = logging.getLogger(__name__)


class Jobs(Submitting):
    """All methods may be called from several threads and processes at once."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        *,
        supervisor_command: Sequence[str] = SUPERVISOR_COMMAND,
        job_environment: JobEnvironment | None = None,
    ) -> None:
        """Supervisors get `environ`, for the credentials in it, and for their script what
        `job_environment` says; neither is ever written to disk."""
        super().__init__(
            settings,
            environ,
            supervisor_command=supervisor_command,
            job_environment=job_environment,
        )
        self._reconciler = Reconciler(self._home, self._launcher)
        self._bell = SchedulerSignal()
        self._disk_use = DiskUse(self._home)

    def jobs(self) -> "Jobs":
        """What else can be done with jobs: this can do all."""
        return self

    def attach(
        self, spec: JobSpec, caller: AttachedProcess, *, files: Mapping[str, bytes] | None = None
    ) -> JobFolder:
        """Make a job of a process that runs already; its supervisor runs when this returns.

        `spec.is_attached` must hold. Refuses what `submit` does.
        """
        Submission(
            anchored(spec),
            self._home,
            self._launcher,
            files=files or {},
            claimed=self._catalog.claimed,
            caller=caller,
        ).submit()
        return self._home.job(spec.name)

    def enqueue(self, spec: JobSpec, *, key: str, who: str, owner: str | None = None) -> None:
        """Let a job wait for its turn; returns when it is on disk. A `scheduler` starts it.

        `key` is what submitted it, `who` whose limit it counts against; it belongs to `owner`, or
        to `who`. Refuses what `submit` does, and what this machine can never give.
        """
        self._check_placement(spec)
        if asked_too_much := list(violations(spec, self.capacity)):
            raise InvalidSpec(asked_too_much)
        claimed = self._catalog.claimed
        submission = Submission(anchored(spec), self._home, self._launcher, claimed=claimed)
        belongs_to = who if owner is None else owner
        submission.enqueue(self.capacity, key=key, who=who, owner=belongs_to)
        self._bell.ring(spec.name)

    def scheduler(self, limit_of: LimitOf) -> Scheduler:
        """For a server: starts jobs that wait, inside its block."""
        gpus = gpu_names(self.capacity.gpus, self._launcher.environment)
        plan = Plan(
            self._home, self._launcher, self.capacity, gpus, limit_of, self._catalog.unfinished
        )
        return Scheduler(plan, self._bell)

    def submitter(self, name: str) -> Submitter:
        """Also of a job of which there is only a row left, or whose files another home has."""
        try:
            return self._record(name).submitter
        except JobNotFound:
            row = self._catalog.find(name)
            if row is None:
                raise
            return Submitter(row.owner or "")

    def evaluations_of(self, record: Record) -> list[Evaluation]:
        """How far each rule of the job is, in the order of the request."""
        return read_rules(record, self._home)

    def change_tags(
        self, name: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> dict[str, str]:
        """Those that result."""
        self._check_held(name)
        record = self._record(name)
        note_tags(record, self._home, dict(put or {}), remove)
        self._bell.ring(name)
        return tags_of(self._record(name))

    def update(self, name: str, update: Update) -> None:
        """Change a job. While it runs, its supervisors and the evaluator of its rules follow by
        themselves, within seconds; afterwards it is only told so."""
        self._check_held(name)
        note(self._record(name), self._home, UPDATE, **update.to_note())

    def stop_rule(self, name: str, rule: RuleKey) -> None:
        """Ask one rule of a job to end; what it has found stands."""
        self._check_held(name)
        journal = Journal(self._folder(name).journal, lock_seconds=LOCK_SECONDS)
        note_stopped_rule(journal, rule)
        self._heal(name)

    def stored(self, name: str) -> list[Stored]:
        """What it has in storage besides its record, and what of it other jobs need."""
        return [*self._judged(self._record(name))]

    def delete(self, name: str, *, data: bool = False, checkpoints: bool = False) -> list[Stored]:
        """Forget a job that has ended: its name is free again. What it made stays in storage, and
        is returned.

        With `data` that is removed too; with `checkpoints` those at a location without the job's
        name as well. What another job needs stays. `JobNotFinished` while anything of it runs.
        """
        self._check_held(name)
        try:
            record = self._record(name)
        except JobNotFound:
            if self._catalog.find(name) is None:
                raise
            kept = []  # Its files went before; then the database could not be told.
        else:
            check_ended(record)
            stored = self._judged(record) if data else stored_by(record, self._home)
            kept = [each for each in stored if not is_removed(each, data, checkpoints)]
            delete(record, self._home, [each for each in stored if each not in kept])
        self._catalog.forget(name)
        return kept

    def stop(self, name: str) -> History:
        """Ask the job to end, and return where it stands: it ends by itself, within its grace; at
        once when it waits.

        Asking again, or when it has ended, changes nothing: the answer shows which it was.
        """
        if not self._is_here(name):
            history = self._record(name).history
            if not history.state.is_final:
                self._catalog.ask_to_stop(name)
            return history
        folder = self._home.job(name)
        history = pending_jobs.end(folder, self._home, Secondary.STOPPED)
        if history.state.is_final:  # it had ended, or waited and never began
            self._bell.ring(name)
            return history
        journal = Journal(folder.journal, lock_seconds=LOCK_SECONDS)
        history = journal.try_move(Secondary.STOPPING)
        wake_supervisors(folder)
        self._heal(name)
        return history

    def wait(self, name: str, *, timeout_seconds: float | None = None) -> History:
        """Until the job has ended, however it did. `JobNotFinished` when the time is up."""
        *_, history = self.changes(name, timeout_seconds=timeout_seconds)
        if not history.state.is_final:
            raise JobNotFinished(
                f"Job {name!r} is still {history.state.secondary} after {timeout_seconds} s. "
                "It goes on by itself; wait again, or stop it."
            )
        return history

    def changes(self, name: str, *, timeout_seconds: float | None = None) -> Iterator[History]:
        """The history now and after each change, until the job has ended or the time is up."""
        return follow.changes(*self._looking(name), timeout_seconds)

    def logs(
        self,
        name: str,
        *,
        host: str | None = None,
        follow: bool = False,
        after: SeenLogs | None = None,
    ) -> Iterator[LogLine]:
        """The log so far or, following, until the job has ended and every byte was given.

        `after` has for each host the `end` of the last line already seen; hosts that are not in it
        are read from the beginning.
        """
        if not follow:
            return super().logs(name, host=host, after=after)
        both = self.follow(name, host=host, after=after)
        return (item for item in both if isinstance(item, LogLine))

    def settled_lines(
        self,
        record: Record,
        host: str,
        after: LogPosition | None = None,
        may_hold: MayHold | None = None,
    ) -> Iterator[LogLine]:
        """One host's log as far as no look at it later will tell another line or another time.

        With `may_hold`, an empty line stands for some that do not hold what is looked for.
        """
        places = {} if after is None else {host: after}
        reader = LogReader(record, self._home, host, places, settled=True, may_hold=may_hold)
        return reader.lines(record.history.attempt, whole=record.history.state.is_final)

    def log_places(self, record: Record, host: str) -> LogOffsets:
        """From where to read one host's log that is not read from its beginning."""
        return LogOffsets(record, self._home, host)

    def follow(
        self,
        name: str,
        *,
        host: str | None = None,
        after: SeenLogs | None = None,
    ) -> Iterator[History | LogLine]:
        """Lines as `logs` gives them, and the history whenever it changes; the end comes last."""
        record = self._record(name)
        reader = LogReader(record, self._home, host, after)
        both = self._follow(record, reader, None)
        return (item for item in both if isinstance(item, History | LogLine))

    def follow_all(self, name: str) -> Iterator[History | LogLine | Findings | Evaluation]:
        """Also what its rules find and come to, which goes on after the end of the job until they
        have read all of its data."""
        record = self._record(name)
        return self._follow(record, LogReader(record, self._home), RuleUpdates(record, self._home))

    def curve_places(self, name: str) -> Sequence[Location]:
        """Where its event files are now."""
        return curve_places(self._record(name), self._home)

    def own_curve_places(self, record: Record, run: str) -> Sequence[Location]:
        """Where what the supervisors themselves drew is now: `trackside` for metrics of the log,
        `system` for the machine's figures."""
        return own_curve_places(record, self._home, run)

    def metrics_of(self, record: Record) -> JobMetrics:
        """What its metrics have come to."""
        return read_metrics(record, self._home)

    def failure_of(self, name: str) -> JobFailed | None:
        """The error to raise for a job that failed; None for any other."""
        return failure.failure_of(self._record(name), self._home)

    def stop_of(self, name: str) -> JobStopped | None:
        """The error for a job that was stopped; None for any other."""
        record = self._record(name)
        return stopped(name, record.history, record.spec.stopping)

    def page(self, page: Page) -> list[JobSummary]:
        """Of jobs that are known; `refresh` finds those that other processes submitted.

        For a server, which asks often: the number of jobs does not count.
        """
        return self._catalog.page(page)

    def num_by_status(self) -> dict[str, int]:
        """How many jobs are known, by TrainingJobStatus."""
        return self._catalog.num_by_status()

    def index_kept_open(self) -> AbstractContextManager[None]:
        """For a server: writes to the index cost less inside. Leave it in the same thread."""
        return self._catalog.kept_open()

    def refresh(self, name: str | None = None) -> None:
        """Take new jobs of other processes, or this one, into the index."""
        if name is None:
            self._catalog.refresh()
        else:
            self._catalog.add(name)

    def name_in_any_case(self, name: str) -> str | None:
        """As the job was called when this is how an ARN writes it."""
        return self._catalog.name_in_any_case(name)

    def find_rule_job(self, name: str) -> tuple[Record, Evaluation] | None:
        """The rule evaluation that is told as a processing job of this name, in any case."""
        for candidate in self._catalog.starting(name, RULE_JOB_PART):
            try:
                record = self._record(candidate)
            except DamagedJob:
                continue
            for evaluation in self.evaluations_of(record):
                told = rule_job(record.spec.name, evaluation.key)
                if told.lower() == name.lower():
                    return record, evaluation
        return None

    def reindex(self, locations: Sequence[str] = ()) -> int:
        """Make the index anew, from the job folders and from what is stored; how many jobs.

        Without `locations`: every embedded bucket, and the default output location.
        """
        return self._catalog.reindex(locations or _default_locations(self.settings))

    @property
    def disk(self) -> Disk:
        """What may be removed of this home."""

        def rows() -> Sequence[JobSummary]:
            known = self._catalog.select(Page(limit=None))
            return [row for row in known if not self._is_elsewhere(row)]

        return Disk(self._home, rows, self._record, self._is_listed_as_ended, self._disk_use)

    def reconcile(self, name: str | None = None) -> None:
        """See to it that every job that has not ended (or this one) has living supervisors."""
        if name is not None:
            return self._heal(name) if self._is_here(name) else None
        sweep_drafts(self._home)
        for asked in self._catalog.asked_to_stop():
            self._stop_as_asked(asked)
        for unfinished in {*self._catalog.unfinished(), *pending_uploads.noted(self._home)}:
            self._heal(unfinished)

    def _stop_as_asked(self, name: str) -> None:
        """By somebody at another server."""
        try:
            if self._is_here(name):
                self.stop(name)
        except UNREADABLE as error:
            logger.warning("job %s could not be stopped: %s", name, error)

    def _heal(self, name: str) -> None:
        """What cannot be looked at now is looked at the next time; it is no reason to fail."""
        try:
            self._reconciler.reconcile(name)
        except JobNotFound:
            pending_uploads.forget(self._home, name)
        except UNREADABLE as error:
            logger.warning("job %s could not be looked after: %s", name, error)

    def _is_listed_as_ended(self, name: str) -> bool:
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

    def _check_held(self, name: str) -> None:
        """What changes a job's files is for the home that has them."""
        if self._is_here(name):
            return
        row = self._catalog.find(name)
        if row is not None and self._is_elsewhere(row):
            raise JobElsewhere(name, row.home)

    def _follow(
        self, record: Record, reader: LogReader, rules: RuleUpdates | None
    ) -> Iterator[History | LogLine | Findings | Evaluation]:
        yield from follow.follow(*self._looking(record.spec.name), reader, rules)

    def _looking(self, name: str) -> tuple[Look, float]:
        """How to see where the job stands, and how often. `JobNotFound` when there is none."""
        if self._is_here(name):
            near = follow.Watch(self._home.job(name).journal, partial(self._heal, name))
            return near.history, follow.POLL_SECONDS
        far = follow.RemoteFollower(lambda: self._record(name).history)
        return far.history, follow.FAR_SECONDS


def _default_locations(settings: Settings) -> list[str]:
    buckets = settings.layout.buckets
    names = sorted(path.name for path in buckets.iterdir()) if buckets.is_dir() else []
    embedded = [_embedded_location(settings, name) for name in names]
    return list(dict.fromkeys([*embedded, settings.output, settings.storage or settings.output]))


def _embedded_location(settings: Settings, bucket: str) -> str:
    """As jobs and clients name it; a path where `s3://` is another store."""
    path, uri = settings.layout.buckets / bucket, f"s3://{bucket}"
    try:
        return uri if locate(uri, home=settings.home).local == path else str(path)
    except StorageError:
        return str(path)
