"""CloudWatch Logs for programs that write their own groups, streams and events.

The groups of SageMaker belong to the jobs and are read-only.
"""

import time
from dataclasses import dataclass

from trackside.api.client_logs import ClientLogs, ClientStream
from trackside.api.job_credentials import job_of
from trackside.api.json_service import Operation, OperationCall, Response, denied
from trackside.api.keys import Rights
from trackside.api.log_events import MOST_EVENTS, PAGE_BYTES
from trackside.api.log_responses import no_group, no_stream, parsed_request, taken, wrong
from trackside.api.log_streams import GROUPS
from trackside.api.ownership import acting_for, is_owner, not_yours
from trackside.jobs.jobs import Jobs
from trackside.records.members import member

GROUP_NAME = r"[\.\-_/#A-Za-z0-9]+"
STREAM_NAME = r"[^:*]*"
_EVENT_BYTES = 26
"""What an event counts besides its text."""
_AHEAD_MS, _PAST_MS = 2 * 3600 * 1000, 14 * 24 * 3600 * 1000
"""How far from now an event may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    group: str = member("logGroupName", pattern=GROUP_NAME, least=1, most=512)
    key: str | None = member("kmsKeyId", default=None)
    tags: dict[str, str] = member("tags", dict, default=dict, most=50)
    kind: str | None = member("logGroupClass", default=None)
    is_protected: bool = member("deletionProtectionEnabled", bool, default=False)
    retention_days: int | None = member("retentionInDays", int, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    group: str = member("logGroupName", pattern=GROUP_NAME, least=1, most=512)
    stream: str = member("logStreamName", pattern=STREAM_NAME, least=1, most=512)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    time_ms: int = member("timestamp", int, least=0)
    message: str = member("message", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutEventsRequest:
    group: str = member("logGroupName", pattern=GROUP_NAME, least=1, most=512)
    stream: str = member("logStreamName", pattern=STREAM_NAME, least=1, most=512)
    events: tuple[NewEvent, ...] = member(
        "logEvents", tuple, of=NewEvent, least=1, most=MOST_EVENTS
    )
    token: str | None = member("sequenceToken", default=None)


class LogWrites:
    def __init__(self, own: ClientLogs, jobs: Jobs) -> None:
        self._own = own
        self._jobs = jobs

    @property
    def operations(self) -> dict[str, Operation]:
        return {
            "CreateLogGroup": Operation(Rights.SUBMIT, self.create_group),
            "CreateLogStream": Operation(Rights.SUBMIT, self.create_stream),
            "PutLogEvents": Operation(Rights.SUBMIT, self.put_events),
            "PutRetentionPolicy": Operation(Rights.SUBMIT, self.keep),
            "DeleteLogGroup": Operation(Rights.SUBMIT, self.delete_group),
            "DeleteLogStream": Operation(Rights.SUBMIT, self.delete_stream),
        }

    def create_group(self, call: OperationCall) -> Response:
        request = parsed_request(GroupRequest, call)
        if request.group in GROUPS:
            raise taken("group")
        try:
            self._own.make_group(request.group, acting_for(call.caller, self._jobs))
        except FileExistsError:
            raise taken("group") from None
        return None

    def create_stream(self, call: OperationCall) -> Response:
        request = parsed_request(StreamRequest, call)
        self._check_group(request.group)
        try:
            owner = acting_for(call.caller, self._jobs)
            self._own.make_stream(request.group, request.stream, owner)
        except FileExistsError:
            raise taken("stream") from None
        return None

    def put_events(self, call: OperationCall) -> Response:
        """Too old and too new ones are dropped and reported, as AWS does."""
        request = parsed_request(PutEventsRequest, call)
        stream = self._stream(request.group, request.stream)
        if (
            stream.owner is not None
        ):  # otherwise from before there were owners: anyone may continue to write
            self._check_owner(call, f"log stream {stream.name!r}", stream.owner)
        times = [event.time_ms for event in request.events]
        if times != sorted(times):
            raise wrong("Log events in a single PutLogEvents request must be in order of time.")
        size = sum(len(event.message.encode()) + _EVENT_BYTES for event in request.events)
        if size > PAGE_BYTES:
            raise wrong(f"Upload too large: {size} bytes exceeds limit of {PAGE_BYTES}.")
        now_ms = int(time.time() * 1000)
        too_old = sum(each < now_ms - _PAST_MS for each in times)
        too_new = sum(each > now_ms + _AHEAD_MS for each in times)
        kept = request.events[too_old : len(times) - too_new]
        try:
            if kept:
                stream.append([(event.time_ms, event.message) for event in kept])
        except FileNotFoundError:  # it was deleted just now
            raise no_stream() from None
        info = {"tooOldLogEventEndIndex": too_old} if too_old else {}
        if too_new:
            info["tooNewLogEventStartIndex"] = len(times) - too_new
        response = {"nextSequenceToken": "0" * 56}
        return {**response, "rejectedLogEventsInfo": info} if info else response

    def keep(self, call: OperationCall) -> Response:
        """Accepted for programs that set it; nothing here is deleted automatically."""
        request = parsed_request(GroupRequest, call)
        if request.group not in GROUPS:
            self._check_group(request.group)
        return None

    def delete_group(self, call: OperationCall) -> Response:
        request = parsed_request(GroupRequest, call)
        self._check_group(request.group)
        self._check_no_job(call)
        for owner in self._own.owners(request.group):
            self._check_owner(call, f"log group {request.group!r}, or a stream of it,", owner)
        self._own.remove_group(request.group)
        return None

    def delete_stream(self, call: OperationCall) -> Response:
        request = parsed_request(StreamRequest, call)
        stream = self._stream(request.group, request.stream)
        self._check_no_job(call)
        self._check_owner(call, f"log stream {stream.name!r}", stream.owner)
        self._own.remove_stream(request.group, request.stream)
        return None

    def _check_owner(self, call: OperationCall, what: str, owner: str | None) -> None:
        if call.caller.rights.allow(Rights.ADMIN):
            return
        if owner is None or not is_owner(call.caller, owner, self._jobs):
            raise not_yours(call, what, owner or "")

    def _check_no_job(self, call: OperationCall) -> None:
        """The key of a job may not delete logs."""
        if job_of(call.caller) is not None:
            raise denied(call.action, call.caller, "The key of a job deletes no logs.")

    def _check_group(self, name: str) -> None:
        if name in GROUPS:
            raise wrong(f"{name} holds the logs of jobs, which write and delete them. Use another.")
        if not self._own.has_group(name):
            raise no_group()

    def _stream(self, group: str, name: str) -> ClientStream:
        self._check_group(group)
        stream = self._own.stream(group, name)
        if stream is None:
            raise no_stream()
        return stream
