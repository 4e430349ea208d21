"""The logs of jobs as streams of events: one for each host, and one for each rule evaluation.

An event never changes once it was given, nor does one come later that belongs before it.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from trackside.errors import JobNotFound
from trackside.finding import RuleKey
from trackside.jobs.describe import rule_job
from trackside.jobs.index import Order, Page
from trackside.jobs.jobs import Jobs
from trackside.jobs.logs import PART_BYTES, LogLine, LogPosition
from trackside.jobs.records import Record

TRAINING = "/aws/sagemaker/TrainingJobs"
PROCESSING = "/aws/sagemaker/ProcessingJobs"
GROUPS = (PROCESSING, TRAINING)

_JOBS_AT_ONCE = 100
_NAME_PART = re.compile(r"[a-zA-Z0-9-]*")


class Place(NamedTuple):
    """In one stream: before the event that begins here."""

    attempt: int = 1
    offset: int = 0
    floor_ms: int = 0
    """The time of the event before: none that follows is told as earlier."""


class Event(NamedTuple):
    time_ms: int
    message: str
    place: Place
    end: Place


class EventStream(Protocol):
    """What is read, whoever writes it."""

    @property
    def name(self) -> str: ...

    @property
    def created_ms(self) -> int: ...

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """From the first event to the last, about; None while there is none."""

    def events(self, start: Place | None = None) -> Iterator[Event]: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """All attempts of one host in one stream: clients expect as many streams as hosts."""

    jobs: Jobs
    record: Record
    owner: str
    """What the name begins with: the job's, or the rule's processing job's."""
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

    def events(self, start: Place | None = None) -> Iterator[Event]:
        start = start or Place(floor_ms=self.created_ms)
        lines = self._lines(start) if self.rule is None else self._findings(start)
        floor = start.floor_ms
        for attempt, offset, end, moment, text in lines:
            place = Place(attempt, offset, floor)
            floor = max(floor, int(moment * 1000))
            # A message has a character at least.
            yield Event(floor, text or " ", place, Place(attempt, end, floor))

    def _lines(self, start: Place) -> Iterator[tuple[int, int, int, float, str]]:
        after = LogPosition(start.attempt, start.offset)
        for line in _joined(self.jobs.settled_lines(self.record, self.host, after)):
            text = line.data.decode(errors="replace").rstrip("\r\n")
            yield line.attempt, line.offset, line.end.offset, line.time, text

    def _findings(self, start: Place) -> Iterator[tuple[int, int, int, float, str]]:
        """A rule says what it found; the offset is the finding's number."""
        for number, finding in enumerate(self.jobs.findings(self.record.spec.name)):
            if finding.key == self.rule and number >= start.offset:
                at = "" if finding.step is None else f"step {finding.step}: "
                text = f"{finding.rule}: {at}{finding.message}"
                yield 1, number, number + 1, finding.time, text


def stream_called(jobs: Jobs, group: str, name: str) -> Stream | None:
    owner, _, _ = name.partition("/")
    return next((each for each in _owned_by(jobs, group, owner) if each.name == name), None)


def streams(jobs: Jobs, group: str, prefix: str, page: Page) -> Iterator[tuple[Page, Stream]]:
    """Those whose names begin so, job by job in the order of the page, each with the page to go on
    from if this stream was the first not seen."""
    owner, slash, _ = prefix.partition("/")
    if slash:
        for stream in _owned_by(jobs, group, owner):
            if stream.name.startswith(prefix):
                yield page, stream
        return
    if group == TRAINING:
        if not _NAME_PART.fullmatch(prefix):
            return
        page = replace(page, name_starts=prefix or None)
    page = replace(page, limit=_JOBS_AT_ONCE)
    while rows := jobs.page(page):
        for row in rows:
            for stream in _of_job(jobs, group, row.name, descending=page.descending):
                if stream.name.startswith(prefix):
                    yield page, stream
            page = replace(page, after=page.order.key(row))


def since(jobs: Jobs, group: str, start_ms: int | None) -> Iterator[Stream]:
    """Of jobs that may have an event at this time or later, in the order of their creation."""
    alive = None if start_ms is None else start_ms / 1000
    page = Page(order=Order.CREATED, descending=False, alive_since=alive)
    # Rules go on after their job has ended.
    page = page if group == TRAINING else replace(page, alive_since=None)
    for _, stream in streams(jobs, group, "", page):
        yield stream


def _joined(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Lines that were cut between two stored chunks made whole; long ones stay in parts."""
    begun: LogLine | None = None
    for line in lines:
        if begun is not None and begun.end == (line.attempt, line.offset):
            line = replace(begun, data=begun.data + line.data)
        elif begun is not None:
            yield begun
        begun = None
        if line.data.endswith(b"\n") or len(line.data) >= PART_BYTES:
            yield line
        else:
            begun = line
    if begun is not None:
        yield begun


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
