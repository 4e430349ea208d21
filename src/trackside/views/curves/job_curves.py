"""The curves of one job, wherever they come from: event files by the store of series, and what the
hook saved.
"""

import math
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from trackside.curves.columns import Integers, Reals
from trackside.curves.curve_choice import Curve, Points, chosen_curves
from trackside.curves.curve_points import CurvePoints, Figures, Piece
from trackside.curves.machine_curves import is_machine_run
from trackside.curves.series_store import SeriesEntry, SeriesStore
from trackside.errors import CurveNotFound, JobNotFound
from trackside.jobs.curve_locations import curve_places
from trackside.records.layout import tensors_of
from trackside.storage.locate import Location, locate_to_read
from trackside.views.curves.curve_list import (
    CurveInfo,
    Key,
    curve_id,
    info_of,
    is_vital_id,
    vital_id,
)
from trackside.views.curves.vital_curves import VitalCurves

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader
    from trackside.jobs.records import Record

FRESH_SECONDS = 0.2
"""A request within this time after the last look at this machine's files reads nothing new."""
FRESH_STORE_SECONDS = 2.0
"""The same for files in an object store: each look is a listing."""
PLACES_SECONDS = 5.0
"""The same for where a job's files are, while its journal does not change."""
_LOOKS = 5
"""So many times as often where there is no journal to look at."""
FINAL_SECONDS = 60.0
"""The same for a job that has finished: what was not uploaded in time may come later."""
_GROWTH = 2
"""Curves are compared with each other again when one has so many times the points."""
_FEW_POINTS = 16


@dataclass(frozen=True, slots=True)
class Places:
    """Where a job's curves are at the moment."""

    events: Sequence[Location]
    trial: str
    """Where the hook saved; empty if it did not."""
    is_final: bool
    fresh_seconds: float
    """How long what was read there counts as current."""
    journal: Path | None = None
    """On this machine: while it does not change, nothing of this does."""
    record: "Record | None" = None


class State(NamedTuple):
    revision: int
    is_final: bool


@dataclass(frozen=True, slots=True)
class _Listed:
    """Which curves a job had, with names and order, and how many points each had then."""

    curves: list[Curve]
    counts: dict[Key, int]
    saved: frozenset[Key]
    """Of the hook."""
    is_final: bool

    def holds(self, counts: dict[Key, int], saved: Iterable[Key], is_final: bool) -> bool:
        if (self.is_final, self.saved) != (is_final, frozenset(saved)):
            return False
        return self.counts.keys() == counts.keys() and all(
            count <= max(_GROWTH * self.counts[key], _FEW_POINTS) for key, count in counts.items()
        )


@dataclass(slots=True)
class _Stored:
    """`curve_choice.Points` of a stored curve: read only if they are looked at."""

    run: str
    tag: str
    count: int
    entry: SeriesEntry = field(repr=False)

    def __len__(self) -> int:
        return self.count

    @property
    def steps(self) -> Integers:
        return self.entry.points((self.run, self.tag)).steps()

    @property
    def times(self) -> Reals:
        return self.entry.points((self.run, self.tag)).times()

    @property
    def values(self) -> Reals:
        return self.entry.points((self.run, self.tag)).values()


class JobCurves:
    """May be used by several threads. Each method raises what a store raises, and `JobNotFound`."""

    def __init__(self, jobs: "JobReader", name: str, store: SeriesStore) -> None:
        self.name = name
        self._jobs = jobs
        self._store = store
        self._lock = RLock()
        self._places: Places | None = None
        self._placed_at = self._updated_at = -math.inf
        self._stamp: object = None
        self._vitals: VitalCurves | None = None
        self._listed: dict[bool, _Listed] = {}
        self._infos: dict[bool, tuple[object, list[CurveInfo]]] = {}
        self._ids: dict[str, Key] = {}

    @cached_property
    def _entry(self) -> SeriesEntry:
        """Made only when the name is known to be a job's: it is part of a path."""
        return self._store.entry(self.name)

    def list(self, *, vitals: bool = True) -> list[CurveInfo]:
        """Every curve, in the order in which they are shown. Without `vitals` no tensor is read,
        and what the hook wrote to event files is listed instead.
        """
        with self._lock:
            places = self._update()
            saved = self._saved(places) if vitals else {}
            version = (self._entry.revision, places.is_final, self._num_saved())
            if vitals in self._infos and self._infos[vitals][0] == version:
                return self._infos[vitals][1]
            replaced = _as_tags(saved)
            figures = {
                key: self._entry.figures(key) for key in self._entry.curves() if key not in replaced
            }
            figures.update((key, _figures(series)) for key, series in saved.items())
            listed = self._choice(figures, saved, places.is_final, vitals)
            self._entry.release()
            infos = [_info(curve, figures, saved) for curve in listed.curves]
            self._infos[vitals] = (version, infos)
            return infos

    def points(self, identity: str) -> CurvePoints:
        """`CurveNotFound` for an unknown id."""
        with self._lock:
            places = self._update()
            found = None
            if is_vital_id(identity):
                found = self._saved_points(identity, places)
            elif (key := self._key(identity)) is not None:
                found = self._entry.points(key)
        if found is None:
            raise CurveNotFound(identity, self.name)
        return found

    def zero(self) -> float:
        """Where relative time starts: the first point of any curve but the machine's."""
        with self._lock:
            self._update()
            first = {key: self._entry.figures(key).first_time for key in self._entry.curves()}
        own = [time for (run, _), time in first.items() if not is_machine_run(run)]
        known = [time for time in own or first.values() if math.isfinite(time)]
        return min(known, default=0.0)

    def state(self) -> State:
        """Another one when event files have more. A finished job is not looked at again."""
        with self._lock:
            places = self._places
            if places is None or not places.is_final:
                places = self._update()
            return State(self._entry.revision, places.is_final)

    @property
    def record(self) -> "Record | None":
        """As it was when curves were read last; None if they never were."""
        return None if self._places is None else self._places.record

    def release(self) -> None:
        """Give back the memory of what was read from the store."""
        with self._lock:
            if self._places is not None:
                self._entry.release()

    def _update(self) -> Places:
        """Read what is new, unless that was done a moment ago."""
        now = time.monotonic()
        places = self._places
        if places is None or self._is_moved(places, now - self._placed_at):
            places = self._place()
            self._placed_at = now
        if now - self._updated_at > places.fresh_seconds:
            self._entry.update(places.events, is_final=places.is_final)
            self._updated_at = time.monotonic()
        return places

    def _is_moved(self, places: Places, age: float) -> bool:
        """Whether the job's files may be elsewhere by now, or the job may have finished."""
        if places.is_final:
            return age > FINAL_SECONDS
        if places.journal is None or age > PLACES_SECONDS:
            return age > PLACES_SECONDS / _LOOKS
        stamp = self._stamp
        self._stamp = _stamp(places.journal)
        return stamp != self._stamp

    def _place(self) -> Places:
        try:
            places = places_of(self._jobs, self.name)
        except JobNotFound:
            if self._places is not None:
                self._store.forget(self.name)
            raise
        known = self._places
        if known is None or _uris(known) != _uris(places):
            self._updated_at = -math.inf
        if known is None or known.trial != places.trial:
            self._vitals = None
        self._places = places
        return places

    def _choice(
        self, figures: dict[Key, Figures], saved: dict[Key, Points], is_final: bool, vitals: bool
    ) -> _Listed:
        counts = {key: each.count for key, each in figures.items()}
        known = self._listed.get(vitals)
        if known is None or not known.holds(counts, saved, is_final):
            series: list[Points] = [
                saved[key] if key in saved else _Stored(*key, count, self._entry)
                for key, count in counts.items()
            ]
            known = _Listed(chosen_curves(series), counts, frozenset(saved), is_final)
            self._listed[vitals] = known
        return known

    def _key(self, identity: str) -> Key | None:
        if identity not in self._ids:
            self._ids = {curve_id(*key): key for key in self._entry.curves()}
        return self._ids.get(identity)

    def _num_saved(self) -> int:
        return 0 if self._vitals is None else self._vitals.num_points

    def _saved(self, places: Places) -> dict[Key, Points]:
        if not places.trial:
            return {}
        if self._vitals is None:
            home = self._jobs.settings.home
            self._vitals = VitalCurves(locate_to_read(places.trial, home=home), home)
        return {**self._vitals.series(is_final=places.is_final)}

    def _saved_points(self, identity: str, places: Places) -> CurvePoints | None:
        for (mode, name), series in self._saved(places).items():
            if vital_id(name, mode) == identity:
                return CurvePoints([Piece.of(series.steps, series.times, series.values)])
        return None


def places_of(jobs: "JobReader", name: str) -> Places:
    """`JobNotFound` for an unknown name."""
    record = jobs.record(name)
    home = jobs.settings.layout
    trial = tensors_of(record.spec, record.keys) or ""
    journal = None if record.folder is None else record.folder.journal
    events, is_final = curve_places(record, home), record.history.state.is_final
    return Places(events, trial, is_final, _fresh_seconds(events, is_final), journal, record)


def _fresh_seconds(events: Sequence[Location], is_final: bool) -> float:
    if is_final:
        return FINAL_SECONDS
    is_here = all(place.local is not None for place in events)
    return FRESH_SECONDS if is_here else FRESH_STORE_SECONDS


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _uris(places: Places) -> list[str]:
    return [place.uri for place in places.events]


def _as_tags(saved: Iterable[Key]) -> set[Key]:
    """As the hook names them in event files."""
    return {(mode, re.sub(r"[^-/\w.]", "_", name).lstrip("/")) for mode, name in saved}


def _figures(series: Points) -> Figures:
    return CurvePoints([Piece.of(series.steps, series.times, series.values)]).figures()


def _info(curve: Curve, figures: dict[Key, Figures], saved: dict[Key, Points]) -> CurveInfo:
    run, tag = key = (curve.series.run, curve.series.tag)
    is_vital = key in saved
    identity = vital_id(tag, run) if is_vital else curve_id(run, tag)
    return info_of(curve, identity, figures[key], is_vital=is_vital)
