"""Events of one stream, page by page in either direction; `log_search` has those of many."""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trackside.api.log_streams import Event, EventStream, Position, Stream
from trackside.jobs.log_prefilter import MayHold
from trackside.jobs.logs import LogPosition

PAGE_BYTES = 1 << 20
MOST_EVENTS = 10_000
_EVENT_BYTES = 26
"""What an event counts besides its text."""
_FIRST_BLOCK_BYTES, _BLOCK_BYTES = 1 << 13, 1 << 20
_NEVER_MS = 1 << 60
_TOKEN = re.compile(r"([fb])/(\d{8})(\d{24})(\d{24})", re.ASCII)
_OFFSET_MOST = 2**62
"""No file is as long."""


@dataclass(frozen=True, slots=True)
class Window:
    """The start is inside, the end is not. Milliseconds since the epoch."""

    start_ms: int | None = None
    end_ms: int | None = None

    def is_before(self, event: Event) -> bool:
        return self.start_ms is not None and event.time_ms < self.start_ms

    def is_after(self, event: Event) -> bool:
        return self.end_ms is not None and event.time_ms >= self.end_ms


@dataclass(frozen=True, slots=True)
class EventPage:
    events: list[Event]
    forward: str
    backward: str


def forward(stream: EventStream, start: Position | None, window: Window, limit: int) -> EventPage:
    """At the end: no events, and the position from the request."""
    start = start or stream.since(window.start_ms or 0)
    found: list[Event] = []
    size = 0
    for event in stream.events(start):
        if window.is_before(event):
            continue
        size += size_of(event)
        if window.is_after(event) or len(found) == limit or (found and size > PAGE_BYTES):
            break
        found.append(event)
    return _page(found, start)


def backward(stream: EventStream, end: Position | None, window: Window, limit: int) -> EventPage:
    """The last events before a position, or before the end of the stream."""
    end = end or end_of(stream, window)
    found: list[Event] = []
    size = 0
    for event in backwards(stream, end):
        if window.is_after(event):
            continue
        size += size_of(event)
        if window.is_before(event) or len(found) == limit or (found and size > PAGE_BYTES):
            break
        found.append(event)
    return _page(found[::-1], end or Position(floor_ms=stream.created_ms))


def backwards(
    stream: EventStream, end: Position | None, may_hold: MayHold | None = None
) -> Iterator[Event]:
    """All events before a position, or before the end, the newest first; read block by block.

    With `may_hold`, some may be left out, and a gap after each block shows the progress.
    """
    size, latest_ms = _FIRST_BLOCK_BYTES, _NEVER_MS
    while (start := stream.before(end, size)) is not None:
        block: list[Event] = []
        for event in stream.events(start, may_hold):
            if end is not None and event.position[:2] >= end[:2]:
                break
            block.append(event)
        yield from (event for event in reversed(block) if not event.is_gap)
        latest_ms = block[0].time_ms if block else latest_ms
        if may_hold is not None:
            yield Event(latest_ms, "", start, start)
        end, size = start, min(2 * size, _BLOCK_BYTES)


def end_of(stream: EventStream, window: Window) -> Position | None:
    """Where the window ends; None where the stream does."""
    if window.end_ms is None:
        return None
    events = stream.events(stream.since(window.end_ms))
    return next((event.position for event in events if window.is_after(event)), None)


def byte_page(stream: Stream, after: LogPosition) -> dict[str, Any]:
    """A host's log byte for byte, for our own client: the data after this position, including an
    unfinished last line. Bytes that are not UTF-8 are sent as lone surrogates."""
    lines: list[dict[str, Any]] = []
    size = 0
    name = stream.record.spec.name
    for line in stream.jobs.logs(name, host=stream.host, after={stream.host: after}):
        if size >= PAGE_BYTES:
            return {"lines": lines, "is_last": False}
        size += len(line.data)
        data = line.data.decode("utf-8", "surrogateescape")
        lines.append(
            {"attempt": line.attempt, "offset": line.offset, "time": line.time, "data": data}
        )
    return {"lines": lines, "is_last": True}


def position_in(token: str) -> tuple[str, Position] | None:
    """The direction and the position; None for an invalid token."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    position = Position(*(int(match[n]) for n in (2, 3, 4)))
    return None if max(position) > _OFFSET_MOST else (match[1], position)


def event_id(event: Event, stream: str) -> str:
    """Unique, the same each time, and sorted as events are."""
    number = zlib.crc32(stream.encode())
    attempt, offset, _ = event.position
    return f"{event.time_ms:014d}{number:010d}{attempt:06d}{offset:026d}"


def size_of(event: Event) -> int:
    return len(event.message.encode()) + _EVENT_BYTES


def _page(found: list[Event], position: Position) -> EventPage:
    first, last = (found[0].position, found[-1].end) if found else (position, position)
    return EventPage(found, _token("f", last), _token("b", first))


def _token(direction: str, position: Position) -> str:
    return f"{direction}/{position.attempt:08d}{position.offset:024d}{position.floor_ms:024d}"
