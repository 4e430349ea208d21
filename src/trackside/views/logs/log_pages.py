"""A few hundred lines of a log, from any place of it: the end, a line, a time or a step."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from trackside.errors import InputError
from trackside.jobs.records import Record
from trackside.records.layout import FIRST_HOST
from trackside.views.logs.log_text import KEPT_BYTES, is_overwritten, shown_text
from trackside.views.logs.open_logs import OpenLog, OpenLogs

MOST_LINES = 5_000
_READ_BYTES = 4 << 20
"""Of a page, whatever the number of its lines."""
_PLACE = re.compile(r"(line|time|step):(\d+(?:\.\d+)?)")

TimeOfStep = Callable[[int], float | None]
"""When the job reached a step; None if that is not known."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    time: float
    text: str


@dataclass(frozen=True, slots=True)
class LogPage:
    host: str
    attempt: int
    total: int
    first: int
    """The number of the first line, counted from 1."""
    lines: list[ShownLine]
    revision: str
    """Changes when the log has grown."""
    target: int | None = None
    """The line that was asked for."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class LogPages:
    """All methods may be called from several threads."""

    def __init__(self, logs: OpenLogs) -> None:
        self._logs = logs

    def page(
        self,
        record: Record,
        *,
        host: str = FIRST_HOST,
        attempt: int | None = None,
        at: str = "tail",
        count: int = 500,
        time_of_step: TimeOfStep | None = None,
    ) -> LogPage:
        """`at` is `tail`, `line:N`, `time:SECONDS` or `step:N`. Without `attempt`, the last one, or
        the one that ran at the time or step.
        """
        count = max(1, min(count, MOST_LINES))
        place = _Place.parse(at)
        if place.kind == "step":
            place = _Place("time", _step_time(record, int(place.value), time_of_step))
        if place.kind == "time":
            log, target = self._at_time(record, host, attempt, place.value)
            return _page(log, max(0, target - count // 3), count, target)
        log = self._logs.get(record, host, attempt or max(1, record.history.attempt))
        if place.kind == "tail":
            return _page(log, max(0, log.num_lines - count), count, None)
        target = max(0, min(int(place.value) - 1, log.num_lines - 1))
        return _page(log, target, count, target)

    def _at_time(
        self, record: Record, host: str, attempt: int | None, time: float
    ) -> tuple[OpenLog, int]:
        """The log and the line of this time; the last line if all are earlier."""
        last = max(1, record.history.attempt)
        for number in [attempt] if attempt else range(1, last + 1):
            log = self._logs.get(record, host, number)
            line = log.line_at_time(time)
            if line is not None:
                return log, line
        return log, max(0, log.num_lines - 1)


@dataclass(frozen=True, slots=True)
class _Place:
    kind: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "_Place":
        if text == "tail":
            return cls("tail", 0)
        if found := _PLACE.fullmatch(text):
            return cls(found[1], float(found[2]))
        raise InputError(
            f"{text[:80]!r} is no place in a log. Give tail, line:NUMBER, time:SECONDS (since the "
            "epoch) or step:NUMBER."
        )


def _step_time(record: Record, step: int, time_of_step: TimeOfStep | None) -> float:
    time = time_of_step(step) if time_of_step is not None else None
    if time is None:
        raise InputError(
            f"When job {record.spec.name!r} reached step {step} is not known: it has no curve with "
            "that step. Jump to a time or a line instead."
        )
    return time


def _page(log: OpenLog, first: int, count: int, target: int | None) -> LogPage:
    """`first` and `target` count from 0."""
    size, total = log.size, log.num_lines
    count = max(0, min(count, total - first))
    start, end = log.starts([first, first + count])
    if end - start <= _READ_BYTES:
        data = log.read(start, end).split(b"\n")
        texts = [(len(line) + 1, shown_text(line)) for line in data[:count]]
    else:
        texts = _long_lines(log, first, count)
    offsets = [start]
    for length, _ in texts:
        offsets.append(offsets[-1] + length)
    times = log.times(offsets[:-1])
    lines = [ShownLine(time, text) for time, (_, text) in zip(times, texts, strict=True)]
    revision = f"{log.attempt}-{size}"
    shown_target = None if target is None else target + 1
    return LogPage(log.host, log.attempt, total, first + 1, lines, revision, shown_target)


def _long_lines(log: OpenLog, first: int, count: int) -> list[tuple[int, str]]:
    """Length and text of each line, until enough was read."""
    texts = []
    num_read = 0
    for number in range(first, first + count):
        start, end = log.starts([number, number + 1])
        if end - start <= 2 * KEPT_BYTES:
            text = shown_text(log.read(start, end))
        else:
            text = _long_line(log, start, end)
        texts.append((end - start, text))
        num_read += min(end - start, 2 * KEPT_BYTES)
        if num_read >= _READ_BYTES:
            break
    return texts


def _long_line(log: OpenLog, start: int, end: int) -> str:
    tail = log.read(end - KEPT_BYTES, end)
    if is_overwritten(tail):
        return shown_text(tail.partition(b"\r")[2])
    return shown_text(log.read(start, start + KEPT_BYTES), end - start - KEPT_BYTES)
