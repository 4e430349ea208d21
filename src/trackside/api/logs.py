"""CloudWatch Logs: groups, streams and events of jobs, and of programs that write their own.

Here is what reads; `log_writes` has the rest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trackside.api import log_events, log_responses, log_streams, log_tokens, tokens
from trackside.api.budget import Budget
from trackside.api.call import ServiceError
from trackside.api.client_logs import ClientLogs
from trackside.api.fair_pool import Lanes
from trackside.api.json_service import Answer, Ask, JsonService, Operation
from trackside.api.keys import Rights
from trackside.api.log_events import MOST_EVENTS, PAGE_BYTES, Window, size_of
from trackside.api.log_pattern import may_hold, pattern
from trackside.api.log_responses import (
    CLASS,
    asked_for,
    no_group,
    no_stream,
    place_between,
    place_in,
    wrong,
)
from trackside.api.log_search import Search, Source, Wanted
from trackside.api.log_sources import JobStreams, KnownStreams
from trackside.api.log_streams import GROUPS, Event, EventStream, Stream, stream_called
from trackside.api.log_writes import LogWrites
from trackside.errors import DamagedJob, JobNotFound, TracksideError
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogPosition
from trackside.records.members import member

"""Of a place among merged events: forwards or not, and the event's key."""
_CREATED_MS = 1_767_225_600_000
"""SageMaker's groups are always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAsked:
    prefix: str = member("logGroupNamePrefix", default="")
    pattern: str = member("logGroupNamePattern", default="")
    limit: int = member("limit", int, default=50, least=1, most=50)
    token: str | None = member("nextToken", default=None)
    kind: str = member("logGroupClass", default=CLASS)
    identifiers: tuple[str, ...] = member(
        "logGroupIdentifiers", tuple, default=(), least=1, most=50
    )
    linked: bool = member("includeLinkedAccounts", bool, default=False)
    accounts: tuple[str, ...] = member("accountIdentifiers", tuple, default=(), most=20)

    def meant(self, known: Iterable[str]) -> list[str]:
        """Of the groups there are."""
        if self.prefix and self.pattern:
            raise wrong("logGroupNamePrefix and logGroupNamePattern cannot be given together.")
        named = [*map(_group_name, self.identifiers)]
        return [
            name
            for name in known
            if (not named or name in named)
            and self.kind == CLASS
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
class BytesAsked:
    """Everything of the stream after this."""

    attempt: int = member("attempt", int, least=1)
    offset: int = member("offset", int, least=0)


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
    own: BytesAsked | None = member("Trackside", BytesAsked, default=None)


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

    @property
    def window(self) -> Window:
        """Here the end is inside, as nowhere else in CloudWatch."""
        return Window(self.start_ms, None if self.end_ms is None else self.end_ms + 1)


def logs(
    jobs: Jobs, lanes: Lanes | None = None, budget: Callable[[], Budget] = Budget
) -> JsonService:
    own = ClientLogs(jobs.settings.layout.server.logs)
    asked = Logs(jobs, own, budget)
    operations = {
        "DescribeLogGroups": Operation(Rights.READ, asked.describe_groups),
        "DescribeLogStreams": Operation(Rights.READ, asked.describe_streams, is_heavy=True),
        "GetLogEvents": Operation(Rights.READ, asked.get_events),
        "FilterLogEvents": Operation(Rights.READ, asked.filter_events, is_heavy=True),
        **LogWrites(own, jobs).operations,
    }
    return JsonService("logs", operations, told, lanes)


def told(error: TracksideError) -> ServiceError:
    if isinstance(error, JobNotFound | DamagedJob):
        return no_stream()
    return ServiceError("ServiceUnavailableException", str(error), 500)


class Logs:
    def __init__(self, jobs: Jobs, own: ClientLogs, budget: Callable[[], Budget]) -> None:
        self._jobs = jobs
        self._own = own
        self._budget = budget
        """Of each call that looks through many streams."""

    def describe_groups(self, ask: Ask) -> Answer:
        asked = asked_for(GroupsAsked, ask)
        start = place_in(asked.token, ask, int) if asked.token else 0
        known = {**dict.fromkeys(GROUPS, _CREATED_MS), **self._own.groups()}
        names = asked.meant(sorted(known))
        end = start + asked.limit
        groups = [log_responses.group(name, known[name], ask.region) for name in names[start:end]]
        answer: dict[str, Any] = {"logGroups": groups}
        if end < len(names):
            answer["nextToken"] = tokens.token(ask.given, end)
        return answer

    def describe_streams(self, ask: Ask) -> Answer:
        """A token only when more streams exist: some clients ask again for as long as there is
        one, and do not hand it back."""
        asked = asked_for(StreamsAsked, ask)
        group = self._group(asked.group, asked.identifier)
        by_time = asked.order == "LastEventTime"
        if by_time and asked.prefix:
            raise wrong("Cannot order by LastEventTime with a logStreamNamePrefix.")
        if group not in GROUPS:
            return self._describe_own(asked, group, ask)
        order = Order.MODIFIED if by_time else Order.NAME
        after, skip = place_between(asked.token, ask, order) if asked.token else (None, 0)
        page = Page(order=order, descending=asked.descending, after=after)
        budget = self._budget()
        shown: list[dict[str, Any]] = []
        for at, stream in log_streams.streams(self._jobs, group, asked.prefix, page, skip):
            if budget.is_spent or (stream is not None and len(shown) == asked.limit):
                return {"logStreams": shown, "nextToken": tokens.token(ask.given, at)}
            if stream is not None:
                shown.append(log_responses.stream(stream, group, ask.region))
            budget.spend()
        return {"logStreams": shown}

    def get_events(self, ask: Ask) -> Answer:
        asked = asked_for(EventsAsked, ask)
        group = self._group(asked.group, asked.identifier)
        stream = self._stream(group, asked.stream)
        if asked.own is not None and isinstance(stream, Stream) and stream.rule is None:
            after = LogPosition(asked.own.attempt, asked.own.offset)
            return {"Trackside": log_events.byte_page(stream, after)}
        window = Window(asked.start_ms, asked.end_ms)
        direction, place = "f" if asked.from_head else "b", None
        if asked.token:
            found = log_events.place_of(asked.token)
            if found is None:
                raise wrong("The specified nextToken is invalid.")
            direction, place = found
        read = log_events.forward if direction == "f" else log_events.backward
        page = read(stream, place, window, asked.limit)
        return {
            "events": [log_responses.event(each.time_ms, each.message) for each in page.events],
            "nextForwardToken": page.forward,
            "nextBackwardToken": page.backward,
        }

    def filter_events(self, ask: Ask) -> Answer:
        asked = asked_for(FilterAsked, ask)
        group = self._group(asked.group, asked.identifier)
        if asked.streams and asked.prefix:
            raise wrong("logStreamNames and logStreamNamePrefix cannot be given together.")
        fits = pattern(asked.pattern)
        is_forward, cursor = log_tokens.read(asked.token, ask, asked.from_head)
        source = self._searched(group, asked, is_forward)
        wanted = Wanted(asked.window, may_hold(asked.pattern))
        search = Search(source, wanted, self._budget(), is_forward=is_forward)
        found: list[tuple[str, Event]] = []
        size = 0
        for head in search.heads(cursor):
            if not head.event.is_gap and fits(head.event.message):
                size += size_of(head.event)
                if len(found) == asked.limit or (found and size > PAGE_BYTES):
                    break
                found.append((head.name, head.event))
        answer = log_responses.found(found)
        if search.cursor is not None:
            answer["nextToken"] = log_tokens.token(ask, is_forward, search.cursor)
        return answer

    def _group(self, name: str | None, identifier: str | None) -> str:
        given = name or identifier
        if not given:
            raise wrong("Either logGroupName or logGroupIdentifier is required.")
        group = _group_name(given)
        if group not in GROUPS and not self._own.has_group(group):
            raise no_group()
        return group

    def _stream(self, group: str, name: str) -> EventStream:
        of_jobs = group in GROUPS
        found: EventStream | None
        found = stream_called(self._jobs, group, name) if of_jobs else self._own.stream(group, name)
        if found is None:
            raise no_stream()
        return found

    def _describe_own(self, asked: StreamsAsked, group: str, ask: Ask) -> Answer:
        found = [each for each in self._own.streams(group) if each.name.startswith(asked.prefix)]
        if asked.order == "LastEventTime":
            found.sort(key=lambda each: (each.span_ms or (0, 0))[1])
        if asked.descending:
            found.reverse()
        start = place_in(asked.token, ask, int) if asked.token else 0
        end = start + asked.limit
        told = [log_responses.stream(each, group, ask.region) for each in found[start:end]]
        more = {"nextToken": tokens.token(ask.given, end)} if end < len(found) else {}
        return {"logStreams": told, **more}

    def _searched(self, group: str, asked: FilterAsked, is_forward: bool) -> Source:
        if asked.streams:
            return KnownStreams(
                [self._stream(group, name) for name in dict.fromkeys(asked.streams)], is_forward
            )
        if group not in GROUPS:
            own = (each for each in self._own.streams(group) if each.name.startswith(asked.prefix))
            return KnownStreams([*own], is_forward)
        return JobStreams(self._jobs, group, asked.prefix, asked.window, is_forward)


def _group_name(identifier: str) -> str:
    """Of a group by its name or its ARN."""
    return identifier.removesuffix(":*").rpartition(":log-group:")[2]
