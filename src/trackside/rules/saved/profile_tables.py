"""Figures of one node and events of one process, as growing arrays."""

from collections.abc import Sequence

import numpy as np

from trackside.capture.dtypes import Array
from trackside.quick_dataclass import dataclass
from trackside.rules.saved.profile_records import Event, Figures

SNAPSHOT_SECONDS = 0.020
"""Figures this close together are one sample of the machine."""
MOST_ROWS = 1 << 20
"""Rows per node. Beyond it, every other row of the older half is dropped: six days at two samples a
second are complete, and a year is still covered as a whole.
"""
MOST_COLUMNS = 2048
"""Figures of one node."""


@dataclass(frozen=True, slots=True)
class Samples:
    """`values[i, j]` is the figure `names[j]` at `times[i]`; NaN if unknown."""

    names: tuple[str, ...]
    times: Array
    values: Array

    def __len__(self) -> int:
        return len(self.times)

    def column(self, name: str) -> Array:
        """One figure, where it is known."""
        if name not in self.names:
            return np.empty(0, np.float32)
        values: Array = self.values[:, self.names.index(name)]
        return values[~np.isnan(values)]


class NodeTable:
    """One node's figures: a row per sample, a column per figure."""

    def __init__(self) -> None:
        self.times: Array = np.empty(0)
        self._values: Array = np.empty((0, 0), np.float32)
        self._columns: dict[tuple[str, str], int] = {}
        self._new: list[tuple[Array, Array]] = []

    def add(self, figures: Figures) -> None:
        """Visible after the next `settle`."""
        columns = np.array([self._column(name, dimension) for name, dimension, _ in figures.keys])
        order = np.argsort(figures.times, kind="stable")
        order = order[columns[figures.which[order]] >= 0] if len(columns) else order
        times = figures.times[order]
        begins = np.diff(times, prepend=-np.inf) > SNAPSHOT_SECONDS
        values = np.full((int(begins.sum()), len(self._columns)), np.nan, np.float32)
        values[np.cumsum(begins) - 1, columns[figures.which[order]]] = figures.values[order]
        self._new.append((times[begins], values))

    def _column(self, name: str, dimension: str) -> int:
        """-1 beyond the limit: no machine has so many, and each costs space in every row."""
        known = self._columns.get((dimension, name), -1)
        if known < 0 and len(self._columns) < MOST_COLUMNS:
            known = self._columns[dimension, name] = len(self._columns)
        return known

    def settle(self) -> None:
        if not self._new:
            return
        width = len(self._columns)
        parts = [(self.times, self._values), *self._new]
        times = np.concatenate([part for part, _ in parts])
        values = np.concatenate([_widened(part, width) for _, part in parts])
        if not bool((np.diff(times) > SNAPSHOT_SECONDS).all()):
            times, values = _merged(times, values)
        if len(times) > MOST_ROWS:
            kept = np.ones(len(times), bool)
            kept[1 : len(times) // 2 : 2] = False
            times, values = times[kept], values[kept]
        self.times, self._values, self._new = times, values, []

    def row(self, time: float) -> int:
        """The first at or after this time."""
        return int(np.searchsorted(self.times, time))

    @property
    def dimensions(self) -> list[str]:
        return sorted({dimension for dimension, _ in self._columns})

    def names(self, dimension: str) -> tuple[str, ...]:
        """In numeric order: cpu2 comes before cpu10."""
        names = [name for each, name in self._columns if each == dimension]
        return tuple(sorted(names, key=lambda name: (len(name), name)))

    def samples(self, dimension: str, start: int = 0, end: int | None = None) -> Samples:
        names = self.names(dimension)
        places = [self._columns[dimension, name] for name in names]
        rows = slice(start, end)
        return Samples(names, self.times[rows], self._values[rows][:, places])


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one phase in one process, by their start. Times are in seconds."""

    starts: Array
    durations: Array
    steps: Array
    threads: Array
    """The thread or data-loading process of each."""

    @classmethod
    def none(cls) -> "Events":
        return cls(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Array:
        ends: Array = self.starts + self.durations
        return ends

    def with_rows(self, rows: Sequence[Event]) -> "Events":
        starts, durations, steps, threads = zip(*rows, strict=True)
        joined = Events(
            np.concatenate([self.starts, starts]),
            np.concatenate([self.durations, durations]),
            np.concatenate([self.steps, np.array(steps, np.int64)]),
            np.concatenate([self.threads, np.array(threads, np.int64)]),
        )
        return joined._chosen(np.argsort(joined.starts, kind="stable"))

    def between(self, start: float, end: float) -> "Events":
        """Events that began from `start` up to `end` (exclusive)."""
        first, last = np.searchsorted(self.starts, [start, end])
        return self._chosen(slice(int(first), int(last)))

    def _chosen(self, rows: Array | slice) -> "Events":
        return Events(self.starts[rows], self.durations[rows], self.steps[rows], self.threads[rows])


def _widened(values: Array, width: int) -> Array:
    missing = width - values.shape[1]
    return np.pad(values, ((0, 0), (0, missing)), constant_values=np.nan) if missing else values


def _merged(times: Array, values: Array) -> tuple[Array, Array]:
    """Sorted, with a sample that arrived in two pieces merged into one row."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    begins = np.diff(times, prepend=-np.inf) > SNAPSHOT_SECONDS
    rows = np.cumsum(begins) - 1
    whole = values[begins]
    for row in np.flatnonzero(~begins):
        whole[rows[row]] = np.where(np.isnan(values[row]), whole[rows[row]], values[row])
    return times[begins], whole
