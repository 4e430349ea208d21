"""CloudWatch Logs for programs that write their own: groups, streams and events of theirs.

The groups of SageMaker are the jobs' own and take nothing.
"""

import time
from dataclasses import dataclass

from trackside.api.client_logs import ClientLogs, ClientStream
from trackside.api.job_credentials import job_of
from trackside.api.json_service import Answer, Ask, Operation, denied
from trackside.api.keys import Rights
from trackside.api.log_events import MOST_EVENTS, PAGE_BYTES
from trackside.api.log_responses import asked_for, no_group, no_stream, taken, wrong
from trackside.api.log_streams import GROUPS
from trackside.api.ownership import acting_for, is_owner, not_yours
from trackside.jobs.jobs import Jobs
from trackside.records.members import member

GROUP_NAME = r"[\.\-_/#A-Za-z0-9]+"
STREAM_NAME = r"[^:*]*"
_EVENT_BYTES = 26
"""What an event counts beside its text."""
_AHEAD_MS, _PAST_MS = 2 * 3600 * 1000, 14 * 24 * 3600 * 1000
"""How far from now an event may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAsked:
    group: str = member("logGroupName", pattern=GROUP_NAME, least=1, most=512)
    key: str | None = member("kmsKeyId", default=None)
    tags: dict[str, str] = member("tags", dict, default=dict, most=50)
    kind: str | None = member("logGroupClass", default=None)
    is_protected: bool = member("deletionProtectionEnabled", bool, default=False)
    retention_days: int | None = member("retentionInDays", int, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAsked:
    group: str = member("logGroupName", pattern=GROUP_NAME, least=1, most=512)
    stream: str = member("logStreamName", pattern=STREAM_NAME, least=1, most=512)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    time_ms: int = member("timestamp", int, least=0)
    message: str = member("message", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPut:
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

    def create_group(self, ask: Ask) -> Answer:
        asked = asked_for(GroupAsked, ask)
        if asked.group in GROUPS:
            raise taken("group")
        try:
            self._own.make_group(asked.group, acting_for(ask.caller, self._jobs))
        except FileExistsError:
            raise taken("group") from None
        return None

    def create_stream(self, ask: Ask) -> Answer:
        asked = asked_for(StreamAsked, ask)
        self._check_group(asked.group)
        try:
            self._own.make_stream(asked.group, asked.stream, acting_for(ask.caller, self._jobs))
        except FileExistsError:
            raise taken("stream") from None
        return None

    def put_events(self, ask: Ask) -> Answer:
        """Those too old or too new are left out and told, as AWS does."""
        asked = asked_for(EventsPut, ask)
        stream = self._stream(asked.group, asked.stream)
        if stream.owner is not None:  # else from before: whoever wrote to it goes on
            self._check_owner(ask, f"log stream {stream.name!r}", stream.owner)
        times = [event.time_ms for event in asked.events]
        if times != sorted(times):
            raise wrong("Log events in a single PutLogEvents request must be in order of time.")
        size = sum(len(event.message.encode()) + _EVENT_BYTES for event in asked.events)
        if size > PAGE_BYTES:
            raise wrong(f"Upload too large: {size} bytes exceeds limit of {PAGE_BYTES}.")
        now_ms = int(time.time() * 1000)
        too_old = sum(each < now_ms - _PAST_MS for each in times)
        too_new = sum(each > now_ms + _AHEAD_MS for each in times)
        kept = asked.events[too_old : len(times) - too_new]
        try:
            if kept:
                stream.append([(event.time_ms, event.message) for event in kept])
        except FileNotFoundError:  # it was deleted just now
            raise no_stream() from None
        info = {"tooOldLogEventEndIndex": too_old} if too_old else {}
        if too_new:
            info["tooNewLogEventStartIndex"] = len(times) - too_new
        told = {"nextSequenceToken": "0" * 56}
        return {**told, "rejectedLogEventsInfo": info} if info else told

    def keep(self, ask: Ask) -> Answer:
        """Accepted for the sake of programs that ask; nothing here is deleted by itself."""
        asked = asked_for(GroupAsked, ask)
        if asked.group not in GROUPS:
            self._check_group(asked.group)
        return None

    def delete_group(self, ask: Ask) -> Answer:
        asked = asked_for(GroupAsked, ask)
        self._check_group(asked.group)
        self._check_no_job(ask)
        for owner in self._own.owners(asked.group):
            self._check_owner(ask, f"log group {asked.group!r}, or a stream of it,", owner)
        self._own.remove_group(asked.group)
        return None

    def delete_stream(self, ask: Ask) -> Answer:
        asked = asked_for(StreamAsked, ask)
        stream = self._stream(asked.group, asked.stream)
        self._check_no_job(ask)
        self._check_owner(ask, f"log stream {stream.name!r}", stream.owner)
        self._own.remove_stream(asked.group, asked.stream)
        return None

    def _check_owner(self, ask: Ask, what: str, owner: str | None) -> None:
        if ask.caller.rights.allow(Rights.ADMIN):
            return
        if owner is None or not is_owner(ask.caller, owner, self._jobs):
            raise not_yours(ask, what, owner or "")

    def _check_no_job(self, ask: Ask) -> None:
        """What a job's owner has besides is none of the job's."""
        if job_of(ask.caller) is not None:
            raise denied(ask.action, ask.caller, "The key of a job deletes no logs.")

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
