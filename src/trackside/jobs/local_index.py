"""Listing, lookup and metrics of this machine's jobs for a server: by the index, whose cost does
not grow with the number of jobs.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from trackside.errors import DamagedJob, JobNotFound, StorageError
from trackside.jobs.curve_locations import own_curve_places
from trackside.jobs.describe import RULE_JOB_PART, rule_job
from trackside.jobs.index import JobSummary, Page
from trackside.jobs.local_reader import LocalReader
from trackside.jobs.records import Record, read_metrics, read_rules
from trackside.records.metric_totals import JobMetrics
from trackside.records.owners import Submitter
from trackside.records.rule_status import Evaluation
from trackside.settings import Settings
from trackside.storage.locate import Location, locate


class LocalIndex(LocalReader):
    """What a server reads besides the methods of `JobReader`."""

    def page(self, page: Page) -> list[JobSummary]:
        """One page of the known jobs; `refresh` finds those that other processes submitted."""
        return self._catalog.page(page)

    def num_by_status(self) -> dict[str, int]:
        """How many jobs are known, by TrainingJobStatus."""
        return self._catalog.num_by_status()

    def index_kept_open(self) -> AbstractContextManager[None]:
        """Writes to the index cost less inside. Enter and leave it in the same thread."""
        return self._catalog.kept_open()

    def refresh(self, name: str | None = None) -> None:
        """Add new jobs of other processes, or this one, to the index."""
        if name is None:
            self._catalog.refresh()
        else:
            self._catalog.add(name)

    def reindex(self, locations: Sequence[str] = ()) -> int:
        """Rebuild the index from the job folders and from storage; returns the number of jobs.

        Without `locations`: every embedded bucket, and the default output location.
        """
        return self._catalog.reindex(locations or _default_locations(self.settings))

    def name_in_any_case(self, name: str) -> str | None:
        """The job's name as it was submitted, for one as an ARN writes it."""
        return self._catalog.name_in_any_case(name)

    def find_rule_job(self, name: str) -> tuple[Record, Evaluation] | None:
        """The rule evaluation that is shown as a processing job of this name, in any case."""
        for candidate in self._catalog.starting(name, RULE_JOB_PART):
            try:
                record = self._record(candidate)
            except DamagedJob:
                continue
            for evaluation in self.evaluations_of(record):
                if rule_job(record.spec.name, evaluation.key).lower() == name.lower():
                    return record, evaluation
        return None

    def submitter(self, name: str) -> Submitter:
        """Also of a job that has only a row left, or whose files another home has."""
        try:
            return self._record(name).submitter
        except JobNotFound:
            row = self._catalog.find(name)
            if row is None:
                raise
            return Submitter(row.owner or "")

    def evaluations_of(self, record: Record) -> list[Evaluation]:
        """The status of each rule of the job, in the order of the request."""
        return read_rules(record, self._home)

    def metrics_of(self, record: Record) -> JobMetrics:
        """The totals of its metrics so far."""
        return read_metrics(record, self._home)

    def own_curve_places(self, record: Record, run: str) -> Sequence[Location]:
        """Where the supervisors' own event files are now: `trackside` for metrics of the log,
        `system` for the machine's figures."""
        return own_curve_places(record, self._home, run)


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
