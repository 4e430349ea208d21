"""Events of one stream, page by page in either direction, and of many streams merged by time."""

import heapq
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trackside.api.log_streams import Event, EventStream, Place

PAGE_BYTES = 1 << 20
MOST_EVENTS = 10_000
_EVENT_BYTES = 26
"""What an event counts beside its text."""
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


def forward(stream: EventStream, start: Place, window: Window, limit: int) -> EventPage:
    """At the end: no events, and the place one came from."""
    found: list[Event] = []
    size = 0
    for event in stream.events(start):
        if window.is_before(event):
            continue
        size += _size(event)
        if window.is_after(event) or len(found) == limit or (found and size > PAGE_BYTES):
            break
        found.append(event)
    return _page(found, start)


def backward(stream: EventStream, end: Place | None, window: Window, limit: int) -> EventPage:
    """The last events before a place, or before the end of the stream."""
    found: deque[Event] = deque()
    size = 0
    for event in stream.events():
        if window.is_after(event) or (end is not None and event.place[:2] >= end[:2]):
            break
        if window.is_before(event):
            continue
        found.append(event)
        size += _size(event)
        while len(found) > limit or (size > PAGE_BYTES and len(found) > 1):
            size -= _size(found.popleft())
    return _page(list(found), end or Place(floor_ms=stream.created_ms))


def place_of(token: str) -> tuple[str, Place] | None:
    """The direction and the place; None when it is no token."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    place = Place(*(int(match[n]) for n in (2, 3, 4)))
    return None if max(place) > _OFFSET_MOST else (match[1], place)


class Merged(NamedTuple):
    """An event among those of other streams; the order of these is the order of events."""

    time_ms: int
    stream: str
    attempt: int
    offset: int
    message: str

    @property
    def key(self) -> tuple[int, str, int, int]:
        return self[:4]

    @property
    def id(self) -> str:
        """Unique, the same each time, and sorted as the events are."""
        number = zlib.crc32(self.stream.encode())
        return f"{self.time_ms:014d}{number:010d}{self.attempt:06d}{self.offset:026d}"


def merged(streams: Iterable[EventStream], window: Window) -> Iterator[Merged]:
    """By time. A stream is opened when its time has come: streams come by creation."""
    heap: list[tuple[Merged, Iterator[Merged]]] = []
    waiting = iter(streams)
    following = next(waiting, None)
    while heap or following is not None:
        while following is not None and (not heap or following.created_ms <= heap[0][0].time_ms):
            _push(heap, _windowed(following, window))
            following = next(waiting, None)
        if heap:
            event, rest = heapq.heappop(heap)
            yield event
            _push(heap, rest)


@dataclass(frozen=True, slots=True)
class Chosen:
    events: list[Merged]
    is_cut: bool
    """More follow, in the same direction."""


def oldest(events: Iterable[Merged], limit: int) -> Chosen:
    """The first of them, as many as a page holds."""
    found: list[Merged] = []
    size = 0
    for event in events:
        size += _size(event)
        if len(found) == limit or (found and size > PAGE_BYTES):
            return Chosen(found, is_cut=True)
        found.append(event)
    return Chosen(found, is_cut=False)


def newest(events: Iterable[Merged], limit: int) -> Chosen:
    """The last of them, as many as a page holds; the newest comes first."""
    found: deque[Merged] = deque()
    size, is_cut = 0, False
    for event in events:
        found.append(event)
        size += _size(event)
        while len(found) > limit or (size > PAGE_BYTES and len(found) > 1):
            size -= _size(found.popleft())
            is_cut = True
    return Chosen([*reversed(found)], is_cut)


def _push(heap: list[tuple[Merged, Iterator[Merged]]], events: Iterator[Merged]) -> None:
    event = next(events, None)
    if event is not None:
        heapq.heappush(heap, (event, events))


def _windowed(stream: EventStream, window: Window) -> Iterator[Merged]:
    name = stream.name
    for event in stream.events():
        if window.is_after(event):
            return
        if not window.is_before(event):
            yield Merged(event.time_ms, name, *event.place[:2], event.message)


def _page(found: list[Event], place: Place) -> EventPage:
    first, last = (found[0].place, found[-1].end) if found else (place, place)
    return EventPage(found, _token("f", last), _token("b", first))


def _token(direction: str, place: Place) -> str:
    return f"{direction}/{place.attempt:08d}{place.offset:024d}{place.floor_ms:024d}"


def _size(event: Event | Merged) -> int:
    return len(event.message.encode()) + _EVENT_BYTES
