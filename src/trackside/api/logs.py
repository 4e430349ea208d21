"""CloudWatch Logs over the logs of jobs: groups, streams, events. Read only: jobs write them."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from trackside.api import log_events, log_streams, tokens
from trackside.api.call import ServiceError
from trackside.api.identity import ACCOUNT
from trackside.api.json_service import Answer, Ask, JsonService, Operation
from trackside.api.keys import Rights
from trackside.api.log_events import MOST_EVENTS, PAGE_BYTES, Merged, Window
from trackside.api.log_pattern import Pattern
from trackside.api.log_streams import GROUPS, Stream
from trackside.api.validation import parsed
from trackside.errors import JobNotFound, TracksideError
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.members import member

T = TypeVar("T")

_CREATED_MS = 1_767_225_600_000
"""The groups are always there."""
_CLASS = "STANDARD"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAsked:
    prefix: str = member("logGroupNamePrefix", default="")
    pattern: str = member("logGroupNamePattern", default="")
    limit: int = member("limit", int, default=50, least=1, most=50)
    token: str | None = member("nextToken", default=None)
    kind: str = member("logGroupClass", default=_CLASS)
    identifiers: tuple[str, ...] = member(
        "logGroupIdentifiers", tuple, default=(), least=1, most=50
    )
    linked: bool = member("includeLinkedAccounts", bool, default=False)
    accounts: tuple[str, ...] = member("accountIdentifiers", tuple, default=(), most=20)

    @property
    def names(self) -> list[str]:
        """Of the groups there are, those that are meant."""
        if self.prefix and self.pattern:
            raise _wrong("logGroupNamePrefix and logGroupNamePattern cannot be given together.")
        named = [_group_name(each) for each in self.identifiers] or GROUPS
        return [
            name
            for name in GROUPS
            if name in named
            and self.kind == _CLASS
            and name.startswith(self.prefix)
            and self.pattern in name
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAsked:
    group: str | None = member("logGroupName", default=None)
    identifier: str | None = member("logGroupIdentifier", default=None)
    prefix: str = member("logStreamNamePrefix", default="")
    order: str = member(
        "orderBy", default="LogStreamName", choices=("LogStreamName", "LastEventTime")
    )
    descending: bool = member("descending", bool, default=False)
    limit: int = member("limit", int, default=50, least=1, most=50)
    token: str | None = member("nextToken", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsAsked:
    group: str | None = member("logGroupName", default=None)
    identifier: str | None = member("logGroupIdentifier", default=None)
    stream: str = member("logStreamName", least=1, most=512)
    start_ms: int | None = member("startTime", int, default=None, least=0)
    end_ms: int | None = member("endTime", int, default=None, least=0)
    token: str | None = member("nextToken", default=None)
    limit: int = member("limit", int, default=MOST_EVENTS, least=1, most=MOST_EVENTS)
    from_head: bool = member("startFromHead", bool, default=False)
    unmask: bool = member("unmask", bool, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAsked:
    group: str | None = member("logGroupName", default=None)
    identifier: str | None = member("logGroupIdentifier", default=None)
    streams: tuple[str, ...] = member("logStreamNames", tuple, default=(), least=1, most=100)
    prefix: str = member("logStreamNamePrefix", default="")
    start_ms: int | None = member("startTime", int, default=None, least=0)
    end_ms: int | None = member("endTime", int, default=None, least=0)
    pattern: str = member("filterPattern", default="", most=1024)
    token: str | None = member("nextToken", default=None)
    limit: int = member("limit", int, default=MOST_EVENTS, least=1, most=MOST_EVENTS)
    interleaved: bool = member("interleaved", bool, default=False)
    from_head: bool = member("startFromHead", bool, default=True)
    unmask: bool = member("unmask", bool, default=False)


def logs(jobs: Jobs) -> JsonService:
    asked = JobLogs(jobs)
    operations = {
        "DescribeLogGroups": Operation(Rights.READ, asked.describe_groups),
        "DescribeLogStreams": Operation(Rights.READ, asked.describe_streams),
        "GetLogEvents": Operation(Rights.READ, asked.get_events),
        "FilterLogEvents": Operation(Rights.READ, asked.filter_events),
    }
    return JsonService("logs", operations, told)


def told(error: TracksideError) -> ServiceError:
    if isinstance(error, JobNotFound):
        return _no_stream()
    return ServiceError("ServiceUnavailableException", str(error), 500)


class JobLogs:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def describe_groups(self, ask: Ask) -> Answer:
        asked = _parsed(GroupsAsked, ask)
        start = _place(asked.token, ask) if asked.token else 0
        names = asked.names
        end = start + asked.limit
        answer: dict[str, Any] = {
            "logGroups": [_group(name, ask.region) for name in names[start:end]]
        }
        if end < len(names):
            answer["nextToken"] = tokens.token(ask.given, end)
        return answer

    def describe_streams(self, ask: Ask) -> Answer:
        """A token only when more streams exist: some clients ask again for as long as there is
        one, and do not hand it back."""
        asked = _parsed(StreamsAsked, ask)
        group = _group_of(asked.group, asked.identifier)
        by_time = asked.order == "LastEventTime"
        if by_time and asked.prefix:
            raise _wrong("Cannot order by LastEventTime with a logStreamNamePrefix.")
        order = Order.MODIFIED if by_time else Order.NAME
        after, skip = _place(asked.token, ask) if asked.token else (None, 0)
        page = Page(
            order=order,
            descending=asked.descending,
            after=None if after is None else tuple(after),
        )
        found = log_streams.streams(self._jobs, group, asked.prefix, page)
        shown = list(islice(found, skip, skip + asked.limit + 1))
        answer: dict[str, Any] = {
            "logStreams": [_stream(each, group, ask.region) for _, each in shown[: asked.limit]]
        }
        if len(shown) > asked.limit:
            following = shown[asked.limit][0].after
            same = sum(1 for place, _ in shown[: asked.limit] if place.after == following)
            before = skip if following == page.after else 0
            answer["nextToken"] = tokens.token(ask.given, [following, before + same])
        return answer

    def get_events(self, ask: Ask) -> Answer:
        asked = _parsed(EventsAsked, ask)
        group = _group_of(asked.group, asked.identifier)
        stream = log_streams.stream_called(self._jobs, group, asked.stream)
        if stream is None:
            raise _no_stream()
        window = Window(asked.start_ms, asked.end_ms)
        direction, place = "f" if asked.from_head else "b", None
        if asked.token:
            found = log_events.place_of(asked.token)
            if found is None:
                raise _wrong("The specified nextToken is invalid.")
            direction, place = found
        if direction == "f":
            start = place or log_streams.Place(floor_ms=stream.created_ms)
            page = log_events.forward(stream, start, window, asked.limit)
        else:
            page = log_events.backward(stream, place, window, asked.limit)
        return {
            "events": [_event(each.time_ms, each.message) for each in page.events],
            "nextForwardToken": page.forward,
            "nextBackwardToken": page.backward,
        }

    def filter_events(self, ask: Ask) -> Answer:
        asked = _parsed(FilterAsked, ask)
        group = _group_of(asked.group, asked.identifier)
        if asked.streams and asked.prefix:
            raise _wrong("logStreamNames and logStreamNamePrefix cannot be given together.")
        if not asked.from_head:
            text = "startFromHead is always true here: give a startTime to begin later."
            raise _wrong(text)
        pattern = Pattern.parse(asked.pattern)
        after = tuple(_place(asked.token, ask)) if asked.token else ()
        start_ms = max(
            [each for each in (asked.start_ms, *after[:1]) if each is not None], default=None
        )
        window = Window(start_ms, asked.end_ms)
        events = log_events.merged(self._searched(group, asked, start_ms), window)
        found: list[Merged] = []
        size = 0
        for event in events:
            if event.key <= after or not pattern.fits(event.message):
                continue
            size += len(event.message.encode())
            if len(found) == asked.limit or (found and size > PAGE_BYTES):
                token = tokens.token(ask.given, found[-1].key)
                return {**_found(found), "nextToken": token}
            found.append(event)
        return _found(found)

    def _searched(self, group: str, asked: FilterAsked, start_ms: int | None) -> Iterable[Stream]:
        if asked.streams:
            named = [log_streams.stream_called(self._jobs, group, name) for name in asked.streams]
            if None in named:
                raise _no_stream()
            return sorted((each for each in named if each), key=lambda each: each.created_ms)
        if asked.prefix:
            page = Page(order=Order.CREATED, descending=False)
            found = log_streams.streams(self._jobs, group, asked.prefix, page)
            return (stream for _, stream in found)
        return log_streams.since(self._jobs, group, start_ms)


def _parsed(cls: type[T], ask: Ask) -> T:
    try:
        return parsed(cls, ask.given)
    except ServiceError as error:
        raise _wrong(error.message) from None


def _place(token: str, ask: Ask) -> Any:
    try:
        return tokens.place_of(token, ask.given)
    except ServiceError as error:
        raise _wrong(error.message) from None


def _group_of(name: str | None, identifier: str | None) -> str:
    given = name or identifier
    if not given:
        raise _wrong("Either logGroupName or logGroupIdentifier is required.")
    group = _group_name(given)
    if group not in GROUPS:
        text = "The specified log group does not exist."
        raise ServiceError("ResourceNotFoundException", text)
    return group


def _group_name(identifier: str) -> str:
    """Of a group by its name or its ARN."""
    return identifier.removesuffix(":*").rpartition(":log-group:")[2]


def _group(name: str, region: str) -> dict[str, Any]:
    arn = _group_arn(name, region)
    return {
        "logGroupName": name,
        "creationTime": _CREATED_MS,
        "metricFilterCount": 0,
        "arn": f"{arn}:*",
        "logGroupArn": arn,
        "storedBytes": 0,
        "logGroupClass": _CLASS,
    }


def _group_arn(name: str, region: str) -> str:
    return f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{name}"


def _stream(stream: Stream, group: str, region: str) -> dict[str, Any]:
    history = stream.record.history
    told = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": f"{_group_arn(group, region)}:log-stream:{stream.name}",
        "storedBytes": 0,
    }
    if history.training_started is not None:
        last_ms = int((history.ended or time.time()) * 1000)
        told["firstEventTimestamp"] = int(history.training_started * 1000)
        told |= {"lastEventTimestamp": last_ms, "lastIngestionTime": last_ms}
    return told


def _event(time_ms: int, message: str) -> dict[str, Any]:
    return {"timestamp": time_ms, "message": message, "ingestionTime": time_ms}


def _found(events: list[Merged]) -> dict[str, Any]:
    told = [
        {"logStreamName": each.stream, "eventId": each.id, **_event(each.time_ms, each.message)}
        for each in events
    ]
    return {"events": told, "searchedLogStreams": []}


def _wrong(text: str) -> ServiceError:
    return ServiceError("InvalidParameterException", text)


def _no_stream() -> ServiceError:
    return ServiceError("ResourceNotFoundException", "The specified log stream does not exist.")
