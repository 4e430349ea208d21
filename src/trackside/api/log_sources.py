"""Which streams a search reads: those of jobs, listed by the index page by page, or a given
list."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trackside.api import log_streams
from trackside.api.log_events import Window
from trackside.api.log_streams import TRAINING, EventStream, Listed, Stream
from trackside.api.log_tokens import invalid, is_offset
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs

_NO_END_MS = 1 << 60


@dataclass(frozen=True, slots=True)
class KnownStreams:
    streams: Sequence[EventStream]
    is_forward: bool

    def called(self, name: str) -> EventStream | None:
        return next((each for each in self.streams if each.name == name), None)

    def listed(self, at: Any) -> Iterator[tuple[Any, EventStream]]:
        """A listing continues at a stream's first or last time, and its name."""
        match at:
            case None:
                moment_ms, first = int(time.time() * 1000), (0, "")
            case [moment_ms, int(number), str(name)] if is_offset(moment_ms):
                first = (number, name)
            case _:
                raise invalid()
        for key, stream in sorted((self._key(each, moment_ms), each) for each in self.streams):
            if at is None or key >= first:
                yield (moment_ms, *key), stream

    def _key(self, stream: EventStream, moment_ms: int) -> tuple[int, str]:
        """One that ended after the first page counts as running, so it is not returned twice."""
        if self.is_forward:
            return stream.created_ms, stream.name
        last_ms = stream.last_ms
        has_ended = last_ms is not None and last_ms < moment_ms
        return -(last_ms if has_ended and last_ms is not None else _NO_END_MS), stream.name


@dataclass(frozen=True, slots=True)
class JobStreams:
    jobs: Jobs
    group: str
    prefix: str
    window: Window
    is_forward: bool

    def called(self, name: str) -> EventStream | None:
        return log_streams.stream_called(self.jobs, self.group, name)

    def listed(self, at: Any) -> Iterator[tuple[Any, Stream | None]]:
        if not self.is_forward:
            return self._by_end(at)
        after, skip = _row(at or (None, 0))
        return self._streams(Page(order=Order.CREATED, descending=False), after, skip)

    def _by_end(self, at: Any) -> Iterator[tuple[Any, Stream | None]]:
        """First those that ran at the time of the first page, then those that had ended, the last
        first: one that ends meanwhile is not returned twice.
        """
        match at:
            case None:
                moment, are_ended, after, skip = time.time(), False, None, 0
            case [float(moment), bool(are_ended), *row]:
                after, skip = _row(row)
            case _:
                raise invalid()
        if not are_ended:
            page = Page(order=Order.CREATED, alive_since=moment)
            for there, stream in self._streams(page, after, skip):
                yield (moment, False, *there), stream
            after, skip = None, 0
        page = Page(order=Order.MODIFIED, modified_before=moment)
        for there, stream in self._streams(page, after, skip):
            had_ended = stream is not None and _has_ended(stream, moment)
            yield (moment, True, *there), stream if had_ended else None

    def _streams(self, page: Page, after: Any, skip: int) -> Listed:
        """Of jobs that may have an event in the window. Rules may run after their job has ended."""
        start_ms, end_ms = self.window.start_ms, self.window.end_ms
        if start_ms is not None and self.group == TRAINING:
            page = replace(page, alive_since=max(page.alive_since or 0, start_ms / 1000))
        if end_ms is not None:
            page = replace(page, created_before=end_ms / 1000)
        page = replace(page, after=after)
        return log_streams.streams(self.jobs, self.group, self.prefix, page, skip)


def _row(at: Any) -> log_streams.At:
    match at:
        case [None, skip] if is_offset(skip):
            return None, skip
        case [[float() | int() as moment, str(name)], skip] if is_offset(skip):
            return (moment, name), skip
    raise invalid()


def _has_ended(stream: Stream, moment: float) -> bool:
    ended = stream.record.history.ended
    return ended is not None and ended < moment
