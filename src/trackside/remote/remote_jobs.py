"""What a client can do with the jobs of a server: the methods of `Jobs`, over HTTP.

Where jobs stand and their logs are asked of the server's SageMaker and Logs; what they have made
is read from storage, which is the server's S3 for `s3://`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from trackside.errors import (
    JobExists,
    JobFailed,
    JobNotFinished,
    JobNotFound,
    JobStopped,
    ServerError,
    ServerUnreachable,
    TracksideError,
)
from trackside.files.json_record import DamagedRecord, record
from trackside.jobs import failure
from trackside.jobs.artifacts import Artifact, artifacts_of
from trackside.jobs.curve_locations import curve_places
from trackside.jobs.describe import ROLE_ARN, arn
from trackside.jobs.details import JobDetails, details_in
from trackside.jobs.index import JobSummary
from trackside.jobs.logs import LogLine, SeenLogs
from trackside.jobs.queue import LimitOf, no_limit
from trackside.jobs.queue_view import QueueView
from trackside.jobs.records import Record, read_rules
from trackside.jobs.rule_updates import Findings, RuleUpdates
from trackside.jobs.stop_reason import stopped
from trackside.jobs.stored_data import Stored, stored_by
from trackside.profiles import Server
from trackside.records import hosts
from trackside.records.finding import Finding
from trackside.records.journal import History
from trackside.records.rule_status import Evaluation
from trackside.records.spec import JOB_NAME, JobSpec, Options
from trackside.records.status import Status
from trackside.remote import follow
from trackside.remote.api_client import ApiClient
from trackside.remote.job_log import JobLog
from trackside.remote.responses import described, history_of, record_of, summary_of
from trackside.remote.retry_policy import FOR_A_JOB, FOR_A_PERSON, FOR_NOBODY, RetryPolicy
from trackside.remote.rule_updates import PublishedUpdates
from trackside.remote.upload_inputs import JobUploads
from trackside.settings import DEFAULT_OUTPUT, Settings
from trackside.storage.locate import Location

_PAGE = 100
_MOST_LOOKED_AT = 1000
"""Jobs, for names that begin with a text: the API finds it anywhere in them."""
_NAME_PART = re.compile("[a-zA-Z0-9-]*")


class RemoteJobs:
    """All methods may be called from several threads at once.

    A server that is away for a while is waited for: seconds by who asks a question, minutes by
    who follows a job. Its S3 is found as all storage is: by the environment and the profiles, so
    it must be the server that those name.
    """

    is_at_server = True

    def __init__(self, server: Server, settings: Settings) -> None:
        self._own = settings
        self._home = settings.layout
        self._client = ApiClient(server)

    def jobs(self) -> "RemoteJobs":
        """What else can be done with jobs: this can do all."""
        return self

    @cached_property
    def settings(self) -> Settings:
        """This machine's, but for what is the server's affair: the interpreter of scripts and,
        unless it is set here, where output goes."""
        there = replace(self._own, url=self._client.url, python="")
        if self._own.output != DEFAULT_OUTPUT:
            return there
        try:
            output = self.default_output()
        except ServerUnreachable:
            return there  # whoever submits is told
        return replace(there, output=output) if output.startswith("s3://") else there

    def submit(
        self,
        spec: JobSpec,
        *,
        source: Iterable[bytes] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Start a job; returns when the server has it on disk.

        Channels that are paths of this machine are brought along. Of what is refused nothing is
        left.
        """
        if self.exists(spec.name):
            raise JobExists(spec.name)
        spec = self._without_unknown(spec)
        uploads = JobUploads(spec, self._client, self._home.root, source, files or {})
        uploads.check()
        try:
            self._create(replace(uploads.bring(), role=_role(spec.role)))
        except (JobExists, ServerUnreachable):
            raise  # what was sent may be another's by now, or needed
        except TracksideError:
            uploads.take_back()
            raise

    def describe(self, name: str) -> dict[str, Any]:
        """As of `Jobs`; the folder it tells is at the server."""
        return described(self._described(name))

    def exists(self, name: str) -> bool:
        """Whether a job has exactly this name."""
        if not re.fullmatch(JOB_NAME, name):
            return False
        try:
            self._described(name)
        except JobNotFound:
            return False
        return True

    def names_starting(self, text: str) -> list[str]:
        """The names that begin with this, the newest job's first."""
        found = self.list(name_contains=text, limit=_MOST_LOOKED_AT)
        return [row.name for row in found if row.name.startswith(text)]

    def stop(self, name: str) -> History:
        history = self._history(name)
        if history.state.is_final:
            return history
        try:
            self._call("StopTrainingJob", {"TrainingJobName": name}, job=name)
        except ServerError as refused:
            if refused.service_code != "ValidationException":
                raise  # else it ended by itself in between
        return self._history(name)

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
        self._history(name)  # one that is none is told at once
        return follow.changes(lambda: self._history(name, FOR_A_JOB), timeout_seconds)

    def logs(
        self,
        name: str,
        *,
        host: str | None = None,
        follow: bool = False,
        after: SeenLogs | None = None,
    ) -> Iterator[LogLine]:
        """The log so far or, following, until the job has ended and every line was given."""
        if follow:
            both = self.follow(name, host=host, after=after)
            return (item for item in both if isinstance(item, LogLine))
        return JobLog(self._client, self._record(name), host, after).lines(whole=True)

    def follow(
        self,
        name: str,
        *,
        host: str | None = None,
        after: SeenLogs | None = None,
    ) -> Iterator[History | LogLine]:
        """Lines as `logs` gives them, and the history whenever it changes; the end comes last."""
        log = JobLog(self._client, self._record(name), host, after, retry_policy=FOR_A_JOB)
        both = follow.follow(lambda: self._history(name, FOR_A_JOB), log)
        return (item for item in both if isinstance(item, History | LogLine))

    def follow_all(self, name: str) -> Iterator[History | LogLine | Findings | Evaluation]:
        """Also what its rules find and come to."""
        record = self._record(name)
        log = JobLog(self._client, record, retry_policy=FOR_A_JOB)
        rules = PublishedUpdates(record, self._home.root)
        return follow.follow(lambda: self._history(name, FOR_A_JOB), log, rules)

    def findings(self, name: str) -> list[Finding]:
        news = RuleUpdates(self._record(name), self._home).new()
        return [finding for item in news if isinstance(item, tuple) for finding in item]

    def evaluations(self, name: str) -> list[Evaluation]:
        return read_rules(self._record(name), self._home)

    def artifacts(self, name: str) -> list[Artifact]:
        return artifacts_of(self._record(name), self._home)

    def curve_places(self, name: str) -> Sequence[Location]:
        return curve_places(self._record(name), self._home)

    def failure_of(self, name: str) -> JobFailed | None:
        answer = self._described(name)
        of_hosts = {
            host: hosts.from_json(seen) for host, seen in answer["Trackside"]["hosts"].items()
        }
        record = record_of(answer)
        log = JobLog(self._client, record)
        return failure.explained(record, of_hosts, lambda host: log.tail(host, failure.TAIL_LINES))

    def stop_of(self, name: str) -> JobStopped | None:
        record = self._record(name)
        return stopped(name, record.history, record.spec.stopping)

    def tags(self, name: str) -> dict[str, str]:
        answer = self._call("ListTags", {"ResourceArn": arn(name)}, job=name)
        return {tag["Key"]: tag["Value"] for tag in answer["Tags"]}

    def change_tags(
        self, name: str, *, put: Mapping[str, str] | None = None, remove: Sequence[str] = ()
    ) -> dict[str, str]:
        """Those that result."""
        resource = {"ResourceArn": arn(name)}
        if put:
            tags = [{"Key": key, "Value": value} for key, value in put.items()]
            self._call("AddTags", {**resource, "Tags": tags}, job=name)
        if remove:
            self._call("DeleteTags", {**resource, "TagKeys": [*remove]}, job=name)
        return self.tags(name)

    def stored(self, name: str) -> list[Stored]:
        """As of `Jobs`; what other jobs need of it, the server says when it is deleted."""
        return stored_by(self._record(name), self._home)

    def delete(self, name: str, *, data: bool = False, checkpoints: bool = False) -> list[Stored]:
        """As of `Jobs`."""
        stored = self.stored(name) if data else []
        asked = {"TrainingJobName": name, "Trackside": True}
        own = {"TracksideData": data, "TracksideCheckpoints": checkpoints}
        answer = self._call("DeleteTrainingJob", {**asked, **own}, job=name)
        if "Trackside" not in answer:  # an older server removes no data
            return stored
        return [Stored(**each) for each in answer["Trackside"]]

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
        """By the time of creation."""
        if not _NAME_PART.fullmatch(name_contains or ""):
            return []  # no job has it in its name
        asked: dict[str, Any] = {
            "SortBy": "CreationTime",
            "SortOrder": "Descending" if newest_first else "Ascending",
            "MaxResults": min(limit or _PAGE, _PAGE),
            "Trackside": True,
        }
        if status:
            asked["StatusEquals"] = str(status)
        if name_contains:
            asked["NameContains"] = name_contains
        if owner:
            asked["TracksideOwner"] = owner
        if created_after is not None:
            asked["CreationTimeAfter"] = created_after
        if created_before is not None:
            asked["CreationTimeBefore"] = created_before
        found: list[JobSummary] = []
        while limit is None or len(found) < limit:
            answer = self._call("ListTrainingJobs", asked)
            found += map(summary_of, answer["TrainingJobSummaries"])
            if "NextToken" not in answer:
                break
            asked["NextToken"] = answer["NextToken"]
        return found[:limit]

    def details(self, rows: Sequence[JobSummary]) -> Iterator[JobDetails]:
        """As of `Jobs`, by the server's Search."""
        wanted = {row.name for row in rows}
        found: dict[str, JobDetails] = {}
        for job in self._searched(rows):
            if job["TrainingJobName"] in wanted:
                found[job["TrainingJobName"]] = details_in(job)
            if len(found) == len(wanted):
                break
        yield from (found[row.name] for row in rows if row.name in found)

    def _searched(self, rows: Sequence[JobSummary]) -> Iterator[dict[str, Any]]:
        """Jobs as old as the oldest of these and newer, a page after the other."""
        if not rows:
            return
        oldest = str(min(row.created for row in rows) - 1.0)
        newest = str(max(row.created for row in rows) + 1.0)
        bounds = (("GreaterThanOrEqualTo", oldest), ("LessThanOrEqualTo", newest))
        asked: dict[str, Any] = {
            "Resource": "TrainingJob",
            "SearchExpression": {
                "Filters": [
                    {"Name": "CreationTime", "Operator": sign, "Value": bound}
                    for sign, bound in bounds
                ]
            },
            "SortBy": "CreationTime",
            "SortOrder": "Descending",
            "MaxResults": _PAGE,
            "Trackside": True,
        }
        while True:
            answer = self._call("Search", asked)
            yield from (each["TrainingJob"] for each in answer["Results"])
            if "NextToken" not in answer:
                return
            asked["NextToken"] = answer["NextToken"]

    def queue(self, limit_of: LimitOf = no_limit) -> QueueView:
        """Who waits for the server's machine and why, and who holds what. Limits are its own."""
        answer = self._call("TracksideQueue", {"Trackside": True})
        try:
            return record(QueueView, answer)
        except DamagedRecord as error:
            raise ServerError(
                f"What {self._client.url} tells of its queue cannot be read: {error}. Its version "
                "may be another than this client's."
            ) from None

    def default_output(self) -> str:
        """Where a job of the server puts what it makes, if nothing else is said; empty when an
        older server does not tell. `ServerUnreachable` at once."""
        return str(self._told_besides(FOR_NOBODY).get("output", ""))

    @property
    def owner(self) -> str:
        """Whom the jobs belong to that are submitted from here: the name of the key that is used.
        Empty when an older server does not tell."""
        return str(self._told_besides(FOR_A_PERSON).get("owner", ""))

    @property
    def disk_trouble(self) -> str:
        """Why jobs can write nothing at the server at present; empty when they can."""
        return str(self._told_besides(FOR_A_PERSON).get("disk", ""))

    def _told_besides(self, retry_policy: RetryPolicy) -> dict[str, Any]:
        """What comes with every listing."""
        asked = {"MaxResults": 1, "Trackside": True}
        answer = self._call("ListTrainingJobs", asked, retry_policy=retry_policy)
        return dict(answer.get("Trackside", {}))

    def _without_unknown(self, spec: JobSpec) -> JobSpec:
        """An older server refuses what it does not know; a job does not depend on its commit."""
        if spec.options.git is None or "Git" in self._told_besides(FOR_A_PERSON).get("options", ()):
            return spec
        return replace(spec, options=replace(spec.options, git=None))

    def _create(self, spec: JobSpec) -> None:
        try:
            self._call("CreateTrainingJob", spec.to_request(), job=spec.name)
        except ServerUnreachable as away:
            raise ServerUnreachable(
                f"{away} It may have the job all the same: `trackside show {spec.name}` tells."
            ) from away
        except ServerError as refused:
            if refused.service_code != "ResourceInUse":
                raise
            # The first try may have made it, and only its answer was lost.
            if not (refused.is_repeated and _is_same(self._record(spec.name).spec, spec)):
                raise JobExists(spec.name) from None

    def _record(self, name: str) -> Record:
        return record_of(self._described(name))

    def _history(self, name: str, retry_policy: RetryPolicy = FOR_A_PERSON) -> History:
        return history_of(self._described(name, retry_policy))

    def _described(self, name: str, retry_policy: RetryPolicy = FOR_A_PERSON) -> dict[str, Any]:
        asked = {"TrainingJobName": name, "Trackside": True}
        return self._call("DescribeTrainingJob", asked, job=name, retry_policy=retry_policy)

    def _call(
        self,
        operation: str,
        asked: Mapping[str, Any],
        *,
        job: str = "",
        retry_policy: RetryPolicy = FOR_A_PERSON,
    ) -> dict[str, Any]:
        return self._client.call(
            f"SageMaker.{operation}", asked, job=job, retry_policy=retry_policy
        )


def _role(given: str | None) -> str:
    """The wire wants one, in full; what it is means nothing there."""
    if given is None:
        return ROLE_ARN
    return given if given.startswith("arn:") else f"{ROLE_ARN.rpartition('/')[0]}/{given}"


def _is_same(there: JobSpec, ours: JobSpec) -> bool:
    """Whether it is the very request, but for what a server fills in by itself."""
    return _compared(there) == _compared(ours)


def _compared(spec: JobSpec) -> JobSpec:
    return replace(
        spec,
        options=Options(),
        tags=(),  # not told by a description
        debug_rules=tuple(replace(rule, volume_gb=None) for rule in spec.debug_rules),
        profiler_rules=tuple(replace(rule, volume_gb=None) for rule in spec.profiler_rules),
    )
