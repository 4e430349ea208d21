"""The interface for jobs, wherever they run: each method and its contract, once.

`jobs.Jobs` implements `JobService` for this machine, `remote.remote_jobs.RemoteJobs` for a server;
`tests/contract/test_jobs.py` runs one suite over both. Imported by type checkers only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from trackside.errors import JobFailed, JobStopped
from trackside.jobs.artifacts import Artifact
from trackside.jobs.details import JobDetails
from trackside.jobs.index import JobSummary
from trackside.jobs.logs import LogLine, SeenLogs
from trackside.jobs.queue import LimitOf
from trackside.jobs.queue_view import QueueView
from trackside.jobs.records import Record
from trackside.jobs.rule_updates import Findings
from trackside.jobs.stored_data import Stored
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation
from trackside.records.spec import JobSpec
from trackside.records.status import Status
from trackside.settings import Settings
from trackside.storage.locate import Location


class JobAccess(Protocol):
    """Part of the service, with access to all of it."""

    @property
    def settings(self) -> Settings: ...

    def jobs(self) -> "JobService":
        """The whole service, for the same jobs."""


class JobReader(JobAccess, Protocol):
    """Reads what is known about jobs."""

    is_at_server: bool

    @property
    def owner(self) -> str:
        """The owner of jobs that this process submits. Empty when an older server does not say."""

    @property
    def disk_trouble(self) -> str:
        """Why jobs cannot write to their folders at present; empty when they can."""

    def queue(self, limit_of: LimitOf | None = None) -> QueueView:
        """Which jobs wait and why, and what running jobs hold, as of now. `limit_of` has the limits
        of this machine's keys; a server uses its own."""

    def describe(self, name: str) -> dict[str, Any]:
        """The response of DescribeTrainingJob; what only Trackside knows is under `Trackside`."""

    def record(self, name: str) -> Record:
        """Spec and history, for readers of the job's files: in its folder if that is on this
        machine, else in storage."""

    def exists(self, name: str) -> bool:
        """Whether a job has exactly this name; not whether it can be read."""

    def names_starting(self, text: str) -> list[str]:
        """The names with this prefix, the newest job's first."""

    def tags(self, name: str) -> dict[str, str]: ...

    def logs(
        self, name: str, *, host: str | None = None, after: SeenLogs | None = None
    ) -> Iterator[LogLine]:
        """The log so far.

        `after` has for each host the `end` of the last line already seen; hosts that are not in it
        are read from the beginning.
        """

    def findings(self, name: str) -> list[Finding]:
        """What its rules have found so far, oldest first."""

    def evaluations(self, name: str) -> list[Evaluation]:
        """The status of each of its rules, in the order of the request."""

    def artifacts(self, name: str) -> list[Artifact]:
        """What is in object storage now."""

    def curve_places(self, name: str) -> Sequence[Location]:
        """Where its event files are now."""

    def failure_of(self, name: str) -> JobFailed | None:
        """The error to raise for a job that failed; None for any other."""

    def stop_of(self, name: str) -> JobStopped | None:
        """The error for a job that was stopped; None for any other."""

    def details(self, rows: Sequence[JobSummary]) -> Iterator[JobDetails]:
        """Details of these jobs, in their order; a job that cannot be read is left out."""

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
        """Sorted by creation time."""


class JobSubmitter(JobAccess, Protocol):
    """Starts jobs."""

    def submit(
        self,
        spec: JobSpec,
        *,
        source: Iterable[bytes] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Start a job; returns when it is on disk and, on this machine, its supervisors run.

        `source` is stored at `spec.source` once the name is reserved for this job; so are `files`,
        each at its key. A server also gets a copy of channels that are paths of this machine.

        `JobExists`, `InputError`, `DiskFull` or a `StorageError` when it cannot be accepted; then
        nothing of it remains.
        """


class JobFollower(Protocol):
    """Waits for jobs, and reads their logs while they run."""

    def wait(self, name: str, *, timeout_seconds: float | None = None) -> History:
        """Until the job has finished, in whatever status. `JobNotFinished` after the timeout."""

    def changes(self, name: str, *, timeout_seconds: float | None = None) -> Iterator[History]:
        """The history now and after each change, until the job finishes or the timeout passes."""

    def logs(
        self,
        name: str,
        *,
        host: str | None = None,
        after: SeenLogs | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """The log so far or, with `follow`, until the job has finished and every line was read.

        `after` as for `JobReader.logs`.
        """

    def follow(
        self, name: str, *, host: str | None = None, after: SeenLogs | None = None
    ) -> Iterator[History | LogLine]:
        """The lines of `logs`, and the history whenever it changes; the final one comes last."""

    def follow_all(self, name: str) -> Iterator[History | LogLine | Findings | Evaluation]:
        """Also the findings and statuses of its rules, which may continue after the job has
        finished, until they have read all of its data."""


class JobController(Protocol):
    """Stops, changes and deletes jobs."""

    def stop(self, name: str) -> History:
        """Request a stop and return the current history: the job stops by itself, within its
        grace period; at once when it is queued.

        A second request, or one after the job has finished, changes nothing.
        """

    def change_tags(
        self, name: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> dict[str, str]:
        """Returns the tags that result."""

    def set_note(self, name: str, text: str) -> str:
        """Replace the free text about the job; an empty one removes it. Returns what is stored.
        `InputError` for one that is too long."""

    def stored(self, name: str) -> list[Stored]:
        """What it has in storage besides its record. On this machine also what of it other jobs
        need; a server reports that when the job is deleted."""

    def delete(self, name: str, *, data: bool = False, checkpoints: bool = False) -> list[Stored]:
        """Remove the record of a job that has finished: its name is free again. What it made stays
        in storage, and is returned.

        With `data` that is removed too; with `checkpoints` also those at a location without the
        job's name. What another job needs stays. `JobNotFinished` while any of its processes runs.
        """


class JobService(JobFollower, JobController, JobSubmitter, JobReader, Protocol):
    """All of it. The methods may be called from several threads at once."""
