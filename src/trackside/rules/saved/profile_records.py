"""The profiler's files parsed: JSON lines of figures, and Chrome traces of events."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array

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
    found: list[tuple[Any, ...]] = _LINE.findall(data)
    if len(found) != data.count(b"\n"):
        found = list(_fields(data))
    names, dimensions, values, nodes, times = zip(*found, strict=True) if found else ((),) * 5
    places: dict[Any, int] = {}
    keys = zip(names, dimensions, nodes, strict=True)
    which = [places.setdefault(key, len(places)) for key in keys]
    return Figures(
        tuple((_text(name), _text(dimension), _text(node)) for name, dimension, node in places),
        np.array(which, np.intp),
        np.fromiter(map(float, values), np.float32, len(values)),
        np.fromiter(map(float, times), np.float64, len(times)),
    )


@dataclass(slots=True)
class Timeline:
    """One trace file, which may come in pieces: the first records explain the later ones."""

    start_us: int = 0
    _phases: dict[Any, str] = field(default_factory=dict)

    def parse(self, data: bytes) -> dict[str, list[Event]]:
        """By phase."""
        found: dict[str, list[Event]] = defaultdict(list)
        for record in _trace_records(data):
            if record.get("ph") == "M":
                self._explain(record)
            elif record.get("ph") == "X":
                try:
                    phase, event = self._event(record)
                except (KeyError, TypeError, ValueError):
                    continue
                found[phase].append(event)
        return dict(found)

    def _explain(self, record: dict[str, Any]) -> None:
        arguments = record.get("args") or {}
        if "start_time_since_epoch_in_micros" in arguments:
            self.start_us = int(arguments["start_time_since_epoch_in_micros"])
        if record.get("name") == "process_name" and "name" in arguments:
            self._phases[record.get("pid")] = str(arguments["name"])

    def _event(self, record: dict[str, Any]) -> tuple[str, Event]:
        arguments = record.get("args") or {}
        phase = self._phases.get(record.get("pid")) or str(record["name"])
        start = (self.start_us + int(record["ts"])) / 1e6
        thread = arguments.get("worker_id", arguments.get("pid", record.get("tid", 0)))
        step = int(arguments.get("step_num", -1))
        return phase, (start, int(record.get("dur", 0)) / 1e6, step, int(thread))


def _fields(data: bytes) -> Iterator[tuple[Any, ...]]:
    """What `_LINE` would find, of lines that anybody may have written."""
    for record in _records(data.split(b"\n")):
        try:
            value, time = float(record["Value"]), float(record["Timestamp"])
            yield record["Name"], record["Dimension"], value, record["NodeId"], time
        except (KeyError, TypeError, ValueError):
            continue


def _trace_records(data: bytes) -> Iterable[dict[str, Any]]:
    """Of a whole array, or of the part of one that has been written: a record on each line."""
    try:
        whole = json.loads(data)
    except ValueError:
        return _records(line.strip(b" ,[]\r\t") for line in data.split(b"\n"))
    return [each for each in whole if isinstance(each, dict)] if isinstance(whole, list) else []


def _records(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
