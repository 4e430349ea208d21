"""The events of many streams merged by time, continued where the previous page ended.

A stream is opened when its time is reached, at the position reached in it before: nothing is read
twice, however many pages there are. `log_sources` lists the streams.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trackside.api.budget import Budget
from trackside.api.log_events import Window, backwards, end_of
from trackside.api.log_streams import Event, EventStream, Position
from trackside.jobs.log_prefilter import MayHold

_OPENED = 16
"""The cost of opening a stream, in events."""


class Source(Protocol):
    """The streams that are searched."""

    def called(self, name: str) -> EventStream | None: ...

    def listed(self, at: Any) -> Iterable[tuple[Any, EventStream | None]]:
        """Each stream with the position from which a listing starts with it; from such a position,
        or from the beginning. By creation when reading forwards, else by the last event. None where
        a position turns out to have no stream."""


class Cursor(NamedTuple):
    """What has been reached."""

    heads: Sequence[tuple[str, Position]]
    """The position reached in each open stream."""
    rest: Any
    """From where the other streams are listed; None when all were opened."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    window: Window
    may_hold: MayHold | None = None
    """Excludes data without reading events from it."""


class Search:
    """The search of one page. What `heads` yields counts as seen only when the next is
    requested."""

    def __init__(
        self, source: Source, wanted: "SearchFilter", budget: Budget, *, is_forward: bool
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._budget = budget
        self._head: type[Head] = _Oldest if is_forward else _Newest
        self._heap: list[Head] = []
        self._quiet: list[Head] = []
        """Read to their end, which may not be for good."""
        self._waiting: Iterator[tuple[Any, EventStream | None]] = iter(())
        self._following: tuple[Any, EventStream | None] | None = None

    @property
    def cursor(self) -> Cursor | None:
        """None when nothing is left."""
        if not self._heap and self._following is None:
            return None
        positions = [(head.name, head.position) for head in (*self._heap, *self._quiet)]
        return Cursor(positions, None if self._following is None else self._following[0])

    def heads(self, cursor: Cursor | None) -> Iterator["Head"]:
        """The stream whose turn it is, repeatedly, until everything is read or the budget spent."""
        if cursor is None:
            self._list(None)
        else:
            self._resume(cursor)
        while not self._budget.is_spent and self._has_next():
            head = self._heap[0]
            yield head
            self._budget.spend()
            if head.advance():
                heapq.heapreplace(self._heap, head)
            else:
                self._end(heapq.heappop(self._heap))

    def _resume(self, cursor: Cursor) -> None:
        if cursor.rest is not None:
            self._list(cursor.rest)
        for name, position in cursor.heads:
            stream = self._source.called(name)
            if stream is not None:  # it was not deleted since
                self._open(stream, position)

    def _list(self, at: Any) -> None:
        self._waiting = iter(self._source.listed(at))
        self._following = next(self._waiting, None)

    def _has_next(self) -> bool:
        """With all streams opened whose time is reached."""
        while self._following is not None:
            stream = self._following[1]
            if stream is not None:
                if self._heap and not self._heap[0].may_be_preceded_by(stream):
                    break
                self._open(stream, None)
            self._following = next(self._waiting, None)
            self._budget.spend(_OPENED)
            if self._budget.is_spent:
                return False
        return bool(self._heap)

    def _open(self, stream: EventStream, position: Position | None) -> None:
        head = self._head(stream, self._wanted, position)
        if head.advance():
            heapq.heappush(self._heap, head)
        else:
            self._end(head)

    def _end(self, head: "Head") -> None:
        if head.may_grow:
            self._quiet.append(head)


class Head(ABC):
    """A stream, and its next event."""

    __slots__ = ("_events", "_key", "_stream", "event", "name", "position")

    event: Event
    position: Position
    """From where to continue so that the event is read again; or, after the last, so that none
    is."""

    def __init__(
        self, stream: EventStream, wanted: SearchFilter, position: Position | None
    ) -> None:
        self._stream = stream
        self.name = stream.name
        self._events = self._opened(wanted, position)

    @property
    def key(self) -> tuple[int, str, int, int]:
        """No two events have the same."""
        return self._key

    def advance(self) -> bool:
        """To the next event, if there is one."""
        event = next(self._events, None)
        if event is None:
            return False
        self.event = event
        self._key: tuple[int, str, int, int] = (event.time_ms, self.name, *event.position[:2])
        self._note(event)
        return True

    @property
    def may_grow(self) -> bool:
        return False

    @abstractmethod
    def __lt__(self, other: "Head") -> bool: ...

    @abstractmethod
    def may_be_preceded_by(self, stream: EventStream) -> bool:
        """Whether that one may have an event whose turn is before."""

    @abstractmethod
    def _opened(self, wanted: SearchFilter, position: Position | None) -> Iterator[Event]: ...

    @abstractmethod
    def _note(self, event: Event) -> None: ...


class _Oldest(Head):
    __slots__ = ("_is_over",)

    def __lt__(self, other: Head) -> bool:
        return self.key < other.key

    def may_be_preceded_by(self, stream: EventStream) -> bool:
        return stream.created_ms <= self.event.time_ms

    @property
    def may_grow(self) -> bool:
        return not self._is_over and self._stream.last_ms is None

    def _opened(self, wanted: SearchFilter, position: Position | None) -> Iterator[Event]:
        self._is_over = False
        window = wanted.window
        if position is None:
            position = self._stream.since(window.start_ms or 0)
        self.position = position
        for event in self._stream.events(position, wanted.may_hold):
            if window.is_after(event):
                self._is_over = True
                return
            if not window.is_before(event):
                yield event
            self.position = event.end

    def _note(self, event: Event) -> None:
        self.position = event.position


class _Newest(Head):
    __slots__ = ()

    def __lt__(self, other: Head) -> bool:
        return self.key > other.key

    def may_be_preceded_by(self, stream: EventStream) -> bool:
        return stream.last_ms is None or stream.last_ms >= self.event.time_ms

    def _opened(self, wanted: SearchFilter, position: Position | None) -> Iterator[Event]:
        window = wanted.window
        end = position or end_of(self._stream, window)
        for event in backwards(self._stream, end, wanted.may_hold):
            if window.is_before(event):
                return
            if not window.is_after(event):
                yield event

    def _note(self, event: Event) -> None:
        self.position = event.end
