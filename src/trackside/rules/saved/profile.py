"""A job's profiler output as growing arrays, for profiler rules and reports.

`profile_records.py` parses the files; the rules interpret the figures.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trackside.capture.dtypes import Array
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.profile_records import Timeline, parse_system
from trackside.rules.saved.profile_tables import Events, NodeTable, Samples
from trackside.settings import Settings
from trackside.storage.locate import Location, locate
from trackside.storage.store import Entry

STEP = "Step:ModeKeys."
"""Prefix of the phase of every training step; the mode's name follows."""
SILENT_SECONDS = 300.0
"""A node without data for this long, while others have some, is no longer waited for."""
PAUSE_SECONDS = 86400.0
"""A longer pause in the data is not walked through window by window."""
_SYSTEM = "system/incremental/"
_FRAMEWORK = "framework/pevents/"
_END_MARKERS = ("system/training_job_end.ts", "framework/training_job_end.ts")
_SYSTEM_FILE = re.compile(r"\d+/\d+\.[^/]+\.json")
_TIMELINE_FILE = re.compile(r"(?:\d+/)?\d+_([^/]+)_\w*timeline\.json")
_HOUR_DIGITS = 10


class Profile:
    """Between two calls of `advance` nothing changes. Every byte is read once.

    Times are seconds since the epoch. A *node* is a host (`algo-1`); a *worker* is one of its
    processes, `<rank>-<host>` (`0-algo-1`).
    """

    def __init__(self, place: str | Path | Location, *, home: Path | None = None) -> None:
        """`place` is the job's `profiler-output`; `home` contains the embedded buckets."""
        if not isinstance(place, Location):
            place = locate(place, home=home or Settings.load().home)
        self.place = place
        self.nodes: dict[str, NodeTable] = {}
        self.events: dict[str, dict[str, Events]] = {}
        """By worker and phase."""
        self.is_all = False
        """The job has ended and nothing is left to read."""
        self.first_time: float | None = None
        """Of the first figure or event."""
        self._is_ended = False
        self._system = _Folder(place, _SYSTEM, _SYSTEM_FILE)
        self._framework = _Folder(place, _FRAMEWORK, _TIMELINE_FILE)
        self._timelines: dict[str, Timeline] = {}
        self._damaged: set[str] = set()

    def end(self) -> None:
        """Nothing more will come, with or without a marker: the next `advance` reads all."""
        self._is_ended = True

    def advance(self) -> bool:
        """Read what was written meanwhile; returns whether there is anything to check."""
        if self.is_all:
            return False
        # Checked first: the listing then includes everything written before the marker.
        is_all = self._is_ended or any(_exists(self.place, marker) for marker in _END_MARKERS)
        changed = self._read_system(everything=is_all) | self._read_framework(everything=is_all)
        self.is_all = is_all
        if changed and self.first_time is None:
            self.first_time = min(self._firsts())
        return changed or is_all

    @property
    def last_time(self) -> float | None:
        """The time of the newest figure or event."""
        return max(self._lasts().values(), default=None)

    @property
    def workers(self) -> list[str]:
        return sorted(self.events)

    def columns(self, dimension: str) -> list[tuple[str, str]]:
        """Each node with a figure of this dimension, and the figure's name: ("algo-1", "gpu0")."""
        return [
            (node, name)
            for node, table in sorted(self.nodes.items())
            for name in table.names(dimension)
        ]

    def windows(self, after: float | None, seconds: float) -> Iterator["Window"]:
        """Complete windows of equal length, from `after` (None: the beginning) on.

        The last one, with the remainder, is returned when the job has ended.
        """
        start = self.first_time if after is None else after
        if start is None:
            return
        complete = self._complete_until()
        while start + seconds <= complete:
            yield Window(self, start, start + seconds)
            start = self._after_pause(start + seconds, seconds)
        if self.is_all:
            # Beyond the last figure, to include it.
            yield Window(self, start, np.nextafter(max(self.last_time or 0.0, start), np.inf), True)

    def _after_pause(self, start: float, seconds: float) -> float:
        """The start of the next window; skips to one with figures if a clock has jumped by days."""
        times = [table.times for table in self.nodes.values()]
        times += [events.starts for phases in self.events.values() for events in phases.values()]
        coming = [each[at] for each in times if (at := np.searchsorted(each, start)) < len(each)]
        pause = float(min(coming)) - start if coming else 0.0
        return start + int(pause // seconds) * seconds if pause > PAUSE_SECONDS else start

    def _complete_until(self) -> float:
        """The time before which no active node will report anything more."""
        lasts = self._lasts().values()
        newest = max(lasts)
        return min(last for last in lasts if last >= newest - SILENT_SECONDS)

    def _lasts(self) -> dict[str, float]:
        """By node. Steps arrive late, so they count only if nothing else is known."""
        lasts = {node: float(table.times[-1]) for node, table in self.nodes.items()}
        for worker, phases in self.events.items():
            node = worker.partition("-")[2]
            if node not in self.nodes:
                ends = [float(events.ends.max()) for events in phases.values()]
                lasts[node] = max(lasts.get(node, 0.0), *ends)
        return lasts

    def _firsts(self) -> Iterator[float]:
        for table in self.nodes.values():
            yield float(table.times[0])
        for phases in self.events.values():
            yield from (float(events.starts[0]) for events in phases.values())

    def _read_system(self, *, everything: bool) -> bool:
        changed = False
        for name, data in self._system.new_data(everything=everything):
            parsed = parse_system(data)
            self._say_damaged(_SYSTEM + name, parsed.num_damaged)
            for node, figures in parsed.by_node():
                self.nodes.setdefault(node, NodeTable()).add(figures)
                changed = True
        for table in self.nodes.values():
            table.settle()
        return changed

    def _read_framework(self, *, everything: bool) -> bool:
        found: dict[tuple[str, str], list[Any]] = {}
        for name, data in self._framework.new_data(everything=everything, is_json=True):
            match = _TIMELINE_FILE.fullmatch(name)
            assert match is not None
            timeline = self._timelines.setdefault(name, Timeline())
            for phase, rows in timeline.parse(data).items():
                found.setdefault((match[1], phase), []).extend(rows)
            self._say_damaged(_FRAMEWORK + name, timeline.num_damaged)
        for (worker, phase), rows in found.items():
            phases = self.events.setdefault(worker, {})
            phases[phase] = phases.get(phase, Events.none()).with_rows(rows)
        return bool(found)

    def _say_damaged(self, name: str, number: int) -> None:
        """Once per file, which is read in pieces."""
        if number and name not in self._damaged:
            self._damaged.add(name)
            said = damaged_files.counted(number, "record")
            damaged_files.say_once(f"{name} of {self.place}", f"{said} skipped")


@dataclass(frozen=True, slots=True)
class Window:
    """The time from `start` up to `end` (exclusive), with access to everything before it."""

    profile: Profile
    start: float
    end: float
    is_last: bool = False

    def samples(self, node: str, dimension: str) -> Samples:
        """A node's figures of one dimension in this window."""
        table = self.profile.nodes[node]
        return table.samples(dimension, table.row(self.start), table.row(self.end))

    def latest(self, node: str, dimension: str, count: int) -> Samples:
        """The last `count` samples up to the end of this window."""
        table = self.profile.nodes[node]
        row = table.row(self.end)
        return table.samples(dimension, max(0, row - count), row)

    def events_so_far(self, worker: str, phase: str) -> Events:
        """Events that began before the end of this window."""
        return self.profile.events[worker][phase].between(-np.inf, self.end)


class _Folder:
    """The files below one folder that are named by hour. Remembers how far each was read."""

    def __init__(self, place: Location, folder: str, pattern: re.Pattern[str]) -> None:
        self._store = place.store
        self._prefix = place.child(folder + "x").key[:-1]
        self._pattern = pattern
        self._read: dict[str, int] = {}

    def new_data(self, *, everything: bool, is_json: bool = False) -> Iterator[tuple[str, bytes]]:
        """Name and new bytes of each changed file, up to the last complete line; a file that is one
        JSON value is returned whole.
        """
        after = "" if everything else self._reread()
        for entry in list(self._store.list(self._prefix, after)):
            name = entry.key.removeprefix(self._prefix)
            start = self._read.get(name, 0)
            if entry.size_bytes > start and self._pattern.fullmatch(name):
                data = self._tail(entry, start, is_json=is_json)
                self._read[name] = start + len(data)
                if data:
                    yield name, data

    def _tail(self, entry: Entry, start: int, *, is_json: bool) -> bytes:
        data = self._store.get(entry.key, start)
        if is_json and data.rstrip().endswith(b"]"):
            return data
        return data[: data.rfind(b"\n") + 1]

    def _reread(self) -> str:
        """Files of other nodes may still arrive for the hour before the newest one."""
        hours = sorted({name[:_HOUR_DIGITS] for name in self._read})
        return self._prefix + hours[-2] if len(hours) > 1 else ""


def mean_of_columns(values: Array) -> Array:
    """The mean of each row; NaN for a row without figures."""
    present = ~np.isnan(values)
    count = present.sum(axis=1)
    total: Array = np.where(present, values, 0.0).sum(axis=1)
    means: Array = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return means


def _exists(place: Location, name: str) -> bool:
    try:
        place.store.stat(place.child(name).key)
    except ObjectNotFound:
        return False
    return True
