"""The logs of jobs as streams of events: one per host, and one per rule evaluation.

An event never changes after it was returned, and no later one is inserted before it.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from trackside.errors import JobNotFound
from trackside.jobs.describe import rule_job
from trackside.jobs.index import Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.log_offsets import LogOffsets
from trackside.jobs.log_prefilter import MayHold
from trackside.jobs.logs import PART_BYTES, LogLine, LogPosition
from trackside.jobs.records import Record
from trackside.records.finding import RuleKey

TRAINING = "/aws/sagemaker/TrainingJobs"
PROCESSING = "/aws/sagemaker/ProcessingJobs"
GROUPS = (PROCESSING, TRAINING)

_JOBS_AT_ONCE = 100
_RULES_LATER_SECONDS = 3600.0
_NAME_PART = re.compile(r"[a-zA-Z0-9-]*")


class Position(NamedTuple):
    """In one stream: before the event that starts here."""

    attempt: int = 1
    offset: int = 0
    floor_ms: int = 0
    """The time of the previous event: no later event has an earlier time."""


class Event(NamedTuple):
    time_ms: int
    message: str
    position: Position
    end: Position

    @property
    def is_gap(self) -> bool:
        """Whether it is not an event, and only shows the progress where others were left out."""
        return self.position[:2] == self.end[:2]


class EventStream(Protocol):
    """A readable stream, whatever writes it."""

    @property
    def name(self) -> str: ...

    @property
    def created_ms(self) -> int: ...

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """From the first event to the last, about; None while there is none."""

    @property
    def last_ms(self) -> int | None:
        """An approximate upper limit of all times; None while more events may come."""

    def events(
        self, start: Position | None = None, may_hold: MayHold | None = None
    ) -> Iterator[Event]:
        """With `may_hold`, events that cannot match may be left out."""

    def before(self, end: Position | None, size_bytes: int) -> Position | None:
        """About so many bytes before this position, or before the end; None at the start."""

    def since(self, time_ms: int) -> Position:
        """Shortly before the first event of this time or later."""


@dataclass(frozen=True, slots=True)
class Stream:
    """All attempts of one host in one stream: clients expect as many streams as hosts."""

    jobs: Jobs
    record: Record
    owner: str
    """The start of the name: the job's, or the rule's processing job's."""
    host: str
    rule: RuleKey | None = None
    """None for a host of the job."""

    @property
    def name(self) -> str:
        return f"{self.owner}/{self.host}-{int(self.record.history.created)}"

    @property
    def created_ms(self) -> int:
        return int(self.record.history.created * 1000)

    @property
    def span_ms(self) -> tuple[int, int] | None:
        history = self.record.history
        if history.training_started is None:
            return None
        return int(history.training_started * 1000), int((history.ended or time.time()) * 1000)

    @property
    def last_ms(self) -> int | None:
        history = self.record.history
        if not history.state.is_final:
            return None
        # Rules continue reading after the end of their job.
        seconds = history.modified + (0 if self.rule is None else _RULES_LATER_SECONDS)
        return int(seconds * 1000) + 1

    def before(self, end: Position | None, size_bytes: int) -> Position | None:
        if self.rule is not None:
            return None if end is not None and not end.offset else self._first
        position = None if end is None else LogPosition(end.attempt, end.offset)
        positions = self.jobs.log_places(self.record, self.host)
        found = positions.before(position, size_bytes)
        return None if found is None else self._position(positions, found)

    def since(self, time_ms: int) -> Position:
        if self.rule is not None or time_ms <= self.created_ms:
            return self._first
        positions = self.jobs.log_places(self.record, self.host)
        return self._position(positions, positions.since(time_ms / 1000))

    def events(
        self, start: Position | None = None, may_hold: MayHold | None = None
    ) -> Iterator[Event]:
        start = start or self._first
        lines = self._lines(start, may_hold) if self.rule is None else self._findings(start)
        floor = start.floor_ms
        for attempt, offset, end, moment, text in lines:
            position = Position(attempt, offset, floor)
            floor = max(floor, int(moment * 1000))
            # A message has a character at least.
            yield Event(floor, text or " ", position, Position(attempt, end, floor))

    @property
    def _first(self) -> Position:
        return Position(floor_ms=self.created_ms)

    def _position(self, positions: LogOffsets, found: LogPosition) -> Position:
        """Within an attempt, times of lines never decrease anyway."""
        earlier_ms = int(positions.last_time_before(found.attempt) * 1000)
        return Position(*found, floor_ms=max(self.created_ms, earlier_ms))

    def _lines(
        self, start: Position, may_hold: MayHold | None
    ) -> Iterator[tuple[int, int, int, float, str]]:
        after = LogPosition(start.attempt, start.offset)
        for line in _joined(self.jobs.settled_lines(self.record, self.host, after, may_hold)):
            text = line.data.decode(errors="replace").rstrip("\r\n")
            yield line.attempt, line.offset, line.end.offset, line.time, text

    def _findings(self, start: Position) -> Iterator[tuple[int, int, int, float, str]]:
        """A rule's findings; the offset is the number of a finding."""
        for number, finding in enumerate(self.jobs.findings(self.record.spec.name)):
            if finding.key == self.rule and number >= start.offset:
                at = "" if finding.step is None else f"step {finding.step}: "
                text = f"{finding.rule}: {at}{finding.message}"
                yield 1, number, number + 1, finding.time, text


def stream_called(jobs: Jobs, group: str, name: str) -> Stream | None:
    owner, _, _ = name.partition("/")
    return next((each for each in _owned_by(jobs, group, owner) if each.name == name), None)


At = tuple[tuple[Any, ...] | None, int]
"""From where a listing continues: after this row of the index, and so many streams of the next."""
Listed = Iterator[tuple[At, Stream | None]]
"""Each stream with the position from which a listing starts with it; None for a job without one."""


def streams(jobs: Jobs, group: str, prefix: str, page: Page, skip: int = 0) -> Listed:
    """Those with this prefix, job by job in the order of the page."""
    owner, slash, _ = prefix.partition("/")
    if slash:
        found = [each for each in _owned_by(jobs, group, owner) if each.name.startswith(prefix)]
        yield from (((None, number), found[number]) for number in range(skip, len(found)))
        return
    if group == TRAINING:
        if not _NAME_PART.fullmatch(prefix):
            return
        page = replace(page, name_starts=prefix or None)
    page = replace(page, limit=_JOBS_AT_ONCE)
    while rows := jobs.page(page):
        for row in rows:
            found = _of_job(jobs, group, row.name, descending=page.descending)
            found = [each for each in found if each.name.startswith(prefix)]
            for number in range(skip, len(found)):
                yield (page.after, number), found[number]
            if not found:
                yield (page.after, 0), None
            page, skip = replace(page, after=page.order.key(row)), 0


def _joined(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Lines that were cut between two stored chunks made whole; long ones stay in parts."""
    started: LogLine | None = None
    for line in lines:
        if started is not None and started.end == (line.attempt, line.offset):
            line = replace(started, data=started.data + line.data)
        elif started is not None:
            yield started
        started = None
        if not line.data or line.data.endswith(b"\n") or len(line.data) >= PART_BYTES:
            yield line
        else:
            started = line
    if started is not None:
        yield started


def _owned_by(jobs: Jobs, group: str, owner: str) -> list[Stream]:
    if group == TRAINING:
        return _of_job(jobs, group, owner)
    found = jobs.find_rule_job(owner)
    if found is None:
        return []
    return [_of_rule(jobs, found[0], found[1].key)]


def _of_job(jobs: Jobs, group: str, name: str, *, descending: bool = False) -> list[Stream]:
    try:
        record = jobs.record(name)
    except JobNotFound:
        return []
    if group == TRAINING:
        found = [Stream(jobs, record, name, host) for host in record.spec.hosts]
    else:
        found = [_of_rule(jobs, record, each.key) for each in jobs.evaluations_of(record)]
    return sorted(found, key=lambda stream: stream.name, reverse=descending)


def _of_rule(jobs: Jobs, record: Record, rule: RuleKey) -> Stream:
    return Stream(jobs, record, rule_job(record.spec.name, rule), "algo-1", rule)
