"""Parses the profiler's files: JSON lines of figures, and Chrome traces of events."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.files.json_record import INT_MOST, MOMENT_END, DamagedRecord, parsed
from trackside.quick_dataclass import dataclass

Event = tuple[float, float, int, int]
"""Start and duration in seconds, step (-1 without one), and its thread or process."""

# The form that our supervisors write: this takes a third of the time of a JSON parser.
_LINE = re.compile(
    rb'\{"Type": "\w+", "Name": "([^"\\]*)", "Dimension": "([^"\\]*)", "Value": ([-\d.e+]+), '
    rb'"NodeId": "([^"\\]*)", "Timestamp": ([\d.]+)\}\n'
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Lines of system files as columns."""

    keys: tuple[tuple[str, str, str], ...]
    """The distinct (name, dimension, node) keys: ("cpu0", "CPUUtilization", "algo-1")."""
    which: Array
    """For each line, the index of its key."""
    values: Array
    times: Array
    num_damaged: int = 0
    """Number of invalid lines, which were skipped."""

    def by_node(self) -> Iterator[tuple[str, "Figures"]]:
        nodes = sorted({node for _, _, node in self.keys})
        if len(nodes) == 1:
            yield nodes[0], self
            return
        for node in nodes:
            chosen = np.array([key[2] == node for key in self.keys])[self.which]
            rows = (self.which[chosen], self.values[chosen], self.times[chosen])
            yield node, Figures(self.keys, *rows)


def parse_system(data: bytes) -> Figures:
    """`data` ends with a newline; invalid lines are skipped."""
    found = _LINE.findall(data)
    if len(found) == data.count(b"\n"):
        with suppress(ValueError):  # 1.2.3 consists of a number's characters
            figures = _figures(found)
            if bool(((figures.times >= 0) & (figures.times < MOMENT_END)).all()):
                return figures
    lines = [line for line in data.split(b"\n") if line.strip()]
    understood = list(_fields(lines))
    return replace(_figures(understood), num_damaged=len(lines) - len(understood))


def _figures(found: list[tuple[Any, ...]]) -> Figures:
    names, dimensions, values, nodes, times = zip(*found, strict=True) if found else ((),) * 5
    places: dict[Any, int] = {}
    keys = zip(names, dimensions, nodes, strict=True)
    which = [places.setdefault(key, len(places)) for key in keys]
    with np.errstate(over="ignore"):  # values too large for the narrower type become infinite
        narrow = np.fromiter(map(float, values), np.float64, len(values)).astype(np.float32)
    return Figures(
        tuple((_text(name), _text(dimension), _text(node)) for name, dimension, node in places),
        np.array(which, np.intp),
        narrow,
        np.fromiter(map(float, times), np.float64, len(times)),
    )


@dataclass(slots=True)
class Timeline:
    """One trace file, read in pieces: the first records explain later ones."""

    start_us: int = 0
    num_damaged: int = 0
    """Records skipped so far."""
    _phases: dict[Any, str] = field(default_factory=dict)

    def parse(self, data: bytes) -> dict[str, list[Event]]:
        """By phase."""
        found: dict[str, list[Event]] = defaultdict(list)
        for record in _trace_records(data):
            try:
                if record["ph"] == "M":
                    self._explain(record)
                elif record["ph"] == "X":
                    phase, event = self._event(record)
                    found[phase].append(event)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                self.num_damaged += 1
        return dict(found)

    def _explain(self, record: dict[str, Any]) -> None:
        arguments = record.get("args") or {}
        if "start_time_since_epoch_in_micros" in arguments:
            self.start_us = _within(int(arguments["start_time_since_epoch_in_micros"]))
        if record.get("name") == "process_name" and "name" in arguments:
            self._phases[record.get("pid")] = str(arguments["name"])

    def _event(self, record: dict[str, Any]) -> tuple[str, Event]:
        arguments = record.get("args") or {}
        phase = self._phases.get(record.get("pid")) or str(record["name"])
        start = (self.start_us + int(record["ts"])) / 1e6
        if not 0 <= start < MOMENT_END:
            raise ValueError("an impossible time")
        thread = arguments.get("worker_id", arguments.get("pid", record.get("tid", 0)))
        step = _within(int(arguments.get("step_num", -1)))
        duration = _within(int(record.get("dur", 0))) / 1e6
        return phase, (start, duration, step, _within(int(thread)))


def _within(number: int) -> int:
    if abs(number) > INT_MOST:
        raise ValueError("a number beyond 64 bits")
    return number


def _fields(lines: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """What `_LINE` would match, for untrusted lines."""
    for line in lines:
        try:
            record = parsed(line)
            value, time = float(record["Value"]), float(record["Timestamp"])
            texts = [record[name] for name in ("Name", "Dimension", "NodeId")]
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue
        if 0 <= time < MOMENT_END and all(isinstance(text, str) for text in texts):
            name, dimension, node = texts
            yield name, dimension, value, node, time


def _trace_records(data: bytes) -> Iterable[Any]:
    """Records of a complete array, or of a partially written one: one per line."""
    try:
        whole = parsed(data)
    except DamagedRecord:
        stripped = (line.strip(b" ,[]\r\t") for line in data.split(b"\n"))
        return map(_record, filter(None, stripped))
    return whole if isinstance(whole, list) else [whole]


def _record(line: bytes) -> Any:
    try:
        return parsed(line)
    except DamagedRecord:
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
