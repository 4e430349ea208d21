"""Curves of jobs as columns on this disk, so that an event file that was read is not read again.

A cache: each job has one file (`series_file.py`) beside the index, and what came later is in memory
until it is worth writing. Files are replaced, never changed, so any number of processes may use
them; one that is damaged, or of event files that are gone or replaced, is made again.
"""

import logging
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from trackside.curves import series_file, summaries, wire
from trackside.curves.chunks import Piece as Chunk
from trackside.curves.chunks import Source
from trackside.curves.columns import Decoded
from trackside.curves.curve_points import NO_FIGURES, CurvePoints, Figures, Piece, Steps
from trackside.curves.event_reader import TOP, Key
from trackside.curves.event_tail import EventTail
from trackside.curves.event_watch import EventWatch
from trackside.curves.growing_curve import GrowingCurve
from trackside.curves.series_file import DamagedSeries, Part, SeriesFile
from trackside.records.layout import Home
from trackside.storage.locate import Location
from trackside.system.process_table import boot_id

logger = logging.getLogger(__name__)

FORMAT = 1
LEAST_WAITING = 1 << 14
"""Points that stay in memory while a job runs, at least: 24 bytes each."""
WAITING_SHARE = 32
"""One for so many that are stored, if these are more."""
MOST_WAITING = 1 << 22
"""Points in memory, however many are stored."""
RETRY_SECONDS = 60.0
"""After a file could not be written."""
_MARK_BYTES = 64
_USED_SECONDS = 60.0
_DRAFT_SECONDS = 3600.0
_EVICTION_SECONDS = 5.0
"""Between two looks at the sizes of all files."""
_LEFT_SHARE = 0.9
"""What eviction leaves of the limit, so that it is not due again at once."""
_UNUSABLE = (DamagedSeries, OSError, ValueError, KeyError, TypeError, LookupError)
"""What a damaged file may lead to."""


@dataclass(slots=True)
class _EventFile:
    """How far an event file was read."""

    place: int
    """The number of its location."""
    source: Source
    sent: int
    """When its first chunk was."""
    position: int = 0
    mark: int | None = None
    """A checksum of the bytes before the position: another file under its name has others. None in
    an object store, where chunks have names of their own."""

    @property
    def order(self) -> tuple[object, ...]:
        return self.place, self.sent, self.source


class SeriesStore:
    """The files of all jobs."""

    def __init__(self, home: Home, limit_bytes: float) -> None:
        """Beyond the limit, those that were not used for longest are removed."""
        self._home = home
        self._limit = limit_bytes
        self._evicted_at = -math.inf

    def entry(self, job: str) -> "SeriesEntry":
        return SeriesEntry(self._home.series_of(job), self._evict_now_and_then)

    def forget(self, job: str) -> None:
        self._home.series_of(job).unlink(missing_ok=True)

    def evict(self) -> None:
        """Down to the limit. What another process left unfinished is removed, too."""
        found: list[tuple[float, int, Path]] = []
        with suppress(FileNotFoundError):
            for path in self._home.series.iterdir():
                with suppress(FileNotFoundError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        allowed = self._limit if total <= self._limit else self._limit * _LEFT_SHARE
        for used, size, path in sorted(found):
            is_left_over = path.name.startswith(".")
            if is_left_over and time.time() - used > _DRAFT_SECONDS:
                path.unlink(missing_ok=True)
            elif total > allowed and not is_left_over:
                path.unlink(missing_ok=True)
                total -= size

    def _evict_now_and_then(self) -> None:
        if time.monotonic() - self._evicted_at > _EVICTION_SECONDS:
            self._evicted_at = time.monotonic()
            self.evict()


class SeriesEntry:
    """The curves of one job. Not thread-safe; points that it returned stay as they are."""

    def __init__(self, path: Path, stored: Callable[[], None] | None = None) -> None:
        """`stored` is called after a file was written."""
        self.revision = 0
        """Grows whenever a curve has changed."""
        self.num_bytes_read = 0
        """Of event files, since this object exists."""
        self._path = path
        self._stored = stored
        self._store_again_at = 0.0
        self._locations: list[Location] = []
        self._is_open = False
        self._watch = EventWatch()
        self._clear()

    def update(self, locations: Sequence[Location], *, is_final: bool) -> bool:
        """Read what is new there; returns whether anything was. With `is_final`, all of it is
        stored. Raises what a store raises."""
        if not self._is_open or _uris(locations) != _uris(self._locations):
            self._begin(list(locations))
        before = self.revision
        try:
            if self._watch.has_changed():
                self._read()
            if self._is_due(is_final):
                self._store()
        except BaseException:
            self._is_open = False  # points may have been taken without their position
            raise
        return self.revision != before

    @property
    def num_points(self) -> int:
        return sum(self.figures(key).count for key in self.curves())

    def curves(self) -> list[Key]:
        """Run and tag of every curve, in the order of their first event file and point."""
        found = dict.fromkeys(key for key, parts in self._rows.items() if self._active(parts))
        found.update(dict.fromkeys((run, tag) for _, run, tag in self._growing))
        return [*found]

    def points(self, key: Key) -> CurvePoints:
        """Without any for an unknown one."""
        return CurvePoints([*self._pieces(key)])

    def figures(self, key: Key) -> Figures:
        """Without reading points, unless some were replaced."""
        total = NO_FIGURES
        for figures in self._figures_of(key):
            if total.count and figures.first_step < total.last_step:
                return self.points(key).figures()
            total = _joined_figures(total, figures) if total.count else figures
        return total

    def release(self) -> None:
        """Give back the memory of what was read from the file."""
        if self._file is not None:
            self._file.release()

    def _clear(self) -> None:
        self._file: SeriesFile | None = None
        self._files: list[_EventFile] = []
        self._numbers: dict[tuple[int, Source], int] = {}
        """Of the event files that are there; points of others do not count."""
        self._rows: dict[Key, list[tuple[int, int]]] = {}
        """By run and tag: numbers of event files, and rows of the file."""
        self._growing: dict[tuple[int, str, str], GrowingCurve] = {}
        self._by_key: dict[Key, list[int]] = {}
        self._num_growing = 0
        self._plugins: dict[Key, str] = {}
        self._tails: list[EventTail] = []

    def _read(self) -> None:
        began = time.time_ns()
        for tail in self._tails:
            tail.update()
            self._note_positions()
        self._watch.note([(tail.location, tail.pieces) for tail in self._tails], began)

    def _begin(self, locations: list[Location]) -> None:
        self._clear()
        self._locations = locations
        self._watch.forget()
        try:
            self._load()
        except FileNotFoundError:
            self._clear()
        except _UNUSABLE as error:
            logger.warning("%s is made again: %s", self._path, error)
            self._clear()
        for place, location in enumerate(locations):
            positions = {each.source: each.position for each in self._files if each.place == place}
            tail = EventTail(
                location,
                partial(self._take, place),
                positions=positions,
                check=partial(self._check, place),
                advanced=self._store_if_too_much,
            )
            self._tails.append(tail)
        self._is_open = True
        self.revision += 1

    def _load(self) -> None:
        file = SeriesFile(self._path)
        facts = file.names.facts
        places = {uri: place for place, uri in enumerate(_uris(self._locations))}
        if facts["format"] != FORMAT or places.keys().isdisjoint(facts["places"]):
            raise FileNotFoundError("of another version, or of event files at another location")
        if facts["boot"] != boot_id():
            file.check()  # a power cut may have left parts of it unwritten
        now = [places.get(uri, -1) for uri in facts["places"]]
        self._files = [_from_json(each, now) for each in facts["files"]]
        self._plugins = {(run, tag): plugin for run, tag, plugin in facts["plugins"]}
        self._numbers = {
            (each.place, each.source): n for n, each in enumerate(self._files) if each.place >= 0
        }
        self._adopt(file)
        if time.time() - self._path.stat().st_mtime > _USED_SECONDS:
            os.utime(self._path)

    def _adopt(self, file: SeriesFile) -> None:
        self._file = file
        self._rows = {}
        for row, (number, run, tag) in enumerate(file.keys()):
            self._rows.setdefault((run, tag), []).append((number, row))
        self._growing, self._by_key, self._num_growing = {}, {}, 0

    def _check(self, place: int, found: Mapping[Source, Sequence[Chunk]]) -> None:
        """Before reading: which files are new, gone, or others under the same name."""
        for (number_of, source), number in [*self._numbers.items()]:
            if number_of == place and not self._is_same(number, found.get(source)):
                self._drop(number)
        for source, chunks in found.items():
            if (place, source) not in self._numbers:
                self._numbers[place, source] = len(self._files)
                self._files.append(_EventFile(place, source, chunks[0].chunk.sent))

    def _is_same(self, number: int, chunks: Sequence[Chunk] | None) -> bool:
        file = self._files[number]
        if not chunks or chunks[-1].end < file.position:
            return False
        if file.mark is None or not file.position:
            return True
        return file.mark == _mark(self._locations[file.place], chunks, file.position)

    def _drop(self, number: int) -> None:
        file = self._files[number]
        del self._numbers[file.place, file.source]
        self._tails[file.place].forget(file.source)
        for key in [key for key in self._growing if key[0] == number]:
            self._num_growing -= len(self._growing.pop(key))
            self._by_key[key[1:]].remove(number)
        self.revision += 1

    def _take(self, place: int, source: Source, decoded: Decoded) -> int:
        run = source.folder or TOP
        number = self._numbers[place, source]
        self.num_bytes_read += decoded.consumed
        for column in decoded.columns:
            self._add(number, run, column.tag, column.steps, column.times, column.values)
        return sum(not self._is_added(number, run, content) for content in decoded.others)

    def _is_added(self, number: int, run: str, content: bytes) -> bool:
        """False when the event, or something in it, cannot be parsed."""
        try:
            for summary in summaries.summaries(content):
                plugin = self._plugins.setdefault((run, summary.tag), summary.plugin)
                if not summary.plugin and plugin:  # only a tag's first value has it
                    summary = replace(summary, plugin=plugin)
                if (value := summaries.scalar(summary)) is not None:
                    one = (numpy.array([summary.step]), numpy.array([summary.time]))
                    self._add(number, run, summary.tag, *one, numpy.array([value]))
        except wire.NotAMessage:
            return False
        return True

    def _add(self, number: int, run: str, tag: str, *columns: Any) -> None:
        growing = self._growing.get((number, run, tag))
        if growing is None:
            growing = self._growing[number, run, tag] = GrowingCurve()
            self._by_key.setdefault((run, tag), []).append(number)
        before = len(growing)
        growing.add(*columns)
        self._num_growing += len(growing) - before
        self.revision += 1

    def _note_positions(self) -> None:
        for (place, source), number in self._numbers.items():
            tail, file = self._tails[place], self._files[number]
            position = tail.positions.get(source, 0)
            if position != file.position:
                file.position = position
                file.mark = _mark(self._locations[place], tail.pieces[source], position)

    def _parts(self, key: Key) -> list[tuple[int, int | None, GrowingCurve | None]]:
        """Event files that have points of a curve, in order: number, row, and what is in memory."""
        rows = dict(self._active(self._rows.get(key, ())))
        numbers = {*rows, *self._by_key.get(key, ())}
        ordered = sorted(numbers, key=lambda number: self._files[number].order)
        return [(number, rows.get(number), self._growing.get((number, *key))) for number in ordered]

    def _pieces(self, key: Key) -> Iterator[Piece]:
        for _, row, growing in self._parts(key):
            if row is not None and self._file is not None:
                yield self._file.piece(row)
            if growing is not None:
                yield growing.piece()

    def _figures_of(self, key: Key) -> Iterator[Figures]:
        for _, row, growing in self._parts(key):
            if row is not None and self._file is not None:
                yield self._file.figures(row)
            if growing is not None:
                yield growing.figures()

    def _active(self, rows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Rows of event files that are still there."""
        return [
            (number, row)
            for number, row in rows
            if self._numbers.get((self._files[number].place, self._files[number].source)) == number
        ]

    def _is_due(self, is_final: bool) -> bool:
        if not self._num_growing or time.monotonic() < self._store_again_at:
            return False
        stored = 0 if self._file is None else self._file.num_points
        limit = min(max(LEAST_WAITING, stored // WAITING_SHARE), MOST_WAITING)
        return is_final or self._num_growing > limit

    def _store_if_too_much(self) -> None:
        """Between two blocks of an event file."""
        if self._num_growing > MOST_WAITING and time.monotonic() >= self._store_again_at:
            self._store()

    def _store(self) -> None:
        """Everything so far in a new file."""
        self._note_positions()
        kept = [n for n, file in enumerate(self._files) if self._is_active(n) and file.position]
        numbers = {number: index for index, number in enumerate(kept)}
        facts = {
            "format": FORMAT,
            "boot": boot_id(),
            "places": _uris(self._locations),
            "files": [_to_json(self._files[number]) for number in kept],
            "plugins": [[*key, plugin] for key, plugin in self._plugins.items() if plugin],
        }
        try:
            file = series_file.write(self._path, self._all_parts(numbers), facts)
        except OSError as error:
            self._store_again_at = time.monotonic() + RETRY_SECONDS
            logger.warning("%s cannot be written: %s", self._path, error)
            return
        others = [n for n in self._numbers.values() if n not in numbers]
        self._files = [self._files[number] for number in (*kept, *others)]
        self._numbers = {(each.place, each.source): n for n, each in enumerate(self._files)}
        self._adopt(file)
        if self._stored is not None:
            self._stored()

    def _is_active(self, number: int) -> bool:
        file = self._files[number]
        return self._numbers.get((file.place, file.source)) == number

    def _all_parts(self, numbers: Mapping[int, int]) -> Iterator[Part]:
        for run, tag in self.curves():
            for number, row, growing in self._parts((run, tag)):
                source = numbers[number]
                if growing is None and row is not None and self._file is not None:
                    yield Part(source, run, tag, stored=(self._file, row))
                elif growing is not None:
                    stored = [self._file.piece(row)] if self._file and row is not None else []
                    piece = _one_piece(CurvePoints([*stored, growing.piece()]))
                    yield Part(source, run, tag, piece)


def _one_piece(points: CurvePoints) -> Piece:
    if len(points.pieces) == 1:
        return points.pieces[0]
    return Piece.ordered(Steps.of(points.steps()), points.times(), points.values())


def _joined_figures(one: Figures, after: Figures) -> Figures:
    """Of two pieces, the second of which replaces nothing of the first."""
    is_lower, is_higher = not one.low <= after.low, not one.high >= after.high
    if after.low != after.low:  # nothing finite
        is_lower = is_higher = False
    return Figures(
        one.count + after.count,
        one.first_step,
        after.last_step,
        one.first_time,
        after.last,
        after.low if is_lower else one.low,
        after.high if is_higher else one.high,
        after.low_step if is_lower else one.low_step,
        after.high_step if is_higher else one.high_step,
    )


def _mark(location: Location, chunks: Sequence[Chunk], position: int) -> int | None:
    if location.local is None or not position:
        return None
    chunk = next((each for each in chunks if each.end >= position), None)
    if chunk is None:
        return -1
    end = position - chunk.chunk.offset
    data = location.store.get(chunk.key, max(0, end - _MARK_BYTES), end)
    return zlib.crc32(data)


def _uris(locations: Sequence[Location]) -> list[str]:
    return [location.uri for location in locations]


def _to_json(file: _EventFile) -> list[Any]:
    source = file.source
    names = [source.folder, source.name, source.host, source.generation]
    return [file.place, *names, file.sent, file.position, file.mark]


def _from_json(given: list[Any], places: Sequence[int]) -> _EventFile:
    """`places`: the present number of each location; negative for one that is none any more."""
    place, folder, name, host, generation, sent, position, mark = given
    source = Source(folder, name, host, generation)
    return _EventFile(places[place], source, sent, position, mark)
