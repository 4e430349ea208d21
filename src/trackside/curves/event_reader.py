"""Curves read back: every point of every run below a location, as arrays, and again as they grow.

Decoding is `decode.py`'s; which objects belong together is `chunks.py`'s.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy

from trackside.curves import summaries
from trackside.curves.chunks import Piece, Source, by_source
from trackside.curves.columns import Column, Decoded, Integers, Reals
from trackside.curves.decode import decode
from trackside.curves.places import list_event_files, located
from trackside.curves.records import FRAME_BYTES, length_at
from trackside.curves.summaries import HistogramPoint, ImagePoint, Summary, TextPoint
from trackside.errors import ObjectNotFound
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location

TOP = "."
"""The run of files that are in no sub-folder, as TensorBoard calls it."""
BLOCK_BYTES = 8 << 20
MOST_RECORD_BYTES = 256 << 20
"""A longer record is skipped and counted as lost: no summary is so large."""
NUM_FETCHERS = 8
NUM_TRIES = 3
"""Listings, while objects vanish between listing and reading."""

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
    """Values of other plugins, as they were written."""
    lost_bytes: dict[str, int] = field(default_factory=dict)
    """Damaged and skipped, by the path of the file they were in."""
    unread_bytes: dict[str, int] = field(default_factory=dict)
    """At the end of a file, and no whole record yet."""

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
                "time": pandas.to_datetime(times, unit="s", utc=True),
                "value": _joined([one.values for one in series]),
            }
        )


def read(location: str | Path | Location, *, home: Path | None = None) -> Curves:
    """Every event file below a location: a folder, a file, or a prefix in object storage.

    `home` holds the embedded buckets of `s3://`; by default it is TRACKSIDE_HOME.
    """
    follower = Follower(location, home=home)
    follower.update()
    return follower.curves


class Follower:
    """Reads what is new each time it is asked. Not thread-safe."""

    def __init__(self, location: str | Path | Location, *, home: Path | None = None) -> None:
        self.place = located(location, home)
        self.curves = Curves()
        self._position: dict[Source, int] = {}
        self._columns: dict[Key, list[Column]] = defaultdict(list)
        self._plugins: dict[Key, str] = {}

    def update(self) -> int:
        """Read what was added since the last time; returns the number of new scalars."""
        before = self.curves.num_points
        for _ in range(NUM_TRIES):
            if self._read_all():
                break
        self._join()
        return self.curves.num_points - before

    def _read_all(self) -> bool:
        """False when an object was gone since the listing: merged into another, or deleted."""
        found = by_source(list_event_files(self.place))
        grown = [
            (source, pieces)
            for source, pieces in found.items()
            if pieces[-1].end != self._position.get(source, 0)
        ]
        is_whole = True
        with ThreadPoolExecutor(NUM_FETCHERS, thread_name_prefix="trackside-read") as pool:
            for source, pieces in sorted(grown, key=lambda item: item[1][0].chunk.sent):
                try:
                    self._read(source, pieces, pool)
                except (ObjectNotFound, FileNotFoundError):
                    is_whole = False
        return is_whole

    def _read(self, source: Source, pieces: list[Piece], pool: ThreadPoolExecutor) -> None:
        """Block by block from where the last reading stopped."""
        name = f"{source.folder}/{source.name}" if source.folder else source.name
        position, end = self._position.get(source, 0), pieces[-1].end
        if position > end:  # begun anew
            position = 0
        block = BLOCK_BYTES
        while position < end:
            start, data = self._fetch(pieces, position, min(end, position + block), pool)
            self._lose(name, start - position)
            position = start
            decoded = decode(data)
            self._add(source.folder or TOP, decoded)
            self._lose(name, decoded.lost_bytes)
            position += decoded.consumed
            self._position[source] = position
            if decoded.consumed:
                continue
            needed = FRAME_BYTES + (length_at(data) or 0)
            if start + len(data) >= end or start + needed > end:
                break  # torn, or not written yet
            if needed > MOST_RECORD_BYTES:
                self._lose(name, needed)
                position += needed
            block = max(2 * block, min(needed, MOST_RECORD_BYTES))
        self._position[source] = position
        self.curves.unread_bytes.pop(name, None)
        if position < end:
            self.curves.unread_bytes[name] = end - position

    def _fetch(
        self, pieces: list[Piece], start: int, end: int, pool: ThreadPoolExecutor
    ) -> tuple[int, bytes]:
        """Where the next bytes begin (later than asked, if some are missing), and they."""
        wanted = [piece for piece in pieces if piece.end > start and piece.chunk.offset < end]
        if not wanted:
            wanted = [piece for piece in pieces if piece.chunk.offset >= end][:1]
        start = max(start, wanted[0].chunk.offset)
        ranges: list[tuple[str, int, int]] = []
        at = start
        for piece in wanted:
            if piece.chunk.offset > at:
                break
            ranges.append((piece.key, at - piece.chunk.offset, max(at, end) - piece.chunk.offset))
            at = piece.end
        if len(ranges) == 1:
            return start, self._get(ranges[0])
        return start, b"".join(pool.map(self._get, ranges))

    def _get(self, part: tuple[str, int, int]) -> bytes:
        key, start, end = part
        store = self.place.store
        if not isinstance(store, FolderStore):
            return store.get(key, start, end)
        with (store.root / key).open("rb", buffering=0) as file:  # in one piece
            file.seek(start)
            return file.read(end - start)

    def _lose(self, name: str, num_bytes: int) -> None:
        if num_bytes:
            self.curves.lost_bytes[name] = self.curves.lost_bytes.get(name, 0) + num_bytes

    def _add(self, run: str, decoded: Decoded) -> None:
        for column in decoded.columns:
            self._columns[run, column.tag].append(column)
        for summary in decoded.others:
            self._add_other(run, summary)

    def _add_other(self, run: str, summary: Summary) -> None:
        curves, key = self.curves, (run, summary.tag)
        plugin = self._plugins.setdefault(key, summary.plugin)
        if not summary.plugin and plugin:  # told with a tag's first value only
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
        """New columns behind what the series have already."""
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
    """Each row's number among the different names, and these."""
    different = sorted(set(names))
    numbers = [different.index(name) for name in names]
    return numpy.repeat(numpy.array(numbers, numpy.int32), lengths), different
