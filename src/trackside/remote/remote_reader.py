"""Reads the jobs of a server: `JobReader` over HTTP.

Records and logs come from the server's SageMaker and Logs APIs; artifacts are read from storage,
which is the server's S3 for `s3://`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from trackside.errors import JobFailed, JobNotFound, ServerError, ServerUnreachable
from trackside.files.json_record import DamagedRecord, record
from trackside.jobs import end_reason
from trackside.jobs.describe import arn
from trackside.jobs.details import JobDetails, details_in
from trackside.jobs.index import JobSummary
from trackside.jobs.logs import LogLine, SeenLogs
from trackside.jobs.queue import LimitOf
from trackside.jobs.queue_view import QueueView
from trackside.jobs.record_reader import RecordReader
from trackside.jobs.records import Record
from trackside.profiles import Server
from trackside.records import hosts
from trackside.records.journal import History
from trackside.records.spec import JOB_NAME
from trackside.records.status import Status
from trackside.remote.api_client import ApiClient
from trackside.remote.job_log import JobLog
from trackside.remote.responses import described, history_of, record_of, summary_of
from trackside.remote.retry_policy import NO_RETRY, SHORT_RETRY, RetryPolicy
from trackside.settings import DEFAULT_OUTPUT, Settings

_PAGE = 100
_MOST_LISTED = 1000
"""Jobs, for names with a prefix: the API finds the text anywhere in them."""
_NAME_PART = re.compile("[a-zA-Z0-9-]*")


class RemoteReader(RecordReader):
    """All methods may be called from several threads at once.

    While the server does not respond, requests are retried: for seconds, or for minutes while a job
    is followed. Its S3 is configured like all storage, by the environment and the profiles: it must
    belong to the server that those name.
    """

    is_at_server = True

    def __init__(self, server: Server, settings: Settings) -> None:
        self._own = settings
        self._home = settings.layout
        self._client = ApiClient(server)

    @cached_property
    def settings(self) -> Settings:
        """This machine's, except for what the server decides: the interpreter of scripts and,
        unless it is set here, where output goes."""
        there = replace(self._own, url=self._client.url, python="")
        if self._own.output != DEFAULT_OUTPUT:
            return there
        try:
            output = self.default_output()
        except ServerUnreachable:
            return there  # `submit` reports it
        return replace(there, output=output) if output.startswith("s3://") else there

    def describe(self, name: str) -> dict[str, Any]:
        """Its folder is a path on the server."""
        return described(self._described(name))

    def exists(self, name: str) -> bool:
        if not re.fullmatch(JOB_NAME, name):
            return False
        try:
            self._described(name)
        except JobNotFound:
            return False
        return True

    def names_starting(self, text: str) -> list[str]:
        found = self.list(name_contains=text, limit=_MOST_LISTED)
        return [row.name for row in found if row.name.startswith(text)]

    def tags(self, name: str) -> dict[str, str]:
        response = self._call("ListTags", {"ResourceArn": arn(name)}, job=name)
        return {tag["Key"]: tag["Value"] for tag in response["Tags"]}

    def logs(
        self, name: str, *, host: str | None = None, after: SeenLogs | None = None
    ) -> Iterator[LogLine]:
        return JobLog(self._client, self._record(name), host, after).lines(whole=True)

    def failure_of(self, name: str) -> JobFailed | None:
        response = self._described(name)
        of_hosts = {
            host: hosts.from_json(seen) for host, seen in response["Trackside"]["hosts"].items()
        }
        record = record_of(response)
        log = JobLog(self._client, record)
        return end_reason.explained(
            record, of_hosts, lambda host: log.tail(host, end_reason.TAIL_LINES)
        )

    def queue(self, limit_of: LimitOf | None = None) -> QueueView:
        response = self._call("TracksideQueue", {"Trackside": True})
        try:
            return record(QueueView, response)
        except DamagedRecord as error:
            raise ServerError(
                f"The queue in the response of {self._client.url} cannot be read: {error}. Its "
                "version may differ from this client's."
            ) from None

    def default_output(self) -> str:
        """Where jobs of the server store their output unless they say otherwise; empty for an
        older server. `ServerUnreachable` without a retry."""
        return str(self._server_facts(NO_RETRY).get("output", ""))

    @property
    def owner(self) -> str:
        """The name of the access key in use."""
        return str(self._server_facts(SHORT_RETRY).get("owner", ""))

    @property
    def disk_trouble(self) -> str:
        return str(self._server_facts(SHORT_RETRY).get("disk", ""))

    def _server_facts(self, retry_policy: RetryPolicy) -> dict[str, Any]:
        """What every listing returns besides jobs."""
        request = {"MaxResults": 1, "Trackside": True}
        response = self._call("ListTrainingJobs", request, retry_policy=retry_policy)
        return dict(response.get("Trackside", {}))

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
        if not _NAME_PART.fullmatch(name_contains or ""):
            return []  # no job has it in its name
        request: dict[str, Any] = {
            "SortBy": "CreationTime",
            "SortOrder": "Descending" if newest_first else "Ascending",
            "MaxResults": min(limit or _PAGE, _PAGE),
            "Trackside": True,
        }
        if status:
            request["StatusEquals"] = str(status)
        if name_contains:
            request["NameContains"] = name_contains
        if owner:
            request["TracksideOwner"] = owner
        if created_after is not None:
            request["CreationTimeAfter"] = created_after
        if created_before is not None:
            request["CreationTimeBefore"] = created_before
        found: list[JobSummary] = []
        while limit is None or len(found) < limit:
            response = self._call("ListTrainingJobs", request)
            found += map(summary_of, response["TrainingJobSummaries"])
            if "NextToken" not in response:
                break
            request["NextToken"] = response["NextToken"]
        return found[:limit]

    def details(self, rows: Sequence[JobSummary]) -> Iterator[JobDetails]:
        wanted = {row.name for row in rows}
        found: dict[str, JobDetails] = {}
        for job in self._searched(rows):
            if job["TrainingJobName"] in wanted:
                found[job["TrainingJobName"]] = details_in(job)
            if len(found) == len(wanted):
                break
        yield from (found[row.name] for row in rows if row.name in found)

    def _searched(self, rows: Sequence[JobSummary]) -> Iterator[dict[str, Any]]:
        """All jobs created between the oldest and the newest of these, by the server's Search."""
        if not rows:
            return
        oldest = str(min(row.created for row in rows) - 1.0)
        newest = str(max(row.created for row in rows) + 1.0)
        bounds = (("GreaterThanOrEqualTo", oldest), ("LessThanOrEqualTo", newest))
        request: dict[str, Any] = {
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
            response = self._call("Search", request)
            yield from (each["TrainingJob"] for each in response["Results"])
            if "NextToken" not in response:
                return
            request["NextToken"] = response["NextToken"]

    def _record(self, name: str) -> Record:
        return record_of(self._described(name))

    def _history(self, name: str, retry_policy: RetryPolicy = SHORT_RETRY) -> History:
        return history_of(self._described(name, retry_policy))

    def _described(self, name: str, retry_policy: RetryPolicy = SHORT_RETRY) -> dict[str, Any]:
        request = {"TrainingJobName": name, "Trackside": True}
        return self._call("DescribeTrainingJob", request, job=name, retry_policy=retry_policy)

    def _call(
        self,
        operation: str,
        request: Mapping[str, Any],
        *,
        job: str = "",
        retry_policy: RetryPolicy = SHORT_RETRY,
    ) -> dict[str, Any]:
        return self._client.call(
            f"SageMaker.{operation}", request, job=job, retry_policy=retry_policy
        )
