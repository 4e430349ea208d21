"""Reads curves back: every point of every run below a location, as arrays, and incrementally.

`event_tail.py` follows the files.
"""

from collections import defaultdict
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy

from trackside.curves import summaries, wire
from trackside.curves.chunks import Source
from trackside.curves.columns import Column, Decoded, Integers, Reals
from trackside.curves.event_locations import located
from trackside.curves.event_tail import EventTail
from trackside.curves.summaries import HistogramPoint, ImagePoint, Summary, TextPoint
from trackside.quick_dataclass import dataclass
from trackside.storage.locate import Location

TOP = "."
"""TensorBoard's name for the run of files outside any sub-folder."""

Key = tuple[str, str]
"""Run and tag."""


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, in the order it was written."""

    run: str
    tag: str
    steps: Integers
    times: Reals
    """Seconds since the epoch."""
    values: Reals

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(slots=True)
class Curves:
    """What has been read so far."""

    scalars: dict[Key, Series] = field(default_factory=dict)
    histograms: dict[Key, list[HistogramPoint]] = field(default_factory=dict)
    texts: dict[Key, list[TextPoint]] = field(default_factory=dict)
    images: dict[Key, list[ImagePoint]] = field(default_factory=dict)
    hparams: dict[str, dict[str, bool | str | float]] = field(default_factory=dict)
    """By run."""
    others: dict[Key, list[Summary]] = field(default_factory=dict)
    """Values of other plugins, undecoded."""
    lost_bytes: dict[str, int] = field(default_factory=dict)
    """Damaged and skipped, by the path of the file they were in."""
    num_damaged: dict[str, int] = field(default_factory=dict)
    """Skipped records, likewise."""
    unread_bytes: dict[str, int] = field(default_factory=dict)
    """At the end of a file, not a complete record yet."""

    @property
    def runs(self) -> list[str]:
        kinds = (self.scalars, self.histograms, self.texts, self.images, self.others)
        return sorted({run for kind in kinds for run, _ in kind} | set(self.hparams))

    @property
    def num_points(self) -> int:
        return sum(map(len, self.scalars.values()))

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each scalar: run, tag, step, time and value."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas() needs pandas. Run: pip install pandas") from None

        series = list(self.scalars.values())
        lengths = [len(one) for one in series]
        times = _joined([one.times for one in series])
        return pandas.DataFrame(
            {
                "run": pandas.Categorical.from_codes(*_codes([one.run for one in series], lengths)),
                "tag": pandas.Categorical.from_codes(*_codes([one.tag for one in series], lengths)),
                "step": _joined([one.steps for one in series]).astype(numpy.int64),
                "time": pandas.to_datetime(times, unit="s", utc=True, errors="coerce"),
                "value": _joined([one.values for one in series]),
            }
        )


def read(location: str | Path | Location, *, home: Path | None = None) -> Curves:
    """Every event file below a location: a folder, a file, or a prefix in object storage.

    `home` contains the embedded buckets of `s3://`; by default it is TRACKSIDE_HOME.
    """
    follower = Follower(location, home=home)
    follower.update()
    return follower.curves


class Follower:
    """Reads what is new on each `update`. Not thread-safe."""

    def __init__(self, location: str | Path | Location, *, home: Path | None = None) -> None:
        self._tail = EventTail(located(location, home), self._add)
        self.location = self._tail.location
        self.curves = Curves(
            lost_bytes=self._tail.lost_bytes,
            num_damaged=self._tail.num_damaged,
            unread_bytes=self._tail.unread_bytes,
        )
        self._columns: dict[Key, list[Column]] = defaultdict(list)
        self._plugins: dict[Key, str] = {}

    def update(self) -> int:
        """Read what was added since the last call; returns the number of new scalars."""
        before = self.curves.num_points
        self._tail.update()
        self._join()
        return self.curves.num_points - before

    def _add(self, source: Source, decoded: Decoded) -> int:
        run = source.folder or TOP
        for column in decoded.columns:
            self._columns[run, column.tag].append(column)
        return sum(not self._is_added(run, content) for content in decoded.others)

    def _is_added(self, run: str, content: bytes) -> bool:
        """False when the event, or something in it, cannot be parsed."""
        try:
            for summary in summaries.summaries(content):
                self._add_other(run, summary)
        except wire.NotAMessage:
            return False
        return True

    def _add_other(self, run: str, summary: Summary) -> None:
        curves, key = self.curves, (run, summary.tag)
        plugin = self._plugins.setdefault(key, summary.plugin)
        if not summary.plugin and plugin:  # only a tag's first value has it
            summary = replace(summary, plugin=plugin)
        if (number := summaries.scalar(summary)) is not None:
            steps, times = numpy.array([summary.step]), numpy.array([summary.time])
            self._columns[key].append(Column(summary.tag, steps, times, numpy.array([number])))
        elif (histogram := summaries.histogram(summary)) is not None:
            curves.histograms.setdefault(key, []).append(histogram)
        elif (text := summaries.text(summary)) is not None:
            curves.texts.setdefault(key, []).append(text)
        elif images := summaries.images(summary):
            curves.images.setdefault(key, []).extend(images)
        elif hparams := summaries.hparams(summary):
            curves.hparams.setdefault(run, {}).update(hparams)
        else:
            curves.others.setdefault(key, []).append(summary)

    def _join(self) -> None:
        """Append new columns to the existing series."""
        for (run, tag), columns in self._columns.items():
            known = self.curves.scalars.get((run, tag))
            parts: list[Series | Column] = ([known] if known else []) + [*columns]
            self.curves.scalars[run, tag] = Series(
                run,
                tag,
                _joined([part.steps for part in parts]),
                _joined([part.times for part in parts]),
                _joined([part.values for part in parts]),
            )
        self._columns.clear()


def _joined(parts: list[Any]) -> Any:
    if not parts:
        return numpy.empty(0)
    return parts[0] if len(parts) == 1 else numpy.concatenate(parts)


def _codes(names: list[str], lengths: list[int]) -> tuple[Any, list[str]]:
    """Each row's index among the distinct names, and these."""
    different = sorted(set(names))
    numbers = [different.index(name) for name in names]
    return numpy.repeat(numpy.array(numbers, numpy.int32), lengths), different
