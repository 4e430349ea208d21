"""The profiler's files parsed: JSON lines of figures, and Chrome traces of events."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.files.json_record import INT_MOST, MOMENT_END, DamagedRecord, parsed

Event = tuple[float, float, int, int]
"""Start and duration in seconds, step (-1 without one), and which thread or process it was in."""

# The form our own supervisors write: taken apart this way in a third of the time JSON takes.
_LINE = re.compile(
    rb'\{"Type": "\w+", "Name": "([^"\\]*)", "Dimension": "([^"\\]*)", "Value": ([-\d.e+]+), '
    rb'"NodeId": "([^"\\]*)", "Timestamp": ([\d.]+)\}\n'
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Lines of system files as columns."""

    keys: tuple[tuple[str, str, str], ...]
    """The different names, dimensions and nodes: ("cpu0", "CPUUtilization", "algo-1")."""
    which: Array
    """For each line, the place of its key."""
    values: Array
    times: Array
    num_damaged: int = 0
    """Lines that are no such records, and were left out."""

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
    """`data` ends with a line's end; lines that are no such records are left out."""
    found = _LINE.findall(data)
    if len(found) == data.count(b"\n"):
        with suppress(ValueError):  # 1.2.3 has the digits of a number
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
    with np.errstate(over="ignore"):  # what is too large for the narrower type is infinite
        narrow = np.fromiter(map(float, values), np.float64, len(values)).astype(np.float32)
    return Figures(
        tuple((_text(name), _text(dimension), _text(node)) for name, dimension, node in places),
        np.array(which, np.intp),
        narrow,
        np.fromiter(map(float, times), np.float64, len(times)),
    )


@dataclass(slots=True)
class Timeline:
    """One trace file, which may come in pieces: the first records explain the later ones."""

    start_us: int = 0
    num_damaged: int = 0
    """Records that were left out so far."""
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
            raise ValueError("a time that no clock tells")
        thread = arguments.get("worker_id", arguments.get("pid", record.get("tid", 0)))
        step = _within(int(arguments.get("step_num", -1)))
        duration = _within(int(record.get("dur", 0))) / 1e6
        return phase, (start, duration, step, _within(int(thread)))


def _within(number: int) -> int:
    if abs(number) > INT_MOST:
        raise ValueError("a number beyond 64 bits")
    return number


def _fields(lines: Iterable[bytes]) -> Iterator[tuple[Any, ...]]:
    """What `_LINE` would find, of lines that anybody may have written."""
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
    """Of a whole array, or of the part of one that has been written: a record on each line."""
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
