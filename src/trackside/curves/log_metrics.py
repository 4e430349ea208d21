"""Metrics that a script only prints: found by MetricDefinitions, stored as curves and totals.

Also reads the JSON lines of the metrics folder (`SAGEMAKER_METRICS_DIRECTORY`). The output depends
only on the log's bytes and times, so a supervisor that takes over repeats the last seconds exactly.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trackside.curves.event_file import EventFile
from trackside.curves.pattern_search import PatternSearch
from trackside.files import damaged_files, durable
from trackside.files.json_record import MOMENT_END, DamagedRecord, parsed_object
from trackside.files.script_folder import ScriptFolder
from trackside.records.log_lines import read_marks, time_of
from trackside.records.metric_totals import MetricsFile, MetricTotal, from_json, started, to_json
from trackside.records.spec import MetricDefinition

logger = logging.getLogger(__name__)

READ_BYTES = 256 << 10
BUSY_SECONDS = 1.0
"""After this long the rest of a log waits for the next pass."""
MOST_LINE = 8192
"""Characters searched per line: a pattern's time may grow with their square or worse
(`pattern_worker.py` handles the latter).
"""

_LINE = re.compile(rb"[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    value: float
    time: float
    step: int | None = None
    """Reported by the script; else the point's number among those of its name."""


class LogMetrics:
    """One host's metrics. Not thread-safe."""

    def __init__(
        self,
        definitions: Sequence[MetricDefinition],
        log: Path,
        times: Path,
        reported: Path | ScriptFolder,
    ) -> None:
        self._search = PatternSearch(definitions)
        self._log = log
        self._times = times
        self._reported = ScriptFolder.of(reported)
        """The folder of JSON lines."""

    def points(self, offsets: dict[str, int], *, last: bool) -> Iterator[Point]:
        """New points since `offsets`, which are advanced. A long log is read in parts."""
        if self._search.definitions:
            yield from self._scraped(offsets, last=last)
        for name in self._reported_files():
            opened = partial(self._reported.open, name)
            for block in new_lines(opened, offsets, name, self._reported_bytes(name), last=last):
                for _, line in block:
                    yield from reported_points(line)

    @property
    def switched_off(self) -> dict[str, str]:
        """Patterns that are switched off, and why."""
        return self._search.switched_off

    def close(self) -> None:
        """Ends the search process; the next search starts another."""
        self._search.close()

    def _reported_files(self) -> list[str]:
        try:
            with self._reported.entries() as entries:
                return sorted(
                    each.name
                    for each in entries
                    if each.name.endswith(".json") and each.is_file(follow_symlinks=False)
                )
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _reported_bytes(self, name: str) -> int:
        try:
            return self._reported.lstat(name).st_size
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _scraped(self, offsets: dict[str, int], *, last: bool) -> Iterator[Point]:
        marks = read_marks(self._times)
        size = marks[-1].size if marks else 0  # later bytes have no time yet
        began = time.monotonic()
        opened = partial(os.open, self._log, os.O_RDONLY | os.O_CLOEXEC)
        for block in new_lines(opened, offsets, "", size, last=last):
            for at, name, value in self._search.search([_text(line) for _, line in block]):
                yield Point(name, value, time_of(block[at][0], marks, marks[-1].time))
            if time.monotonic() - began > BUSY_SECONDS and not last:
                return  # event files wait for us


class MetricsKeeper:
    """Writes the points as an event file and their totals as JSON, on each call."""

    def __init__(self, source: LogMetrics, curves: Path, totals: Path) -> None:
        self._source = source
        self._curves = curves
        self._path = totals
        state = _state(totals)
        self._totals: dict[str, MetricTotal] = state.metrics
        self._offsets: dict[str, int] = state.offsets
        source.switched_off.update(state.switched_off)
        self._file = _reopened(curves, state)
        self._is_broken = False

    def tick(self, *, last: bool = False) -> None:
        """Never raises: a job does not fail for a metric."""
        if self._is_broken:
            return
        try:
            self._keep(last=last)
        except Exception:
            logger.exception("metrics are no longer collected")
            self._is_broken = True
        if last or self._is_broken:
            self._source.close()

    def _keep(self, *, last: bool) -> None:
        before = dict(self._offsets)
        for point in self._source.points(self._offsets, last=last):
            self._add(point)
        if self._offsets == before:
            return
        if self._file is not None:
            self._file.flush()
        durable.write_json(self._path, self._state())

    def _add(self, point: Point) -> None:
        known = self._totals.get(point.name)
        step = point.step if point.step is not None else known.count if known else 0
        if self._file is None:
            self._file = EventFile(self._curves)
        self._file.add((point.name, point.value, step, point.time))
        self._totals[point.name] = (
            known.and_(point.value, point.time) if known else started(point.value, point.time)
        )

    def _state(self) -> dict[str, Any]:
        file = self._file
        return {
            "metrics": to_json(self._totals),
            "offsets": self._offsets,
            "switched_off": self._source.switched_off,
            "file": None if file is None else file.path.name,
            "file_bytes": 0 if file is None else file.path.stat().st_size,
        }


def reported_points(line: bytes) -> Iterator[Point]:
    """A line of the metrics folder: MetricName, Value, Timestamp (ms) and IterationNumber."""
    try:
        record = parsed_object(line)
        step = record.get("IterationNumber")
        time = float(record["Timestamp"]) / 1000
        if not 0 <= time < MOMENT_END:
            return
        yield Point(
            str(record["MetricName"]),
            float(record["Value"]),
            time,
            None if step is None else int(step),
        )
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return


def _text(line: bytes) -> str:
    return line[: 4 * MOST_LINE].decode(errors="replace")[:MOST_LINE]


def new_lines(
    opened: Callable[[], int], offsets: dict[str, int], name: str, size: int, *, last: bool
) -> Iterator[list[tuple[int, bytes]]]:
    """Blocks of lines, each with its offset, up to `size`; one without an end only when `last`."""
    while (start := offsets.get(name, 0)) < size:
        with open(opened(), "rb") as file:
            file.seek(start)
            data = file.read(min(READ_BYTES, size - start))
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end and len(data) < READ_BYTES and not last:
            return
        if not end or (last and start + len(data) >= size):
            end = len(data)
        offsets[name] = start + end
        yield [(start + match.start(), match[0]) for match in _LINE.finditer(data[:end])]


def _state(totals: Path) -> MetricsFile:
    """The state of an earlier supervisor. If it is damaged, everything is read again."""
    content = damaged_files.read_object(totals)
    try:
        return MetricsFile({}) if content is None else from_json(content)
    except DamagedRecord as error:
        damaged_files.say_once(totals, f"{error}; the log is read again from its start")
        return MetricsFile({})


def _reopened(curves: Path, state: MetricsFile) -> EventFile | None:
    """An earlier supervisor's file, truncated to what the totals count."""
    if not state.file:
        return None
    try:
        return EventFile.reopen(curves / Path(state.file).name, state.file_bytes)
    except OSError as error:
        logger.warning("the metrics in %s are not gone on with: %s", state.file, error)
        return None
