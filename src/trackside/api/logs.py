"""CloudWatch Logs: groups, streams and events of jobs, and of programs that write their own.

The read operations; `log_writes` has the rest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trackside.api import log_events, log_responses, log_streams, log_tokens, tokens
from trackside.api.budget import Budget
from trackside.api.call import ServiceError
from trackside.api.client_logs import ClientLogs
from trackside.api.fair_pool import ThreadPools
from trackside.api.json_service import JsonService, Operation, OperationCall, Response
from trackside.api.keys import Rights
from trackside.api.log_events import MOST_EVENTS, PAGE_BYTES, Window, size_of
from trackside.api.log_pattern import may_hold, pattern
from trackside.api.log_responses import (
    CLASS,
    no_group,
    no_stream,
    parsed_request,
    position_after,
    position_in,
    wrong,
)
from trackside.api.log_search import Search, SearchFilter, Source
from trackside.api.log_sources import JobStreams, KnownStreams
from trackside.api.log_streams import GROUPS, Event, EventStream, Stream, stream_called
from trackside.api.log_writes import LogWrites
from trackside.errors import DamagedJob, JobNotFound, TracksideError
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import LogPosition
from trackside.records.members import member

_CREATED_MS = 1_767_225_600_000
"""SageMaker's groups always exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsRequest:
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

    def matching(self, known: Iterable[str]) -> list[str]:
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
class StreamsRequest:
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
class BytesRequest:
    """Everything of the stream after this."""

    attempt: int = member("attempt", int, least=1)
    offset: int = member("offset", int, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsRequest:
    group: str | None = member("logGroupName", default=None)
    identifier: str | None = member("logGroupIdentifier", default=None)
    stream: str = member("logStreamName", least=1, most=512)
    start_ms: int | None = member("startTime", int, default=None, least=0)
    end_ms: int | None = member("endTime", int, default=None, least=0)
    token: str | None = member("nextToken", default=None)
    limit: int = member("limit", int, default=MOST_EVENTS, least=1, most=MOST_EVENTS)
    from_head: bool = member("startFromHead", bool, default=False)
    unmask: bool = member("unmask", bool, default=False)
    own: BytesRequest | None = member("Trackside", BytesRequest, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequest:
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
        """Here the end is inclusive, unlike elsewhere in CloudWatch."""
        return Window(self.start_ms, None if self.end_ms is None else self.end_ms + 1)


def logs(
    jobs: Jobs, pools: ThreadPools | None = None, budget: Callable[[], Budget] = Budget
) -> JsonService:
    own = ClientLogs(jobs.settings.layout.server.logs)
    reads = Logs(jobs, own, budget)
    operations = {
        "DescribeLogGroups": Operation(Rights.READ, reads.describe_groups),
        "DescribeLogStreams": Operation(Rights.READ, reads.describe_streams, is_heavy=True),
        "GetLogEvents": Operation(Rights.READ, reads.get_events),
        "FilterLogEvents": Operation(Rights.READ, reads.filter_events, is_heavy=True),
        **LogWrites(own, jobs).operations,
    }
    return JsonService("logs", operations, service_error, pools)


def service_error(error: TracksideError) -> ServiceError:
    if isinstance(error, JobNotFound | DamagedJob):
        return no_stream()
    return ServiceError("ServiceUnavailableException", str(error), 500)


class Logs:
    def __init__(self, jobs: Jobs, own: ClientLogs, budget: Callable[[], Budget]) -> None:
        self._jobs = jobs
        self._own = own
        self._budget = budget
        """Of each call that scans many streams."""

    def describe_groups(self, call: OperationCall) -> Response:
        request = parsed_request(GroupsRequest, call)
        start = position_in(request.token, call, int) if request.token else 0
        known = {**dict.fromkeys(GROUPS, _CREATED_MS), **self._own.groups()}
        names = request.matching(sorted(known))
        end = start + request.limit
        groups = [log_responses.group(name, known[name], call.region) for name in names[start:end]]
        response: dict[str, Any] = {"logGroups": groups}
        if end < len(names):
            response["nextToken"] = tokens.token(call.params, end)
        return response

    def describe_streams(self, call: OperationCall) -> Response:
        """A token only when more streams exist: some clients repeat the request while there is one,
        without passing it."""
        request = parsed_request(StreamsRequest, call)
        group = self._group(request.group, request.identifier)
        by_time = request.order == "LastEventTime"
        if by_time and request.prefix:
            raise wrong("Cannot order by LastEventTime with a logStreamNamePrefix.")
        if group not in GROUPS:
            return self._describe_own(request, group, call)
        order = Order.MODIFIED if by_time else Order.NAME
        after, skip = position_after(request.token, call, order) if request.token else (None, 0)
        page = Page(order=order, descending=request.descending, after=after)
        budget = self._budget()
        shown: list[dict[str, Any]] = []
        for at, stream in log_streams.streams(self._jobs, group, request.prefix, page, skip):
            if budget.is_spent or (stream is not None and len(shown) == request.limit):
                return {"logStreams": shown, "nextToken": tokens.token(call.params, at)}
            if stream is not None:
                shown.append(log_responses.stream(stream, group, call.region))
            budget.spend()
        return {"logStreams": shown}

    def get_events(self, call: OperationCall) -> Response:
        request = parsed_request(EventsRequest, call)
        group = self._group(request.group, request.identifier)
        stream = self._stream(group, request.stream)
        if request.own is not None and isinstance(stream, Stream) and stream.rule is None:
            after = LogPosition(request.own.attempt, request.own.offset)
            return {"Trackside": log_events.byte_page(stream, after)}
        window = Window(request.start_ms, request.end_ms)
        direction, position = "f" if request.from_head else "b", None
        if request.token:
            found = log_events.position_in(request.token)
            if found is None:
                raise wrong("The specified nextToken is invalid.")
            direction, position = found
        read = log_events.forward if direction == "f" else log_events.backward
        page = read(stream, position, window, request.limit)
        return {
            "events": [log_responses.event(each.time_ms, each.message) for each in page.events],
            "nextForwardToken": page.forward,
            "nextBackwardToken": page.backward,
        }

    def filter_events(self, call: OperationCall) -> Response:
        request = parsed_request(FilterRequest, call)
        group = self._group(request.group, request.identifier)
        if request.streams and request.prefix:
            raise wrong("logStreamNames and logStreamNamePrefix cannot be given together.")
        matches = pattern(request.pattern)
        is_forward, cursor = log_tokens.read(request.token, call, request.from_head)
        source = self._searched(group, request, is_forward)
        wanted = SearchFilter(request.window, may_hold(request.pattern))
        search = Search(source, wanted, self._budget(), is_forward=is_forward)
        found: list[tuple[str, Event]] = []
        size = 0
        for head in search.heads(cursor):
            if not head.event.is_gap and matches(head.event.message):
                size += size_of(head.event)
                if len(found) == request.limit or (found and size > PAGE_BYTES):
                    break
                found.append((head.name, head.event))
        response = log_responses.found(found)
        if search.cursor is not None:
            response["nextToken"] = log_tokens.token(call, is_forward, search.cursor)
        return response

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

    def _describe_own(self, request: StreamsRequest, group: str, call: OperationCall) -> Response:
        found = [each for each in self._own.streams(group) if each.name.startswith(request.prefix)]
        if request.order == "LastEventTime":
            found.sort(key=lambda each: (each.span_ms or (0, 0))[1])
        if request.descending:
            found.reverse()
        start = position_in(request.token, call, int) if request.token else 0
        end = start + request.limit
        listed = [log_responses.stream(each, group, call.region) for each in found[start:end]]
        more = {"nextToken": tokens.token(call.params, end)} if end < len(found) else {}
        return {"logStreams": listed, **more}

    def _searched(self, group: str, request: FilterRequest, is_forward: bool) -> Source:
        if request.streams:
            return KnownStreams(
                [self._stream(group, name) for name in dict.fromkeys(request.streams)], is_forward
            )
        if group not in GROUPS:
            own = (
                each for each in self._own.streams(group) if each.name.startswith(request.prefix)
            )
            return KnownStreams([*own], is_forward)
        return JobStreams(self._jobs, group, request.prefix, request.window, is_forward)


def _group_name(identifier: str) -> str:
    """Of a group by its name or its ARN."""
    return identifier.removesuffix(":*").rpartition(":log-group:")[2]
